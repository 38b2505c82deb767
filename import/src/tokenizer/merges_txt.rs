//! `vocab.json` with `merges.txt`: byte-level merges, said in the words of `tokenizer.json` as the library's class makes them
//! of such files, and read like that.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::pieces::FAIRSEQ;
use super::specials::Specials;
use super::value::{Added, Part, begin_and_end, class_of, unknown_class};
use super::{TokenizerText, json as hugging_face, pre, vocab_json};
use crate::error::{ImportError, Result, clip};

/// The largest list of merges that is read.
const MAX_FILE: u64 = 256 << 20;

/// What a class makes of the files.
struct Class {
    /// Its names; that of older, faster forms has `Fast` behind.
    names: &'static [&'static str],
    /// Types whose folders do not name a class.
    types: &'static [&'static str],
    /// Its special tokens.
    usual: &'static [(&'static str, &'static str)],
    /// Normal form, and what else is done to text.
    form: Form,
    around: Around,
}

/// How text is normalised and cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Gpt2,
    /// The same after NFC.
    Neox,
    Qwen2,
    Clip,
}

/// What stands around a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    /// The begin and end tokens that settings ask for.
    Asked,
    /// These two tokens, and the second twice between two texts.
    Roberta(&'static str, &'static str),
    /// What the decoder of a model of speech begins with, and the end.
    Whisper,
}

const GPT2: [(&str, &str); 3] =
    [("bos_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>")];
const QWEN2: [(&str, &str); 3] =
    [("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>"), ("pad_token", "<|endoftext|>")];
const NEOX: [(&str, &str); 4] = [
    ("bos_token", "<|endoftext|>"),
    ("eos_token", "<|endoftext|>"),
    ("unk_token", "<|endoftext|>"),
    ("pad_token", "<|padding|>"),
];
const CLIP: [(&str, &str); 4] = [
    ("bos_token", "<|startoftext|>"),
    ("eos_token", "<|endoftext|>"),
    ("unk_token", "<|endoftext|>"),
    ("pad_token", "<|endoftext|>"),
];

const CLASSES: [Class; 6] = [
    Class {
        names: &["GPT2Tokenizer", "CodeGenTokenizer"],
        types: &["gpt2", "gpt_neo", "phi", "starcoder2"],
        usual: &GPT2,
        form: Form::Gpt2,
        around: Around::Asked,
    },
    Class { names: &["GPTNeoXTokenizer"], types: &["gpt_neox"], usual: &NEOX, form: Form::Neox, around: Around::Asked },
    Class {
        names: &["RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer", "MvpTokenizer"],
        types: &["roberta", "bart"],
        usual: &FAIRSEQ,
        form: Form::Gpt2,
        around: Around::Roberta("cls_token", "sep_token"),
    },
    Class {
        names: &["CLIPTokenizer"],
        types: &["clip", "clip_text_model"],
        usual: &CLIP,
        form: Form::Clip,
        around: Around::Roberta("bos_token", "eos_token"),
    },
    Class {
        names: &["Qwen2Tokenizer"],
        types: &["qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe"],
        usual: &QWEN2,
        form: Form::Qwen2,
        around: Around::Asked,
    },
    Class {
        names: &["WhisperTokenizer"],
        types: &["whisper"],
        usual: &GPT2,
        form: Form::Gpt2,
        around: Around::Whisper,
    },
];

/// The tokenizer of a folder that has both files.
pub(super) fn read(folder: &Path, model_type: &str) -> Result<TokenizerText> {
    let specials = Specials::read(folder)?;
    let types: Vec<(&str, &[&str])> = CLASSES.iter().map(|class| (class.names[0], class.types)).collect();
    let name = class_of(&specials, model_type, &types, "merges.txt")?;
    let Some(class) = CLASSES.iter().find(|class| class.names.contains(&name.as_str())) else {
        return Err(unknown_class(&specials, &name, "merges.txt"));
    };
    let vocab = vocab_json::read(&folder.join("vocab.json"))?;
    let path = folder.join("merges.txt");
    let merges = merges(&path)?;
    let value = class.value(&specials, vocab, merges)?;
    hugging_face::read_value(&path, &value, &specials.config(class.usual))
}

/// The pairs of `merges.txt`, one a line, with a space between. Errors: a line that is none.
fn merges(path: &Path) -> Result<Vec<Value>> {
    let bytes = crate::files::read(path, MAX_FILE, "a list of merges")?;
    if bytes.is_empty() {
        return Err(ImportError::malformed(path, "the file", "it is empty", "Download the file again."));
    }
    let broken = |place: String, cause: String| ImportError::malformed(path, place, cause, "Download the file again.");
    let text = std::str::from_utf8(&bytes)
        .map_err(|e| broken(format!("byte {}", e.valid_up_to()), format!("it is no UTF-8: {e}")))?;
    let mut merges = Vec::new();
    for (n, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() || line.starts_with("#version") {
            continue;
        }
        match line.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(' ') => {
                merges.push(json!([left, right]));
            }
            _ => {
                let cause = format!("`{}` is no pair of tokens with a space between", clip(line));
                return Err(broken(format!("line {}", n + 1), cause));
            }
        }
    }
    Ok(merges)
}

impl Class {
    fn value(&self, specials: &Specials, vocab: Map<String, Value>, merges: Vec<Value>) -> Result<Value> {
        let ids = vocab.iter().filter_map(|(text, id)| Some((text.as_str(), id.as_u64()?)));
        let mut added = Added::new(ids);
        added.add_all(specials, self.usual)?;
        let around = self.around(specials, &added)?;
        let prefix = specials.flag("add_prefix_space", false)? && self.form != Form::Clip;
        let level = |regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": prefix, "use_regex": regex });
        let split = |pattern: &str, behavior: &str, invert: bool| json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": behavior, "invert": invert });
        let nfc = json!({ "type": "NFC" });
        let (normalizer, pre) = match self.form {
            Form::Gpt2 => (Value::Null, vec![level(true)]),
            Form::Neox => (nfc, vec![level(true)]),
            Form::Qwen2 => (nfc, vec![split(pre::QWEN2, "Isolated", false), level(false)]),
            Form::Clip => {
                let spaces = json!({ "type": "Replace", "pattern": { "Regex": r"\s+" }, "content": " " });
                let steps = vec![nfc, spaces, json!({ "type": "Lowercase" })];
                let pre = vec![split(pre::CLIP, "Removed", true), level(true)];
                (json!({ "type": "Sequence", "normalizers": steps }), pre)
            }
        };
        let (end, unk) = match self.form {
            Form::Clip => ("</w>", specials.named("unk_token", Some("<|endoftext|>"))?.map(|token| token.text)),
            Form::Gpt2 | Form::Neox | Form::Qwen2 => ("", None),
        };
        Ok(json!({
            "added_tokens": added.entries(), "normalizer": normalizer,
            "pre_tokenizer": { "type": "Sequence", "pretokenizers": pre },
            "post_processor": around, "decoder": { "type": "ByteLevel" },
            "model": { "type": "BPE", "unk_token": unk, "continuing_subword_prefix": "", "end_of_word_suffix": end,
                "vocab": vocab, "merges": merges },
        }))
    }

    fn around(&self, specials: &Specials, added: &Added) -> Result<Value> {
        let token = |name: &str| -> Result<String> {
            let text = specials.text_of(name, self.usual)?;
            added.needed(specials, &text).map(|_| text)
        };
        match self.around {
            Around::Asked => begin_and_end(specials, added, self.usual),
            Around::Roberta(begin, end) => {
                let (begin, end) = (token(begin)?, token(end)?);
                Ok(
                    json!({ "type": "RobertaProcessing", "cls": [begin, added.id(&begin)], "sep": [end, added.id(&end)] }),
                )
            }
            Around::Whisper => whisper(specials, added, &token("eos_token")?),
        }
    }
}

/// What a text of whisper stands between.
fn whisper(specials: &Specials, added: &Added, end: &str) -> Result<Value> {
    for key in ["language", "task"] {
        if specials.setting(key).is_some() {
            let cause = "a choice in the tokenizer's files is not read";
            let cure = "Remove it, and give `--language` and `--task` to `tallow run`.";
            return Err(ImportError::unsupported(specials.folder(), format!("setting `{key}`"), cause, cure));
        }
    }
    let mut parts: Vec<Part<'_>> = vec![("<|startoftranscript|>", 0)];
    if !specials.flag("predict_timestamps", false)? {
        parts.push(("<|notimestamps|>", 0));
    }
    let single = [&parts[..], &[("$A", 0), (end, 0)]].concat();
    let pair = [&parts[..], &[("$A", 0), ("$B", 1), (end, 1)]].concat();
    added.around(specials, &single, &pair)
}
