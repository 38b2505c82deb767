//! Reads, checks and writes the files that Tallow works on: the generic container `.cyb`, and `.model`,
//! a container that holds a network.
//!
//! | module | holds |
//! |---|---|
//! | [`container`] | the bytes of a `.cyb` split into its named files |
//! | [`model`] | a `.model` whose sections have been checked against each other |
//! | [`config`], [`tensors`], [`vocab`], [`chat`], [`eval`] | one section each |
//! | [`check`] | config against tensors |
//! | [`encoding`] | how numbers are stored as bytes |
//! | [`writer`], [`atomic`] | writing, streaming and all or nothing |
//! | [`tools`] | pack, cat, extract, edit, upgrade and verify |
//! | [`hash`] | the identity of a file |
//!
//! This crate knows no operation and no tensor library: it hands out bytes, shapes and settings.

pub mod atomic;
pub mod chat;
pub mod check;
pub mod config;
pub mod container;
pub mod encoding;
pub mod error;
pub mod eval;
pub mod frontmatter;
pub mod hash;
mod map;
pub mod model;
mod section;
pub mod tensors;
pub mod toml_text;
pub mod tools;
pub mod vocab;
pub mod writer;

pub use atomic::AtomicFile;
pub use chat::{ChatFormat, ChatSection};
pub use config::{Config, SamplingConfig, Section, TokenizerConfig, TokenizerKind};
pub use container::{Container, Entry, ReadOptions};
pub use encoding::{Encoding, EncodingError};
pub use error::{ErrorKind, FormatError};
pub use map::FileIdentity;
pub use model::{GraphFormat, ModelFile, ProgramFormat, TensorView};
pub use tensors::{TensorEntry, TensorIndex};
pub use vocab::{AddedToken, Merges, Piece, PieceKind, Vocab};
pub use writer::{ModelParts, ModelWriter, TensorPlan};

/// The version of the meanings of weight encodings that this crate reads and writes.
pub const FORMAT_VERSION: i64 = 2;

/// The weights of a written `.model`, and each tensor in them, begin on a multiple of this many bytes.
pub const PAGE: u64 = 4096;
