//! `vocab.json`: an object from the texts of tokens to their ids.

use std::path::Path;

use serde_json::{Map, Value};

use super::MAX_TOKEN_ID;
use super::json::put;
use crate::error::{ImportError, Result, clip};
use crate::json;

/// The object of a file. Errors: it is none, a value is no id, or two texts have one id.
pub(super) fn read(path: &Path) -> Result<Map<String, Value>> {
    let broken = |place: String, cause: String| {
        ImportError::malformed(path, place, cause, "Download the file again, or save the tokenizer again.")
    };
    let Value::Object(map) = json::read(path)? else {
        return Err(broken("the file".into(), "it is no object from texts to ids".into()));
    };
    let mut tokens = Vec::new();
    for (text, id) in &map {
        let place = || format!("token `{}`", clip(text));
        let Some(id) = id.as_u64().filter(|id| *id <= MAX_TOKEN_ID) else {
            let cause = format!("{} is no token id; ids go up to {MAX_TOKEN_ID}", clip(&id.to_string()));
            return Err(broken(place(), cause));
        };
        if let Some(other) = put(&mut tokens, id as u32, text) {
            return Err(broken(place(), format!("its id {id} is that of `{}` too", clip(&other))));
        }
    }
    Ok(map)
}

/// The texts by their ids.
pub(super) fn by_id(map: &Map<String, Value>) -> Vec<Option<String>> {
    let mut tokens = Vec::new();
    for (text, id) in map {
        if let Some(id) = id.as_u64().filter(|id| *id <= MAX_TOKEN_ID) {
            put(&mut tokens, id as u32, text);
        }
    }
    tokens
}
