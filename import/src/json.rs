//! JSON files of a Hugging Face folder.

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

/// Reads a JSON file if it exists.
pub fn read_optional(path: &Path) -> Result<Option<Value>> {
    if path.is_file() { read(path).map(Some) } else { Ok(None) }
}
