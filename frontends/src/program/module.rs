//! What a program compiles to.

use super::ast::{Language, Span, Tree};
use super::build::Input;
use super::host::HostProgram;
use super::rules::{BeamOptions, Rules};
use super::value::Value;
use indexmap::IndexMap;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tallow_ir::Graph;
use tallow_ir::ops::SampleMethod;

/// The name of the graph of a program that needs one only, and of the part that runs for each token.
pub const MAIN: &str = "main";
/// The name of the graph that runs once before a generation.
pub const ENCODER: &str = "encoder";

/// A compiled program: graphs, how they are driven, and code that runs beside them.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its language.
    pub language: Language,
    /// The graphs: [`MAIN`], and [`ENCODER`] where a part of the computation runs once before a generation.
    pub graphs: IndexMap<String, Graph>,
    /// For each graph, where the operation of a node (by its index) stands in the source.
    pub spans: HashMap<String, HashMap<usize, Span>>,
    /// What `forward` takes, in order.
    pub inputs: Vec<Input>,
    /// How tokens are generated, where the result is text.
    pub driver: Option<Driver>,
    /// What `forward` gives.
    pub outcome: Outcome,
    /// Code on text and numbers that are known only when running.
    pub host: Arc<HostProgram>,
    /// The function that writes a conversation as a prompt, by its number in the tree.
    pub chat: Option<usize>,
    /// Dotted paths of the config keys that the program asked for.
    pub read_keys: BTreeSet<String>,
    /// Whether it uses the attention that the config describes, which reads keys by itself.
    pub reads_attention: bool,
    /// Things worth telling.
    pub notes: Vec<String>,
}

impl Module {
    /// The program.
    pub fn tree(&self) -> &Tree {
        &self.host.tree
    }

    /// The graph that runs for each token, or the only one.
    pub fn main(&self) -> Option<&Graph> {
        self.graphs.get(MAIN)
    }
}

/// How a token is picked from logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Which rule.
    pub method: SampleMethod,
    /// Logits are divided by this; 0 is greedy.
    pub temperature: f64,
    /// The probability of top-p and min-p.
    pub p: f64,
    /// The number of top-k.
    pub k: u32,
}

impl Sampling {
    /// The largest logit.
    pub fn greedy() -> Self {
        Sampling { method: SampleMethod::Greedy, temperature: 0.0, p: 1.0, k: 0 }
    }
}

/// Tokens that a generation begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The encoded text input.
    Prompt,
    /// These.
    Ids(Vec<u32>),
}

/// A loop around [`MAIN`] that generates tokens: it is given `input_ids`, and its output `logits` holds a row for
/// each. What [`ENCODER`] gives goes into the inputs of the same names.
#[derive(Clone, Debug, PartialEq)]
pub struct Driver {
    /// What it begins with.
    pub start: Start,
    /// How a token is picked.
    pub sampling: Sampling,
    /// What the text may hold.
    pub rules: Rules,
    /// The search for the likeliest text, where the model is meant for one.
    pub beams: Option<BeamOptions>,
    /// Ids that end it, beside those of the config; they are not part of the result.
    pub stop: Vec<u32>,
    /// Most tokens that are generated.
    pub limit: Option<usize>,
    /// Most tokens in all where nobody asks for a number, those that it begins with included.
    pub length: Option<usize>,
    /// Most tokens in all that are possible, those that it begins with included.
    pub total: Option<usize>,
}

/// What `forward` gives.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The outputs of [`MAIN`].
    Tensors,
    /// Generated text.
    Text,
    /// A value made by host code from inputs and outputs.
    Value(Value),
}
