//! The instructions of a step, for given sizes: what to do, on which memory.

use super::memory::Place;
use crate::kernels::activation::Activation;
use crate::kernels::{AttentionSpec, RopeLayout, RopeTable};
use crate::weights::Weight;
use candle_core::Tensor;
use std::sync::Arc;
use tallow_ir::Op;
use tallow_ir::rope::Angles;

/// One instruction.
#[derive(Debug)]
pub(super) struct Call {
    /// The step of the plan that it is a part of.
    pub step: usize,
    /// Whether all threads meet before it.
    pub wait: bool,
    /// What it does.
    pub work: Work,
}

/// Rows of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub rows: usize,
    pub width: usize,
}

/// An operand of numbers.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// An intermediate.
    Place(Place),
    /// A decoded weight, or what is computed from weights alone.
    Fixed(Arc<[f32]>),
}

/// What a [`Work::Pair`] computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    Add,
    Sub,
    Mul,
    Div,
}

/// What an instruction does. Where its result is [`Place::own`], every thread does all of it; else each does its share of
/// the rows, or of the columns of a single row. Results may lie on operands of the same sizes: all reads of a part end
/// before it is written.
#[derive(Debug)]
pub(super) enum Work {
    /// Rows of a table by the ids of the call.
    Embed { table: Arc<Weight>, grid: Grid, out: Place },
    /// A norm of rows; first `x + skip`, which is a result too.
    Norm { x: Source, skip: Option<(Source, Place)>, norm: Norm, grid: Grid, out: Place },
    /// Two operands element by element, the second one repeated where it is shorter.
    Pair { how: Pair, a: Source, b: Source, repeated: usize, grid: Grid, out: Place },
    /// `x · factor + term`.
    Affine { factor: f32, term: f32, x: Source, grid: Grid, out: Place },
    /// An activation.
    Activate { kind: Activation, x: Source, grid: Grid, out: Place },
    /// `kind(gate) · up`.
    Gate { kind: Activation, gate: Source, up: Source, grid: Grid, out: Place },
    /// The elements as they are.
    Copy { x: Source, grid: Grid, out: Place },
    /// The operand of products, normalised and quantised as they need it.
    Prepare(Prepare),
    /// Products with matrices.
    Product(Product),
    /// Rotary embedding of heads.
    Rope { x: Source, heads: Heads, rope: Rope, rows: usize, out: Place },
    /// Keys and values, normalised and turned, are appended to a cache, and queries normalised and turned.
    Append(Append),
    /// Attention of queries over a cache.
    Attend(Attend),
}

/// A norm of rows.
#[derive(Clone, Debug)]
pub(super) enum Norm {
    /// Root mean square.
    Rms { gain: Source, eps: f32 },
    /// Mean and variance.
    Layer { gain: Source, bias: Source, eps: f32 },
}

/// Heads in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heads {
    pub count: usize,
    pub width: usize,
}

/// How heads turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rope {
    /// Which of the tables of the call.
    pub table: usize,
    pub layout: RopeLayout,
}

/// [`Work::Prepare`].
#[derive(Debug)]
pub(super) struct Prepare {
    pub x: Source,
    /// Gain and ε of a root-mean-square norm.
    pub norm: Option<(Source, f32)>,
    pub grid: Grid,
    /// Where the quantised rows go, for packed matrices.
    pub codes: Option<Codes>,
    /// Where the normalised rows go, for matrices of exact values.
    pub values: Option<Place>,
}

/// Where quantised rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codes {
    /// Each thread has its own.
    Own,
    /// Those of this number, of all threads.
    Shared(usize),
}

/// [`Work::Product`].
#[derive(Debug)]
pub(super) struct Product {
    /// Rows of the operand, and their length.
    pub grid: Grid,
    pub codes: Option<Codes>,
    pub values: Option<Source>,
    pub parts: Vec<Part>,
    pub after: After,
    /// The counter from which threads claim panels.
    pub counter: usize,
}

/// One matrix of a product.
#[derive(Debug)]
pub(super) struct Part {
    pub matrix: Matrix,
    /// Rows of the matrix: columns of the result.
    pub columns: usize,
    pub bias: Option<Source>,
    /// The result; that of the gate for both parts of [`After::Gate`].
    pub out: Place,
}

/// The right-hand side of a product.
#[derive(Clone, Debug)]
pub(super) enum Matrix {
    /// A packed weight.
    Packed(Arc<Weight>),
    /// A weight of exact values.
    Exact(Arc<Weight>),
    /// Computed from weights alone, `f32` `[n, k]`.
    Computed(Tensor),
}

/// What is done with finished columns of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing more.
    Done,
    /// An activation.
    Activate(Activation),
    /// The first part, activated, times the second.
    Gate(Activation),
}

/// [`Work::Append`].
#[derive(Debug)]
pub(super) struct Append {
    pub cache: usize,
    pub k: Source,
    pub v: Source,
    /// Lengths of rows of keys and of values.
    pub widths: [usize; 2],
    pub rows: usize,
    /// What is done to heads of keys, and of queries.
    pub turn: Option<Turn>,
}

/// What is done to heads before attention.
#[derive(Debug)]
pub(super) struct Turn {
    pub q: Source,
    pub q_heads: Heads,
    pub k_heads: Heads,
    /// The turned queries.
    pub out: Place,
    /// Gains of queries and of keys, and ε.
    pub norm: Option<(Source, Source, f32)>,
    pub rope: Option<Rope>,
}

/// [`Work::Attend`].
#[derive(Debug)]
pub(super) struct Attend {
    pub spec: AttentionSpec,
    pub q: Place,
    pub cache: usize,
    pub rows: usize,
    pub out: Place,
    /// The counter from which threads claim items.
    pub counter: usize,
}

/// The angles of one rotary embedding.
#[derive(Clone, Debug)]
pub(super) struct Turning {
    pub op: Op,
    /// Whether frequencies change with the length of the text.
    pub by_length: bool,
    pub angles: Angles,
    /// Those of the tokens of a call.
    pub table: RopeTable,
}

/// Instructions that run in one call of the team, or a step that has none and runs by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// These calls.
    Team(std::ops::Range<usize>),
    /// This step of the plan.
    Alone(usize),
}
