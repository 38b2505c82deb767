//! Parts of a `tokenizer.json` value that is made of other files.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::specials::{Specials, Token};
use crate::error::{ImportError, Result, clip};

/// SentencePiece's sign for a space.
pub(super) const SPACE: &str = "▁";

/// A part of a template, `$A` and `$B` for the texts, and the type of its tokens.
pub(super) type Part<'a> = (&'a str, u64);

/// The post-processor that puts tokens around a text, and around two; null where there are none. `id` gives those of tokens.
pub(super) fn template(single: &[Part<'_>], pair: &[Part<'_>], id: impl Fn(&str) -> Option<u64>) -> Value {
    let mut tokens = Map::new();
    let mut entry = |(name, of_type): &Part<'_>| match name.strip_prefix('$') {
        Some(text) => json!({ "Sequence": { "id": text, "type_id": of_type } }),
        None => {
            tokens.insert((*name).to_owned(), json!({ "id": name, "ids": [id(name)], "tokens": [name] }));
            json!({ "SpecialToken": { "id": name, "type_id": of_type } })
        }
    };
    let single: Vec<Value> = single.iter().map(&mut entry).collect();
    let pair: Vec<Value> = pair.iter().map(&mut entry).collect();
    match tokens.is_empty() {
        true => Value::Null,
        false => json!({ "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens }),
    }
}

/// What cuts text at spaces for Unigram: before each `▁`; white space is cut out first where `words` is true.
pub(super) fn metaspace(words: bool, scheme: &str, split: bool) -> Value {
    let part = json!({ "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split });
    match words {
        true => json!({ "type": "Sequence", "pretokenizers": [{ "type": "WhitespaceSplit" }, part] }),
        false => part,
    }
}

/// What turns pieces into text: `▁` is a space, bytes are characters, and a space before the first goes where `strip` is true.
pub(super) fn pieces_decoder(strip: bool) -> Value {
    let mut parts = vec![
        json!({ "type": "Replace", "pattern": { "String": SPACE }, "content": " " }),
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
    ];
    if strip {
        parts.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    }
    json!({ "type": "Sequence", "decoders": parts })
}

/// Verbatim tokens, in the order in which the library adds them: those that the vocabulary lacks have ids behind all others.
#[derive(Debug)]
pub(super) struct Added {
    ids: HashMap<String, u64>,
    next: u64,
    seen: HashSet<String>,
    entries: Vec<Value>,
}

impl Added {
    /// Over a vocabulary of these texts and ids.
    pub(super) fn new<'a>(vocab: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let ids: HashMap<String, u64> = vocab.map(|(text, id)| (text.to_owned(), id)).collect();
        // A hole is filled by no token.
        let next = ids.values().max().map_or(0, |id| id + 1);
        Self { ids, next, seen: HashSet::new(), entries: Vec::new() }
    }

    /// The id of a token.
    pub(super) fn id(&self, text: &str) -> Option<u64> {
        self.ids.get(text).copied()
    }

    /// Adds a token once.
    pub(super) fn add(&mut self, token: &Token) {
        if token.text.is_empty() || !self.seen.insert(token.text.clone()) {
            return;
        }
        let id = self.id(&token.text).unwrap_or(self.next);
        self.next = self.next.max(id + 1);
        self.ids.insert(token.text.clone(), id);
        self.entries.push(token.entry(id as u32));
    }

    /// Adds the tokens that a folder names: those with ids, then special ones, of which `usual` gives those of the class.
    /// Errors: a token has another id than the vocabulary gives it.
    pub(super) fn add_all(&mut self, specials: &Specials, usual: &[(&str, &str)]) -> Result<()> {
        for (id, token) in &specials.added {
            self.add(token);
            let own = self.id(&token.text).unwrap_or_default();
            if own != u64::from(*id) {
                let cause = format!("token `{}` has the id {id} there, and {own} by the vocabulary", clip(&token.text));
                return Err(specials.broken("added_tokens", cause));
            }
        }
        specials.all(usual)?.iter().for_each(|token| self.add(token));
        Ok(())
    }

    /// A token that there must be. Errors: there is none.
    pub(super) fn needed(&self, specials: &Specials, text: &str) -> Result<u64> {
        self.id(text).ok_or_else(|| specials.broken("special tokens", format!("there is no token `{}`", clip(text))))
    }

    /// The template of these parts. Errors: one is no token.
    pub(super) fn around(&self, specials: &Specials, single: &[Part<'_>], pair: &[Part<'_>]) -> Result<Value> {
        for (name, _) in single.iter().chain(pair).filter(|(name, _)| !name.starts_with('$')) {
            self.needed(specials, name)?;
        }
        Ok(template(single, pair, |text| self.id(text)))
    }

    /// The list `added_tokens`.
    pub(super) fn entries(self) -> Vec<Value> {
        self.entries
    }
}

/// The begin and end tokens of a decoder, where the settings of its folder ask for them. Errors: there is no such token.
pub(super) fn begin_and_end(specials: &Specials, added: &Added, usual: &[(&str, &str)]) -> Result<Value> {
    let token = |flag: &str, name: &str| match specials.flag(flag, false)? {
        true => specials.text_of(name, usual).map(Some),
        false => Ok(None),
    };
    let (begin, end) = (token("add_bos_token", "bos_token")?, token("add_eos_token", "eos_token")?);
    let one = |text: &'static str, of_type: u64| -> Vec<Part<'_>> {
        let parts = [begin.as_deref(), Some(text), end.as_deref()];
        parts.into_iter().flatten().map(|part| (part, of_type)).collect()
    };
    let (single, pair) = (one("$A", 0), [one("$A", 0), one("$B", 1)].concat());
    added.around(specials, &single, &pair)
}

/// The class of a folder's tokenizer: that of `tokenizer_config.json`, else the one of the model's type by `types`. Errors:
/// there is neither; `file` is what the class would read.
pub(super) fn class_of(specials: &Specials, model_type: &str, types: &[(&str, &[&str])], file: &str) -> Result<String> {
    if let Some(class) = specials.text("tokenizer_class")? {
        return Ok(class.strip_suffix("Fast").unwrap_or(class).to_owned());
    }
    let of_type = types.iter().find(|(_, types)| types.contains(&model_type));
    of_type.map(|(class, _)| (*class).to_owned()).ok_or_else(|| {
        let cause = format!("it is missing, and no class that reads `{file}` is known for type `{}`", clip(model_type));
        ImportError::unsupported(specials.folder(), "setting `tokenizer_class`", cause, SAVE)
    })
}

/// An error for a class whose other files are not read.
pub(super) fn unknown_class(specials: &Specials, class: &str, file: &str) -> ImportError {
    ImportError::unsupported(
        specials.folder(),
        "setting `tokenizer_class`",
        format!("class `{}` is not read from `{file}`, and there is no `tokenizer.json`", clip(class)),
        SAVE,
    )
}

/// What writes a `tokenizer.json`.
pub(super) const SAVE: &str = "`AutoTokenizer.from_pretrained(folder).save_pretrained(folder)` writes one; without its tokenizer files the model is imported to take ids.";
