//! Files of a source: whether they are there, and their bytes up to a limit.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::{ImportError, Result};

/// Whether a file is there.
///
/// Errors: something has its name that cannot be read as one, such as a link that leads nowhere. It would be left out without
/// a word if it counted as absent.
pub fn is_there(path: &Path) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(false),
        Err(e) => return Err(ImportError::io(path, "look for it", e)),
        Ok(_) => {}
    }
    let about = std::fs::metadata(path).map_err(|e| ImportError::io(path, "follow the link", e))?;
    match about.is_file() {
        true => Ok(true),
        false => Err(ImportError::refused(
            path.display().to_string(),
            "it is no regular file",
            "Put the file itself there, or take away what has its name.",
        )),
    }
}

/// The bytes of a file, which is to be `what`. Errors: it has more than `most`.
pub fn read(path: &Path, most: u64, what: &str) -> Result<Vec<u8>> {
    let size = std::fs::metadata(path).map_err(|e| ImportError::io(path, "read its size", e))?.len();
    if size > most {
        return Err(ImportError::refused(
            path.display().to_string(),
            format!("{size} bytes are too much for {what}; at most {most} are read"),
            "Check that this is the file you meant.",
        ));
    }
    std::fs::read(path).map_err(|e| ImportError::io(path, "read the file", e))
}
