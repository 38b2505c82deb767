//! Errors of building and checking graphs.

use thiserror::Error;

/// Why an operation does not fit its operands: the text says which operand, what was found and
/// what is expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct RuleError(pub String);

impl RuleError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        RuleError(text.into())
    }
}

/// An error of building a graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IrError {
    /// The operands do not fit the operation.
    #[error("{op}{}: {source}", place(.name))]
    Rule {
        /// Name of the operation.
        op: &'static str,
        /// Name of the value, where it has one.
        name: Option<String>,
        /// What does not fit.
        source: RuleError,
    },
    /// A name is used for two things.
    #[error("the name `{name}` is already {taken}; give one of them another name")]
    Name {
        /// The name.
        name: String,
        /// What it stands for already.
        taken: String,
    },
    /// A value of another graph, or of a removed node.
    #[error("value {node}.{port} does not exist in this graph")]
    NoValue {
        /// Index of the node.
        node: usize,
        /// Result number.
        port: u32,
    },
    /// A graph in which values depend on themselves.
    #[error("the graph has a cycle: {node} depends on its own result; `verify` shows the whole of it")]
    Cycle {
        /// A node on the cycle: its number and operation.
        node: String,
    },
    /// A graph that has no such input, weight or output.
    #[error("the graph has no {kind} named `{name}`; it has {known}")]
    Missing {
        /// `input`, `weight` or `output`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that exist, for the reader.
        known: String,
    },
}

fn place(name: &Option<String>) -> String {
    name.as_ref().map(|n| format!(" `{n}`")).unwrap_or_default()
}

/// Writes collected errors, one a line; of very many the first.
pub(crate) fn one_a_line(f: &mut std::fmt::Formatter<'_>, errors: &[impl std::fmt::Display]) -> std::fmt::Result {
    const SHOWN: usize = 24;
    for (i, error) in errors.iter().take(SHOWN).enumerate() {
        if i > 0 {
            f.write_str("\n")?;
        }
        write!(f, "{error}")?;
    }
    match errors.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => write!(f, "\nand {more} more errors"),
    }
}
