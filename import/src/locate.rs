//! What a source argument names, and a quick identity of it.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::error::{ImportError, Result};
use crate::gguf::shard_paths;
use crate::safetensors::folder_files;

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A GGUF file, or one shard of several.
    Gguf(PathBuf),
    /// A Hugging Face folder.
    Folder(PathBuf),
    /// One safetensors file in a Hugging Face folder, which has the settings.
    Weights {
        /// The folder.
        folder: PathBuf,
        /// The file in it.
        file: PathBuf,
    },
    /// A repository of a hub, `org/repo`, which is not on this machine.
    Repository(String),
}

/// Tells sources apart by what is on disk; what is not there and has the form `org/repo` is a repository.
pub fn locate(src: &Path) -> Result<SourceKind> {
    if src.is_dir() {
        if crate::files::is_there(&src.join("config.json"))? {
            return Ok(SourceKind::Folder(src.to_owned()));
        }
        // A folder may hold nothing but a GGUF file or its shards.
        let files = folder_files(src, ".gguf")?;
        let single = match files.as_slice() {
            [] => None,
            [one] => Some(one),
            many => many.first().filter(|first| shard_paths(first).is_some_and(|all| all == many)),
        };
        return match (single, files.len()) {
            (Some(file), _) => Ok(SourceKind::Gguf(file.clone())),
            (None, 0) => Err(ImportError::refused(
                src.display().to_string(),
                "the folder holds neither a `config.json` nor a GGUF file",
                "Name the folder that `save_pretrained` or a download made.",
            )),
            (None, n) => Err(ImportError::refused(
                src.display().to_string(),
                format!("the folder holds {n} GGUF files and no `config.json`"),
                "Name one of the files.",
            )),
        };
    }
    if src.is_file() {
        let folder = || src.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        return match src.extension().and_then(|e| e.to_str()) {
            Some("safetensors") => Ok(SourceKind::Weights { folder: folder(), file: src.to_owned() }),
            Some("json") => Ok(SourceKind::Folder(folder())),
            // The reader says what else a file without the magic number is not.
            _ => Ok(SourceKind::Gguf(src.to_owned())),
        };
    }
    match src.to_str().filter(|s| is_repository(s)) {
        Some(name) => Ok(SourceKind::Repository(name.to_owned())),
        None => Err(ImportError::io(
            src,
            "open it",
            std::io::Error::new(std::io::ErrorKind::NotFound, "no such file or folder"),
        )),
    }
}

fn is_repository(name: &str) -> bool {
    let part = |p: &str| {
        !p.is_empty()
            && !p.starts_with(['.', '-'])
            && p.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    matches!(name.split_once('/'), Some((org, repo))
        if part(org) && part(repo) && !repo.ends_with(".gguf") && !repo.ends_with(".model"))
}

/// The error for a repository: nothing here uses the network.
pub(crate) fn not_here(name: &str) -> ImportError {
    ImportError::refused(
        name,
        "there is no such file or folder here, and repositories are not downloaded by this version",
        format!("Download it first, for instance with `hf download {name} --local-dir FOLDER`, and import the folder."),
    )
}

/// What tells one state of a source from another without reading it through.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SourceIdentity {
    /// File or folder name.
    pub name: String,
    /// Bytes of all its weight and setting files.
    pub size: u64,
    /// Latest change of any of them, in nanoseconds since 1970.
    pub modified: u128,
    /// Full path.
    pub path: PathBuf,
}

impl SourceIdentity {
    /// A file name for a cache: the name, and a hash of path, size and time.
    pub fn key(&self) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let path = self.path.to_string_lossy();
        let parts = [path.as_bytes(), &self.size.to_le_bytes(), &self.modified.to_le_bytes()];
        for &byte in parts.into_iter().flatten() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let name: String = self
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
            .take(80)
            .collect();
        format!("{name}-{hash:016x}")
    }
}

/// The weight and setting files of a Hugging Face folder.
fn model_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for suffix in [".safetensors", ".json", ".jinja"] {
        files.extend(folder_files(folder, suffix)?);
    }
    Ok(files)
}

/// A quick identity of a source: names, sizes and times of its files, no content.
pub fn scan(src: &Path) -> Result<SourceIdentity> {
    let (path, files) = match locate(src)? {
        SourceKind::Gguf(file) => {
            let files = shard_paths(&file).unwrap_or_else(|| vec![file.clone()]);
            (file, files)
        }
        SourceKind::Folder(folder) => {
            let files = model_files(&folder)?;
            (folder, files)
        }
        // The file may be one of several shards: the others count too.
        SourceKind::Weights { folder, file } => {
            let files = model_files(&folder)?;
            (file, files)
        }
        SourceKind::Repository(name) => return Err(not_here(&name)),
    };
    let (mut size, mut modified) = (0u64, 0u128);
    for file in &files {
        let meta = std::fs::metadata(file).map_err(|e| ImportError::io(file, "read its size", e))?;
        size = size.saturating_add(meta.len());
        let time = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        modified = modified.max(time.map_or(0, |t| t.as_nanos()));
    }
    let full = path.canonicalize().map_err(|e| ImportError::io(&path, "find its full path", e))?;
    let name = full.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(SourceIdentity { name, size, modified, path: full })
}
