//! Where models come from: a `.model` file as it is; a GGUF file or a Hugging Face folder imported
//! once into the user's cache. And what else is kept there.

use crate::{Error, Result};
use std::path::{Path, PathBuf};
use tallow_executor::PackedCache;
use tallow_format::{ModelFile, ReadOptions};
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

/// Opens the `.model` file that `source` was resolved to. Messages call it as the caller does: a folder or a GGUF file, and not
/// what it became in the cache.
///
/// # Errors
/// Those of opening it; they name the file itself.
pub fn open(source: &Path, file: &Path, options: &ReadOptions) -> Result<ModelFile> {
    Ok(ModelFile::open_with(file, options)?.named(&source.display().to_string()))
}

/// Whether `source` is something to import first: a folder, or a file that is no container.
pub fn needs_import(source: &Path) -> bool {
    let name = source.to_string_lossy().to_lowercase();
    let index = name.ends_with(".gguf") || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
    source.is_dir() || index
}

/// Where packed matrices are kept for other runs: `packed` in the [`cache_folder`].
pub fn packed_folder() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("packed"))
}

/// The variable that decides whether packed matrices are kept, where options leave it open: `auto`, `on` or `off`.
pub const PACKED_CACHE: &str = "TALLOW_PACKED_CACHE";

/// `choice`, or what `$TALLOW_PACKED_CACHE` says where that is [`PackedCache::Auto`].
///
/// # Errors
/// Another value of the variable.
pub fn packed_cache(choice: PackedCache) -> Result<PackedCache> {
    match std::env::var_os(PACKED_CACHE).filter(|_| choice == PackedCache::Auto) {
        Some(value) => packed_cache_named(&value.to_string_lossy()),
        None => Ok(choice),
    }
}

fn packed_cache_named(value: &str) -> Result<PackedCache> {
    match value {
        "" | "auto" => Ok(PackedCache::Auto),
        "on" => Ok(PackedCache::On),
        "off" => Ok(PackedCache::Off),
        other => Err(Error::Usage(format!("{PACKED_CACHE} is `{other}`; set it to `auto`, `on` or `off`"))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_takes_three_values() {
        let named = |value| packed_cache_named(value).map_err(|e| e.to_string());
        assert_eq!(named(""), Ok(PackedCache::Auto));
        assert_eq!(named("auto"), Ok(PackedCache::Auto));
        assert_eq!(named("on"), Ok(PackedCache::On));
        assert_eq!(named("off"), Ok(PackedCache::Off));
        assert!(named("yes").unwrap_err().contains("TALLOW_PACKED_CACHE is `yes`"));
        for choice in [PackedCache::On, PackedCache::Off] {
            assert_eq!(packed_cache(choice).unwrap(), choice, "an option wins");
        }
    }
}
