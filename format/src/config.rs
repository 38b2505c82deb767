//! The `config` section: a typed view that keeps the text, comments and unknown keys.

use toml_edit::{DocumentMut, Item, Table};

use crate::error::{ErrorKind, FormatError, Result, list};
use crate::toml_text;

pub use crate::section::Section;

/// A parsed config.
#[derive(Clone, Debug)]
pub struct Config {
    document: DocumentMut,
    empty: Table,
}

/// How to pick the next token, from `[sampling]`, with `scale` applied. Absent keys have no effect on the choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingConfig {
    /// 0 is greedy, also the default.
    pub temperature: f32,
    /// Keep the likeliest tokens up to this mass; 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep tokens at least this fraction as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Divides (or, below 0, multiplies) the logits of tokens seen before; 1 leaves them.
    pub repetition_penalty: f32,
}

impl Default for SamplingConfig {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, repetition_penalty: 1.0 }
    }
}

/// How text becomes ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenizerKind {
    /// `bpe`: merges over characters, byte-level where the vocabulary is written so.
    Bpe,
    /// `byte_level_bpe`: merges over the byte-to-unicode alphabet.
    ByteLevelBpe,
    /// `sentencepiece_bpe`: merges over characters with `▁` for a space.
    SentencePieceBpe,
    /// `wordpiece`: longest match with `##` inside words.
    WordPiece,
    /// `unigram`: the likeliest split by scores.
    Unigram,
    /// `sentencepiece`: what SentencePiece itself cuts text into, with ids that other files give the pieces.
    SentencePiece,
}

impl TokenizerKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Bpe, Self::ByteLevelBpe, Self::SentencePieceBpe, Self::WordPiece, Self::Unigram, Self::SentencePiece];

    /// The value of `type` in `[tokenizer]`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpe => "bpe",
            Self::ByteLevelBpe => "byte_level_bpe",
            Self::SentencePieceBpe => "sentencepiece_bpe",
            Self::WordPiece => "wordpiece",
            Self::Unigram => "unigram",
            Self::SentencePiece => "sentencepiece",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// `[tokenizer]`, apart from the ids. Absent keys are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerConfig {
    /// `type`.
    pub kind: Option<TokenizerKind>,
    /// The name of the pre-tokeniser, as in `qwen2`.
    pub pre: Option<String>,
    /// A regular expression that splits text before merging.
    pub pattern: Option<String>,
    /// Put the begin token before text.
    pub add_bos: Option<bool>,
    /// Put the end token after text.
    pub add_eos: Option<bool>,
    /// Put a space before text.
    pub add_prefix_space: Option<bool>,
    /// Spell unknown characters as byte tokens.
    pub byte_fallback: Option<bool>,
    /// The name of the normaliser.
    pub normalizer: Option<String>,
    /// The text of an end token, to be looked up in the vocabulary.
    pub eos_token: Option<String>,
    /// The text of the begin token.
    pub bos_token: Option<String>,
    /// The text of the token for what the vocabulary does not hold.
    pub unk_token: Option<String>,
    /// The text of the padding token.
    pub pad_token: Option<String>,
    /// The text of the token that stands for one to be guessed.
    pub mask_token: Option<String>,
    /// For the step `precompiled` of the normaliser: a character map as SentencePiece stores it, in base64.
    pub charsmap: Option<String>,
    /// Where [`TokenizerConfig::add_prefix_space`] puts its space: `always`, before every stretch of text between
    /// verbatim tokens, `missing`, before those that begin with none, or `first`, of these before the first alone.
    pub prefix_space: Option<String>,
    /// For byte-level merges: what stands behind the last byte of a word, as `</w>`.
    pub word_end: Option<String>,
    /// For `wordpiece`: what begins a token inside a word.
    pub subword_prefix: Option<String>,
    /// For `wordpiece`: a word of more characters is unknown.
    pub max_word_chars: Option<usize>,
    /// For `wordpiece`: whether decoding takes the spaces before punctuation away.
    pub cleanup: Option<bool>,
    /// For `unigram` and `sentencepiece`: by what scores are divided.
    pub score_scale: Option<u64>,
    /// What encoding makes of a text: texts of tokens, and `$A` for the text.
    pub template: Option<Vec<String>>,
    /// What encoding makes of two texts, `$A` and `$B`.
    pub pair_template: Option<Vec<String>>,
    /// The most tokens of a text, those of the template included.
    pub max_length: Option<usize>,
    /// For `sentencepiece`: `unigram` or `bpe`.
    pub algorithm: Option<String>,
    /// For `sentencepiece`: spaces at the ends and repeated ones go.
    pub single_spaces: Option<bool>,
    /// For `sentencepiece`: `>>xx<<` at the beginning of a text is one token.
    pub leading_code: Option<bool>,
    /// The tokens of languages, of which the one in the template gives way to that of the source.
    pub languages: Option<Vec<String>>,
    /// The language of texts unless a caller says another: one of `languages`.
    pub source_language: Option<String>,
    /// The language to write unless a caller says another: one of `languages`.
    pub target_language: Option<String>,
}

impl Config {
    /// Parses the text of the section. Errors name the line of `text`.
    pub fn parse(text: &str) -> Result<Self> {
        let config = Self { document: toml_text::parse(text)?, empty: Table::new() };
        let root = config.root();
        root.str("model_type")?;
        for key in ["architecture", "tokenizer", "sampling", "lineage"] {
            root.table(key)?;
        }
        Ok(config)
    }

    /// The text, with comments and order as they were read.
    pub fn to_text(&self) -> String {
        self.document.to_string()
    }

    /// The document.
    pub fn document(&self) -> &DocumentMut {
        &self.document
    }

    /// The document, to be edited.
    pub fn document_mut(&mut self) -> &mut DocumentMut {
        &mut self.document
    }

    /// The key by which a family is chosen; empty where the config has none.
    pub fn model_type(&self) -> &str {
        self.document.get("model_type").and_then(Item::as_str).unwrap_or_default()
    }

    /// The keys outside any table.
    pub fn root(&self) -> Section<'_> {
        Section::new("", self.document.as_table())
    }

    /// `[architecture]`: the tower that produces the output. Empty where the config has none.
    pub fn architecture(&self) -> Section<'_> {
        self.or_empty("architecture")
    }

    /// A table by its dotted name, as in `architecture.vision`.
    pub fn section(&self, dotted: &str) -> Option<Section<'_>> {
        let mut item = self.document.as_item();
        for key in dotted.split('.') {
            item = item.get(key)?;
        }
        Some(Section::new(dotted, item.as_table_like()?))
    }

    fn or_empty(&self, name: &str) -> Section<'_> {
        self.section(name).unwrap_or_else(|| Section::new(name, &self.empty))
    }

    /// `[sampling]`. With a `scale` key integers are divided by it; numbers written with a point are the value itself.
    pub fn sampling(&self) -> Result<SamplingConfig> {
        self.sampling_with_unread().map(|(sampling, _)| sampling)
    }

    /// As [`Config::sampling`], with the keys that have no effect.
    pub fn sampling_with_unread(&self) -> Result<(SamplingConfig, Vec<String>)> {
        let section = self.or_empty("sampling");
        let default = SamplingConfig::default();
        let scale = section.f64("scale")?;
        if scale.is_some_and(|s| s <= 0.0) {
            return Err(section.invalid("scale", "0 or less", "a number above 0, such as 1000"));
        }
        let scaled = |key: &str, default: f32, low: f64, high: f64| -> Result<f32> {
            let Some(value) = section.f64(key)? else {
                return Ok(default);
            };
            let integer = section.item(key).is_some_and(Item::is_integer);
            let value = match scale {
                Some(scale) if integer => value / scale,
                _ => value,
            };
            if value < low || value > high {
                let error = section.invalid(key, &value.to_string(), &format!("between {low} and {high}"));
                return Err(match scale {
                    None if integer => error.cure("Add `scale = 1000` if the numbers are per-mille"),
                    _ => error,
                });
            }
            Ok(value as f32)
        };
        let sampling = SamplingConfig {
            temperature: scaled("temperature", default.temperature, 0.0, 100.0)?,
            top_p: scaled("top_p", default.top_p, 0.0, 1.0)?,
            min_p: scaled("min_p", default.min_p, 0.0, 1.0)?,
            repetition_penalty: scaled("repetition_penalty", default.repetition_penalty, 0.0, 100.0)?,
            top_k: match section.u64("top_k")? {
                None => default.top_k,
                Some(k) => {
                    u32::try_from(k).map_err(|_| section.invalid("top_k", &k.to_string(), "a number of tokens"))?
                }
            },
        };
        Ok((sampling, section.unread()))
    }

    /// Every id that ends a sequence, from all the keys that say so, in the order of the file and without repeats.
    /// `eos_token`, which is text, needs the vocabulary: see [`crate::ModelFile::end_ids`].
    pub fn end_ids(&self) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for section in self.id_sections() {
            for key in ["eos_token_ids", "eos_id", "eos_ids", "eos_token_id"] {
                for id in section.u64s(key)?.unwrap_or_default() {
                    let id = as_id(&section, key, id)?;
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
            }
        }
        Ok(ids)
    }

    /// The id of the begin token.
    pub fn bos_id(&self) -> Result<Option<u32>> {
        self.id(&["bos_id", "bos_token_id"])
    }

    /// The id of the padding token.
    pub fn pad_id(&self) -> Result<Option<u32>> {
        self.id(&["pad_id", "pad_token_id"])
    }

    fn id_sections(&self) -> [Section<'_>; 3] {
        [self.or_empty("tokenizer"), self.architecture(), self.root()]
    }

    fn id(&self, keys: &[&str]) -> Result<Option<u32>> {
        for section in self.id_sections() {
            for key in keys {
                if let Some(id) = section.u64(key)? {
                    return as_id(&section, key, id).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// `[tokenizer]`.
    pub fn tokenizer(&self) -> Result<TokenizerConfig> {
        let section = self.or_empty("tokenizer");
        let text = |key| Ok::<_, FormatError>(section.str(key)?.map(str::to_owned));
        let kind = match section.str("type")? {
            None => None,
            Some(name) => Some(TokenizerKind::from_name(name).ok_or_else(|| {
                FormatError::new(ErrorKind::Unsupported, format!("`tokenizer.type` is `{name}`, which is not known"))
                    .cure(format!("Known are {}", list(&TokenizerKind::ALL.map(TokenizerKind::name), 9)))
            })?),
        };
        Ok(TokenizerConfig {
            kind,
            pre: text("pre")?,
            pattern: text("pattern")?,
            add_bos: section.bool("add_bos")?,
            add_eos: section.bool("add_eos")?,
            add_prefix_space: section.bool("add_prefix_space")?,
            byte_fallback: section.bool("byte_fallback")?,
            normalizer: text("normalizer")?,
            eos_token: text("eos_token")?,
            bos_token: text("bos_token")?,
            unk_token: text("unk_token")?,
            pad_token: text("pad_token")?,
            mask_token: text("mask_token")?,
            charsmap: text("charsmap")?,
            prefix_space: text("prefix_space")?,
            word_end: text("word_end")?,
            subword_prefix: text("subword_prefix")?,
            max_word_chars: section.usize("max_word_chars")?,
            cleanup: section.bool("cleanup")?,
            score_scale: section.u64("score_scale")?,
            template: section.strings("template")?,
            pair_template: section.strings("pair_template")?,
            max_length: section.usize("max_length")?,
            algorithm: text("algorithm")?,
            single_spaces: section.bool("single_spaces")?,
            leading_code: section.bool("leading_code")?,
            languages: section.strings("languages")?,
            source_language: text("source_language")?,
            target_language: text("target_language")?,
        })
    }

    /// Whether the numbers are written in the integer conventions: an ε of at least 1, or a `scale` for sampling.
    pub fn uses_integer_conventions(&self) -> bool {
        let number = |item: &Item| item.as_float().or_else(|| item.as_integer().map(|n| n as f64));
        let epsilon = |table: &dyn toml_edit::TableLike| {
            let mut named = table.iter().filter(|(key, _)| key.ends_with("eps") || key.ends_with("epsilon"));
            named.any(|(_, item)| number(item).is_some_and(|value| value >= 1.0))
        };
        let towers = self.document.get("architecture").and_then(Item::as_table_like);
        let any_epsilon = towers
            .is_some_and(|root| epsilon(root) || root.iter().filter_map(|(_, item)| item.as_table_like()).any(epsilon));
        let sampling = self.document.get("sampling").and_then(Item::as_table_like);
        any_epsilon || sampling.is_some_and(|s| s.contains_key("scale"))
    }
}

fn as_id(section: &Section<'_>, key: &str, id: u64) -> Result<u32> {
    u32::try_from(id).map_err(|_| section.invalid(key, &id.to_string(), "a token id"))
}

/// An ε as it is written: the integer 1/ε where its reciprocal gives the same f32, else the number itself.
pub fn epsilon_value(epsilon: f64) -> toml_edit::Value {
    let inverse = (1.0 / epsilon).round();
    let exact = (1.0..=1e15).contains(&inverse) && ((1.0 / inverse) as f32) == (epsilon as f32);
    if exact { (inverse as i64).into() } else { epsilon.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_reads_both_conventions() {
        let read = |text: &str| Config::parse(text).unwrap().sampling();
        let integers = read("[sampling]\ntemperature = 700\ntop_p = 900\ntop_k = 20\nscale = 1000\n").unwrap();
        let floats = read("[sampling]\ntemperature = 0.7\ntop_p = 0.9\ntop_k = 20\n").unwrap();
        let mixed = read("[sampling]\ntemperature = 0.7\ntop_p = 900\ntop_k = 20\nscale = 1000\n").unwrap();
        assert_eq!(integers, floats);
        assert_eq!(integers, mixed);
        assert_eq!((integers.temperature, integers.top_p, integers.top_k), (0.7, 0.9, 20));
        assert_eq!(read("").unwrap(), SamplingConfig::default());
        assert_eq!(read("[sampling]\ntemperature = 1\n").unwrap().temperature, 1.0);
        let error = read("[sampling]\ntop_p = 900\n").unwrap_err().to_string();
        assert!(error.contains("`sampling.top_p` is 900") && error.contains("scale = 1000"), "{error}");
        let error = read("[sampling]\ntop_p = 900\nscale = 0\n").unwrap_err().to_string();
        assert!(error.contains("`sampling.scale`"), "{error}");
        let config = Config::parse("[sampling]\ntypical_p = 0.5\n").unwrap();
        assert_eq!(config.sampling_with_unread().unwrap().1, ["typical_p"]);
    }

    #[test]
    fn ids_under_all_their_names_are_united() {
        let config = Config::parse(
            "eos_token_id = 9\n[tokenizer]\neos_token_ids = [5, 3, 5]\neos_id = 7\nbos_token_id = 1\npad_id = 2\n[architecture]\neos_token_id = [3, 4]\n",
        )
        .unwrap();
        assert_eq!(config.end_ids().unwrap(), [5, 3, 7, 4, 9]);
        assert_eq!(config.bos_id().unwrap(), Some(1));
        assert_eq!(config.pad_id().unwrap(), Some(2));
        let error = Config::parse("[tokenizer]\neos_id = 5000000000\n").unwrap().end_ids().unwrap_err();
        assert!(error.to_string().contains("`tokenizer.eos_id` is 5000000000"), "{error}");
    }

    #[test]
    fn tokenizer_kinds_are_checked() {
        let config =
            Config::parse("[tokenizer]\ntype = \"wordpiece\"\nadd_bos = true\neos_token = \"</s>\"\n").unwrap();
        let tokenizer = config.tokenizer().unwrap();
        assert_eq!(tokenizer.kind, Some(TokenizerKind::WordPiece));
        assert_eq!(tokenizer.add_bos, Some(true));
        assert_eq!(tokenizer.eos_token.as_deref(), Some("</s>"));
        let error = Config::parse("[tokenizer]\ntype = \"rwkv\"\n").unwrap().tokenizer().unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("`unigram`"), "{error}");
    }

    #[test]
    fn text_is_kept() {
        let text = "# c\nmodel_type = \"m\" # t\n\nmine = { b = 1, a = 2 }\n[architecture] # x\nk = 1_000\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.to_text(), text);
        assert_eq!(config.model_type(), "m");
        assert!(config.section("architecture.vision").is_none());
        assert!(Config::parse("architecture = 3\n").is_err());
        assert!(Config::parse("model_type = 3\n").is_err());
    }

    #[test]
    fn epsilon_is_written_as_an_integer_only_where_that_is_exact() {
        assert_eq!(epsilon_value(1e-6).as_integer(), Some(1_000_000));
        assert_eq!(epsilon_value(1e-5).as_integer(), Some(100_000));
        assert_eq!(epsilon_value(1e-12).as_integer(), Some(1_000_000_000_000));
        assert_eq!(epsilon_value(0.3).as_float(), Some(0.3));
    }

    #[test]
    fn integer_conventions_are_seen() {
        let seen = |text: &str| Config::parse(text).unwrap().uses_integer_conventions();
        assert!(seen("[architecture]\nrms_norm_eps = 1000000\n"));
        assert!(seen("[architecture.vision]\nlayer_norm_eps = 100000\n"));
        assert!(seen("[sampling]\nscale = 1000\n"));
        assert!(!seen("[architecture]\nrms_norm_eps = 1e-6\n[sampling]\ntemperature = 0.7\n"));
    }
}
