//! WordPiece and Unigram.

use serde_json::Value;
use tallow_format::Vocab;

use super::normalizer::prefix_settings;
use super::{Reader, Settings, describe, is_replace, put, type_of};
use crate::error::{Result, clip};

/// By what scores are multiplied where 65,536 loses something of them.
const FINE_SCALE: i64 = 1 << 40;
const SCALE: i64 = 1 << 16;
/// The greatest score, either way: with the fine scale it fits 64 bits.
pub(in super::super) const MOST_SCORE: f64 = (1 << 20) as f64;

impl<'a> Reader<'a> {
    /// WordPiece: words at white space and punctuation, longest matches in them.
    pub(super) fn word_piece(&self, model: &Value, vocab: &mut Vocab, warnings: &mut Vec<String>) -> Result<Settings> {
        self.tokens(model, vocab)?;
        self.added_tokens(vocab, warnings)?;
        let mut settings = vec![("type".to_owned(), Value::from("wordpiece"))];
        settings.extend(self.steps()?.settings());
        match self.parts("pre_tokenizer", "pretokenizers")?.as_slice() {
            [part] if type_of(part) == "BertPreTokenizer" => settings.push(("pre".to_owned(), "bert".into())),
            [] => return Err(self.unknown("pre_tokenizer", "WordPiece without a pre-tokenizer")),
            [part, ..] => return Err(self.unknown("pre_tokenizer", &describe(part))),
        }
        let unk = model["unk_token"].as_str().unwrap_or("[UNK]");
        if vocab.find(unk).is_none() {
            return Err(self.broken("model.unk_token", &format!("the vocabulary has no `{}`", clip(unk))));
        }
        settings.push(("unk_token".to_owned(), unk.into()));
        let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("##");
        if prefix != "##" {
            settings.push(("subword_prefix".to_owned(), prefix.into()));
        }
        match model.get("max_input_chars_per_word").map(Value::as_u64) {
            None | Some(Some(100)) => {}
            Some(Some(n)) if n <= 1 << 20 => settings.push(("max_word_chars".to_owned(), n.into())),
            Some(_) => return Err(self.broken("model.max_input_chars_per_word", "it is no number of characters")),
        }
        for part in self.parts("decoder", "decoders")? {
            let fine = type_of(part) == "WordPiece" && part["prefix"].as_str().unwrap_or("##") == prefix;
            if !fine {
                return Err(self.unknown("decoder", &describe(part)));
            }
            settings.push(("cleanup".to_owned(), self.flag(part, "cleanup", "decoder")?.into()));
        }
        Ok(settings)
    }

    /// Unigram: spaces become `▁`, and words the likeliest tokens by their scores.
    pub(super) fn unigram(&self, model: &Value, vocab: &mut Vocab, warnings: &mut Vec<String>) -> Result<Settings> {
        let scores = self.scored_tokens(model, vocab)?;
        let unk = model["unk_id"].as_u64().and_then(|id| vocab.tokens.get(id as usize)?.clone());
        let Some(unk) = unk else {
            return Err(self.unknown("model", "Unigram without a token for the unknown (`unk_id`)"));
        };
        self.added_tokens(vocab, warnings)?;
        let mut settings = vec![("type".to_owned(), Value::from("unigram"))];
        settings.extend(self.steps()?.settings());
        let (pre, prefix) = self.metaspace()?;
        settings.push(("pre".to_owned(), pre.into()));
        settings.extend(prefix_settings(prefix));
        settings.push(("unk_token".to_owned(), unk.into()));
        settings.push(("byte_fallback".to_owned(), self.flag(model, "byte_fallback", "model")?.into()));
        let (mut scores, scale) = scaled_scores(scores.into_iter());
        if let Some(scale) = scale {
            settings.push(("score_scale".to_owned(), scale.into()));
        }
        scores.resize(vocab.tokens.len(), 0);
        vocab.scores = Some(scores);
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
        Ok(settings)
    }

    /// A list of texts with scores; their places are their ids.
    fn scored_tokens(&self, model: &Value, vocab: &mut Vocab) -> Result<Vec<f64>> {
        let Some(list) = model["vocab"].as_array() else {
            return Err(self.broken("model.vocab", "it is missing or no list"));
        };
        let mut scores = Vec::with_capacity(list.len());
        for (id, entry) in list.iter().enumerate() {
            let score = entry[1].as_f64().filter(|score| score.abs() < MOST_SCORE);
            let (Some(text), Some(score)) = (entry[0].as_str(), score) else {
                let found = clip(&entry.to_string());
                return Err(
                    self.broken("model.vocab", &format!("entry {id} is {found}, and must be a text and a score"))
                );
            };
            put(&mut vocab.tokens, self.id(&id.into(), "model.vocab")?, text);
            scores.push(score);
        }
        Ok(scores)
    }

    /// The pre-tokenizer `Metaspace`, perhaps over words cut at white space; and where it puts a space before text.
    fn metaspace(&self) -> Result<(&'static str, Option<&'static str>)> {
        let parts = self.parts("pre_tokenizer", "pretokenizers")?;
        let (words, part) = match parts.as_slice() {
            [part] if type_of(part) == "Metaspace" => (false, part),
            [cut, part] if type_of(cut) == "WhitespaceSplit" && type_of(part) == "Metaspace" => (true, part),
            [] => return Err(self.unknown("pre_tokenizer", "Unigram without a pre-tokenizer")),
            [part, ..] => return Err(self.unknown("pre_tokenizer", &describe(part))),
        };
        let pre = match (words, part["split"].as_bool().unwrap_or(true)) {
            (false, true) => "metaspace",
            (false, false) => "metaspace_whole",
            (true, true) => "metaspace_words",
            // Words hold no space at which they could be split.
            (true, false) => "metaspace_words",
        };
        Ok((pre, self.metaspace_prefix(part)?))
    }
}

/// Scores as integers, and by what they are multiplied where that is not 65,536.
pub(in super::super) fn scaled_scores(scores: impl Iterator<Item = f64> + Clone) -> (Vec<i64>, Option<i64>) {
    let scaled = |scale: i64| scores.clone().map(move |score| score * scale as f64);
    let exact = scaled(SCALE).all(|score| score.fract() == 0.0);
    let scale = if exact { SCALE } else { FINE_SCALE };
    (scaled(scale).map(|score| score.round() as i64).collect(), (!exact).then_some(FINE_SCALE))
}
