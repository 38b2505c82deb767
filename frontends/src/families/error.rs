//! Errors of building a family's graph.

use std::fmt::Write as _;
use tallow_format::FormatError;
use tallow_ir::IrError;
use thiserror::Error;

/// At most this many tensors are named one by one in a message.
const NAMED: usize = 10;

/// Why a family has no graph for a config and its tensors.
#[derive(Debug, Error)]
pub enum FamilyError {
    /// No family goes by this `model_type`.
    #[error("{}", unknown_type(.found, .nearest.as_deref(), .known))]
    UnknownType {
        /// The `model_type` of the config; empty when it has none.
        found: String,
        /// The known name that is most like it, if one is.
        nearest: Option<String>,
        /// Every known name.
        known: Vec<String>,
    },
    /// A key is missing, has the wrong type or does not parse.
    #[error(transparent)]
    Config(#[from] FormatError),
    /// A value that contradicts another, or that no model can have.
    #[error("config: `{key}` = {found}: {cause}. {cure}.")]
    Setting {
        /// Dotted path of the key.
        key: String,
        /// The value.
        found: String,
        /// What is wrong with it.
        cause: String,
        /// What to do.
        cure: String,
    },
    /// A sound value that asks for something this version does not compute.
    #[error("config: `{key}` = {found} is not supported for `{model_type}`: {cause}. {cure}.")]
    Unsupported {
        /// Dotted path of the key.
        key: String,
        /// The value.
        found: String,
        /// The type whose family was asked.
        model_type: String,
        /// What is not supported.
        cause: String,
        /// What to do.
        cure: String,
    },
    /// Settings that the family does not read, and that may change the result.
    #[error("{}", unread(.keys, .model_type))]
    UnreadSetting {
        /// Dotted paths of the keys.
        keys: Vec<String>,
        /// The type whose family was asked.
        model_type: String,
    },
    /// Tensors are missing or do not fit.
    #[error("{0}")]
    Tensors(TensorFaults),
    /// The graph could not be put together; the checks before this should have said why.
    #[error("the graph of `{model_type}` does not fit together: {source}")]
    Graph {
        /// The type whose family was asked.
        model_type: String,
        /// What does not fit.
        source: IrError,
    },
}

impl FamilyError {
    /// True where the model may be sound and this version has no way to build it.
    pub fn is_unsupported(&self) -> bool {
        match self {
            FamilyError::UnknownType { .. } | FamilyError::Unsupported { .. } | FamilyError::UnreadSetting { .. } => {
                true
            }
            FamilyError::Config(error) => error.is_unsupported(),
            FamilyError::Setting { .. } | FamilyError::Tensors(_) | FamilyError::Graph { .. } => false,
        }
    }
}

/// Every tensor that a graph needs and the model lacks, or has in another shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorFaults {
    /// The type whose family was asked.
    pub model_type: String,
    /// Names and expected shapes of missing tensors.
    pub missing: Vec<(String, Vec<u64>)>,
    /// Tensors of another shape.
    pub misshapen: Vec<Misshapen>,
    /// Facts about the config that help to see why.
    pub hints: Vec<String>,
}

/// A tensor whose shape is not the one that the config asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshapen {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub found: Vec<u64>,
    /// The shape that the config asks for.
    pub expected: Vec<u64>,
}

impl TensorFaults {
    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.misshapen.is_empty()
    }
}

impl std::fmt::Display for TensorFaults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            let mut text = format!(
                "`{}` needs {} that the model lacks: ",
                self.model_type,
                plural(self.missing.len(), "tensor", "tensors")
            );
            for (i, (name, shape)) in self.missing.iter().take(NAMED).enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                let _ = write!(text, "{comma}`{name}` {shape:?}");
            }
            more(&mut text, self.missing.len());
            parts.push(text);
        }
        if !self.misshapen.is_empty() {
            let mut text =
                format!("{} fit the config: ", plural(self.misshapen.len(), "tensor does not", "tensors do not"));
            for (i, t) in self.misshapen.iter().take(NAMED).enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                let _ = write!(text, "{comma}`{}` has shape {:?}, expected {:?}", t.name, t.found, t.expected);
            }
            more(&mut text, self.misshapen.len());
            parts.push(text);
        }
        write!(f, "{}", parts.join("; "))?;
        for hint in &self.hints {
            write!(f, "; {hint}")?;
        }
        f.write_str(". Check the sizes in [architecture], or add the tensors.")
    }
}

fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn more(text: &mut String, total: usize) {
    if total > NAMED {
        let _ = write!(text, " and {} more", total - NAMED);
    }
}

fn unknown_type(found: &str, nearest: Option<&str>, known: &[String]) -> String {
    let known = known.join(", ");
    if found.is_empty() {
        return format!("config: `model_type` is missing, so no family can be chosen. Known types: {known}.");
    }
    let hint = nearest.map_or(String::new(), |n| format!(" Did you mean `{n}`?"));
    format!("config: no family is known for `model_type` = \"{found}\".{hint} Known types: {known}.")
}

fn unread(keys: &[String], model_type: &str) -> String {
    let list: Vec<String> = keys.iter().map(|k| format!("`{k}`")).collect();
    let (verb, it, s) = if keys.len() == 1 { ("is", "it", "does") } else { ("are", "them", "do") };
    format!(
        "config: {} {verb} set but not read by the family of `{model_type}`, so the result could differ from the model's own. Remove {it} if {} {s} not change the result.",
        list.join(", "),
        if keys.len() == 1 { "it" } else { "they" },
    )
}
