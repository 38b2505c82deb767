//! What a difference consists of.

use crate::{NodeId, TensorType, Value};

/// How the nodes of two graphs pair up, and what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Paired nodes, in topological order of the left graph (inputs, weights and operations).
    pub pairs: Vec<Pair>,
    /// Nodes of the left graph without a partner, in its topological order.
    pub removed: Vec<NodeId>,
    /// Nodes of the right graph without a partner, in its topological order.
    pub added: Vec<NodeId>,
    /// What differs, folded by layer: one entry for people each. Empty where the graphs are equal.
    pub entries: Vec<Entry>,
}

impl Diff {
    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Two nodes that take the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The node of the left graph.
    pub left: NodeId,
    /// The node of the right graph.
    pub right: NodeId,
    /// In what they differ; empty where they are the same.
    pub changes: Vec<Change>,
}

impl Pair {
    /// Whether the two differ by themselves: not only in what follows from a change elsewhere.
    pub fn is_changed(&self) -> bool {
        !self.changes.iter().all(Change::follows)
    }
}

/// In what two nodes differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are different operations.
    Operation {
        /// Name of the left one.
        left: &'static str,
        /// Name of the right one.
        right: &'static str,
    },
    /// They are the same operation with different attributes.
    Attribute {
        /// Name of the field.
        field: &'static str,
        /// Its text in the left graph.
        left: String,
        /// Its text in the right graph.
        right: String,
    },
    /// They read different values.
    Operand {
        /// Number of the operand.
        number: u32,
        /// What the left one reads, if it has the operand.
        left: Option<Value>,
        /// What the right one reads, if it has the operand.
        right: Option<Value>,
        /// Whether that is only so because a node before it was removed, added or replaced.
        follows: bool,
    },
    /// Their results have different types.
    Type {
        /// Number of the result.
        port: u32,
        /// Its type in the left graph, if it has the result.
        left: Option<TensorType>,
        /// Its type in the right graph, if it has the result.
        right: Option<TensorType>,
        /// Whether that follows from another change: of the node, or of what it reads.
        follows: bool,
    },
    /// They are inputs or weights of different names.
    Name {
        /// The name in the left graph.
        left: String,
        /// The name in the right graph.
        right: String,
    },
}

impl Change {
    /// Whether it is only the consequence of a change elsewhere.
    pub fn follows(&self) -> bool {
        match self {
            Change::Operand { follows, .. } | Change::Type { follows, .. } => *follows,
            Change::Operation { .. } | Change::Attribute { .. } | Change::Name { .. } => false,
        }
    }
}

/// One thing that differs, in as many places as it does so in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What kind of difference it is.
    pub kind: Kind,
    /// The line for people: `in layers 0-27: Silu becomes Gelu { approximate = true } (mlp.act)`.
    pub text: String,
    /// Which layers have it, where names tell.
    pub layers: Option<Layers>,
    /// Every place, by the nodes that take part.
    pub spots: Vec<Spot>,
    /// The statements of the first place in the left graph, in its own names.
    pub left: Vec<Place>,
    /// Those in the right graph.
    pub right: Vec<Place>,
}

impl Entry {
    /// In how many places it is.
    pub fn count(&self) -> usize {
        self.spots.len()
    }
}

/// What kind of difference an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An input is renamed, of another type, gone or new.
    Input,
    /// A weight is renamed, or of another type.
    Weight,
    /// An operation has other attributes, or results of another type.
    #[default]
    Changed,
    /// An operation reads other values, or the same in another order.
    Operands,
    /// Operations take the place of others.
    Replaced,
    /// Operations are gone.
    Removed,
    /// Operations are new.
    Added,
    /// An output is renamed, another value, gone or new.
    Output,
}

impl Kind {
    /// As JSON and people name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Weight => "weight",
            Kind::Changed => "changed",
            Kind::Operands => "operands",
            Kind::Replaced => "replaced",
            Kind::Removed => "removed",
            Kind::Added => "added",
            Kind::Output => "output",
        }
    }
}

/// Which layers have a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// What stands before the number in names: `model.layers.`.
    pub prefix: String,
    /// The numbers, ascending, each once.
    pub numbers: Vec<i64>,
    /// How many layers of this prefix the larger graph has.
    pub of: usize,
}

/// The nodes of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Those of the left graph.
    pub left: Vec<NodeId>,
    /// Those of the right graph.
    pub right: Vec<NodeId>,
}

/// A statement of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node; of an output, that which gives its value.
    pub node: NodeId,
    /// The statement, in the graph's own names.
    pub text: String,
    /// The byte ranges of the statement that differ from the other side's; empty where the whole does.
    pub marks: Vec<std::ops::Range<usize>>,
}
