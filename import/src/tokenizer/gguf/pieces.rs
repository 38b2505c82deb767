//! WordPiece and Unigram in GGUF files. Either is said in the words of `tokenizer.json`, and read like such a file.

use serde_json::{Map, Value, json};

use super::{kind, per_token, tokens};
use crate::error::{ImportError, Result};
use crate::gguf::GgufFile;
use crate::tokenizer::value::{Part, SPACE, metaspace, template};
use crate::tokenizer::{TokenizerText, json as hugging_face};

/// What stands before every other piece of a word in `tokenizer.json`, where GGUF has a sign before the first.
const INNER: &str = "##";

/// The tokens of a file and those of special meaning.
struct Tokens<'a> {
    file: &'a GgufFile,
    texts: Vec<&'a str>,
    kinds: Option<Vec<f64>>,
}

impl<'a> Tokens<'a> {
    fn read(file: &'a GgufFile) -> Result<Self> {
        let texts = tokens(file)?;
        let kinds = per_token(file, "tokenizer.ggml.token_type", texts.len())?;
        Ok(Self { file, texts, kinds })
    }

    fn kind(&self, id: usize) -> i64 {
        self.kinds.as_ref().and_then(|kinds| kinds.get(id)).map_or(kind::NORMAL, |&x| x as i64)
    }

    /// Ids of rows that no text stands for.
    fn fillers(&self) -> impl Iterator<Item = usize> {
        (0..self.texts.len()).filter(|&id| self.texts[id].is_empty() || self.kind(id) == kind::UNUSED)
    }

    /// The token under a key, with its id; `usual` is the reader's id for a missing key. None where there is no such token.
    fn special(&self, name: &str, usual: Option<u64>) -> Result<Option<(&'a str, u64)>> {
        let id = self.file.uint(&format!("tokenizer.ggml.{name}_token_id"))?.or(usual);
        let place = id.and_then(|id| usize::try_from(id).ok()).filter(|&id| self.kind(id) != kind::UNUSED);
        Ok(place.and_then(|id| Some((*self.texts.get(id)?, id as u64))))
    }

    fn needed(&self, name: &str, usual: Option<u64>) -> Result<(&'a str, u64)> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        self.special(name, usual)?
            .ok_or_else(|| self.file.wrong(&key, "missing, or the id of no token", "an id of a token"))
    }

    fn flag(&self, name: &str, usual: bool) -> Result<bool> {
        Ok(self.file.bool(&format!("tokenizer.ggml.{name}"))?.unwrap_or(usual))
    }
}

/// WordPiece: GGUF writes `▁` before words and nothing before their other pieces.
pub(super) fn word_piece(file: &GgufFile) -> Result<TokenizerText> {
    let tokens = Tokens::read(file)?;
    let (mut vocab, mut added) = (Map::new(), Vec::new());
    for (id, &text) in tokens.texts.iter().enumerate() {
        let kind = tokens.kind(id);
        if text.is_empty() || kind == kind::UNUSED {
            continue;
        }
        // Markup stands as it is.
        let markup = text.starts_with('[') && text.ends_with(']') && text.len() > 2;
        let own = match kind {
            kind::CONTROL | kind::UNKNOWN => text.to_owned(),
            _ if markup => text.to_owned(),
            _ => text.strip_prefix(SPACE).map_or_else(|| format!("{INNER}{text}"), str::to_owned),
        };
        if matches!(kind, kind::CONTROL | kind::UNKNOWN | kind::USER_DEFINED) {
            added.push(json!({ "id": id, "content": own, "special": kind != kind::USER_DEFINED }));
        }
        // Where two tokens have one text, only the first can be reached.
        vocab.entry(own).or_insert(id.into());
    }
    // Older files do not say it. Vocabularies of lowered texts have no capitals.
    let capitals = || {
        let mut words = (0..tokens.texts.len()).filter(|&id| tokens.kind(id) == kind::NORMAL);
        words.any(|id| tokens.texts[id].chars().any(|c| c.is_ascii_uppercase()))
    };
    let lowercase = match file.bool("tokenizer.ggml.normalizer.lowercase")? {
        Some(lowercase) => lowercase,
        None => !capitals(),
    };
    let accents = tokens.flag("normalizer.strip_accents", lowercase)?;
    let unk = tokens.needed("unknown", Some(100))?.0;
    let begin = match tokens.flag("add_bos_token", true)? {
        true => Some(tokens.needed("cls", None).or_else(|_| tokens.needed("bos", Some(101)))?),
        false => None,
    };
    let end = match tokens.flag("add_sep_token", true)? || tokens.flag("add_eos_token", false)? {
        true => Some(tokens.needed("seperator", Some(102))?),
        false => None,
    };
    let value = json!({
        "added_tokens": added,
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": accents, "lowercase": lowercase },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": around(begin, end, Pair::Types),
        "decoder": { "type": "WordPiece", "prefix": INNER, "cleanup": true },
        "model": { "type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": INNER,
            "max_input_chars_per_word": 100, "vocab": vocab },
    });
    let usual = [Some(0), Some(103)];
    hugging_face::read_value(file.path(), &value, &config(&tokens, usual)?)
}

/// Unigram: tokens with scores, and SentencePiece's map of characters.
pub(super) fn unigram(file: &GgufFile) -> Result<TokenizerText> {
    let tokens = Tokens::read(file)?;
    let Some(scores) = per_token(file, "tokenizer.ggml.scores", tokens.texts.len())? else {
        return Err(file.wrong("tokenizer.ggml.scores", "missing", "a list of one score per token"));
    };
    let encoder = file.text("general.architecture")? == Some("bert");
    // Converters of encoders write another setting there; their tokenizers always cut words at white space.
    if !encoder && !tokens.flag("remove_extra_whitespaces", false)? {
        return Err(ImportError::unsupported(
            file.path(),
            "key `tokenizer.ggml.remove_extra_whitespaces`",
            "repeated spaces that are kept are not read for this kind of tokenizer",
            "Take the original model as safetensors.",
        ));
    }
    let mask = tokens.special("mask", None)?.map(|(_, id)| id);
    let (mut vocab, mut added, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (id, (&text, &score)) in tokens.texts.iter().zip(&scores).enumerate() {
        let kind = tokens.kind(id);
        bytes += usize::from(kind == kind::BYTE);
        // Scores of other tokens are marks of converters.
        let scored = matches!(kind, kind::NORMAL | kind::BYTE);
        vocab.push(json!([text, if scored { score } else { 0.0 }]));
        if matches!(kind, kind::UNKNOWN | kind::CONTROL | kind::USER_DEFINED) && !text.is_empty() {
            let special = kind != kind::USER_DEFINED;
            added.push(json!({ "id": id, "content": text, "special": special, "lstrip": mask == Some(id as u64) }));
        }
    }
    let marked = (0..tokens.texts.len()).find(|&id| tokens.kind(id) == kind::UNKNOWN);
    let unk = tokens.needed("unknown", Some(marked.map_or(2, |id| id as u64)))?.1;
    let begin = match tokens.flag("add_bos_token", false)? {
        true => Some(tokens.needed("bos", None)?),
        false => None,
    };
    let end = match tokens.flag("add_eos_token", true)? {
        true => Some(tokens.needed("eos", Some(1))?),
        false => None,
    };
    let prefix = if tokens.flag("add_space_prefix", true)? { "always" } else { "never" };
    let value = json!({
        "added_tokens": added,
        "normalizer": charsmap(file)?,
        "pre_tokenizer": metaspace(true, prefix, true),
        "post_processor": around(begin, end, if begin.is_some() { Pair::TwoEnds } else { Pair::OneEnd }),
        "decoder": metaspace(false, prefix, true),
        "model": { "type": "Unigram", "unk_id": unk, "byte_fallback": bytes == 256, "vocab": vocab },
    });
    let mut made = hugging_face::read_value(file.path(), &value, &config(&tokens, [Some(0), None])?)?;
    for id in tokens.fillers() {
        if let Some(text) = made.vocab.tokens.get_mut(id) {
            *text = None;
        }
    }
    while made.vocab.tokens.last().is_some_and(Option::is_none) {
        made.vocab.tokens.pop();
    }
    if let Some(scores) = &mut made.vocab.scores {
        scores.truncate(made.vocab.tokens.len());
    }
    Ok(made)
}

/// The normaliser of a map of characters, null where the file has none.
fn charsmap(file: &GgufFile) -> Result<Value> {
    let key = "tokenizer.ggml.precompiled_charsmap";
    let Some(list) = file.numbers(key)?.filter(|list| !list.is_empty()) else { return Ok(Value::Null) };
    let byte = |&x: &f64| match x {
        // Signed bytes count downwards.
        x if x.fract() == 0.0 && (-128.0..256.0).contains(&x) => Some((x as i16).to_le_bytes()[0]),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = list.iter().map(byte).collect();
    let Some(bytes) = bytes else {
        return Err(file.wrong(key, "a list of larger numbers", "a list of bytes"));
    };
    Ok(json!({ "type": "Precompiled", "precompiled_charsmap": base64::encode(bytes) }))
}

/// What stands between two texts.
enum Pair {
    /// The end; the second text and what follows have type 1.
    Types,
    /// The end.
    OneEnd,
    /// The end, twice.
    TwoEnds,
}

/// The post-processor that puts tokens around a text, and around two; null where there are none.
fn around<'a>(begin: Option<(&'a str, u64)>, end: Option<(&'a str, u64)>, pair: Pair) -> Value {
    let of_type = u64::from(matches!(pair, Pair::Types));
    let part = |token: Option<(&'a str, u64)>, of_type: u64| token.map(|(text, _)| (text, of_type));
    let again = part(end, 0).filter(|_| matches!(pair, Pair::TwoEnds));
    let single = [part(begin, 0), Some(("$A", 0)), part(end, 0)];
    let two = single.into_iter().chain([again, Some(("$B", of_type)), part(end, of_type)]);
    let single: Vec<Part<'_>> = single.into_iter().flatten().collect();
    let two: Vec<Part<'_>> = two.flatten().collect();
    template(&single, &two, |text| begin.into_iter().chain(end).find(|(own, _)| *own == text).map(|(_, id)| id))
}

/// What `tokenizer_config.json` would say. `usual` holds the reader's ids of padding and mask.
fn config(tokens: &Tokens<'_>, usual: [Option<u64>; 2]) -> Result<Value> {
    let text = |name: &str, usual| Ok::<_, ImportError>(tokens.special(name, usual)?.map(|(text, _)| text));
    Ok(json!({
        "pad_token": text("padding", usual[0])?,
        "mask_token": text("mask", usual[1])?,
        "eos_token": text("eos", None)?,
    }))
}
