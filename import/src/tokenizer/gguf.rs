//! The tokenizer of a GGUF file.

mod pieces;

use std::collections::HashMap;

use serde_json::Value;
use tallow_format::vocab::{AddedToken, Merges, Vocab};

use super::{MAX_TOKEN_ID, TokenizerText, merges, pre};
use crate::config::Ids;
use crate::error::{ImportError, Result, clip};
use crate::gguf::GgufFile;

/// Token types of GGUF.
mod kind {
    pub const NORMAL: i64 = 1;
    pub const UNKNOWN: i64 = 2;
    pub const CONTROL: i64 = 3;
    pub const USER_DEFINED: i64 = 4;
    pub const UNUSED: i64 = 5;
    pub const BYTE: i64 = 6;
}

/// Texts of tokens that end a turn, where the file does not say so by id. Readers of GGUF go by the same texts.
const TURN_ENDS: [&str; 9] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
];

/// Reads the tokenizer of a file; `None` when it has none.
pub fn read(file: &GgufFile) -> Result<Option<TokenizerText>> {
    let model = file.text("tokenizer.ggml.model")?;
    let spm = match model {
        None | Some("no_vocab" | "none") => return Ok(None),
        Some("gpt2") => false,
        Some("llama" | "gemma4") => true,
        Some("bert") => return pieces::word_piece(file).map(Some),
        Some("t5") => return pieces::unigram(file).map(Some),
        Some(other) => {
            return Err(ImportError::unsupported(
                file.path(),
                "key `tokenizer.ggml.model`",
                format!("tokenizer `{}` is not read", clip(other)),
                "Tokenizers that are read: gpt2 (byte-level BPE), llama and gemma4 (SentencePiece BPE), bert (WordPiece) and t5 (Unigram).",
            ));
        }
    };
    let texts = tokens(file)?;
    let kinds = per_token(file, "tokenizer.ggml.token_type", texts.len())?;
    let kind_of = |id: usize| kinds.as_ref().map_or(kind::NORMAL, |k| k.get(id).map_or(kind::NORMAL, |&x| x as i64));
    let mut warnings = Vec::new();
    let mut vocab = Vocab { tokens: Vec::with_capacity(texts.len()), ..Vocab::default() };
    for (id, &text) in texts.iter().enumerate() {
        let kind = kind_of(id);
        // Fillers up to a round number: rows that no text stands for.
        if text.is_empty() || kind == kind::UNUSED {
            vocab.tokens.push(None);
            continue;
        }
        vocab.tokens.push(Some(text.to_owned()));
        if matches!(kind, kind::UNKNOWN | kind::CONTROL | kind::USER_DEFINED) {
            vocab.added.push(AddedToken {
                id: id as u32,
                text: text.to_owned(),
                special: kind != kind::USER_DEFINED,
                ..AddedToken::default()
            });
        }
    }
    while vocab.tokens.last().is_some_and(Option::is_none) {
        vocab.tokens.pop();
    }
    let mut settings: Vec<(String, Value)> = Vec::new();
    let mut set = |key: &str, value: Value| settings.push((key.to_owned(), value));
    let flag = |key: &str, default: bool| Ok::<bool, ImportError>(file.bool(key)?.unwrap_or(default));
    let begins;
    if spm {
        // Gemma 4 is of this type too, and has its merges listed.
        let listed = model == Some("gemma4");
        vocab.merges = if listed { listed_merges(file, &texts)? } else { spm_merges(file, &texts, &kind_of)? };
        let bytes = (0..256)
            .filter(|b| {
                let text = format!("<0x{b:02X}>");
                texts.iter().enumerate().any(|(id, t)| kind_of(id) == kind::BYTE && *t == text)
            })
            .count();
        set("type", "sentencepiece_bpe".into());
        begins = flag("tokenizer.ggml.add_bos_token", true)?;
        set("add_bos", begins.into());
        set("add_eos", flag("tokenizer.ggml.add_eos_token", false)?.into());
        set("add_prefix_space", flag("tokenizer.ggml.add_space_prefix", !listed)?.into());
        set("byte_fallback", (bytes == 256).into());
        if flag("tokenizer.ggml.remove_extra_whitespaces", false)? {
            return Err(ImportError::unsupported(
                file.path(),
                "key `tokenizer.ggml.remove_extra_whitespaces`",
                "removing repeated spaces from the text is not read",
                "Take the original model as safetensors.",
            ));
        }
    } else {
        vocab.merges = listed_merges(file, &texts)?;
        let name = file.text("tokenizer.ggml.pre")?;
        let name = match name {
            None | Some("") => {
                warnings.push(
                    "The file does not name its pre-tokeniser; `default` has been written, and text may be cut differently from the original."
                        .into(),
                );
                "default"
            }
            Some(name) => name,
        };
        let Some(known) = pre::from_gguf(name) else {
            return Err(ImportError::unsupported(
                file.path(),
                "key `tokenizer.ggml.pre`",
                format!("pre-tokeniser `{}` is not known", clip(name)),
                "Take the original model as safetensors: its tokenizer.json spells the pattern out.",
            ));
        };
        set("type", "byte_level_bpe".into());
        set("pre", known.into());
        begins = flag("tokenizer.ggml.add_bos_token", pre::begins_by_default(known))?;
        set("add_bos", begins.into());
        set("add_eos", flag("tokenizer.ggml.add_eos_token", false)?.into());
        set("add_prefix_space", flag("tokenizer.ggml.add_space_prefix", false)?.into());
    }
    let ids = ids(file, &texts, &kind_of, &mut warnings)?;
    if begins && ids.bos.is_none() {
        return Err(file.wrong("tokenizer.ggml.bos_token_id", "missing", "an id, as texts begin with it"));
    }
    Ok(Some(TokenizerText { vocab, settings, ids, warnings }))
}

/// The texts of all tokens.
fn tokens(file: &GgufFile) -> Result<Vec<&str>> {
    let Some(texts) = file.texts("tokenizer.ggml.tokens")? else {
        return Err(file.wrong("tokenizer.ggml.tokens", "missing", "a list of strings"));
    };
    if texts.len() as u64 > MAX_TOKEN_ID + 1 {
        return Err(file.wrong(
            "tokenizer.ggml.tokens",
            &format!("a list of {}", texts.len()),
            &format!("a list of at most {}", MAX_TOKEN_ID + 1),
        ));
    }
    Ok(texts)
}

/// A list of one number per token.
fn per_token(file: &GgufFile, key: &str, tokens: usize) -> Result<Option<Vec<f64>>> {
    let Some(list) = file.numbers(key)? else {
        return Ok(None);
    };
    if list.len() != tokens {
        return Err(file.wrong(
            key,
            &format!("a list of {}", list.len()),
            &format!("a list of {tokens}, one entry per token"),
        ));
    }
    Ok(Some(list))
}

fn spm_merges(file: &GgufFile, texts: &[&str], kind_of: &dyn Fn(usize) -> i64) -> Result<Merges> {
    let Some(scores) = per_token(file, "tokenizer.ggml.scores", texts.len())? else {
        return Err(file.wrong("tokenizer.ggml.scores", "missing", "a list of one score per token"));
    };
    if let Some(id) = scores.iter().position(|s| s.is_nan()) {
        return Err(file.wrong("tokenizer.ggml.scores", &format!("no number for token {id}"), "a score per token"));
    }
    let mut parts = HashMap::with_capacity(texts.len());
    let mut normal = Vec::with_capacity(texts.len());
    for (id, &text) in texts.iter().enumerate() {
        let kind = kind_of(id);
        if !text.is_empty() && kind != kind::UNUSED {
            parts.entry(text).or_insert(id as u32);
        }
        if kind == kind::NORMAL {
            normal.push((id as u32, text, scores[id] as f32));
        }
    }
    // Where two tokens have one text, only the first can be reached.
    normal.retain(|(id, text, _)| parts.get(text) == Some(id));
    merges::from_scores(&normal, &parts)
        .ok_or_else(|| file.wrong("tokenizer.ggml.tokens", "more than 4 GiB of merges", "less"))
}

fn listed_merges(file: &GgufFile, texts: &[&str]) -> Result<Merges> {
    let list = file.texts("tokenizer.ggml.merges")?.unwrap_or_default();
    let known: std::collections::HashSet<&str> = texts.iter().copied().collect();
    let mut merges = Merges::default();
    let mut joined = String::new();
    for (rank, &line) in list.iter().enumerate() {
        let bad = |what: &str| {
            file.wrong(
                "tokenizer.ggml.merges",
                &format!("`{}` at place {rank}, {what}", clip(line)),
                "two tokens with a space between, which together are a token",
            )
        };
        // The first character may be a space itself.
        let at = line
            .char_indices()
            .skip(1)
            .find(|(_, c)| *c == ' ')
            .map(|(i, _)| i)
            .ok_or_else(|| bad("which has no space"))?;
        let (left, right) = (&line[..at], &line[at + 1..]);
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        if right.is_empty() || !known.contains(left) || !known.contains(right) {
            return Err(bad("of which a part is no token"));
        }
        if !known.contains(joined.as_str()) {
            return Err(bad("whose result is no token"));
        }
        if !merges.push(left, right) {
            return Err(bad("at which the merges pass 4 GiB"));
        }
    }
    Ok(merges)
}

fn ids(file: &GgufFile, texts: &[&str], kind_of: &dyn Fn(usize) -> i64, warnings: &mut Vec<String>) -> Result<Ids> {
    let mut id = |key: &str| -> Result<Option<u32>> {
        let key = format!("tokenizer.ggml.{key}_token_id");
        match file.uint(&key)? {
            // Some writers put the largest number there for "none".
            Some(n) if n == u64::from(u32::MAX) => Ok(None),
            Some(n) if n >= texts.len() as u64 => {
                warnings.push(format!("`{key}` is {n}, and there are {} tokens; it has been left out.", texts.len()));
                Ok(None)
            }
            other => Ok(other.map(|n| n as u32)),
        }
    };
    let mut ids = Ids { bos: id("bos")?, pad: id("padding")?, unk: id("unknown")?, eos: Vec::new() };
    for key in ["eos", "eot", "eom"] {
        if let Some(n) = id(key)? {
            ids.add_eos(n);
        }
    }
    for (n, text) in texts.iter().enumerate() {
        if TURN_ENDS.contains(text) && matches!(kind_of(n), kind::CONTROL | kind::USER_DEFINED) {
            ids.add_eos(n as u32);
        }
    }
    Ok(ids)
}
