//! Reads one table of a config: typed, range-checked, with each type's own defaults.

use super::FamilyError;
use super::decoder::Activation;
use super::seq2seq::GENERATION;
use tallow_format::Section;

/// No size in a config may be larger: products of three of them stay inside 64-bit integers in use.
const LARGEST: u64 = 1 << 24;
/// No model has more layers.
pub const MOST_LAYERS: u32 = 4096;

/// Settings that never change a result: training, bookkeeping, and ids that the tokenizer owns.
const HARMLESS: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "context_length",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "initializer_factor",
    "initializer_range",
    "is_encoder_decoder",
    "max_position_embeddings",
    "model_type",
    // Read wherever a scaling compares lengths; without one it says nothing.
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "resid_pdrop",
    "return_dict",
    "torch_dtype",
    "transformers_version",
    "unsloth_fixed",
    "use_cache",
];

/// Tables that describe other parts of a model than the decoder.
const OTHER_TOWERS: &[&str] = &["vision", "projector", "audio_encoder"];

/// The table that says how pictures become the input of a model, which no graph reads.
pub const PROCESSOR: &str = "processor";

/// A reader of one table for one type.
pub struct Settings<'a> {
    section: Section<'a>,
    model_type: &'static str,
    notes: Vec<String>,
    defaulted: Vec<String>,
    unread: Vec<String>,
}

impl<'a> Settings<'a> {
    /// A reader of `section` on behalf of `model_type`.
    pub fn new(section: Section<'a>, model_type: &'static str) -> Self {
        Settings { section, model_type, notes: Vec::new(), defaulted: Vec::new(), unread: Vec::new() }
    }

    /// The type on whose behalf this reads.
    pub fn model_type(&self) -> &'static str {
        self.model_type
    }

    /// Whether the key is present.
    pub fn contains(&self, key: &str) -> bool {
        self.section.contains(key)
    }

    /// Whether the table has no keys.
    pub fn is_empty(&self) -> bool {
        self.section.keys().is_empty()
    }

    /// A size of at least 1; the type's default where it is missing, which is remembered.
    pub fn size(&mut self, key: &str, default: u32) -> Result<u32, FamilyError> {
        match self.optional_size(key)? {
            Some(n) => Ok(n),
            None => {
                self.defaulted
                    .push(format!("`{key}` is not set, so it is {default}, the default of `{}`", self.model_type));
                Ok(default)
            }
        }
    }

    /// A size of at least 1, if it is there.
    pub fn optional_size(&self, key: &str) -> Result<Option<u32>, FamilyError> {
        match self.section.u64(key)? {
            None => Ok(None),
            Some(n) if (1..=LARGEST).contains(&n) => Ok(Some(n as u32)),
            Some(n) => Err(self.bad(key, n, format!("expected a size from 1 to {LARGEST}"), "Correct it")),
        }
    }

    /// A number that may be 0; the type's default where it is missing.
    pub fn count(&self, key: &str, default: u32) -> Result<u32, FamilyError> {
        match self.section.u64(key)? {
            None => Ok(default),
            Some(n) if n <= LARGEST => Ok(n as u32),
            Some(n) => Err(self.bad(key, n, format!("expected a number up to {LARGEST}"), "Correct it")),
        }
    }

    /// The number of layers, under its usual key.
    pub fn layers(&mut self, default: u32) -> Result<u32, FamilyError> {
        self.layers_under("num_hidden_layers", default)
    }

    /// The number of layers under a key.
    pub fn layers_under(&mut self, key: &str, default: u32) -> Result<u32, FamilyError> {
        match self.size(key, default)? {
            n if n <= MOST_LAYERS => Ok(n),
            n => Err(self.bad(key, n, format!("a model has at most {MOST_LAYERS} layers"), "Correct it")),
        }
    }

    /// The size of a head: the width over the number of heads, each with its key.
    pub fn head_dim(
        &self,
        (heads_key, heads): (&str, u32),
        (width_key, width): (&str, u32),
    ) -> Result<u32, FamilyError> {
        match width.is_multiple_of(heads) {
            true => Ok(width / heads),
            false => Err(self.bad(
                heads_key,
                heads,
                format!("it must divide `{width_key}` = {width}"),
                "Correct one of them",
            )),
        }
    }

    /// The id of a token.
    pub fn token_id(&self, key: &str) -> Result<Option<u32>, FamilyError> {
        match self.section.i64(key)? {
            None => Ok(None),
            Some(id) => match u32::try_from(id) {
                Ok(id) => Ok(Some(id)),
                Err(_) => Err(self.bad(key, id, "expected the id of a token", "Correct it")),
            },
        }
    }

    /// The activation under a key, or the default.
    pub fn activation(&self, key: &str, default: Activation) -> Result<Activation, FamilyError> {
        let Some(name) = self.text(key)? else { return Ok(default) };
        Activation::from_name(&name).ok_or_else(|| {
            let known: Vec<_> = Activation::NAMES.iter().map(|(n, _)| *n).collect();
            self.unsupported(
                key,
                format!("\"{}\"", name.chars().take(60).collect::<String>()),
                format!("known activations are {}", known.join(", ")),
                "Use a program or a graph section for another one",
            )
        })
    }

    /// A truth value.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, FamilyError> {
        Ok(self.section.bool(key)?.unwrap_or(default))
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<Option<String>, FamilyError> {
        Ok(self.section.str(key)?.map(|s| s.to_string()))
    }

    /// A number that is finite in single precision.
    pub fn number(&self, key: &str) -> Result<Option<f64>, FamilyError> {
        match self.section.f64(key)? {
            Some(x) if !(x as f32).is_finite() => {
                Err(self.bad(key, x, "expected a number that single precision holds", "Correct it"))
            }
            other => Ok(other),
        }
    }

    /// A number above 0, in single precision too.
    pub fn positive(&self, key: &str) -> Result<Option<f64>, FamilyError> {
        match self.number(key)? {
            Some(x) if x as f32 <= 0.0 => Err(self.bad(key, x, "expected a number above 0", "Correct it")),
            other => Ok(other),
        }
    }

    /// ε of a norm, in either notation.
    pub fn epsilon(&self, key: &str, default: f64) -> Result<f32, FamilyError> {
        let x = self.section.epsilon(key)?.unwrap_or(default);
        if !(x.is_finite() && x >= 0.0) {
            return Err(self.bad(key, x, "expected a number of at least 0", "Correct it"));
        }
        Ok(x as f32)
    }

    /// A multiplier; 1 does nothing.
    pub fn multiplier(&self, key: &str, default: f64) -> Result<f32, FamilyError> {
        Ok(self.number(key)?.unwrap_or(default) as f32)
    }

    /// The bound of a soft-cap; 0 switches it off.
    pub fn softcap(&self, key: &str, default: Option<f64>) -> Result<Option<f32>, FamilyError> {
        match self.number(key)?.or(default) {
            Some(x) if x < 0.0 => {
                Err(self.bad(key, x, "expected a number above 0, or 0 for no soft-cap", "Correct it"))
            }
            Some(x) if x > 0.0 => Ok(Some(x as f32)),
            Some(_) | None => Ok(None),
        }
    }

    /// A window in keys; 0 or less means none, which is how a config without nulls says so.
    pub fn window(&self, key: &str, default: Option<u32>) -> Result<Option<u32>, FamilyError> {
        match self.section.i64(key)? {
            None => Ok(default),
            Some(n) if n <= 0 => Ok(None),
            // A window past the largest size never hides a key.
            Some(n) => Ok(Some(u32::try_from(n).unwrap_or(u32::MAX))),
        }
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>, FamilyError> {
        Ok(self.section.strings(key)?.map(|list| list.into_iter().map(|s| s.to_string()).collect()))
    }

    /// A list of integers.
    pub fn integers(&self, key: &str) -> Result<Option<Vec<i64>>, FamilyError> {
        Ok(self.section.i64s(key)?)
    }

    /// A list of lists of integers; empty where it is missing.
    pub fn rows(&self, key: &str) -> Result<Vec<Vec<i64>>, FamilyError> {
        Ok(self.section.i64_rows(key)?.unwrap_or_default())
    }

    /// A list of pairs of a position and a token id.
    pub fn pairs(&self, key: &str) -> Result<Vec<(i64, i64)>, FamilyError> {
        let pair = |row: &Vec<i64>| match row.as_slice() {
            &[at, id] => Some((at, id)),
            _ => None,
        };
        let pairs: Option<Vec<_>> = self.rows(key)?.iter().map(pair).collect();
        pairs.ok_or_else(|| self.bad(key, "another list", "expected pairs of a position and a token id", "Correct it"))
    }

    /// A table of token ids by name, in its order; empty where it is missing.
    pub fn ids(&self, key: &str) -> Result<Vec<(String, u32)>, FamilyError> {
        let Some(table) = self.table(key)? else { return Ok(Vec::new()) };
        let mut ids = Vec::new();
        for name in table.section.keys() {
            if let Some(id) = table.token_id(&name)? {
                ids.push((name, id));
            }
        }
        Ok(ids)
    }

    /// A list of finite numbers.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, FamilyError> {
        Ok(self.section.f64s(key)?)
    }

    /// A table inside this one; [`Settings::absorb`] takes back what reading it brought to light.
    pub fn table(&self, key: &str) -> Result<Option<Settings<'a>>, FamilyError> {
        Ok(self.section.table(key)?.map(|section| Settings::new(section, self.model_type)))
    }

    /// A table inside this one, which is empty where it is missing.
    pub fn table_or_empty(&self, key: &str) -> Result<Settings<'a>, FamilyError> {
        let empty = || Settings::new(Section::empty(self.path(key)), self.model_type);
        Ok(self.table(key)?.unwrap_or_else(empty))
    }

    /// Takes over notes and unread keys of an inner table, apart from keys in `ignored`.
    pub fn absorb(&mut self, inner: Settings<'_>, ignored: &[&str]) {
        let keys = inner.unread_keys(ignored);
        self.unread.extend(keys);
        self.unread.extend(inner.unread);
        self.notes.extend(inner.notes);
    }

    /// Counts every key of an inner table as read.
    pub fn absorb_all(&mut self, inner: Settings<'_>) {
        self.notes.extend(inner.notes);
    }

    /// Adds a line for the reader of the report.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The notes so far.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Sizes that were missing and took the type's default.
    pub fn defaulted(&self) -> &[String] {
        &self.defaulted
    }

    /// The dotted path of a key.
    pub fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.section.path())
    }

    /// An error about the value of a key.
    pub fn bad(
        &self,
        key: &str,
        found: impl ToString,
        cause: impl Into<String>,
        cure: impl Into<String>,
    ) -> FamilyError {
        FamilyError::Setting { key: self.path(key), found: found.to_string(), cause: cause.into(), cure: cure.into() }
    }

    /// An error about a value that is sound and not supported.
    pub fn unsupported(
        &self,
        key: &str,
        found: impl ToString,
        cause: impl Into<String>,
        cure: impl Into<String>,
    ) -> FamilyError {
        FamilyError::Unsupported {
            key: self.path(key),
            found: found.to_string(),
            model_type: self.model_type.to_owned(),
            cause: cause.into(),
            cure: cure.into(),
        }
    }

    /// An error when a key that may change the result was never read. `ignored` are keys that the
    /// type is known not to read.
    pub fn finish(&mut self, ignored: &[&str]) -> Result<(), FamilyError> {
        let _ = self.section.table(PROCESSOR);
        let left_out = self.section.unread();
        for tower in OTHER_TOWERS.iter().filter(|tower| left_out.iter().any(|key| key == *tower)) {
            if matches!(self.section.table(tower), Ok(Some(_))) {
                self.notes
                    .push(format!("`{}` describes a part of the model that this graph leaves out", self.path(tower)));
            }
        }
        let mut keys = std::mem::take(&mut self.unread);
        keys.extend(self.unread_keys(ignored));
        if keys.is_empty() {
            return Ok(());
        }
        Err(FamilyError::UnreadSetting { keys, model_type: self.model_type.to_owned() })
    }

    fn unread_keys(&self, ignored: &[&str]) -> Vec<String> {
        let mut keys = self.section.unread();
        keys.retain(|k| {
            let k = k.as_str();
            !ignored.contains(&k) && !HARMLESS.contains(&k) && !GENERATION.contains(&k) && !self.is_neutral(k)
        });
        keys.iter().map(|k| self.path(k)).collect()
    }

    /// Whether the value of a key says that nothing is to be done: false, 0, an empty text or list,
    /// or 1 for a multiplier.
    fn is_neutral(&self, key: &str) -> bool {
        if let Ok(Some(flag)) = self.section.bool(key) {
            return !flag;
        }
        if let Ok(Some(x)) = self.section.f64(key) {
            let multiplies = ["_multiplier", "_scaling", "_factor", "_scale"].iter().any(|end| key.ends_with(end));
            return x == 0.0 || (multiplies && x == 1.0);
        }
        if let Ok(Some(text)) = self.section.str(key) {
            return text.is_empty();
        }
        matches!(self.section.strings(key), Ok(Some(list)) if list.is_empty())
    }
}
