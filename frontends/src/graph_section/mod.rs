//! The graph section of a `.model`: from its text to a graph, and back.
//!
//! Two spellings hold the same thing: `hex`, the binary form in hexadecimal, and `toml`, the same
//! nodes as tables ([`tables`]). Both give a [`RawGraph`], which binds its names to the tensors of
//! the model.

pub mod tables;

use crate::families::{self, TensorShapes};
use tables::TableErrors;
use tallow_format::{Config, FormatError, GraphFormat};
use tallow_ir::binary::{BinaryError, BindErrors};
use tallow_ir::hex::HexError;
use tallow_ir::{DType, Graph, IrError, RawGraph, Shape, TensorType};
use thiserror::Error;

/// Why a graph section is no graph.
#[derive(Debug, Error)]
pub enum GraphSectionError {
    /// The text is not hexadecimal.
    #[error("graph section: {0}")]
    Hex(#[from] HexError),
    /// The bytes are not a graph.
    #[error("graph section: {0}")]
    Binary(#[from] BinaryError),
    /// The tables are not a graph.
    #[error("graph section: {0}")]
    Tables(#[from] TableErrors),
    /// Names or types do not fit the model.
    #[error("graph section: {0}")]
    Bind(#[from] BindErrors),
    /// The config does not say whether the output head is tied, or says it wrongly.
    #[error(transparent)]
    Config(#[from] FormatError),
}

impl GraphSectionError {
    /// True where the section may be sound and only newer than this version.
    pub fn is_unsupported(&self) -> bool {
        match self {
            GraphSectionError::Binary(error) => error.is_unsupported(),
            GraphSectionError::Config(error) => error.is_unsupported(),
            GraphSectionError::Tables(errors) => errors.is_unsupported(),
            GraphSectionError::Hex(_) | GraphSectionError::Bind(_) => false,
        }
    }
}

/// The graph of a section. A missing `lm_head.weight` is the table of embeddings if the config ties
/// them: by its `tie_word_embeddings`, else by the default of its type.
///
/// # Errors
/// Text that is no graph; names that nothing binds, and operands that do not fit, all together.
pub fn from_section(
    format: GraphFormat,
    text: &str,
    config: &Config,
    tensors: &dyn TensorShapes,
) -> Result<Graph, GraphSectionError> {
    let raw = parse(format, text)?;
    let weight = |name: &str| -> Option<TensorType> {
        let shape = tensors.shape(name)?;
        let dims: Option<Vec<i64>> = shape.iter().map(|&n| i64::try_from(n).ok()).collect();
        let dtype = tensors.dtype(name).unwrap_or(DType::F32);
        Some(TensorType::new(dtype, Shape::fixed(&dims?)))
    };
    let tied = config
        .architecture()
        .bool("tie_word_embeddings")?
        .unwrap_or_else(|| families::ties_by_default(config.model_type()));
    Ok(raw.to_graph(&weight, tied)?)
}

/// The nodes of a section, names unresolved.
///
/// # Errors
/// Text that is no graph.
pub fn parse(format: GraphFormat, text: &str) -> Result<RawGraph, GraphSectionError> {
    match format {
        GraphFormat::Hex => Ok(RawGraph::read(&tallow_ir::hex::decode(text)?)?),
        GraphFormat::Toml => Ok(tables::read(text)?),
    }
}

/// The text of a section that holds `graph`, in the full form.
///
/// # Errors
/// As [`RawGraph::from_graph`].
pub fn of_graph(format: GraphFormat, graph: &Graph) -> Result<String, IrError> {
    Ok(to_text(format, &RawGraph::from_graph(graph)?))
}

/// The text of a section.
pub fn to_text(format: GraphFormat, raw: &RawGraph) -> String {
    match format {
        GraphFormat::Hex => tallow_ir::hex::encode(&raw.write()) + "\n",
        GraphFormat::Toml => tables::write(raw),
    }
}
