//! Whole prompts: a graph written for one token a call becomes one for any number of tokens.
//!
//! Such graphs take `input_ids` of shape `[1]` and hold that 1 as a literal in their reshapes. The
//! pass widens it to the sequence length where the widened graph provably computes, in row `i`,
//! what the `i`-th of a row of one-token calls computes; where it cannot tell, it says why and the
//! graph stays as it is.
//!
//! The proof is by induction over the operations. A value is one of:
//!
//! - *fixed*: the same for every token of the call;
//! - *by token*: `[d, …]` for one token becomes `[S·d, …]`, whose slices of `d` rows are the values
//!   of the tokens in order (so in row-major order the token changes slowest);
//! - *cached*: what a `KvCache` gives, the rows of all tokens so far. One-token calls see the rows up
//!   to their own token, so only attention may read it, and becomes causal;
//! - *position*: the injected number of cached tokens, which only rotary embeddings may read: they
//!   count up from it themselves.

use std::collections::HashMap;
use std::fmt;
use tallow_ir::ops::{SampleMethod, Scaling};
use tallow_ir::{Dim, Effect, Graph, IrError, NodeKind, Op, POS, SEQUENCE, Shape, TensorType, Value};

/// Inputs that hold one entry a token.
const TOKEN_INPUTS: [&str; 3] = ["input_ids", "token_type_ids", "position_ids"];

/// Why a graph stays one for a token a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The value whose computation stands in the way; `None` for the graph as a whole.
    pub place: Option<String>,
    /// What stands in the way.
    pub reason: String,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "at `{place}`: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// Whether the graph was written for one token a call: `input_ids` has the shape `[1]`.
pub fn takes_one_token(graph: &Graph) -> bool {
    graph.input_named("input_ids").is_some_and(|v| is_one(graph.ty(v)))
}

/// The inputs of shape `[1]` that hold one entry a token.
pub fn token_inputs(graph: &Graph) -> Vec<String> {
    let single = |(name, value): &(&str, Value)| TOKEN_INPUTS.contains(name) && is_one(graph.ty(*value));
    graph.inputs().filter(single).map(|(name, _)| name.to_owned()).collect()
}

/// The graph for whole prompts.
///
/// # Errors
/// The first operation for which the two ways are not known to agree.
pub fn whole_prompt(graph: &Graph) -> Result<Graph, Missed> {
    let whole = |reason: &str| Missed { place: None, reason: reason.into() };
    if !takes_one_token(graph) {
        return Err(whole("the graph has no input `input_ids` of one token"));
    }
    let keeps = |id| matches!(&graph.node(id).kind, NodeKind::Op(op) if op.info().effect == Effect::State);
    if graph.input_named(POS).is_some_and(|pos| !graph.readers(pos).is_empty()) && !graph.nodes().any(keeps) {
        return Err(whole("it reads `pos` and keeps no cache, so that single calls all stand at the first position"));
    }
    let order = graph.topological().ok_or_else(|| whole("the graph has a cycle"))?;
    let fault = |e: IrError| Missed { place: None, reason: e.to_string() };
    let mut widened = Widened { old: graph, new: Graph::new(), known: HashMap::new() };
    let single = token_inputs(graph);
    for (name, value) in graph.inputs() {
        let tokens = single.iter().any(|n| n == name);
        let role = match name {
            POS => Role::Position,
            _ if tokens => Role::Tokens,
            _ => Role::Fixed,
        };
        let mut ty = graph.ty(value).clone();
        if tokens {
            ty = TensorType::new(ty.dtype, Shape::new([Dim::symbol(SEQUENCE)]));
        }
        let made = widened.new.input(name, ty).map_err(fault)?;
        widened.known.insert(value, (made, role));
    }
    for (name, value) in graph.weights() {
        let made = widened.new.weight(name, graph.ty(value).clone()).map_err(fault)?;
        widened.known.insert(value, (made, Role::Fixed));
    }
    for id in order {
        if let NodeKind::Op(op) = &graph.node(id).kind {
            let place = graph.name_of(Value { node: id, port: 0 });
            widened.operation(op, id).map_err(|reason| Missed {
                place: Some(place.map_or_else(|| format!("{}#{}", op.name(), id.index()), str::to_owned)),
                reason,
            })?;
        }
    }
    for (name, value) in graph.outputs() {
        let (made, _) = widened.known[&value];
        widened.new.output(name, made).map_err(fault)?;
    }
    Ok(widened.new)
}

fn is_one(ty: &TensorType) -> bool {
    matches!(ty.shape.dims(), [d] if d.as_const() == Some(1))
}

/// What a value is, as the head of this file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Fixed,
    Tokens,
    Cached,
    Position,
}

struct Widened<'g> {
    old: &'g Graph,
    new: Graph,
    /// The widened value of each old one.
    known: HashMap<Value, (Value, Role)>,
}

impl Widened<'_> {
    fn operation(&mut self, op: &Op, id: tallow_ir::NodeId) -> Result<(), String> {
        let old = self.old.operands(id);
        let (operands, roles): (Vec<Value>, Vec<Role>) = old.iter().map(|v| self.known[v]).unzip();
        let (op, role) = if roles.iter().all(|&r| r == Role::Fixed) {
            if op.info().effect != Effect::Pure {
                return Err(format!("{} takes part in every call, and reads nothing of its token", op.name()));
            }
            (op.clone(), Role::Fixed)
        } else {
            let types: Vec<&TensorType> = old.iter().map(|&v| self.old.ty(v)).collect();
            widen(op, &roles, &types, &self.old.node(id).results)?
        };
        let made = self.new.op_many(op, &operands).map_err(|e| format!("does not widen: {e}"))?;
        let results: Vec<Value> = self.old.results(id).collect();
        for (&was, &now) in results.iter().zip(&made) {
            agrees(role, self.old.ty(was), self.new.ty(now))?;
            if let Some(name) = self.old.name_of(was) {
                self.new.name(now, name);
            }
            self.known.insert(was, (now, role));
        }
        if let (Some(hint), Some(first)) = (self.old.hint(id), made.first()) {
            self.new.set_hint(first.node, hint);
        }
        Ok(())
    }
}

/// The invariant on types: the first dimension grows with the tokens, the others stay.
fn agrees(role: Role, was: &TensorType, now: &TensorType) -> Result<(), String> {
    let grown = match role {
        Role::Fixed | Role::Position => return Ok(()),
        Role::Tokens => was.shape.dims().first().and_then(|d| d.mul(&Dim::symbol(SEQUENCE))),
        // Rows of P + 1 tokens become those of P + S.
        Role::Cached => was.shape.dims().first().and_then(|d| {
            let one = Dim::symbol(tallow_ir::PAST).add(&Dim::constant(1))?;
            let all = Dim::symbol(tallow_ir::PAST).add(&Dim::symbol(SEQUENCE))?;
            d.div_exact(&one)?.mul(&all)
        }),
    };
    let same = was.dtype == now.dtype
        && was.shape.rank() == now.shape.rank()
        && grown.as_ref() == now.shape.dims().first()
        && was.shape.dims()[1..] == now.shape.dims()[1..];
    if same { Ok(()) } else { Err(format!("{was} widens to {now}, which does not hold one part a token")) }
}

type Widening = Result<(Op, Role), String>;

/// The operation that does for all tokens what `op` does for one, and what its results are. At least
/// one operand is not fixed.
fn widen(op: &Op, roles: &[Role], types: &[&TensorType], results: &[TensorType]) -> Widening {
    use Role::{Cached, Fixed, Position, Tokens};
    let refused = |why: &str| Err(format!("{} {why}", op.name()));
    let same = || Ok((op.clone(), Tokens));
    let rank = types.first().map_or(0, |t| t.shape.rank());
    // Position is for rotary embeddings, the cache for attention and what prepares its rows.
    if roles.contains(&Position) && !matches!(op, Op::Rope { .. } | Op::RopeScaled { .. }) {
        return refused("reads `pos`, which only rotary embeddings are known to count up from");
    }
    let first_alone = roles.first() == Some(&Tokens) && roles[1..].iter().all(|&r| r == Fixed);
    match op {
        // Values on their own.
        Op::Clamp { .. }
        | Op::NanToNum { .. }
        | Op::Silu
        | Op::Gelu { .. }
        | Op::Relu
        | Op::LeakyRelu { .. }
        | Op::Sigmoid
        | Op::Tanh
        | Op::AddScalar { .. }
        | Op::MulScalar { .. }
        | Op::Neg
        | Op::Exp
        | Op::Log
        | Op::Sqrt
        | Op::Sin
        | Op::Cos
        | Op::Erf
        | Op::Softplus
        | Op::Abs
        | Op::QuickGelu
        | Op::ReluSquared
        | Op::Rsqrt
        | Op::Floor
        | Op::Round
        | Op::Sign
        | Op::Not
        | Op::Reciprocal
        | Op::Cast { .. }
            if roles == [Tokens] =>
        {
            same()
        }
        Op::Add
        | Op::Sub
        | Op::Mul
        | Op::Div
        | Op::FlowStep
        | Op::Pow
        | Op::Maximum
        | Op::Minimum
        | Op::Remainder
        | Op::Compare { .. }
        | Op::Logical { .. }
        | Op::Select => pairs(roles, types).map_or_else(|why| refused(&why), |()| same()),
        Op::GeGlu | Op::SwiGlu | Op::Glu | Op::FusedSwiGlu if types.len() == 2 => match roles {
            [Tokens, Tokens] => same(),
            _ => refused("gates tokens by what is not of the token"),
        },
        // Rows on their own: the last dimension is worked on, and is not the first.
        Op::Matmul
        | Op::LoraApply { .. }
        | Op::FusedNormMatmul { .. }
        | Op::RmsNorm { .. }
        | Op::LayerNorm { .. }
        | Op::GeGlu
        | Op::SwiGlu
        | Op::Glu
        | Op::FusedSwiGlu
        | Op::PRelu
        | Op::KvCompress { .. }
            if first_alone && rank >= 2 =>
        {
            same()
        }
        Op::KvDecompress { .. } if rank >= 2 && matches!(roles, [Tokens | Cached]) => Ok((op.clone(), roles[0])),
        Op::FusedSkipNorm { .. } if roles == [Tokens, Tokens, Fixed] && rank >= 2 => same(),
        Op::TokenEmbed if first_alone => same(),
        Op::PosEmbed if first_alone && types[0].dtype.is_integer() => same(),
        Op::Sample { method: SampleMethod::Greedy, .. } if rank >= 2 => same(),
        Op::ExpertMatmul if roles == [Tokens, Fixed, Tokens] => same(),
        Op::Softmax { dim: axis }
        | Op::Argmax { dim: axis }
        | Op::CumSum { axis }
        | Op::TopK { axis, .. }
        | Op::RepeatEach { axis, .. }
        | Op::Unflatten { axis, .. }
            if roles == [Tokens] && rank >= 2 && !is_first(i64::from(*axis), rank) =>
        {
            same()
        }
        Op::Reduce { axes, .. } | Op::Flip { axes } | Op::Squeeze { axes }
            if !axes.is_empty() && axes.iter().all(|&axis| !is_first(axis, rank)) =>
        {
            same()
        }
        Op::GatherElements { axis }
            if roles == [Tokens, Tokens]
                && !is_first(i64::from(*axis), rank)
                && types[0].shape.dims().first() == types[1].shape.dims().first() =>
        {
            same()
        }
        // Moves within a token.
        Op::Transpose { perm: order } | Op::Permute { dims: order } if order.first() == Some(&0) => same(),
        Op::Concat { axis } if *axis > 0 && roles.iter().all(|&r| r == Tokens) => same(),
        Op::Split { axis, .. } | Op::Chunk { axis, .. } | Op::Slice { axis, .. } if *axis > 0 && roles == [Tokens] => {
            same()
        }
        Op::Reshape { shape } => match (roles, shape.as_slice()) {
            ([Tokens], _) => reshape(&results[0]),
            // The rows of all tokens: their number is open already.
            ([Cached], [-1, rest @ ..]) if rest.iter().all(|&n| n > 0) => Ok((op.clone(), Cached)),
            _ => refused("gives the rows of the cache a fixed shape"),
        },
        Op::Rope { .. } | Op::RopeScaled { .. } if roles[0] == Tokens && matches!(roles[1], Position | Tokens) => {
            match op {
                Op::RopeScaled { scaling: Scaling::Dynamic | Scaling::LongRope, .. } => {
                    refused("has frequencies that follow the length of the call")
                }
                _ if !(2..=3).contains(&rank) => refused("turns a tensor with a batch dimension"),
                // Rows of rank 2 are the heads of one token; of rank 3 the first dimension counts tokens.
                _ if rank == 3 && !is_const(types[0], 0, 1) => refused("turns several positions for each token"),
                _ => same(),
            }
        }
        Op::KvCache if roles == [Tokens, Tokens] && types.iter().all(|t| t.shape.rank() == 2) => {
            Ok((op.clone(), Cached))
        }
        Op::Sdpa { .. }
        | Op::SdpaCross { .. }
        | Op::SdpaWindow { .. }
        | Op::FlashAttention { .. }
        | Op::Attention { .. } => attention(op, roles, types),
        // The list above is what is proved; whatever else there is or will be runs one token a call.
        _ => refused("is not known to treat tokens on their own"),
    }
}

fn is_const(ty: &TensorType, axis: usize, size: i64) -> bool {
    ty.shape.dims().get(axis).and_then(Dim::as_const) == Some(size)
}

fn is_first(dim: i64, rank: usize) -> bool {
    dim == 0 || dim + rank as i64 == 0
}

/// Broadcasting operands: those by token agree in their first dimension, the others do not reach it.
fn pairs(roles: &[Role], types: &[&TensorType]) -> Result<(), String> {
    let rank = types.iter().map(|t| t.shape.rank()).max().unwrap_or(0);
    let mut rows = None;
    for (role, ty) in roles.iter().zip(types) {
        let first = ty.shape.dims().first();
        match role {
            Role::Tokens if ty.shape.rank() == rank && rank > 0 => {
                if *rows.get_or_insert(first) != first {
                    return Err("spreads one token's rows over another number of rows".into());
                }
            }
            Role::Fixed if ty.shape.rank() < rank || first.and_then(Dim::as_const) == Some(1) => {}
            Role::Fixed => return Err("combines each row of a token with another constant".into()),
            Role::Tokens => return Err("spreads a token along another dimension".into()),
            Role::Cached | Role::Position => return Err("reads the rows of all tokens".into()),
        }
    }
    Ok(())
}

/// A reshape of one token's values, whatever literal it holds: the first dimension is what is left.
fn reshape(result: &TensorType) -> Widening {
    let rest: Option<Vec<i64>> = result.shape.dims().iter().skip(1).map(|d| d.as_const().filter(|&n| n > 0)).collect();
    match rest {
        Some(rest) if result.shape.rank() > 0 => {
            Ok((Op::Reshape { shape: std::iter::once(-1).chain(rest).collect() }, Role::Tokens))
        }
        _ => Err(format!("Reshape to {} leaves no dimension that the tokens may fill", result.shape)),
    }
}

/// Over the cache, each query of a one-token call sees every row up to its own token: causal. Over
/// anything that is the same for all tokens, each sees all of it.
fn attention(op: &Op, roles: &[Role], types: &[&TensorType]) -> Widening {
    use Role::{Cached, Fixed, Tokens};
    let refused = |why: &str| Err(format!("{} {why}", op.name()));
    if types.iter().take(3).any(|t| t.shape.rank() != 2) {
        return refused("has a batch dimension");
    }
    let (heads, kv_heads, head_dim) = match *op {
        Op::Sdpa { heads, kv_heads, head_dim, .. }
        | Op::FlashAttention { heads, kv_heads, head_dim }
        | Op::Attention { heads, kv_heads, head_dim, .. } => (heads, kv_heads, head_dim),
        Op::SdpaCross { heads, head_dim } | Op::SdpaWindow { heads, head_dim, .. } => (heads, heads, head_dim),
        _ => return refused("is no attention"),
    };
    // How many queries or keys a tensor holds.
    let count = |ty: &TensorType, heads: u32| {
        ty.shape.elements()?.div_exact(&Dim::constant(i64::from(heads).checked_mul(head_dim.into())?))
    };
    if count(types[0], heads) != Some(Dim::constant(1)) {
        return refused("has several queries for each token");
    }
    let so_far = Dim::symbol(tallow_ir::PAST).add(&Dim::constant(1));
    for (role, ty) in roles.iter().zip(types).skip(1).take(2) {
        if *role == Cached && count(ty, kv_heads) != so_far {
            return refused("has several keys for each token");
        }
    }
    let over_cache = match roles {
        [Tokens, Cached, Cached] => true,
        [Tokens, Fixed, Fixed] => false,
        [_, _, _] => return refused("sees keys that no cache holds, so that one-token calls see only their own"),
        _ => return refused("takes a mask, which is for the keys of one token"),
    };
    let mut op = op.clone();
    match &mut op {
        Op::Sdpa { causal, .. } => *causal = over_cache,
        Op::Attention { causal, window, .. } if over_cache || *window == 0 => *causal = over_cache,
        Op::SdpaCross { heads, head_dim } if over_cache => {
            op = Op::Sdpa { heads: *heads, kv_heads: *heads, head_dim: *head_dim, causal: true };
        }
        Op::SdpaCross { .. } => {}
        Op::FlashAttention { heads, kv_heads, head_dim } if !over_cache => {
            op = Op::Sdpa { heads: *heads, kv_heads: *kv_heads, head_dim: *head_dim, causal: false };
        }
        Op::FlashAttention { .. } => {}
        Op::SdpaWindow { .. } if over_cache => {}
        _ => return Err(format!("{} looks at a window of keys that are the same for all tokens", op.name())),
    }
    Ok((op, Tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::{text, verify};

    /// The widened form of a graph whose statements are these, as text; or why there is none.
    fn widen(statements: &str) -> Result<String, String> {
        let graph = text::parse(&format!("graph {{\n{statements}\n}}")).unwrap();
        let graph = verify::verify(graph).unwrap().graph().clone();
        let wide = whole_prompt(&graph).map_err(|m| m.to_string())?;
        Ok(text::print(verify::verify(wide).unwrap().graph()))
    }

    const HEAD: &str = "
        input %input_ids: f32[1]
        input %pos: i64[]
        weight %e = \"e\": f32[9, 8]
        %h: f32[1, 8] = TokenEmbed(%input_ids, %e)";

    #[test]
    fn a_layer_with_literal_reshapes_widens_and_turns_causal() {
        let text = widen(&format!(
            "{HEAD}
            %r: f32[2, 4] = Reshape(%h) {{ shape = [-1, 4] }}
            %q: f32[2, 4] = Rope(%r, %pos) {{ head_dim = 4, rope_dim = 4, base = 10000 }}
            %k: f32[1, 8] = Reshape(%q) {{ shape = [1, 8] }}
            %ka: f32[P + 1, 8], %va: f32[P + 1, 8] = KvCache(%k, %h)
            %a: f32[2, 4] = Sdpa(%q, %ka, %va) {{ heads = 2, kv_heads = 2, head_dim = 4, causal = false }}
            %y: f32[1, 8] = Reshape(%a) {{ shape = [1, 8] }}
            %s: f32[1, 8] = Add(%y, %h)
            output logits = %s"
        ))
        .unwrap();
        for line in [
            "input %input_ids: f32[S]",
            "%r: f32[2*S, 4] = Reshape(%h) { shape = [-1, 4] }",
            "%k: f32[S, 8] = Reshape(%q) { shape = [-1, 8] }",
            "%ka: f32[P + S, 8], %va: f32[P + S, 8] = KvCache(%k, %h)",
            "Sdpa(%q, %ka, %va) { heads = 2, kv_heads = 2, head_dim = 4, causal = true }",
            "%s: f32[S, 8] = Add(%y, %h)",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_mixes_tokens_stays_as_it_is() {
        let cases = [
            // Without a cache a one-token call sees only itself.
            (
                "%y: f32[1, 8] = Sdpa(%h, %h, %h) { heads = 2, kv_heads = 2, head_dim = 4, causal = true }",
                "at `y`: Sdpa sees keys that no cache holds",
            ),
            ("%y: f32[1, 8] = Softmax(%h) { dim = 0 }", "at `y`: Softmax is not known"),
            ("%y: f32[8, 1] = Transpose(%h) { perm = [1, 0] }", "at `y`: Transpose is not known"),
            ("%y: f32[8] = Reshape(%h) { shape = [8] }\n%z: f32[1, 8] = Add(%y, %h)", "at `z`: Add spreads"),
            ("%y: f32[9, 8] = Add(%h, %e)", "at `y`: Add combines each row of a token with another constant"),
            (
                "%a: f32[P + 1, 8], %b: f32[P + 1, 8] = KvCache(%h, %h)\n%p: i64[1] = Reshape(%pos) { shape = [1] }",
                "at `p`: Reshape reads `pos`",
            ),
            (
                "%a: f32[P + 1, 8], %b: f32[P + 1, 8] = KvCache(%h, %h)
                 %y: f32[1, 8] = RopeScaled(%h, %pos) { head_dim = 8, rope_dim = 8, base = 10000, interleaved = false, \
                 scaling = dynamic, factor = 2, original = 4, low = 0, high = 0, attention_factor = 1, short = [], \
                 long = [] }",
                "at `y`: RopeScaled has frequencies that follow the length",
            ),
            ("%y: f32[1, 8] = Slice(%h) { axis = 0, start = 0, end = 1 }", "at `y`: Slice is not known"),
            (
                "%r: f32[2, 4] = Reshape(%h) { shape = [2, 4] }
                 %a: f32[2*P + 2, 4], %b: f32[2*P + 2, 4] = KvCache(%r, %r)
                 %q: f32[1, 4] = Slice(%h) { axis = 1, start = 0, end = 4 }
                 %y: f32[1, 4] = Sdpa(%q, %a, %b) { heads = 1, kv_heads = 1, head_dim = 4, causal = false }",
                "at `y`: Sdpa has several keys for each token",
            ),
            (
                "%a: f32[P + 1, 8], %b: f32[P + 1, 8] = KvCache(%h, %h)
                 %e2: f32[1, 16] = Concat(%h, %h) { axis = 1 }
                 %r: f32[2, 8] = Reshape(%e2) { shape = [2, 8] }
                 %y: f32[2, 8] = SdpaWindow(%r, %a, %b) { heads = 1, head_dim = 8, window = 3 }",
                "at `y`: SdpaWindow has several queries for each token",
            ),
            (
                "%a: f32[P + 1, 8], %b: f32[P + 1, 8] = KvCache(%h, %h)
                 %r: f32[2, 1, 4] = Reshape(%h) { shape = [2, 1, 4] }
                 %y: f32[2, 1, 4] = Rope(%r, %pos) { head_dim = 4, rope_dim = 4, base = 10000 }",
                "at `y`: Rope turns several positions for each token",
            ),
            (
                "%y: f32[1, 8] = Rope(%h, %pos) { head_dim = 8, rope_dim = 8, base = 10000 }",
                "it reads `pos` and keeps no cache",
            ),
        ];
        for (statements, why) in cases {
            let last = statements.rsplit('%').find(|s| s.contains(": ")).unwrap();
            let name = last.split(':').next().unwrap();
            let found = widen(&format!("{HEAD}\n{statements}\noutput logits = %{name}")).expect_err(statements);
            assert!(found.contains(why), "{found:?} lacks {why:?}");
        }
    }

    #[test]
    fn keys_of_an_encoder_stay_in_sight_of_every_token() {
        let text = widen(&format!(
            "{HEAD}
            input %enc: f32[T, 8]
            %a: f32[1, 8] = Sdpa(%h, %enc, %enc) {{ heads = 2, kv_heads = 2, head_dim = 4, causal = true }}
            %b: f32[1, 8] = SdpaCross(%a, %enc, %enc) {{ heads = 2, head_dim = 4 }}
            output logits = %b"
        ))
        .unwrap();
        assert!(text.contains("causal = false"), "{text}");
        assert!(text.contains("%b: f32[S, 8] = SdpaCross"), "{text}");
    }
}
