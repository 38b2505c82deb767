//! One of the computations that are compared.

use super::in_side;
use crate::source::Opened;
use crate::{Error, Model, Result, compiled, model, tokens};
use std::sync::Arc;
use tallow_compiler::passes;
use tallow_executor::{Program, ProgramOptions, WeightSource, WeightView};
use tallow_format::ModelFile;
use tallow_ir::Graph;
use tallow_ir::verify::{Verified, verify};

/// A graph with the weights that it reads, ready to run. What is compared are the values of the graph that runs: of a
/// program that is compiled up to a stage, those of that stage.
#[derive(Clone)]
pub struct Side {
    pub(super) label: String,
    /// The graph before it is compiled.
    pub(super) source: Arc<Verified>,
    pub(super) weights: Arc<dyn WeightSource>,
    pub(super) program: Arc<Program>,
    /// The model whose tokenizer encodes texts.
    pub(super) file: Option<Arc<ModelFile>>,
}

impl Side {
    /// What a model runs.
    pub fn of_model(model: &Model) -> Side {
        Side {
            label: model.file().label(),
            source: model.graph().clone(),
            weights: model.weights(),
            program: model.program().clone(),
            file: Some(model.shared_file().clone()),
        }
    }

    /// A graph over the tensors of `weights`. `label` is what messages call it.
    ///
    /// # Errors
    /// Weights that are missing or do not decode.
    pub fn of_graph(
        label: &str,
        graph: &Verified,
        weights: Arc<dyn WeightSource>,
        options: ProgramOptions,
    ) -> Result<Side> {
        let program = Program::new(graph, weights.clone(), options).map_err(|e| in_side(label, e.into()))?;
        let (label, source) = (label.to_owned(), Arc::new(graph.clone()));
        Ok(Side { label, source, weights, program: Arc::new(program), file: None })
    }

    /// What was opened as a graph, over the tensors of its model, or else of `model`. As models do, a graph for one token
    /// a call is widened to whole prompts where it can be, and the context is that of the config without another.
    ///
    /// # Errors
    /// A graph that reads weights, without a model; weights that are missing, of another shape, or do not decode.
    pub fn of_opened(opened: Opened, model: Option<&Arc<ModelFile>>, mut options: ProgramOptions) -> Result<Side> {
        let Opened { label, mut graph, file, program, .. } = opened;
        let file = file.or_else(|| model.cloned());
        if file.is_none() && graph.graph().weights().next().is_some() {
            return Err(Error::Usage(format!("{label}: reads weights, and no model holds them; give --model MODEL")));
        }
        if let Some(file) = &file {
            fits(&label, graph.graph(), file)?;
            options.context = options.context.or(model::context(file)?);
        }
        if passes::takes_one_token(graph.graph())
            && let Ok(wide) = passes::whole_prompt(graph.graph())
        {
            graph = verify(wide).map_err(|e| Error::Graph { file: label.clone(), source: Box::new(e) })?;
        }
        let weights: Arc<dyn WeightSource> = match &file {
            Some(file) => file.clone(),
            None => Arc::new(NoWeights),
        };
        let mut made = Program::new(&graph, weights.clone(), options).map_err(|e| in_side(&label, e.into()))?;
        if let Some(written) = program {
            made =
                made.with_host(compiled::host(file.as_ref(), Arc::new(written.module), written.name, &written.source));
        }
        Ok(Side { label, source: Arc::new(graph), weights, program: Arc::new(made), file })
    }

    /// The side under another name for messages.
    pub fn labelled(self, label: String) -> Side {
        Side { label, ..self }
    }

    /// What messages call it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The graph that runs.
    pub fn graph(&self) -> &Graph {
        self.program.compiled().graph.graph()
    }

    /// The ids of a text, by the tokenizer of the side's model; none where it has no model.
    pub(super) fn encode(&self, text: &str) -> Option<Result<Vec<u32>>> {
        self.file.as_ref().map(|file| tokens::encode(file, text))
    }
}

/// Whether a model holds the weights of a graph, in these shapes.
fn fits(label: &str, graph: &Graph, file: &ModelFile) -> Result<()> {
    for (name, value) in graph.weights() {
        let Some(tensor) = file.tensor(name) else {
            return Err(Error::Usage(format!(
                "{label}: reads the weight `{name}`, and {} has no such tensor; give the model of this graph with --model",
                file.label()
            )));
        };
        let dims = graph.ty(value).shape.dims();
        let equal = dims.len() == tensor.shape.len()
            && dims.iter().zip(tensor.shape).all(|(d, &n)| d.as_const().and_then(|d| u64::try_from(d).ok()) == Some(n));
        if !equal {
            return Err(Error::Usage(format!(
                "{label}: reads the weight `{name}` as {}, and {} holds the shape {:?}; give the model of this graph with \
                 --model",
                graph.ty(value),
                file.label(),
                tensor.shape
            )));
        }
    }
    Ok(())
}

/// The weights of a graph that reads none.
struct NoWeights;

impl WeightSource for NoWeights {
    fn weight(&self, _name: &str) -> Option<WeightView<'_>> {
        None
    }
}
