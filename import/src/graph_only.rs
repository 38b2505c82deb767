//! A model of tensors and a graph: what no family knows runs by its graph alone.

use std::path::Path;

use indexmap::IndexMap;
use tallow_format::{Config, GraphFormat, ModelParts, ProgramFormat};
use tallow_frontends::graph_section;
use tallow_frontends::program::Language;
use tallow_ir::TensorType;

use crate::error::{ImportError, Result, clip};
use crate::report::ImportReport;
use crate::safetensors::find_weights;
use crate::source::{LeftOut, Piece, RowOrder, Source, SourceTensor};
use crate::{ImportOptions, Prepared, Progress, model_name, plan, write};

/// A graph to run the tensors with.
#[derive(Clone, Debug)]
pub struct GivenGraph {
    /// How the text is written.
    pub format: GraphFormat,
    /// The graph section.
    pub text: String,
    /// Where it comes from, for messages.
    pub label: String,
    /// The types of the weights, where the text states them: their shapes must be the tensors'.
    pub weights: Vec<(String, TensorType)>,
    /// The `model_type` of the model, any name.
    pub model_type: String,
}

/// Makes a model of the tensors of `src`, a safetensors file or a folder with some, under the names
/// that they have there, and a graph that reads them. It has no tokenizer: it runs on inputs.
///
/// # Errors
/// Tensors that the graph reads and the source lacks, shapes that do not fit it, and all that reading
/// and writing may bring. The file appears under its name only when it is whole.
pub fn import_with_graph(
    src: &Path,
    graph: &GivenGraph,
    out: &Path,
    options: &ImportOptions,
    progress: &mut dyn Progress,
) -> Result<ImportReport> {
    let source = tensors(src)?;
    let parameters = source.tensors().iter().map(SourceTensor::values).sum();
    let mut document = toml_edit::DocumentMut::new();
    document["model_type"] = toml_edit::value(&graph.model_type);
    document["parameters"] = toml_edit::value(i64::try_from(parameters).unwrap_or(i64::MAX));
    let config = document.to_string();
    let unread = check(graph, &config, &source)?;
    let mut warnings = Vec::new();
    if !unread.is_empty() {
        warnings.push(format!("The graph reads no such tensors: {}", crate::error::names(&unread, 8)));
    }
    let name = model_name(options, out.file_stem().and_then(|s| s.to_str()), src);
    let card = format!(
        "# {name}\n\nTensors and a graph: `{}`, {parameters} parameters.\n\nIt runs on inputs; `tallow inspect` lists them.\n",
        graph.model_type
    );
    let parts = ModelParts {
        name,
        card,
        config,
        graph: Some((graph.format, graph.text.clone())),
        vocab: "{}\n".into(),
        ..ModelParts::default()
    };
    let plan = plan(&source, options)?;
    let prepared = Prepared { parts, plan, model_type: graph.model_type.clone(), parameters, warnings };
    write(src, out, &source, prepared, options, progress)
}

/// A program and a config to run tensors with.
#[derive(Clone, Debug)]
pub struct GivenProgram {
    /// The language.
    pub format: ProgramFormat,
    /// Its text.
    pub source: String,
    /// Where it comes from, for messages.
    pub label: String,
    /// The config, as TOML.
    pub config: String,
}

/// Makes a model of the tensors of `src`, a safetensors file or a folder with some, under the names that they have
/// there, a program that reads them, and its config. It has no tokenizer: it runs on inputs.
///
/// # Errors
/// A program that does not compile for the config and the tensors, and all that reading and writing may bring. The file
/// appears under its name only when it is whole.
pub fn import_with_program(
    src: &Path,
    program: &GivenProgram,
    out: &Path,
    options: &ImportOptions,
    progress: &mut dyn Progress,
) -> Result<ImportReport> {
    let source = tensors(src)?;
    let parameters = source.tensors().iter().map(SourceTensor::values).sum();
    let config = Config::parse(&program.config)?;
    let language = match program.format {
        ProgramFormat::Rs => Language::Rs,
        ProgramFormat::Tri => Language::Tri,
    };
    let mut warnings = Vec::new();
    crate::compiled(src, &config, &source, (language, &program.source, &program.label), &mut warnings)?;
    let model_type = config.model_type().to_owned();
    let name = model_name(options, out.file_stem().and_then(|s| s.to_str()), src);
    let card = format!(
        "# {name}\n\nTensors and a program: {parameters} parameters.\n\nIt runs on inputs; `tallow inspect` lists them.\n"
    );
    let parts = ModelParts {
        name,
        card,
        config: program.config.clone(),
        program: Some((program.format, program.source.clone())),
        vocab: "{}\n".into(),
        ..ModelParts::default()
    };
    let plan = plan(&source, options)?;
    let prepared = Prepared { parts, plan, model_type, parameters, warnings };
    write(src, out, &source, prepared, options, progress)
}

/// The tensors of a safetensors file or folder under their own names.
fn tensors(src: &Path) -> Result<Source> {
    if src.is_file() && src.extension().is_none_or(|e| e != "safetensors") {
        return Err(ImportError::unsupported(
            src,
            "tensors",
            "a graph goes with tensors in a .safetensors file, or in a folder with some",
            "Save them so; a GGUF file is imported without a graph, and gets one with `tallow edit --graph`.",
        ));
    }
    let weights = match src.is_dir() {
        true => find_weights(src, None)?,
        false => find_weights(src.parent().unwrap_or(Path::new("")), Some(src))?,
    };
    let (mut tensors, mut left_out) = (Vec::new(), Vec::new());
    for (file, weights) in weights.files.iter().enumerate() {
        for tensor in weights.tensors() {
            let Some(ty) = tensor.dtype.float() else {
                left_out.push(LeftOut {
                    name: tensor.name.clone(),
                    source_type: tensor.dtype.name().to_owned(),
                    reason: "integers or truth values; give them as inputs".to_owned(),
                });
                continue;
            };
            let shape = if tensor.shape.is_empty() { vec![1] } else { tensor.shape.clone() };
            tensors.push(SourceTensor {
                name: tensor.name.clone(),
                source_name: tensor.name.clone(),
                shape,
                ty,
                shift: 0.0,
                order: RowOrder::Plain,
                pieces: vec![Piece { file, bytes: tensor.bytes.clone() }],
            });
        }
    }
    Source::new(weights.files.into_iter().map(|f| f.into_file()).collect(), tensors, left_out)
}

/// Whether the graph binds to the tensors and holds; gives the tensors that it does not read.
fn check(graph: &GivenGraph, config: &str, source: &Source) -> Result<Vec<String>> {
    let shapes: IndexMap<String, Vec<u64>> =
        source.tensors().iter().map(|t| (t.name.clone(), t.shape.clone())).collect();
    let cure = "Correct the graph, or give the tensors under the names and in the shapes that it reads.";
    let malformed = |e: String| ImportError::malformed(Path::new(&graph.label), "graph", e.trim_end_matches('.'), cure);
    let mut faults = Vec::new();
    for (name, ty) in &graph.weights {
        let stated: Vec<String> = ty.shape.dims().iter().map(ToString::to_string).collect();
        match shapes.get(name) {
            Some(shape) if shape.iter().map(u64::to_string).eq(stated.iter().cloned()) => {}
            Some(shape) => faults
                .push(format!("weight `{}` is stated as {ty}, and the tensor has the shape {shape:?}", clip(name))),
            None => faults.push(format!("there is no tensor `{}`", clip(name))),
        }
    }
    if !faults.is_empty() {
        let known: Vec<&str> = shapes.keys().map(String::as_str).collect();
        return Err(malformed(format!(
            "{}; the source has {}",
            faults[..faults.len().min(12)].join("; "),
            crate::error::names(&known, 12)
        )));
    }
    let bound = graph_section::from_section(graph.format, &graph.text, &Config::parse(config)?, &shapes).map_err(
        |e| match e.is_unsupported() {
            true => ImportError::unsupported(Path::new(&graph.label), "graph", e.to_string(), "Update Tallow."),
            false => malformed(e.to_string()),
        },
    )?;
    let verified = tallow_ir::verify::verify(bound).map_err(|e| malformed(e.to_string()))?;
    let read = |name: &str| verified.graph().weight_named(name).is_some();
    Ok(shapes.keys().filter(|n| !read(n)).map(|n| clip(n)).collect())
}
