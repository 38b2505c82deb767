//! Two computations against each other, value by value: the first operation where the numbers part.
//!
//! [`compare`] runs two graphs on the same inputs. The left one is the reference. Values that both have are compared,
//! and each is reset to the reference before the right graph goes on, so that an error is charged to the operation
//! that makes it and to none of those that read it. [`against`] does the same with values that another program
//! wrote to files.
//!
//! ```
//! use tallow::numeric::{self, Given, Side};
//! let model = tallow::Model::storyteller()?;
//! let (left, right) = (Side::of_model(&model), Side::of_model(&model));
//! let inputs = numeric::inputs(&[&left, &right], &Given { text: Some("A fox.".into()), ..Given::default() })?;
//! let pairs = numeric::pairs(&left, &right)?;
//! let report = numeric::compare(&left, &right, &pairs, &inputs, None)?;
//! assert!(report.is_within());
//! # Ok::<(), tallow::Error>(())
//! ```

mod against;
mod inputs;
mod json;
mod lockstep;
mod measure;
mod modules;
mod pairs;
mod region;
mod report;
mod tolerance;
mod weights;

pub use against::{References, against};
pub use inputs::{Given, inputs};
pub use lockstep::compare;
pub use measure::Measure;
pub use pairs::{ValuePair, pairs};
pub use report::{Compared, Report, Suspect, Verdict};
pub use weights::WeightDifference;

use crate::{Model, Result};
use std::sync::Arc;
use tallow_executor::{Program, ProgramOptions, WeightSource};
use tallow_ir::Graph;
use tallow_ir::verify::Verified;

/// One of the computations: a graph with the weights that it reads, ready to run.
#[derive(Clone)]
pub struct Side {
    pub(crate) label: String,
    pub(crate) graph: Arc<Verified>,
    pub(crate) weights: Arc<dyn WeightSource>,
    pub(crate) program: Arc<Program>,
    model: Option<Model>,
}

impl Side {
    /// What a model runs.
    pub fn of_model(model: &Model) -> Side {
        Side {
            label: model.file().label(),
            graph: model.graph().clone(),
            weights: model.weights(),
            program: model.program().clone(),
            model: Some(model.clone()),
        }
    }

    /// A graph over the tensors of `weights`. `label` is what messages call it.
    ///
    /// # Errors
    /// Weights that are missing or do not decode.
    pub fn of_graph(
        label: &str,
        graph: Verified,
        weights: Arc<dyn WeightSource>,
        options: ProgramOptions,
    ) -> Result<Side> {
        let program = Program::new(&graph, weights.clone(), options).map_err(|e| in_side(label, e.into()))?;
        Ok(Side { label: label.to_owned(), graph: Arc::new(graph), weights, program: Arc::new(program), model: None })
    }

    /// The side with the tokenizer of a model, for texts.
    pub fn with_model(self, model: &Model) -> Side {
        Side { model: Some(model.clone()), ..self }
    }

    /// What messages call it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        self.graph.graph()
    }
}

/// An error that says on which side it happened.
fn in_side(label: &str, error: crate::Error) -> crate::Error {
    crate::Error::Within { file: label.to_owned(), source: Box::new(error) }
}
