//! What a page tells beside the graph itself.

use crate::NodeId;
use std::collections::BTreeMap;

/// What is known about a graph besides itself. All of it is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The head of the page: the name of the model or file.
    pub title: String,
    /// A line below it: the stage, where the graph comes from.
    pub subtitle: String,
    /// What the compiler did or did not do at a node.
    pub remarks: BTreeMap<NodeId, Vec<Remark>>,
    /// The program that the graph was made from.
    pub source: Option<Source>,
    /// Where in the program a node was written: line and column, from 1.
    pub spans: BTreeMap<NodeId, (u32, u32)>,
    /// The module that a node belongs to, as in `model.layers.3.mlp`, where it is known otherwise than by
    /// the names of weights.
    pub modules: BTreeMap<NodeId, String>,
}

impl About {
    /// A title and nothing else.
    pub fn titled(title: impl Into<String>) -> Self {
        About { title: title.into(), ..About::default() }
    }
}

/// A remark of a compiler pass about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The pass.
    pub pass: String,
    /// Whether it did what it is for.
    pub applied: bool,
    /// What it did, or why it did not.
    pub text: String,
    /// Which remark it is, where it may stand at several nodes: it counts once. Without a number each counts
    /// for itself.
    pub number: Option<u32>,
}

/// The program that a graph was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name for people: that of the file.
    pub name: String,
    /// Its whole text.
    pub text: String,
}
