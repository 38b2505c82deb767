//! The config as values of a program, with the aliases and defaults that programs may rely on.

use super::ast::Span;
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::eval::{Eval, Evaluator};
use super::value::{ConfigTable, Value};
use indexmap::IndexMap;
use std::sync::Arc;
use tallow_format::Config;
use toml_edit::{Item, TableLike};

/// The whole config.
pub(crate) fn table(config: &Config) -> ConfigTable {
    nested(String::new(), config.document().as_table())
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

impl Evaluator<'_> {
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
            Diagnostic::new(Code::UnknownConfigKey, span, "[architecture] of the config has no key `vocab_size`").into()
        })
    }
}
