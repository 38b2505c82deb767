//! The tokenizer of a Hugging Face folder: `tokenizer.json`, recognised part by part. A part that is not recognised is an
//! error with its name: a tokenizer that is almost right gives wrong ids without a word.

mod bpe;
mod languages;
mod normalizer;
mod pieces;
mod template;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tallow_format::vocab::{AddedToken, Vocab};

use super::value::SAVE;
use super::{MAX_TOKEN_ID, TokenizerText, merges_txt, native, pieces as spm_pieces, vocab_txt};
use crate::config::Ids;
use crate::error::{ImportError, Result, clip};
use crate::json;
pub(super) use pieces::{MOST_SCORE, scaled_scores};
use template::Template;

/// How deep lists of components may nest.
const MAX_DEPTH: usize = 8;
/// What `tokenizer_config.json` says where a text may be of any length, or more.
pub(super) const NO_LIMIT: u64 = 1 << 24;

/// Files of other kinds of tokenizers, beside those of SentencePiece.
const NAMES: [&str; 8] = [
    vocab_txt::FILE,
    "vocab.json",
    "merges.txt",
    "source.spm",
    "target.spm",
    "target_vocab.json",
    "added_tokens.json",
    "special_tokens_map.json",
];

/// Keys of `[tokenizer]` with their values.
type Settings = Vec<(String, Value)>;

/// Reads the tokenizer of a folder; `None` when it has none at all.
pub fn read(folder: &Path) -> Result<Option<TokenizerText>> {
    let path = folder.join("tokenizer.json");
    let config = json::read_optional(&folder.join("tokenizer_config.json"))?;
    if crate::files::is_there(&path)? {
        let value = json::read(&path)?;
        return Reader { path, value: &value }.read(config.as_ref()).map(Some);
    }
    for name in NAMES.iter().chain(spm_pieces::FILES.iter()) {
        crate::files::is_there(&folder.join(name))?;
    }
    let has = |name: &str| folder.join(name).is_file();
    if has(vocab_txt::FILE) {
        return vocab_txt::read(folder, &model_type(folder)?).map(Some);
    }
    if has("source.spm") && has("vocab.json") {
        return native::marian(folder).map(Some);
    }
    let class = config.as_ref().and_then(|config| config.get("tokenizer_class")).and_then(Value::as_str);
    if has("sentencepiece.bpe.model") && has("vocab.json") && !class.is_some_and(spm_pieces::reads) {
        return native::m2m_100(folder).map(Some);
    }
    if let Some(error) = native::lacking(folder, class, &model_type(folder)?) {
        return Err(error);
    }
    if let Some(file) = spm_pieces::FILES.iter().find(|name| has(name)) {
        return spm_pieces::read(folder, file, &model_type(folder)?).map(Some);
    }
    if has("vocab.json") && has("merges.txt") {
        return merges_txt::read(folder, &model_type(folder)?).map(Some);
    }
    let others = ["source.spm", "vocab.json", "tekken.json", "tiktoken.model"];
    match others.iter().find(|name| has(name)) {
        None => Ok(None),
        Some(other) => Err(ImportError::unsupported(
            folder,
            "tokenizer",
            format!("there is a `{other}` and no `tokenizer.json`, which is what is read"),
            SAVE,
        )),
    }
}

/// `model_type` of `config.json`, empty where it says none.
fn model_type(folder: &Path) -> Result<String> {
    let config = json::read_optional(&folder.join("config.json"))?;
    let kind = config.as_ref().and_then(|config| config.get("model_type")).and_then(Value::as_str);
    Ok(kind.unwrap_or_default().to_owned())
}

/// Reads a tokenizer that the file `path` spells in another way, once it is said in the words of `tokenizer.json` (`value`) and
/// of `tokenizer_config.json`.
pub(super) fn read_value(path: &Path, value: &Value, config: &Value) -> Result<TokenizerText> {
    Reader { path: path.to_owned(), value }.read(Some(config))
}

/// The text of a special token in `tokenizer_config.json`.
pub(super) fn token_text<'a>(config: Option<&'a Value>, key: &str) -> Option<&'a str> {
    let token = config.and_then(|c| c.get(key))?;
    token.as_str().or_else(|| token.get("content").and_then(Value::as_str))
}

struct Reader<'a> {
    path: PathBuf,
    value: &'a Value,
}

impl<'a> Reader<'a> {
    fn read(&self, config: Option<&Value>) -> Result<TokenizerText> {
        let model = &self.value["model"];
        let mut warnings = Vec::new();
        let mut vocab = Vocab::default();
        let mut settings = match self.model_type(model) {
            "BPE" => self.bpe(model, &mut vocab, &mut warnings)?,
            "WordPiece" => self.word_piece(model, &mut vocab, &mut warnings)?,
            "Unigram" => self.unigram(model, &mut vocab, &mut warnings)?,
            other => return Err(self.unknown("model", &format!("type `{}`", clip(other)))),
        };
        let template = self.template(&vocab)?;
        let mut ids = Ids::default();
        let languages = self.languages(&template, &vocab, config)?;
        // A text that begins with its language has no other beginning.
        let begin = template.begin().filter(|_| languages.is_empty());
        settings.push(("add_bos".into(), begin.is_some().into()));
        settings.push(("add_eos".into(), template.end().is_some().into()));
        let find = |text: Option<&str>| text.and_then(|t| vocab.find(t));
        ids.bos = begin.or_else(|| find(token_text(config, "bos_token")));
        if let Some(id) = find(token_text(config, "eos_token")) {
            ids.add_eos(id);
        }
        if let Some(id) = template.end() {
            ids.add_eos(id);
        }
        ids.pad = find(token_text(config, "pad_token"));
        ids.unk = find(model.get("unk_token").and_then(Value::as_str));
        if !template.is_plain() {
            settings.extend(self.around(&template, &vocab, config)?);
        }
        settings.extend(languages);
        Ok(TokenizerText { vocab, settings, ids, warnings })
    }

    /// What models that read whole texts want of their tokenizer, beside ids: templates, a mask, a length.
    fn around(&self, template: &Template, vocab: &Vocab, config: Option<&Value>) -> Result<Settings> {
        let mut settings = self.template_settings(template, vocab)?;
        let known = |text: &&str| vocab.added.iter().any(|t| t.special && t.text == **text);
        let mask = token_text(config, "mask_token").or_else(|| ["[MASK]", "<mask>"].into_iter().find(known));
        if let Some(mask) = mask.filter(known) {
            settings.push(("mask_token".into(), mask.into()));
        }
        let length = config.and_then(|c| c.get("model_max_length")).and_then(Value::as_u64);
        if let Some(length) = length.filter(|&n| n > 0 && n < NO_LIMIT) {
            settings.push(("max_length".into(), length.into()));
        }
        Ok(settings)
    }

    fn model_type(&self, model: &'a Value) -> &'a str {
        match model.get("type").and_then(Value::as_str) {
            Some(kind) => kind,
            None if model.get("merges").is_some() => "BPE",
            None => "of no type",
        }
    }

    /// The tokens of an object from text to id.
    fn tokens(&self, model: &Value, vocab: &mut Vocab) -> Result<()> {
        let Some(map) = model.get("vocab").and_then(Value::as_object) else {
            return Err(self.broken("model.vocab", "it is missing or no object"));
        };
        for (text, id) in map {
            let id = self.id(id, "model.vocab")?;
            if let Some(other) = put(&mut vocab.tokens, id, text) {
                return Err(
                    self.broken("model.vocab", &format!("`{}` and `{}` both have id {id}", clip(&other), clip(text)))
                );
            }
        }
        Ok(())
    }

    /// Tokens that are matched verbatim.
    fn added_tokens(&self, vocab: &mut Vocab, warnings: &mut Vec<String>) -> Result<()> {
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
        Ok(())
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
            "BPE (byte-level and SentencePiece-type), WordPiece and Unigram are read. Move the tokenizer files away to import without one.",
        )
    }
}

/// Puts a text in its place and gives back what stood there.
pub(super) fn put(tokens: &mut Vec<Option<String>>, id: u32, text: &str) -> Option<String> {
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
