//! A GGUF model of one or several files: `NAME-00001-of-00003.gguf` and its siblings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::reader::{GgufFile, GgufTensor};
use crate::error::{ImportError, Result, clip};

/// All files of a GGUF model. The first holds the metadata.
#[derive(Debug)]
pub struct Gguf {
    shards: Vec<GgufFile>,
}

impl Gguf {
    /// Opens a file; for a shard, all its siblings too. A missing sibling is an error that names it.
    pub fn open(path: &Path) -> Result<Self> {
        let paths = match shard_paths(path) {
            None => vec![path.to_owned()],
            Some(paths) => {
                let missing: Vec<&PathBuf> = paths.iter().filter(|p| !p.is_file()).collect();
                if let Some(first) = missing.first() {
                    return Err(ImportError::refused(
                        path.display().to_string(),
                        format!(
                            "{} of the {} shards are missing, the first is {}",
                            missing.len(),
                            paths.len(),
                            first.display()
                        ),
                        "Download the missing shards into the same folder.",
                    ));
                }
                paths
            }
        };
        let shards = paths.iter().map(|p| GgufFile::open(p)).collect::<Result<Vec<_>>>()?;
        let model = Self { shards };
        model.check()?;
        Ok(model)
    }

    /// The file with the metadata.
    pub fn meta(&self) -> &GgufFile {
        // `open` makes at least one.
        &self.shards[0]
    }

    /// Each tensor with the number of its file.
    pub fn tensors(&self) -> impl Iterator<Item = (usize, &GgufTensor)> {
        self.shards.iter().enumerate().flat_map(|(n, s)| s.tensors().iter().map(move |t| (n, t)))
    }

    /// The files, in order.
    pub fn shards(&self) -> &[GgufFile] {
        &self.shards
    }

    /// Gives up the files, in order.
    pub fn into_shards(self) -> Vec<GgufFile> {
        self.shards
    }

    fn check(&self) -> Result<()> {
        let meta = self.meta();
        let declared = meta.uint("split.count")?.unwrap_or(0).max(1);
        if declared != self.shards.len() as u64 {
            return Err(ImportError::refused(
                meta.path().display().to_string(),
                format!("`split.count` says {declared} files, and by its name it is one of {}", self.shards.len()),
                "Give the files their original names, NAME-00001-of-0000N.gguf and so on, in one folder.",
            ));
        }
        for (n, shard) in self.shards.iter().enumerate().skip(1) {
            let number = shard.uint("split.no")?;
            if number != Some(n as u64) {
                return Err(ImportError::malformed(
                    shard.path(),
                    "key `split.no`",
                    format!(
                        "it is {}, and by the file's name it must be {n}",
                        number.map_or("missing".into(), |n| n.to_string())
                    ),
                    "Give the files their original names.",
                ));
            }
        }
        let mut seen = HashMap::new();
        for (n, tensor) in self.tensors() {
            if let Some(first) = seen.insert(tensor.name.as_str(), n) {
                return Err(ImportError::malformed(
                    self.shards[n].path(),
                    format!("tensor `{}`", clip(&tensor.name)),
                    format!("it is also in {}", self.shards[first].path().display()),
                    "Download the shards again; they seem to belong to different models.",
                ));
            }
        }
        if let Some(count) = meta.uint("split.tensors.count")?
            && count != seen.len() as u64
        {
            return Err(ImportError::malformed(
                meta.path(),
                "key `split.tensors.count`",
                format!("it says {count} tensors, and the shards hold {}", seen.len()),
                "Download the shards again; one seems to belong to another model.",
            ));
        }
        Ok(())
    }
}

/// All shards of the model that `path` is a shard of, by the `-00001-of-00003.gguf` at its end; `None` for other names.
pub fn shard_paths(path: &Path) -> Option<Vec<PathBuf>> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".gguf")?;
    let (rest, total) = stem.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |s: &str| s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(total) || !digits(number) {
        return None;
    }
    let (total, number): (usize, usize) = (total.parse().ok()?, number.parse().ok()?);
    if total == 0 || number == 0 || number > total {
        return None;
    }
    Some((1..=total).map(|n| path.with_file_name(format!("{stem}-{n:05}-of-{total:05}.gguf"))).collect())
}
