//! The config as values of a program, with the aliases and defaults that programs may rely on.

use super::ast::Span;
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::eval::{Eval, Evaluator};
use super::module::Module;
use super::value::{ConfigTable, Value};
use indexmap::IndexMap;
use std::sync::Arc;
use tallow_format::Config;
use toml_edit::{Item, TableLike};

/// The whole config.
pub(crate) fn table(config: &Config) -> ConfigTable {
    nested(String::new(), config.document().as_table())
}

/// The whole config, with the other spellings of special tokens: for code that runs without a build.
pub(crate) fn with_aliases(config: &Config) -> ConfigTable {
    let mut root = table(config);
    let mut tokenizer = match root.keys.get("tokenizer") {
        Some(Value::Config(table)) => (**table).clone(),
        _ => ConfigTable { path: "tokenizer".to_owned(), keys: IndexMap::new() },
    };
    let ends = config.end_ids().unwrap_or_default();
    let one = |id: Option<u32>| id.map(Value::int);
    let known = [
        ("bos_id", one(config.bos_id().ok().flatten())),
        ("pad_id", one(config.pad_id().ok().flatten())),
        ("eos_id", one(ends.first().copied())),
        ("eos_token_ids", (!ends.is_empty()).then(|| Value::list(ends.iter().copied().map(Value::int).collect()))),
    ];
    for (key, value) in known {
        let Some(value) = value else { continue };
        if let Some(long) = key.strip_suffix("_id") {
            tokenizer.keys.entry(format!("{long}_token_id").into()).or_insert_with(|| value.clone());
        }
        tokenizer.keys.entry(key.into()).or_insert(value);
    }
    root.keys.insert("tokenizer".into(), Value::Config(Arc::new(tokenizer)));
    root
}

fn nested(path: String, table: &dyn TableLike) -> ConfigTable {
    let mut keys = IndexMap::new();
    for (key, item) in table.iter() {
        let inner = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if let Some(value) = item_value(inner, item) {
            keys.insert(Arc::from(key), value);
        }
    }
    ConfigTable { path, keys }
}

fn item_value(path: String, item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(plain(path, value)),
        Item::Table(table) => Some(Value::Config(Arc::new(nested(path, table)))),
        Item::ArrayOfTables(tables) => Some(Value::list(
            tables.iter().enumerate().map(|(i, t)| Value::Config(Arc::new(nested(format!("{path}.{i}"), t)))).collect(),
        )),
    }
}

fn plain(path: String, value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::str(text.value()),
        toml_edit::Value::Integer(n) => Value::int(*n.value()),
        toml_edit::Value::Float(x) => Value::Float(*x.value()),
        toml_edit::Value::Boolean(b) => Value::Bool(*b.value()),
        toml_edit::Value::Datetime(time) => Value::str(time.value().to_string()),
        toml_edit::Value::Array(items) => {
            Value::list(items.iter().enumerate().map(|(i, v)| plain(format!("{path}.{i}"), v)).collect())
        }
        toml_edit::Value::InlineTable(table) => Value::Config(Arc::new(nested(path, table))),
    }
}

/// Keys that stand for the attention of a decoder, which reads them by itself.
const OF_ATTENTION: &[&str] = &[
    "attn_logit_softcapping",
    "head_dim",
    "layer_types",
    "max_window_layers",
    "no_rope_layers",
    "partial_rotary_factor",
    "query_pre_attn_scalar",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rope_theta_full",
    "sliding_window",
    "use_sliding_window",
];

impl Module {
    /// Dotted paths of the keys of `[architecture]` that the program did not ask for.
    pub fn unread_keys(&self, config: &Config) -> Vec<String> {
        let mut unread = Vec::new();
        let root = table(config);
        let mut open: Vec<&ConfigTable> = match root.keys.get("architecture") {
            Some(Value::Config(architecture)) => vec![architecture],
            _ => Vec::new(),
        };
        while let Some(table) = open.pop() {
            for (key, value) in &table.keys {
                let path = format!("{}.{key}", table.path);
                match value {
                    Value::Config(inner) if self.read_keys.contains(&path) => open.push(inner),
                    _ if self.read_keys.contains(&path) => {}
                    _ if self.reads_attention && OF_ATTENTION.contains(&&**key) => {}
                    _ => unread.push(path.trim_start_matches("architecture.").to_owned()),
                }
            }
        }
        unread
    }
}

impl Evaluator<'_> {
    /// Notes that the program asked for a key.
    pub(crate) fn note_key(&mut self, table: &ConfigTable, key: &str) {
        if let Some(build) = &mut self.build {
            let path = if table.path.is_empty() { key.to_owned() } else { format!("{}.{key}", table.path) };
            if !build.read_keys.contains(&path) {
                build.read_keys.insert(path);
            }
        }
    }

    /// What a key that the config lacks stands for: another spelling, or its default.
    pub(crate) fn config_fallback(&mut self, table: &ConfigTable, key: &str, span: Span) -> Eval<Option<Value>> {
        let Some(build) = &self.build else { return Ok(None) };
        let get = |key: &str| table.keys.get(key).cloned();
        let bad = |error: tallow_format::FormatError| Diagnostic::new(Code::FamilyConfig, span, error.to_string());
        Ok(match (table.path.as_str(), key) {
            ("architecture", "num_key_value_heads") => get("num_attention_heads"),
            ("architecture", "head_dim") => {
                // The decoder's own rule, which reads the shapes of its tensors too.
                let known = get("num_attention_heads").is_some() && get("hidden_size").is_some();
                match known {
                    true => Some(Value::int(self.decoder_spec(span)?.attention.head_dim)),
                    false => None,
                }
            }
            ("architecture", "tie_word_embeddings") => {
                Some(Value::Bool(crate::families::ties_by_default(build.config.model_type())))
            }
            ("architecture", "max_position_embeddings") => get("context_length"),
            ("architecture", "context_length") => get("max_position_embeddings"),
            ("tokenizer", "bos_id" | "bos_token_id") => build.config.bos_id().map_err(bad)?.map(Value::int),
            ("tokenizer", "pad_id" | "pad_token_id") => build.config.pad_id().map_err(bad)?.map(Value::int),
            ("tokenizer", "eos_id" | "eos_token_id") => {
                build.config.end_ids().map_err(bad)?.first().copied().map(Value::int)
            }
            ("tokenizer", "eos_token_ids") => {
                let ids = build.config.end_ids().map_err(bad)?;
                Some(Value::list(ids.into_iter().map(Value::int).collect()))
            }
            ("sampling", "scale") => Some(Value::int(1)),
            _ => None,
        })
    }

    /// The config's `vocab_size`.
    pub(crate) fn vocab_size(&mut self, span: Span) -> Eval<u32> {
        let build = self.build(span)?;
        let found = build.config.architecture().u64("vocab_size").ok().flatten().and_then(|n| u32::try_from(n).ok());
        found.ok_or_else(|| {
            Diagnostic::new(Code::UnknownConfigKey, span, "[architecture] of the config has no key `vocab_size`")
                .help(
                    "without a tensor index it tells the rows of a table; give the index with `--tensors tensors.toml`",
                )
                .help(
                    "without a tensor index it tells the rows of a table; give the index with `--tensors tensors.toml`",
                )
                .into()
        })
    }
}
