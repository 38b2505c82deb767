//! `vocab.txt`, BERT's vocabulary before `tokenizer.json`: one token a line. With the flags of `tokenizer_config.json` it says
//! as much as that file, and is turned into it.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::json::token_text;
use crate::error::{ImportError, Result, clip};

/// Special tokens: the key of `tokenizer_config.json`, and the text without it.
const SPECIAL: [(&str, &str); 5] = [
    ("pad_token", "[PAD]"),
    ("unk_token", "[UNK]"),
    ("cls_token", "[CLS]"),
    ("sep_token", "[SEP]"),
    ("mask_token", "[MASK]"),
];

/// The `tokenizer.json` that BERT's tokenizer makes of a `vocab.txt`.
pub(super) fn as_json(path: &Path, config: Option<&Value>) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(|e| ImportError::io(path, "read the file", e))?;
    let mut vocab = Map::new();
    for (id, line) in text.lines().enumerate() {
        // Of two lines with one text the later holds, as in the original.
        vocab.insert(line.to_owned(), id.into());
    }
    let setting = |key: &str| config.and_then(|c| c.get(key)).filter(|v| !v.is_null());
    let flag = |key: &str, default: bool| match setting(key) {
        None => Ok(default),
        Some(Value::Bool(b)) => Ok(*b),
        Some(other) => Err(ImportError::malformed(
            path,
            format!("setting `{key}`"),
            format!("it is {}, and must be true or false", clip(&other.to_string())),
            "Correct tokenizer_config.json.",
        )),
    };
    let unread = |key: &str| {
        ImportError::unsupported(
            path,
            format!("setting `{key}` of tokenizer_config.json"),
            "what it says is not read",
            "`AutoTokenizer.from_pretrained(folder).save_pretrained(folder)` writes a tokenizer.json, which says more.",
        )
    };
    if !flag("do_basic_tokenize", true)? {
        return Err(unread("do_basic_tokenize"));
    }
    if setting("never_split").is_some_and(|v| v.as_array().is_none_or(|list| !list.is_empty())) {
        return Err(unread("never_split"));
    }
    let lowercase = flag("do_lower_case", true)?;
    let accents = match setting("strip_accents") {
        None => Value::Null,
        Some(_) => flag("strip_accents", false)?.into(),
    };
    let mut added = Vec::new();
    let mut tokens = Map::new();
    for (key, usual) in SPECIAL {
        let text = token_text(config, key).unwrap_or(usual);
        match vocab.get(text) {
            Some(id) => {
                added.push(json!({ "id": id, "content": text, "special": true }));
                tokens.insert(key.to_owned(), json!([text, id]));
            }
            None if matches!(key, "unk_token" | "cls_token" | "sep_token") => {
                return Err(ImportError::malformed(
                    path,
                    format!("token `{}`", clip(text)),
                    "it is not among the lines, and BERT's tokenizer needs it",
                    format!("If another token stands for it, name that as `{key}` in tokenizer_config.json."),
                ));
            }
            None => {}
        }
    }
    let unk = tokens.get("unk_token").map_or(Value::Null, |token| token[0].clone());
    let cleanup = flag("clean_up_tokenization_spaces", true)?;
    Ok(json!({
        "added_tokens": added,
        "normalizer": { "type": "BertNormalizer", "clean_text": true,
            "handle_chinese_chars": flag("tokenize_chinese_chars", true)?, "strip_accents": accents, "lowercase": lowercase },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "BertProcessing", "cls": tokens.get("cls_token"), "sep": tokens.get("sep_token") },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": cleanup },
        "model": { "type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab }
    }))
}
