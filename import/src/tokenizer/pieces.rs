//! A SentencePiece model alone (`spiece.model`, `tokenizer.model`, `spm.model`, `sentencepiece.bpe.model`): said in the words
//! of `tokenizer.json` as the library's class makes it of such a file, and read like that.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};
use tallow_format::PieceKind;

use super::json as hugging_face;
use super::specials::{Specials, Token};
use super::spm::Spm;
use super::value::{Added, Part, SAVE, begin_and_end, class_of, metaspace, pieces_decoder, unknown_class};
use super::{MAX_TOKEN_ID, TokenizerText};
use crate::error::{ImportError, Result, clip};

/// Files of such models, in the order in which they are looked for.
pub(super) const FILES: [&str; 4] = ["spiece.model", "tokenizer.model", "spm.model", "sentencepiece.bpe.model"];

/// The classes of types whose folders do not name one.
const TYPES: [(&str, &[&str]); 7] = [
    ("T5Tokenizer", &["t5", "mt5"]),
    ("XLMRobertaTokenizer", &["xlm-roberta"]),
    ("MBartTokenizer", &["mbart"]),
    ("DebertaV2Tokenizer", &["deberta-v2"]),
    ("LlamaTokenizer", &["llama"]),
    ("GemmaTokenizer", &["gemma", "gemma2", "gemma3", "gemma3_text"]),
    (GENERIC, &GENERIC_TYPES),
];
/// The class that goes by the settings of the file.
const GENERIC: &str = "TokenizersBackend";
/// Types for which the library takes that class, whatever the folder says.
const GENERIC_TYPES: [&str; 6] = ["mistral", "mixtral", "phi3", "olmo2", "granite", "stablelm"];

/// Languages of mbart, in the order of their tokens, and those that mbart-50 has behind them.
const MBART: &str = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM \
                     ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN";
const MBART_50: &str = "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX \
                        sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

/// Special tokens of fairseq's models.
pub(super) const FAIRSEQ: [(&str, &str); 7] = [
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("unk_token", "<unk>"),
    ("sep_token", "</s>"),
    ("pad_token", "<pad>"),
    ("cls_token", "<s>"),
    ("mask_token", "<mask>"),
];
const T5: [(&str, &str); 3] = [("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")];
const DEBERTA: [(&str, &str); 7] = [
    ("bos_token", "[CLS]"),
    ("eos_token", "[SEP]"),
    ("unk_token", "[UNK]"),
    ("sep_token", "[SEP]"),
    ("pad_token", "[PAD]"),
    ("cls_token", "[CLS]"),
    ("mask_token", "[MASK]"),
];
const LLAMA: [(&str, &str); 3] = [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")];
const GEMMA: [(&str, &str); 5] = [
    ("bos_token", "<bos>"),
    ("eos_token", "<eos>"),
    ("unk_token", "<unk>"),
    ("pad_token", "<pad>"),
    ("mask_token", "<mask>"),
];

/// Whether a class reads such a file alone.
pub(super) fn reads(class: &str) -> bool {
    let class = class.strip_suffix("Fast").unwrap_or(class);
    class != GENERIC && (class == "MBart50Tokenizer" || TYPES.iter().any(|(name, _)| *name == class))
}

/// The tokenizer of a folder that has the file `name`.
pub(super) fn read(folder: &Path, name: &str, model_type: &str) -> Result<TokenizerText> {
    let specials = Specials::read(folder)?;
    let named = class_of(&specials, model_type, &TYPES, name)?;
    let class = if GENERIC_TYPES.contains(&model_type) { GENERIC } else { named.as_str() };
    let make = match class {
        "T5Tokenizer" | "MT5Tokenizer" => t5,
        "XLMRobertaTokenizer" => xlm_roberta,
        "MBartTokenizer" => mbart,
        "MBart50Tokenizer" => mbart_50,
        "DebertaV2Tokenizer" => deberta_v2,
        "LlamaTokenizer" => llama,
        "GemmaTokenizer" => gemma,
        GENERIC => generic,
        other => return Err(unknown_class(&specials, other, name)),
    };
    let path = folder.join(name);
    let mut source = Source { spm: Spm::read(&path)?, specials };
    let (value, usual) = make(&mut source)?;
    hugging_face::read_value(&path, &value, &source.specials.config(usual))
}

/// Pieces with their scores, by their ids.
type Scored = Vec<(String, f32)>;
/// The special tokens of a class, and the value that it makes.
type Made = Result<(Value, &'static [(&'static str, &'static str)])>;

/// The files of a folder.
struct Source {
    spm: Spm,
    specials: Specials,
}

impl Source {
    /// Pieces with their scores.
    fn pieces(&self) -> Scored {
        self.spm.pieces.iter().map(|(text, score, _)| (text.clone(), *score)).collect()
    }

    /// An error unless the model is of the kind that its class makes of it.
    fn check(&self, merges: bool, class: &str) -> Result<()> {
        if self.spm.merges == merges {
            return Ok(());
        }
        let kind = if self.spm.merges { "bpe" } else { "unigram" };
        let cause = format!("a model of type `{kind}` is not read for class `{class}`");
        Err(ImportError::unsupported(&self.spm.path, "`trainer_spec.model_type`", cause, SAVE))
    }

    /// Verbatim tokens: pieces that are markup or whole words, then those of the folder and of the class.
    fn added(&self, vocab: &[(String, f32)], usual: &[(&str, &str)]) -> Result<Added> {
        let mut added = Added::new(vocab.iter().map(|(text, _)| text.as_str()).zip(0..));
        let named: HashSet<String> = self.specials.all(usual)?.into_iter().map(|token| token.text).collect();
        for (text, _, kind) in &self.spm.pieces {
            if matches!(kind, PieceKind::Control | PieceKind::User) && added.id(text).is_some() {
                let special = *kind == PieceKind::Control || named.contains(text);
                added.add(&Token { special, ..Token::special(text) });
            }
        }
        added.add_all(&self.specials, usual)?;
        Ok(added)
    }

    /// The normaliser of the map of characters, with more steps behind.
    fn charsmap(&self, more: Vec<Value>) -> Value {
        let map = self.spm.charsmap().map(|map| json!({ "type": "Precompiled", "precompiled_charsmap": map }));
        json!({ "type": "Sequence", "normalizers": map.into_iter().chain(more).collect::<Vec<_>>() })
    }

    /// The text of a special token.
    fn text(&self, name: &str, usual: &[(&str, &str)]) -> Result<String> {
        self.specials.text_of(name, usual)
    }

    /// What stands around texts, of the tokens of `parts` that are there.
    fn around(&self, added: &Added, single: &[Part<'_>], pair: &[Part<'_>]) -> Result<Value> {
        added.around(&self.specials, single, pair)
    }

    /// A Unigram value.
    fn unigram(
        &self,
        vocab: &[(String, f32)],
        unk: usize,
        added: Added,
        normalizer: Value,
        pre: Value,
        around: Value,
    ) -> Value {
        let words = vocab.iter().map(|(text, score)| json!([text, f64::from(*score)])).collect::<Vec<_>>();
        json!({
            "added_tokens": added.entries(), "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": around,
            "decoder": metaspace(false, "always", true),
            "model": { "type": "Unigram", "unk_id": unk, "byte_fallback": false, "vocab": words },
        })
    }

    /// A model of merges: those of all pieces by their places, or of normal ones by their scores.
    fn merges(&self, by_score: bool, unk: Option<&str>) -> Value {
        let mut vocab = serde_json::Map::new();
        for (id, (text, _, _)) in self.spm.pieces.iter().enumerate() {
            vocab.insert(text.clone(), id.into());
        }
        let normal = |text: &str| -> bool {
            let id = vocab.get(text).and_then(Value::as_u64).and_then(|id| usize::try_from(id).ok());
            id.is_some_and(|id| !by_score || self.spm.pieces[id].2 == PieceKind::Normal)
        };
        let mut order: Vec<usize> = (0..self.spm.pieces.len()).filter(|&id| normal(&self.spm.pieces[id].0)).collect();
        if by_score {
            order.sort_by(|&a, &b| self.spm.pieces[b].1.total_cmp(&self.spm.pieces[a].1).then(a.cmp(&b)));
        }
        let mut merges = Vec::new();
        for id in order {
            let text = &self.spm.pieces[id].0;
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if normal(left) && normal(right) {
                    merges.push(json!([left, right]));
                }
            }
        }
        json!({ "type": "BPE", "unk_token": unk, "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": merges })
    }
}

fn t5(source: &mut Source) -> Made {
    source.check(false, "T5Tokenizer")?;
    let count = match source.specials.setting("extra_ids") {
        None => 100,
        Some(count) => count.as_u64().filter(|count| *count <= MAX_TOKEN_ID).ok_or_else(|| {
            source.specials.broken("extra_ids", format!("{} is no number of tokens", clip(&count.to_string())))
        })?,
    };
    let mut vocab = source.pieces();
    let extra: Vec<String> = (0..count).rev().map(|n| format!("<extra_id_{n}>")).collect();
    vocab.extend(extra.iter().map(|text| (text.clone(), 0.0)));
    let mut added = source.added(&vocab, &T5)?;
    extra.iter().for_each(|text| added.add(&Token::special(text)));
    let end = source.text("eos_token", &T5)?;
    let end = end.as_str();
    let around = source.around(&added, &[("$A", 0), (end, 0)], &[("$A", 0), (end, 0), ("$B", 0), (end, 0)])?;
    let normalizer = source.charsmap(Vec::new());
    Ok((source.unigram(&vocab, 2, added, normalizer, metaspace(true, "always", true), around), &T5))
}

/// Fairseq's vocabulary: four special tokens for the three of the file, then languages and the mask.
fn fairseq(source: &Source, languages: &[&str]) -> Result<Scored> {
    let mut vocab = Vec::new();
    for name in ["bos_token", "pad_token", "eos_token", "unk_token"] {
        vocab.push((source.text(name, &FAIRSEQ)?, 0.0));
    }
    vocab.extend(source.pieces().into_iter().skip(3));
    vocab.extend(languages.iter().map(|code| ((*code).to_owned(), 0.0)));
    vocab.push((source.text("mask_token", &FAIRSEQ)?, 0.0));
    Ok(vocab)
}

fn xlm_roberta(source: &mut Source) -> Made {
    source.check(false, "XLMRobertaTokenizer")?;
    let vocab = fairseq(source, &[])?;
    let added = source.added(&vocab, &FAIRSEQ)?;
    let (begin, end) = (source.text("bos_token", &FAIRSEQ)?, source.text("eos_token", &FAIRSEQ)?);
    let (begin, end) = ((begin.as_str(), 0), (end.as_str(), 0));
    let around = source.around(&added, &[begin, ("$A", 0), end], &[begin, ("$A", 0), end, end, ("$B", 0), end])?;
    let scheme = if source.specials.flag("add_prefix_space", true)? { "always" } else { "never" };
    let normalizer = source.charsmap(Vec::new());
    Ok((source.unigram(&vocab, 3, added, normalizer, metaspace(true, scheme, true), around), &FAIRSEQ))
}

/// mbart: a language behind a text. The library's class leaves the map of characters out.
fn mbart(source: &mut Source) -> Made {
    source.check(false, "MBartTokenizer")?;
    let codes: Vec<&str> = MBART.split(' ').collect();
    let Multilingual { vocab, added, language, end } = with_languages(source, &codes)?;
    let (language, end) = ((language.as_str(), 0), (end.as_str(), 0));
    let around = source.around(&added, &[("$A", 0), end, language], &[("$A", 0), ("$B", 0), end, language])?;
    Ok((source.unigram(&vocab, 3, added, Value::Null, metaspace(true, "always", true), around), &FAIRSEQ))
}

/// mbart-50: a language before a text.
fn mbart_50(source: &mut Source) -> Made {
    source.check(false, "MBart50Tokenizer")?;
    let codes: Vec<&str> = MBART.split(' ').chain(MBART_50.split(' ')).collect();
    let Multilingual { vocab, added, language, end } = with_languages(source, &codes)?;
    let (language, end) = ((language.as_str(), 0), (end.as_str(), 0));
    let around = source.around(&added, &[language, ("$A", 0), end], &[language, ("$A", 0), ("$B", 0), end])?;
    let single = json!({ "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": " " });
    let normalizer = source.charsmap(vec![single]);
    Ok((source.unigram(&vocab, 3, added, normalizer, metaspace(false, "always", true), around), &FAIRSEQ))
}

/// What models of several languages have.
struct Multilingual {
    vocab: Scored,
    added: Added,
    /// The token of the language that texts are in.
    language: String,
    end: String,
}

/// The vocabulary of fairseq with these languages.
fn with_languages(source: &Source, codes: &[&str]) -> Result<Multilingual> {
    let vocab = fairseq(source, codes)?;
    let mask = source.specials.named("mask_token", Some("<mask>"))?;
    let mut added = Added::new(vocab.iter().map(|(text, _)| text.as_str()).zip(0..));
    if let Some(mask) = mask {
        // The class takes white space before a mask along, unless the folder says what its flags are.
        let plain = source.specials.setting("mask_token").is_none_or(Value::is_string);
        added.add(&Token { lstrip: mask.lstrip || plain, ..mask });
    }
    codes.iter().for_each(|code| added.add(&Token::special(*code)));
    for (text, _, kind) in source.spm.pieces.iter().filter(|(_, _, kind)| *kind == PieceKind::User) {
        added.add(&Token { special: *kind == PieceKind::Control, ..Token::special(text) });
    }
    added.add_all(&source.specials, &FAIRSEQ)?;
    let language = source.specials.text("src_lang")?.unwrap_or("en_XX").to_owned();
    let end = source.text("eos_token", &FAIRSEQ)?;
    Ok(Multilingual { vocab, added, language, end })
}

fn deberta_v2(source: &mut Source) -> Made {
    source.check(false, "DebertaV2Tokenizer")?;
    if source.specials.flag("split_by_punct", false)? {
        let cause = "text that is cut at punctuation first is not read";
        return Err(ImportError::unsupported(&source.spm.path, "setting `split_by_punct`", cause, SAVE));
    }
    let vocab = source.pieces();
    let unk = source.text("unk_token", &DEBERTA)?;
    let unk = vocab.iter().position(|(text, score)| *text == unk && *score == 0.0).unwrap_or(1);
    let added = source.added(&vocab, &DEBERTA)?;
    let (cls, sep) = (source.text("cls_token", &DEBERTA)?, source.text("sep_token", &DEBERTA)?);
    let (cls, sep) = (cls.as_str(), sep.as_str());
    let single = [(cls, 0), ("$A", 0), (sep, 0)];
    let around = source.around(&added, &single, &[(cls, 0), ("$A", 0), (sep, 0), ("$B", 1), (sep, 1)])?;
    let mut steps = vec![
        json!({ "type": "Replace", "pattern": { "Regex": r"\s{2,}|[\n\r\t]" }, "content": " " }),
        json!({ "type": "NFC" }),
        json!({ "type": "Strip", "strip_left": false, "strip_right": true }),
    ];
    if source.specials.flag("do_lower_case", false)? {
        steps.insert(0, json!({ "type": "Lowercase" }));
    }
    let scheme = if source.specials.flag("add_prefix_space", true)? { "always" } else { "first" };
    let normalizer = json!({ "type": "Sequence", "normalizers": steps });
    Ok((source.unigram(&vocab, unk, added, normalizer, metaspace(false, scheme, true), around), &DEBERTA))
}

fn llama(source: &mut Source) -> Made {
    let prefix = source.specials.flag("add_prefix_space", true)?;
    let scheme = match (prefix, source.specials.flag("legacy", false)?) {
        (false, _) => "never",
        (true, true) => "always",
        (true, false) => "first",
    };
    source.check(true, "LlamaTokenizer")?;
    let added = source.added(&source.pieces(), &LLAMA)?;
    let around = begin_and_end(&source.specials, &added, &LLAMA)?;
    let value = json!({
        "added_tokens": added.entries(), "normalizer": null, "pre_tokenizer": metaspace(false, scheme, false),
        "post_processor": around, "decoder": pieces_decoder(prefix), "model": source.merges(false, None),
    });
    Ok((value, &LLAMA))
}

fn gemma(source: &mut Source) -> Made {
    source.check(true, "GemmaTokenizer")?;
    let added = source.added(&source.pieces(), &GEMMA)?;
    let around = begin_and_end(&source.specials, &added, &GEMMA)?;
    let value = json!({
        "added_tokens": added.entries(), "pre_tokenizer": null, "post_processor": around,
        "normalizer": { "type": "Replace", "pattern": { "String": " " }, "content": super::value::SPACE },
        "decoder": pieces_decoder(false), "model": source.merges(false, Some("<unk>")),
    });
    Ok((value, &GEMMA))
}

/// What the library makes of a file by its own settings: merges by scores.
fn generic(source: &mut Source) -> Made {
    source.check(true, GENERIC)?;
    let spm = &source.spm;
    let refused = [
        ("normalizer_spec.precompiled_charsmap", !spm.charsmap.is_empty()),
        ("normalizer_spec.remove_extra_whitespaces", spm.single_spaces),
        ("a user-defined piece", spm.pieces.iter().any(|(_, _, kind)| *kind == PieceKind::User)),
        ("trainer_spec.byte_fallback = false", !spm.byte_fallback),
    ];
    if let Some((place, _)) = refused.iter().find(|(_, is)| *is) {
        let cause = format!("it is not read for class `{GENERIC}`");
        return Err(ImportError::unsupported(&spm.path, format!("`{place}`"), cause, SAVE));
    }
    let added = source.added(&source.pieces(), &LLAMA)?;
    let around = begin_and_end(&source.specials, &added, &LLAMA)?;
    let spaces = json!({ "type": "Replace", "pattern": { "String": " " }, "content": super::value::SPACE });
    // Either before every stretch of text, or before the first.
    let (normalizer, pre) = match (spm.prefix, source.specials.flag("legacy", true)?) {
        (true, true) => {
            let steps = vec![json!({ "type": "Prepend", "prepend": super::value::SPACE }), spaces];
            (json!({ "type": "Sequence", "normalizers": steps }), Value::Null)
        }
        (true, false) => (Value::Null, metaspace(false, "first", false)),
        (false, _) => (spaces, Value::Null),
    };
    let value = json!({
        "added_tokens": added.entries(), "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": around,
        "decoder": pieces_decoder(spm.prefix), "model": source.merges(true, Some(&spm.pieces[spm.unk].0)),
    });
    Ok((value, &LLAMA))
}
