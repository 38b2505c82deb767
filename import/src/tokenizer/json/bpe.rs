//! Byte-pair encoding of both kinds.

use std::collections::HashSet;

use serde_json::Value;
use tallow_format::vocab::{Merges, Vocab};

use super::super::pre::{self, Pre};
use super::normalizer::{Steps, prefix_settings};
use super::{Reader, Settings, describe, is_replace, type_of};
use crate::error::{Result, clip};

impl<'a> Reader<'a> {
    /// Either kind, told by the pre-tokenizer.
    pub(super) fn bpe(&self, model: &Value, vocab: &mut Vocab, warnings: &mut Vec<String>) -> Result<Settings> {
        self.check_bpe(model)?;
        self.tokens(model, vocab)?;
        self.added_tokens(vocab, warnings)?;
        vocab.merges = self.merges(model)?;
        self.check_merges(vocab)?;
        let whole_words = self.flag(model, "ignore_merges", "model")?;
        let pre = self.parts("pre_tokenizer", "pretokenizers")?;
        match pre.iter().any(|p| type_of(p) == "ByteLevel") {
            true => self.byte_level(&pre, model, whole_words),
            false => self.sentence_piece(&pre, model, whole_words, vocab),
        }
    }

    fn check_bpe(&self, model: &Value) -> Result<()> {
        for (key, neutral) in [("continuing_subword_prefix", "")] {
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
    fn byte_level(&self, pre: &[&'a Value], model: &Value, whole_words: bool) -> Result<Settings> {
        let steps = self.steps()?;
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
                "Split" if keeps_matches(part) => patterns.push(pre::CLIP),
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
        settings.extend(steps.settings());
        settings.push(("add_prefix_space".into(), prefix.into()));
        if let Some(end) = word_end(model) {
            settings.push(("word_end".into(), end.into()));
            // Bytes without a token are this one.
            settings.push(("unk_token".into(), model["unk_token"].as_str().unwrap_or_default().into()));
        }
        Ok(settings)
    }

    /// SentencePiece-type BPE: spaces become `▁`, words are not cut, unknown characters are spelt in bytes.
    fn sentence_piece(&self, pre: &[&'a Value], model: &Value, whole_words: bool, vocab: &Vocab) -> Result<Settings> {
        if whole_words {
            return Err(self.unknown("model", "`ignore_merges` without a byte-level pre-tokenizer"));
        }
        if let Some(end) = word_end(model) {
            return Err(self.unknown("model", &format!("`end_of_word_suffix` = {}", clip(end))));
        }
        let mut steps = Steps::default();
        let (mut prefix, mut replaced) = (None, false);
        for part in self.parts("normalizer", "normalizers")? {
            match type_of(part) {
                "Prepend" if part["prepend"].as_str() == Some("▁") => prefix = Some("always"),
                "Replace" if is_replace(part, " ", "▁") => replaced = true,
                _ if !replaced && prefix.is_none() => self.step(part, &mut steps)?,
                _ => return Err(self.unknown("normalizer", &describe(part))),
            }
        }
        for part in pre {
            match type_of(part) {
                // Cuts at spaces, of which none are left.
                "Split" if replaced && part["pattern"]["String"].as_str() == Some(" ") => {}
                "Metaspace" if !replaced => {
                    if part["split"].as_bool().unwrap_or(true) && !cuts_change_nothing(vocab) {
                        return Err(
                            self.unknown("pre_tokenizer", "Metaspace with `split` = true, and tokens over words")
                        );
                    }
                    prefix = self.metaspace_prefix(part)?;
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
        settings.extend(steps.settings());
        settings.extend(prefix_settings(prefix));
        let fallback = self.flag(model, "byte_fallback", "model")?;
        settings.push(("byte_fallback".into(), fallback.into()));
        Ok(settings)
    }
}

/// Whether text is merged alike whether or not it is cut before each `▁`: no merge goes over such a place, and `▁` is a token,
/// so that what is unknown ends there.
fn cuts_change_nothing(vocab: &Vocab) -> bool {
    vocab.find("▁").is_some() && !vocab.merges.iter().any(|(_, right)| right.contains('▁'))
}

/// What stands behind the last byte of a word.
fn word_end(model: &Value) -> Option<&str> {
    model["end_of_word_suffix"].as_str().filter(|end| !end.is_empty())
}

/// Whether a part keeps what CLIP's pattern matches and nothing else; the texts of its special tokens may stand in front.
fn keeps_matches(part: &Value) -> bool {
    let pattern = part["pattern"]["Regex"].as_str().unwrap_or_default();
    let pattern = pattern.strip_prefix(r"<\|startoftext\|>|<\|endoftext\|>|").unwrap_or(pattern);
    pattern == pre::CLIP && part["behavior"] == "Removed" && part["invert"] == true
}
