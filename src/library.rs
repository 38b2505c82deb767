//! Where models come from: a `.model` file as it is; a GGUF file or a Hugging Face folder imported
//! once into the user's cache.

use crate::{Error, Result};
use std::path::{Path, PathBuf};
use tallow_import::{ImportOptions, ImportReport, Progress};

/// A `.model` file ready to open, and what an import said if there was one.
#[derive(Debug)]
pub struct Resolved {
    /// The `.model` file.
    pub path: PathBuf,
    /// The report, when this call imported it.
    pub imported: Option<ImportReport>,
}

/// The `.model` file for `source`. Anything but a `.model` file is imported into [`cache_folder`]
/// the first time, with the default options; later calls find it there as long as the path, size
/// and time of change of the source are the same.
///
/// # Errors
/// A file that is no model by its ending, and what import refuses.
pub fn resolve(source: &Path, progress: &mut dyn Progress) -> Result<Resolved> {
    if !needs_import(source) {
        if let Some(why) = crate::graph_file::no_model(source) {
            return Err(Error::Usage(why));
        }
        return Ok(Resolved { path: source.to_owned(), imported: None });
    }
    let folder = cache_folder().ok_or_else(|| {
        Error::Usage(
            "no cache folder is known; set TALLOW_CACHE, or import with `tallow import SOURCE -o FILE.model`".into(),
        )
    })?;
    let key = tallow_import::scan(source)?.key();
    let path = folder.join(format!("{key}-{}.model", env!("CARGO_PKG_VERSION")));
    if path.exists() {
        return Ok(Resolved { path, imported: None });
    }
    std::fs::create_dir_all(&folder).map_err(|source| Error::Io { path: folder.clone(), source })?;
    let report = tallow_import::import(source, &path, &ImportOptions::default(), progress)?;
    Ok(Resolved { path, imported: Some(report) })
}

/// Whether `source` is something to import first: a folder, or a file that is no container.
pub fn needs_import(source: &Path) -> bool {
    let name = source.to_string_lossy().to_lowercase();
    let index = name.ends_with(".gguf") || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
    source.is_dir() || index
}

/// `$TALLOW_CACHE`, else the `tallow` folder of the platform's cache folder.
pub fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("TALLOW_CACHE") {
        return Some(folder);
    }
    let base = if cfg!(windows) {
        set("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        set("HOME").map(|home| home.join("Library/Caches"))
    } else {
        set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("tallow"))
}
