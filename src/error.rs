//! The error type of the library: one variant per stage, and the exit code that the command gives.

use std::path::PathBuf;
use thiserror::Error;

/// What went wrong, and in which stage.
#[derive(Debug, Error)]
pub enum Error {
    /// A container or one of its sections.
    #[error(transparent)]
    Format(#[from] tallow_format::FormatError),
    /// A family could not be built from config and tensors.
    #[error("{file}: {source}")]
    Family {
        /// The model.
        file: String,
        /// Why.
        source: Box<tallow_frontends::families::FamilyError>,
    },
    /// A program that does not compile, or that fails while it runs.
    #[error("{0}")]
    Program(Box<tallow_frontends::program::Diagnostics>),
    /// A program that does not compile, tried because nothing else gives the model a graph.
    #[error("{program}\n\n{file}: has no graph section, and its program was tried because {family}")]
    Nothing {
        /// The model.
        file: String,
        /// Why there is no family.
        family: Box<tallow_frontends::families::FamilyError>,
        /// What is wrong with the program.
        program: Box<tallow_frontends::program::Diagnostics>,
    },
    /// A graph that breaks the rules of the IR.
    #[error("{file}: {source}")]
    Graph {
        /// The model.
        file: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Import of another format.
    #[error(transparent)]
    Import(Box<tallow_import::ImportError>),
    /// Running.
    #[error(transparent)]
    Executor(#[from] tallow_executor::ExecutorError),
    /// Text to ids.
    #[error("{file}: tokenizer: {source}")]
    Tokenizer {
        /// The model.
        file: String,
        /// Why.
        source: tallow_executor::tokenizer::TokenizerError,
    },
    /// A chat template.
    #[error("{file}: chat template: {source}")]
    Chat {
        /// The model.
        file: String,
        /// Why.
        source: tallow_executor::chat::ChatError,
    },
    /// Sampling parameters or logits.
    #[error(transparent)]
    Sampling(#[from] tallow_executor::sampling::SamplingError),
    /// A file that holds no sound that can be read.
    #[error("{file}: {cause}")]
    Sound {
        /// The file.
        file: String,
        /// Why.
        cause: String,
    },
    /// The file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An error of one of several files or graphs that are looked at together.
    #[error("{file}: {source}")]
    Within {
        /// Which one.
        file: String,
        /// What happened.
        source: Box<Error>,
    },
    /// Something that this version cannot do.
    #[error("{0}")]
    Unsupported(String),
    /// A call that makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// The exit code of the command: 2 usage, 3 bad input file, 4 unsupported, 5 device or memory.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Format(e) if e.is_unsupported() => 4,
            Error::Family { source, .. } if source.is_unsupported() => 4,
            Error::Program(e) if e.is_unsupported() => 4,
            Error::Nothing { program, .. } if program.is_unsupported() => 4,
            Error::Import(e) if e.is_unsupported() => 4,
            Error::Import(e) if matches!(**e, tallow_import::ImportError::Refused { .. }) => 2,
            Error::Executor(e) if e.is_unsupported() => 4,
            Error::Tokenizer { source, .. } if source.is_unsupported() => 4,
            Error::Unsupported(_) => 4,
            Error::Within { source, .. } => source.exit_code(),
            Error::Usage(_) | Error::Sampling(_) => 2,
            Error::Executor(tallow_executor::ExecutorError::Tensor(_) | tallow_executor::ExecutorError::Threads(_)) => {
                5
            }
            Error::Executor(
                tallow_executor::ExecutorError::ContextFull { .. } | tallow_executor::ExecutorError::InstructionSet(_),
            ) => 2,
            Error::Executor(tallow_executor::ExecutorError::Input { .. }) => 2,
            Error::Format(_)
            | Error::Family { .. }
            | Error::Program(_)
            | Error::Nothing { .. }
            | Error::Graph { .. }
            | Error::Import(_)
            | Error::Executor(_)
            | Error::Tokenizer { .. }
            | Error::Chat { .. }
            | Error::Sound { .. }
            | Error::Io { .. } => 3,
        }
    }
}

impl From<tallow_import::ImportError> for Error {
    fn from(error: tallow_import::ImportError) -> Self {
        Error::Import(Box::new(error))
    }
}

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;
