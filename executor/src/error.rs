//! Errors of running a plan.

use thiserror::Error;

/// Why a plan could not be loaded or run.
#[derive(Debug, Error)]
pub enum ExecutorError {
    /// An operation, or a form of it, that this engine has no code for.
    #[error("{op} at `{place}`: {what} is not supported on this path; {cure}")]
    Unsupported {
        /// Name of the operation.
        op: &'static str,
        /// The value it computes.
        place: String,
        /// What is not supported.
        what: String,
        /// What to do.
        cure: String,
    },
    /// The operands do not fit the operation when it runs.
    #[error("{op} at `{place}`: {cause}")]
    Operand {
        /// Name of the operation.
        op: &'static str,
        /// The value it computes.
        place: String,
        /// What does not fit.
        cause: String,
    },
    /// A weight that the plan names and the source lacks.
    #[error("the tensor `{name}` is missing; the plan needs it")]
    MissingWeight {
        /// Name of the tensor.
        name: String,
    },
    /// A weight that does not decode.
    #[error("tensor `{name}`: {cause}")]
    Weight {
        /// Name of the tensor.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
    /// An input that is missing, unknown or ill-shaped.
    #[error("input `{name}`: {cause}")]
    Input {
        /// Name of the input.
        name: String,
        /// What was found and what is expected.
        cause: String,
    },
    /// More tokens than the context holds.
    #[error(
        "{tokens} tokens do not fit: {used} of the context of {limit} are used already; \
         shorten the text, start anew, or raise the limit (--context) if the model allows more"
    )]
    ContextFull {
        /// Tokens of this call.
        tokens: usize,
        /// Tokens in the cache.
        used: usize,
        /// The limit.
        limit: usize,
    },
    /// The threads could not be started.
    #[error("threads: {0}")]
    Threads(String),
    /// An instruction set was asked for that is none, or that the machine has not.
    #[error("instruction set: {0}")]
    InstructionSet(String),
    /// The graph has no plan.
    #[error(transparent)]
    Plan(#[from] tallow_compiler::PlanError),
    /// A graph that the compiler cannot take through its passes.
    #[error(transparent)]
    Compile(#[from] tallow_compiler::CompileError),
    /// A pass failed.
    #[error(transparent)]
    Graph(#[from] tallow_ir::IrError),
    /// Candle failed: memory, or a fault of ours.
    #[error("tensor library: {0}")]
    Tensor(#[from] candle_core::Error),
}

impl ExecutorError {
    /// Whether the input is fine and only this program cannot do it.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, ExecutorError::Unsupported { .. })
    }
}

pub(crate) type Result<T> = std::result::Result<T, ExecutorError>;
