//! JSON files of a Hugging Face folder.

use std::path::Path;

use serde_json::Value;

use crate::error::{ImportError, Result};
use crate::files;

/// Largest JSON file that is read: a tokenizer of 262,144 tokens takes about 35 MiB.
const MAX_JSON: u64 = 512 << 20;

/// Reads a JSON file. Errors name line and column; nesting is capped by the parser.
pub fn read(path: &Path) -> Result<Value> {
    let bytes = files::read(path, MAX_JSON, "a JSON file")?;
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
    if files::is_there(path)? { read(path).map(Some) } else { Ok(None) }
}
