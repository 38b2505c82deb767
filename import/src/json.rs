//! JSON files of a Hugging Face folder.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use crate::error::{ImportError, Result};

/// Largest JSON file that is read: a tokenizer of 262,144 tokens takes about 35 MiB.
const MAX_JSON: u64 = 512 << 20;

/// Reads a JSON file. Errors name line and column; nesting is capped by the parser.
pub fn read(path: &Path) -> Result<Value> {
    let size = std::fs::metadata(path).map_err(|e| ImportError::io(path, "read its size", e))?.len();
    if size > MAX_JSON {
        return Err(ImportError::refused(
            path.display().to_string(),
            format!("{size} bytes are too much for a JSON file; at most {MAX_JSON} are read"),
            "Check that this is the file you meant.",
        ));
    }
    let bytes = std::fs::read(path).map_err(|e| ImportError::io(path, "read the file", e))?;
    serde_json::from_slice(&bytes).map_err(|e| {
        ImportError::malformed(
            path,
            format!("line {}, column {}", e.line(), e.column()),
            format!("invalid JSON: {e}"),
            "Download the file again.",
        )
    })
}

/// Reads a JSON file if it is there.
pub fn read_optional(path: &Path) -> Result<Option<Value>> {
    if is_there(path)? { read(path).map(Some) } else { Ok(None) }
}

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
