//! Special and added tokens as the files of a folder say them, beside the vocabulary: `tokenizer_config.json`, and where that
//! lists no tokens by id `special_tokens_map.json` and `added_tokens.json` of older folders.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::MAX_TOKEN_ID;
use crate::error::{ImportError, Result, clip};
use crate::json;

/// Names of special tokens, in the order in which the library adds those that the vocabulary lacks.
const NAMES: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A token that is matched verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
    pub(super) single_word: bool,
}

impl Token {
    /// A special token of this text.
    pub(super) fn special(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { text, lstrip: false, rstrip: false, normalized: false, special: true, single_word: false }
    }

    /// The entry of `added_tokens`.
    pub(super) fn entry(&self, id: u32) -> Value {
        json!({ "id": id, "content": self.text, "lstrip": self.lstrip, "rstrip": self.rstrip,
            "normalized": self.normalized, "special": self.special, "single_word": self.single_word })
    }
}

/// What the files say.
#[derive(Debug)]
pub(super) struct Specials {
    folder: PathBuf,
    /// `tokenizer_config.json`, with what an older folder has elsewhere.
    config: Map<String, Value>,
    /// Tokens by id.
    pub(super) added: BTreeMap<u32, Token>,
}

impl Specials {
    /// Reads the files of a folder. Errors: one is no object, or lists no tokens.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let object = |name: &str| -> Result<Option<Map<String, Value>>> {
            let path = folder.join(name);
            match json::read_optional(&path)? {
                None => Ok(None),
                Some(Value::Object(map)) => Ok(Some(map)),
                Some(_) => {
                    Err(ImportError::malformed(&path, "the file", "it is no object", "Download the file again."))
                }
            }
        };
        let config = object("tokenizer_config.json")?.unwrap_or_default();
        let mut specials = Self { folder: folder.to_owned(), config, added: BTreeMap::new() };
        if let Some(listed) = specials.config.remove("added_tokens_decoder") {
            for (id, token) in listed.as_object().into_iter().flatten() {
                let id = specials.id(id.parse().ok(), "added_tokens_decoder", token)?;
                let token = specials.token("added_tokens_decoder", token, false)?;
                specials.added.insert(id, token);
            }
            return Ok(specials);
        }
        specials.config.extend(object("special_tokens_map.json")?.unwrap_or_default());
        let known: HashSet<String> = specials.all(&[])?.into_iter().map(|token| token.text).collect();
        for (text, id) in object("added_tokens.json")?.unwrap_or_default() {
            let id = specials.id(id.as_u64(), "added_tokens.json", &id)?;
            let special = known.contains(&text);
            specials.added.insert(id, Token { special, normalized: !special, ..Token::special(text) });
        }
        Ok(specials)
    }

    fn id(&self, id: Option<u64>, place: &str, found: &Value) -> Result<u32> {
        id.filter(|id| *id <= MAX_TOKEN_ID).map(|id| id as u32).ok_or_else(|| {
            let cause = format!("{} has no token id up to {MAX_TOKEN_ID}", clip(&found.to_string()));
            self.broken(place, cause)
        })
    }

    /// A token as text, or as an object with its flags.
    fn token(&self, place: &str, value: &Value, special: bool) -> Result<Token> {
        if let Some(text) = value.as_str() {
            return Ok(Token { special, normalized: !special, ..Token::special(text) });
        }
        let Some(text) = value["content"].as_str() else {
            return Err(self.broken(place, format!("{} is no token", clip(&value.to_string()))));
        };
        let flag = |key: &str| value.get(key).and_then(Value::as_bool);
        let special = special || flag("special").unwrap_or(false);
        Ok(Token {
            text: text.to_owned(),
            lstrip: flag("lstrip").unwrap_or(false),
            rstrip: flag("rstrip").unwrap_or(false),
            normalized: flag("normalized").unwrap_or(!special),
            single_word: flag("single_word").unwrap_or(false),
            special,
        })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A setting that says something.
    pub(super) fn setting(&self, key: &str) -> Option<&Value> {
        self.config.get(key).filter(|value| !value.is_null())
    }

    /// The text of a setting.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.setting(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.broken(key, format!("it is {}, and must be a text", clip(&other.to_string())))),
        }
    }

    /// A setting that is true or false. Errors: it is something else.
    pub(super) fn flag(&self, key: &str, usual: bool) -> Result<bool> {
        match self.setting(key) {
            None => Ok(usual),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => {
                Err(self.broken(key, format!("it is {}, and must be true or false", clip(&other.to_string()))))
            }
        }
    }

    /// The special token under a name; `usual` is that of its class. Errors: it is no token.
    pub(super) fn named(&self, name: &str, usual: Option<&str>) -> Result<Option<Token>> {
        let token = match self.config.get(name) {
            Some(Value::Null) => return Ok(None),
            Some(value) => self.token(name, value, true)?,
            None => match usual {
                Some(text) => Token::special(text),
                None => return Ok(None),
            },
        };
        // One that is listed by its id has its flags there.
        let listed = self.added.values().find(|listed| listed.text == token.text);
        Ok(Some(listed.map_or(token, |listed| Token { special: true, ..listed.clone() })))
    }

    /// The text of the special token under a name, empty where there is none; `usual` has those of the class.
    pub(super) fn text_of(&self, name: &str, usual: &[(&str, &str)]) -> Result<String> {
        let own = usual.iter().find(|(key, _)| *key == name).map(|(_, text)| *text);
        Ok(self.named(name, own)?.map(|token| token.text).unwrap_or_default())
    }

    /// Special tokens beside those with names.
    pub(super) fn extra(&self) -> Result<Vec<Token>> {
        let keys = ["extra_special_tokens", "additional_special_tokens"];
        let lists = keys.iter().filter_map(|key| self.setting(key).map(|list| (*key, list)));
        let mut tokens: Vec<Token> = Vec::new();
        for (key, list) in lists {
            let values: Vec<&Value> = match list {
                Value::Array(list) => list.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => return Err(self.broken(key, "it is no list of tokens")),
            };
            for value in values {
                tokens.push(self.token(key, value, true)?);
            }
        }
        Ok(tokens)
    }

    /// All special tokens in the library's order: those with names, of which `usual` gives the class's own, then others.
    pub(super) fn all(&self, usual: &[(&str, &str)]) -> Result<Vec<Token>> {
        let mut tokens: Vec<Token> = Vec::new();
        for name in NAMES {
            let own = usual.iter().find(|(key, _)| *key == name).map(|(_, text)| *text);
            tokens.extend(self.named(name, own)?);
        }
        tokens.extend(self.extra()?);
        let mut seen = HashSet::new();
        tokens.retain(|token| seen.insert(token.text.clone()));
        Ok(tokens)
    }

    /// What `tokenizer_config.json` says, with the names of special tokens that a class has by itself.
    pub(super) fn config(&self, usual: &[(&str, &str)]) -> Value {
        let mut config = self.config.clone();
        for (key, text) in usual {
            config.entry((*key).to_owned()).or_insert_with(|| (*text).into());
        }
        Value::Object(config)
    }

    /// An error in `tokenizer_config.json`, or in the older files.
    pub(super) fn broken(&self, place: &str, cause: impl Into<String>) -> ImportError {
        ImportError::malformed(
            &self.folder.join("tokenizer_config.json"),
            format!("`{place}`"),
            cause,
            "Download the tokenizer's files again.",
        )
    }
}
