//! What a value may differ by.

use super::Side;
use std::collections::HashMap;
use tallow_executor::Engine;
use tallow_ir::{DType, Effect, Graph, NodeKind, Op, Value};

/// Of single precision: sums in another order.
const F32: f64 = 1e-5;
/// Of single precision against another library, between whose values several operations may lie.
const F32_OUTSIDE: f64 = 1e-4;
/// Of half precision.
const F16: f64 = 1e-3;
/// Of brain floats.
const BF16: f64 = 1e-2;
/// Of products where one side rounds activations to 12 bits of the largest of 32, as kernels for encoded weights do: the
/// first token of a text has a few very large ones. (Measured: 0.044 in a Qwen of 0.5 B.)
const ACTIVATIONS: f64 = 6e-2;
/// Of attention over rows of which one side rounds to half precision: scores are exponents, and where keys are large
/// (biases of some hundreds) their rounding shows. Caches of one precision on both sides compare better.
const HALF_CACHE: f64 = 0.2;
/// Of attention whose scores another engine adds up in another order: their rounding grows with them, and they become
/// exponents. (Measured: 8.5e-5 in the first layer of a Qwen of 0.5 B, whose scores are some hundreds.)
const EXPONENTS: f64 = 3e-4;

/// What a value of this element type may differ by where it is computed alike.
fn of_type(dtype: DType, outside: bool) -> f64 {
    match dtype {
        DType::F16 => F16,
        DType::BF16 => BF16,
        dtype if dtype.range().is_some() => 0.0,
        _ if outside => F32_OUTSIDE,
        _ => F32,
    }
}

/// What products with a weight may differ by where the other side holds it exactly, or in another encoding. The worst
/// element is far above the mean error: where a row is ruled by a few elements, as that of a text's first token is, the
/// errors of weights do not cancel. (In `q8`, whose mean error is near 0.006, a Qwen of 0.5 B has 0.2 in places.) Fixed
/// point depends on the size of the weights.
fn of_encoding(side: &Side, name: &str, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 0.0,
        DType::F16 => 2e-3,
        DType::BF16 => 1e-2,
        DType::U32 => fixed_point(side, name, 65536.0),
        DType::U16 => fixed_point(side, name, 256.0),
        DType::Q8 | DType::Q8_0 => 0.3,
        DType::Q6K => 0.5,
        DType::Q5K => 0.7,
        DType::Q4 | DType::Q4_0 | DType::Q4K => 1.0,
        DType::Q3K => 1.5,
        DType::Q2K => 2.0,
        DType::Ternary => 3.0,
        DType::I8 | DType::U8 | DType::Bool | DType::I32 | DType::I64 => 0.0,
    }
}

/// The same for fixed point with so many steps to 1, by the size of the tensor's first values.
fn fixed_point(side: &Side, name: &str, steps: f64) -> f64 {
    const SAMPLE: usize = 4096;
    let Some(view) = side.weights.weight(name) else { return 0.0 };
    let mut values = vec![0f32; SAMPLE.min(view.bytes.len() / view.encoding.block_bytes() * view.encoding.block_len())];
    let bytes = values.len() / view.encoding.block_len() * view.encoding.block_bytes();
    if view.encoding.is_block() || values.is_empty() || view.encoding.decode(&view.bytes[..bytes], &mut values).is_err()
    {
        return 0.0;
    }
    let square = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / values.len() as f64;
    if square == 0.0 { 0.0 } else { 7.0 / (steps * f64::sqrt(12.0) * square.sqrt()) }
}

/// What the other side is.
pub(super) enum Other<'a> {
    /// A graph of this library, with the values that are compared.
    Graph(&'a Side),
    /// Values that another program computed, with weights of single precision.
    Outside,
}

/// Where several operations lie between two values that are compared, their errors add as independent ones do, and the
/// worst element has more of them than the mean: products of two wrong numbers, scores that become exponents.
/// (Measured on eleven small models of ten families, in fixed point, by logits, blocks or projections alone: at most 0.7
/// of what this allows.)
const SEVERAL: f64 = 2.5;
/// How much of the rounding of references, in halves of their last digit, the result of operations on them shows at
/// most. (Measured: 4.5.)
const READ: f64 = 6.0;
/// So many times that behind attention, where scores become exponents. (Measured: 2.)
const SCORES: f64 = 3.0;
/// More than so many operations back, nothing finer than the sum of their errors can be told.
const FAR: usize = 16;

/// Tolerances of the values of one graph.
pub(super) struct Tolerances {
    /// What lies behind each node, up to values that are compared.
    behind: Vec<Behind>,
    outside: bool,
    given: Option<f64>,
}

/// What the errors of a node may come from: those of the longest way back to values that are compared.
#[derive(Clone, Copy, Default)]
struct Behind {
    /// The sum of squares of the errors of operations and their weights.
    square: f64,
    /// How many operations add to it.
    operations: usize,
    /// The largest part that one of them adds.
    most: f64,
    /// What the rounding of references that are read adds.
    read: f64,
    /// What encodings alone make of a single product.
    encoding: f64,
}

impl Tolerances {
    /// Tolerances of `side`, whose values `compared` are reset to values that are rounded by so much; `given` replaces
    /// those of real numbers.
    pub fn new(side: &Side, other: &Other<'_>, compared: &HashMap<Value, f64>, given: Option<f64>) -> Tolerances {
        let graph = side.graph();
        let mut behind = vec![Behind::default(); graph.node_bound()];
        let rounds = |side: &Side| side.program.options().engine == Engine::Cpu;
        let half = |side: &Side| side.program.half_cache();
        let (by_engine, by_cache) = match other {
            Other::Graph(other) => (rounds(side) != rounds(other), half(side) != half(other)),
            Other::Outside => (rounds(side), half(side)),
        };
        let most_read = compared.values().fold(0f64, |a, &b| a.max(b)) * SCORES;
        for id in graph.topological().unwrap_or_default() {
            let node = graph.node(id);
            let op = match &node.kind {
                NodeKind::Input(_) => continue,
                NodeKind::Weight(name) => {
                    let dtype = node.results[0].dtype;
                    let own = weight(side, name, dtype, other, by_engine);
                    let encoding = if dtype.is_block() { weight(side, name, dtype, other, false) } else { 0.0 };
                    behind[id.index()] = Behind { most: own, encoding, ..Behind::default() };
                    continue;
                }
                NodeKind::Op(op) => op,
            };
            let mut sum = Behind::default();
            // The parts of the operation's own error: of each weight that it reads, of the cache.
            let mut own: Vec<f64> = Vec::new();
            own.extend((by_cache && op.info().effect == Effect::State).then_some(HALF_CACHE));
            let mut encoding = 0f64;
            for v in graph.operands(id) {
                let there = behind[v.node.index()];
                let from = &graph.node(v.node).kind;
                // Reset to a cache's rows, which its own element type rounds.
                let cache = by_cache && matches!(from, NodeKind::Op(Op::KvCache));
                if matches!(from, NodeKind::Weight(_)) {
                    own.push(there.most);
                    encoding = encoding.max(there.encoding);
                } else if let Some(&rounded) = compared.get(&v) {
                    sum.read = sum.read.max(rounded);
                    own.extend(cache.then_some(HALF_CACHE));
                } else {
                    if there.square > sum.square {
                        (sum.square, sum.operations) = (there.square, there.operations);
                    }
                    sum.most = sum.most.max(there.most);
                    sum.encoding = sum.encoding.max(there.encoding);
                    sum.read = sum.read.max(there.read);
                }
            }
            if is_attention(op) {
                sum.read *= SCORES;
            }
            // Once amplified, it is not again: sums with what came before keep it small.
            sum.read = sum.read.min(most_read);
            own.retain(|&part| part > F32);
            if own.is_empty() && computes(op) {
                own.push(if by_engine && is_attention(op) { EXPONENTS } else { F32 });
            }
            for part in own {
                sum.square += part * part;
                sum.operations += 1;
                sum.most = sum.most.max(part);
            }
            sum.encoding = sum.encoding.max(encoding);
            behind[id.index()] = sum;
        }
        Tolerances { behind, outside: matches!(other, Other::Outside), given }
    }

    /// What `value` may differ by from one of type `other`.
    pub fn of(&self, graph: &Graph, value: Value, other: DType) -> f64 {
        let own = graph.ty(value).dtype;
        if own.range().is_some() && other.range().is_some() {
            return 0.0;
        }
        let b = &self.behind[value.node.index()];
        let sum =
            if b.operations > 1 && b.square > b.most * b.most * 1.05 { SEVERAL * b.square.sqrt() } else { b.most };
        let read = READ * b.read;
        let usual = of_type(own, self.outside).max(of_type(other, self.outside)).max((sum * sum + read * read).sqrt());
        self.given.unwrap_or(usual)
    }

    /// Whether so many operations lie between `value` and those before it that are compared that little can be told.
    pub fn is_far(&self, value: Value) -> bool {
        self.given.is_none() && self.behind[value.node.index()].operations > FAR
    }

    /// What the encodings of weights alone let pass at `value`; 0 where no blocks of them are read.
    pub fn by_encoding(&self, value: Value) -> f64 {
        if self.given.is_some() { 0.0 } else { self.behind[value.node.index()].encoding }
    }
}

/// Whether scores become exponents.
fn is_attention(op: &Op) -> bool {
    matches!(
        op,
        Op::Sdpa { .. }
            | Op::SdpaCross { .. }
            | Op::SdpaWindow { .. }
            | Op::FlashAttention { .. }
            | Op::Attention { .. }
            | Op::SegmentAttention { .. }
            | Op::CachedAttention { .. }
            | Op::Softmax { .. }
    )
}

/// Whether an operation makes new numbers, and does not only move them.
fn computes(op: &Op) -> bool {
    let moves = matches!(
        op,
        Op::Transpose { .. }
            | Op::Permute { .. }
            | Op::Concat { .. }
            | Op::Split { .. }
            | Op::Chunk { .. }
            | Op::Slice { .. }
            | Op::Gather { .. }
            | Op::KvCache
    );
    !moves && !op.is_view()
}

/// What a weight adds.
fn weight(side: &Side, name: &str, dtype: DType, other: &Other<'_>, by_engine: bool) -> f64 {
    let activations = if by_engine && dtype.is_block() { ACTIVATIONS } else { 0.0 };
    let own = || of_encoding(side, name, dtype);
    let encodings = match other {
        Other::Outside => own(),
        Other::Graph(other) => match other.graph().weight_named(name).map(|v| other.graph().ty(v).dtype) {
            Some(there) if there == dtype => 0.0,
            Some(there) => own().max(of_encoding(other, name, there)),
            None => own(),
        },
    };
    encodings.max(activations)
}
