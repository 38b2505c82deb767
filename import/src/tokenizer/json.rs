//! The tokenizer of a Hugging Face folder: `tokenizer.json`, recognised part by part. A part that is not recognised is an
//! error with its name: a tokenizer that is almost right gives wrong ids without a word.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tallow_format::vocab::{AddedToken, Merges, Vocab};

use super::pre::{self, Pre};
use super::{MAX_TOKEN_ID, TokenizerText};
use crate::config::Ids;
use crate::error::{ImportError, Result, clip};
use crate::json;

/// How deep lists of components may nest.
const MAX_DEPTH: usize = 8;

/// Reads the tokenizer of a folder; `None` when it has none at all. Of one that only writes texts, what it would put around a
/// text that it reads says nothing.
pub fn read(folder: &Path, only_writes: bool) -> Result<Option<TokenizerText>> {
    let path = folder.join("tokenizer.json");
    if !path.is_file() {
        let others = ["tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json"];
        return match others.iter().find(|f| folder.join(f).is_file()) {
            None => Ok(None),
            Some(other) => Err(ImportError::unsupported(
                folder,
                "tokenizer",
                format!("there is a `{other}` and no `tokenizer.json`, which is what is read"),
                "`AutoTokenizer.from_pretrained(folder).save_pretrained(folder)` writes one.",
            )),
        };
    }
    let value = json::read(&path)?;
    let config = json::read_optional(&folder.join("tokenizer_config.json"))?;
    Reader { path, value: &value, only_writes }.read(config.as_ref()).map(Some)
}

struct Reader<'a> {
    path: PathBuf,
    value: &'a Value,
    only_writes: bool,
}

impl<'a> Reader<'a> {
    fn read(&self, config: Option<&Value>) -> Result<TokenizerText> {
        let model = &self.value["model"];
        self.check_model(model)?;
        let mut warnings = Vec::new();
        let mut vocab = self.vocab(model, &mut warnings)?;
        vocab.merges = self.merges(model)?;
        self.check_merges(&vocab)?;
        let whole_words = self.flag(model, "ignore_merges", "model")?;
        let pre = self.parts("pre_tokenizer", "pretokenizers")?;
        let byte_level = pre.iter().any(|p| type_of(p) == "ByteLevel");
        let mut settings = if byte_level {
            self.byte_level(&pre, whole_words)?
        } else {
            self.sentence_piece(&pre, model, whole_words)?
        };
        let (begin, end) = self.template()?;
        let mut ids = Ids::default();
        settings.push(("add_bos".into(), begin.is_some().into()));
        settings.push(("add_eos".into(), end.is_some().into()));
        ids.bos = begin;
        let texts = |key: &str| {
            let token = config.and_then(|c| c.get(key))?;
            token.as_str().or_else(|| token.get("content").and_then(Value::as_str))
        };
        let find = |text: Option<&str>| text.and_then(|t| vocab.find(t));
        ids.bos = ids.bos.or_else(|| find(texts("bos_token")));
        if let Some(id) = find(texts("eos_token")) {
            ids.add_eos(id);
        }
        if let Some(id) = end {
            ids.add_eos(id);
        }
        ids.pad = find(texts("pad_token"));
        ids.unk = find(model.get("unk_token").and_then(Value::as_str));
        Ok(TokenizerText { vocab, settings, ids, warnings })
    }

    fn check_model(&self, model: &Value) -> Result<()> {
        let kind = match model.get("type").and_then(Value::as_str) {
            Some(kind) => kind,
            None if model.get("merges").is_some() => "BPE",
            None => "of no type",
        };
        if kind != "BPE" {
            return Err(self.unknown("model", &format!("type `{}`", clip(kind))));
        }
        for (key, neutral) in [("continuing_subword_prefix", ""), ("end_of_word_suffix", "")] {
            match model.get(key) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) if text == neutral => {}
                Some(other) => {
                    return Err(self.unknown("model", &format!("`{key}` = {}", clip(&other.to_string()))));
                }
            }
        }
        match model.get("dropout") {
            None | Some(Value::Null) => Ok(()),
            Some(rate) if rate.as_f64() == Some(0.0) => Ok(()),
            Some(rate) => Err(self.unknown("model", &format!("`dropout` = {}", clip(&rate.to_string())))),
        }
    }

    fn vocab(&self, model: &Value, warnings: &mut Vec<String>) -> Result<Vocab> {
        let Some(map) = model.get("vocab").and_then(Value::as_object) else {
            return Err(self.broken("model.vocab", "it is missing or no object"));
        };
        let mut vocab = Vocab::default();
        for (text, id) in map {
            let id = self.id(id, "model.vocab")?;
            if let Some(other) = put(&mut vocab.tokens, id, text) {
                return Err(
                    self.broken("model.vocab", &format!("`{}` and `{}` both have id {id}", clip(&other), clip(text)))
                );
            }
        }
        for token in self.value["added_tokens"].as_array().into_iter().flatten() {
            let id = self.id(&token["id"], "added_tokens")?;
            let Some(text) = token["content"].as_str().filter(|t| !t.is_empty()) else {
                return Err(self.broken("added_tokens", &format!("token {id} has no text")));
            };
            if self.flag(token, "single_word", "added_tokens")? {
                return Err(self.unknown("added_tokens", &format!("`single_word` of `{}`", clip(text))));
            }
            if let Some(other) = put(&mut vocab.tokens, id, text)
                && other != text
            {
                vocab.tokens[id as usize] = Some(text.to_owned());
                warnings.push(format!(
                    "Token {id} is `{}` in the vocabulary and `{}` among the added tokens; the latter holds.",
                    clip(&other),
                    clip(text)
                ));
            }
            vocab.added.push(AddedToken {
                id,
                text: text.to_owned(),
                special: self.flag(token, "special", "added_tokens")?,
                lstrip: self.flag(token, "lstrip", "added_tokens")?,
                rstrip: self.flag(token, "rstrip", "added_tokens")?,
                normalized: self.flag(token, "normalized", "added_tokens")?,
            });
        }
        vocab.added.sort_by_key(|t| t.id);
        if let Some(pair) = vocab.added.windows(2).find(|p| p[0].id == p[1].id) {
            return Err(self.broken("added_tokens", &format!("id {} stands there twice", pair[0].id)));
        }
        Ok(vocab)
    }

    fn merges(&self, model: &Value) -> Result<Merges> {
        let mut merges = Merges::default();
        for (rank, merge) in model["merges"].as_array().into_iter().flatten().enumerate() {
            let pair = match merge {
                Value::String(text) => text.split_once(' '),
                Value::Array(parts) => match parts.as_slice() {
                    [Value::String(left), Value::String(right)] => Some((left.as_str(), right.as_str())),
                    _ => None,
                },
                _ => None,
            };
            let Some((left, right)) = pair else {
                return Err(self.broken(
                    "model.merges",
                    &format!("entry {rank} is {}, and must be a pair of tokens", clip(&merge.to_string())),
                ));
            };
            if !merges.push(left, right) {
                return Err(self.broken("model.merges", "the merges pass 4 GiB of text"));
            }
        }
        Ok(merges)
    }

    fn check_merges(&self, vocab: &Vocab) -> Result<()> {
        let known: HashSet<&str> = vocab.tokens.iter().flatten().map(String::as_str).collect();
        let mut joined = String::new();
        for (rank, (left, right)) in vocab.merges.iter().enumerate() {
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            if let Some(missing) = [left, right, &joined].into_iter().find(|t| !known.contains(t)) {
                return Err(self.broken(
                    "model.merges",
                    &format!(
                        "entry {rank} joins `{}` and `{}`, and the vocabulary has no `{}`",
                        clip(left),
                        clip(right),
                        clip(missing)
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Byte-level BPE: optional normal forms, patterns, `ByteLevel` last.
    fn byte_level(&self, pre: &[&'a Value], whole_words: bool) -> Result<Vec<(String, Value)>> {
        let mut forms = Vec::new();
        for part in self.parts("normalizer", "normalizers")? {
            forms.push(self.normal_form(part)?);
        }
        let mut patterns = Vec::new();
        let mut prefix = false;
        for (n, part) in pre.iter().enumerate() {
            let last = n + 1 == pre.len();
            match type_of(part) {
                "ByteLevel" if last => {
                    prefix = self.flag(part, "add_prefix_space", "pre_tokenizer")?;
                    if part["use_regex"].as_bool().unwrap_or(true) {
                        patterns.push(pre::GPT2);
                    }
                }
                "Split" => {
                    let isolated =
                        part["behavior"].as_str() == Some("Isolated") && !self.flag(part, "invert", "pre_tokenizer")?;
                    match part["pattern"]["Regex"].as_str() {
                        Some(regex) if isolated => patterns.push(regex),
                        _ => return Err(self.unknown("pre_tokenizer", &describe(part))),
                    }
                }
                "Digits" if self.flag(part, "individual_digits", "pre_tokenizer")? => {
                    patterns.push(pre::DIGIT);
                }
                _ => return Err(self.unknown("pre_tokenizer", &describe(part))),
            }
        }
        for part in self.parts("decoder", "decoders")? {
            if type_of(part) != "ByteLevel" {
                return Err(self.unknown("decoder", &describe(part)));
            }
        }
        let mut settings = vec![("type".to_owned(), Value::from("byte_level_bpe"))];
        match pre::recognise(&patterns, whole_words) {
            Some(Pre::Named(name)) => settings.push(("pre".into(), name.into())),
            Some(Pre::Pattern(pattern)) => settings.push(("pattern".into(), pattern.into())),
            None => {
                let shown: Vec<String> = patterns.iter().map(|p| clip(p)).collect();
                let what = if whole_words { " with `ignore_merges`" } else { "" };
                return Err(self.unknown("pre_tokenizer", &format!("the patterns {shown:?} one after another{what}")));
            }
        }
        if !forms.is_empty() {
            settings.push(("normalizer".into(), forms.join(",").into()));
        }
        settings.push(("add_prefix_space".into(), prefix.into()));
        Ok(settings)
    }

    /// SentencePiece-type BPE: spaces become `▁`, words are not cut, unknown characters are spelt in bytes.
    fn sentence_piece(&self, pre: &[&'a Value], model: &Value, whole_words: bool) -> Result<Vec<(String, Value)>> {
        if whole_words {
            return Err(self.unknown("model", "`ignore_merges` without a byte-level pre-tokenizer"));
        }
        let mut forms = Vec::new();
        let (mut prefix, mut replaced) = (false, false);
        for part in self.parts("normalizer", "normalizers")? {
            match type_of(part) {
                "Prepend" if part["prepend"].as_str() == Some("▁") => prefix = true,
                "Replace" if is_replace(part, " ", "▁") => replaced = true,
                _ if !replaced && !prefix => forms.push(self.normal_form(part)?),
                _ => return Err(self.unknown("normalizer", &describe(part))),
            }
        }
        for part in pre {
            match type_of(part) {
                // Cuts at spaces, of which none are left.
                "Split" if replaced && part["pattern"]["String"].as_str() == Some(" ") => {}
                "Metaspace" if part["replacement"].as_str() == Some("▁") && !replaced => {
                    if part["split"].as_bool().unwrap_or(true) {
                        return Err(self.unknown("pre_tokenizer", "Metaspace with `split` = true"));
                    }
                    prefix = match part["prepend_scheme"].as_str() {
                        Some("always" | "first") => true,
                        Some("never") => false,
                        Some(_) => return Err(self.unknown("pre_tokenizer", &describe(part))),
                        None => part["add_prefix_space"].as_bool().unwrap_or(true),
                    };
                    replaced = true;
                }
                _ => return Err(self.unknown("pre_tokenizer", &describe(part))),
            }
        }
        if !replaced {
            return Err(self.unknown(
                "pre_tokenizer",
                "none of `ByteLevel`, `Metaspace` and a normalizer that replaces spaces by ▁",
            ));
        }
        for part in self.parts("decoder", "decoders")? {
            let fine = match type_of(part) {
                "ByteFallback" | "Fuse" => true,
                "Metaspace" => part["replacement"].as_str() == Some("▁"),
                "Replace" => is_replace(part, "▁", " "),
                "Strip" => part["content"].as_str() == Some(" ") && part["stop"].as_u64() == Some(0),
                _ => false,
            };
            if !fine {
                return Err(self.unknown("decoder", &describe(part)));
            }
        }
        let mut settings = vec![("type".to_owned(), Value::from("sentencepiece_bpe"))];
        if !forms.is_empty() {
            settings.push(("normalizer".into(), forms.join(",").into()));
        }
        settings.push(("add_prefix_space".into(), prefix.into()));
        let fallback = self.flag(model, "byte_fallback", "model")?;
        settings.push(("byte_fallback".into(), fallback.into()));
        Ok(settings)
    }

    /// Ids before and after the text, from the post-processor.
    fn template(&self) -> Result<(Option<u32>, Option<u32>)> {
        let mut ends = (None, None);
        if self.only_writes {
            return Ok(ends);
        }
        for part in self.parts("post_processor", "processors")? {
            match type_of(part) {
                "ByteLevel" => {}
                "TemplateProcessing" => {
                    let mut text_seen = false;
                    for piece in part["single"].as_array().into_iter().flatten() {
                        if piece.get("Sequence").is_some() {
                            text_seen = true;
                            continue;
                        }
                        let name = piece["SpecialToken"]["id"].as_str().unwrap_or_default();
                        let ids = part["special_tokens"][name]["ids"].as_array();
                        let end = if text_seen { &mut ends.1 } else { &mut ends.0 };
                        match ids.map(Vec::as_slice) {
                            Some([id]) if end.is_none() => *end = Some(self.id(id, "post_processor")?),
                            _ => {
                                return Err(self.unknown(
                                    "post_processor",
                                    "TemplateProcessing with more than one token before or after the text",
                                ));
                            }
                        }
                    }
                }
                _ => return Err(self.unknown("post_processor", &describe(part))),
            }
        }
        Ok(ends)
    }

    fn normal_form(&self, part: &Value) -> Result<&'static str> {
        match type_of(part) {
            "NFC" => Ok("nfc"),
            "NFD" => Ok("nfd"),
            "NFKC" => Ok("nfkc"),
            "NFKD" => Ok("nfkd"),
            "Lowercase" => Ok("lowercase"),
            _ => Err(self.unknown("normalizer", &describe(part))),
        }
    }

    /// A component as a list, sequences opened up.
    fn parts(&self, key: &str, inner: &str) -> Result<Vec<&'a Value>> {
        let mut out = Vec::new();
        self.open(&self.value[key], key, inner, 0, &mut out)?;
        Ok(out)
    }

    fn open(&self, value: &'a Value, key: &str, inner: &str, depth: usize, out: &mut Vec<&'a Value>) -> Result<()> {
        if value.is_null() {
            return Ok(());
        }
        if type_of(value) != "Sequence" {
            out.push(value);
            return Ok(());
        }
        if depth == MAX_DEPTH {
            return Err(self.broken(key, &format!("sequences are nested more than {MAX_DEPTH} deep")));
        }
        for part in value[inner].as_array().into_iter().flatten() {
            self.open(part, key, inner, depth + 1, out)?;
        }
        Ok(())
    }

    fn id(&self, value: &Value, place: &str) -> Result<u32> {
        match value.as_u64() {
            Some(n) if n <= MAX_TOKEN_ID => Ok(n as u32),
            _ => Err(self
                .broken(place, &format!("{} is no token id; ids go up to {MAX_TOKEN_ID}", clip(&value.to_string())))),
        }
    }

    fn flag(&self, value: &Value, key: &str, place: &str) -> Result<bool> {
        match value.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(b)) => Ok(*b),
            Some(other) => {
                Err(self.broken(place, &format!("`{key}` is {}, and must be true or false", clip(&other.to_string()))))
            }
        }
    }

    fn broken(&self, place: &str, cause: &str) -> ImportError {
        ImportError::malformed(
            &self.path,
            format!("`{place}`"),
            cause,
            "Download the file again, or save the tokenizer again with a current library.",
        )
    }

    fn unknown(&self, place: &str, what: &str) -> ImportError {
        ImportError::unsupported(
            &self.path,
            format!("`{place}`"),
            format!("{what} is not read"),
            "Byte-level BPE and SentencePiece-type BPE are read. Move the tokenizer files away to import without one.",
        )
    }
}

/// Puts a text in its place and gives back what stood there.
fn put(tokens: &mut Vec<Option<String>>, id: u32, text: &str) -> Option<String> {
    let at = id as usize;
    if tokens.len() <= at {
        tokens.resize(at + 1, None);
    }
    match &mut tokens[at] {
        Some(old) => Some(old.clone()),
        slot => {
            *slot = Some(text.to_owned());
            None
        }
    }
}

fn type_of(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn describe(part: &Value) -> String {
    let kind = type_of(part);
    if kind.is_empty() {
        format!("`{}`", clip(&part.to_string()))
    } else {
        format!("{kind} as in `{}`", clip(&part.to_string()))
    }
}

fn is_replace(part: &Value, from: &str, to: &str) -> bool {
    let pattern = &part["pattern"];
    let plain = pattern["String"].as_str() == Some(from) || pattern["Regex"].as_str() == Some(from);
    plain && part["content"].as_str() == Some(to)
}
