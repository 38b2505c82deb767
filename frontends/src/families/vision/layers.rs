//! Layers of a transformer over the rows of several pictures, or of several texts, that stand one after another: norms
//! before the branches.

use crate::families::encoder::read;
use crate::families::parts::{Built, Parts};
use crate::families::{FamilyError, Settings};
use tallow_ir::ops::Activation;
use tallow_ir::{DType, IrError, Op, Value};

/// Names in a layer, which follow `{list}.{number}.`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// Projections to queries, keys and values, and back.
    pub q: &'static str,
    pub k: &'static str,
    pub v: &'static str,
    pub out: &'static str,
    /// The norms before attention and before the feed-forward.
    pub norms: [&'static str; 2],
    /// The first matrix of the feed-forward, of a gated one with the rows of the activated half before those of the other.
    pub up: &'static str,
    /// Its last matrix.
    pub down: &'static str,
    /// What branches are multiplied by, lane by lane.
    pub scales: Option<[&'static str; 2]>,
}

/// What missing settings mean for a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub hidden: u32,
    pub layers: u32,
    pub heads: u32,
    /// Width between the matrices of the feed-forward; `None` where another setting says it.
    pub width: Option<u32>,
    pub activation: &'static str,
    pub eps: f64,
}

/// The layers.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    /// What names of values begin with.
    pub says: &'static str,
    /// The list of layers.
    pub list: String,
    pub names: Names,
    pub count: u32,
    pub hidden: u32,
    pub heads: u32,
    /// Width between the matrices of the feed-forward.
    pub width: u32,
    pub activation: Activation,
    /// Whether the feed-forward is gated.
    pub gated: bool,
    /// Whether the projections to queries, keys and values have biases.
    pub bias: bool,
    pub eps: f32,
}

/// Which rows see each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// The number of its picture or text for each row, i64.
    pub segments: Value,
    /// Added to scores.
    pub bias: Option<Value>,
}

impl Sight {
    /// That of items that have `each` of the rows `x` (`[items · each, width]`).
    pub fn of(parts: &mut Parts<'_>, x: Value, each: u32) -> Result<Self, IrError> {
        let row = parts.graph.op(Op::Iota { axis: 0 }, &[x])?;
        let each = Op::Constant { dtype: DType::I64, shape: vec![], values: vec![(each as f32).into()] };
        let each = parts.graph.op(each, &[])?;
        let segments = parts.op(Op::Div, &[row, each], "segments")?;
        Ok(Sight { segments, bias: None })
    }
}

impl Layers {
    /// Reads the sizes under their usual keys. The feed-forward is not gated, and projections have biases.
    pub fn read(
        s: &mut Settings<'_>,
        (says, list): (&'static str, String),
        names: Names,
        defaults: Defaults,
    ) -> Result<Self, FamilyError> {
        let hidden = s.size("hidden_size", defaults.hidden)?;
        let heads = s.size("num_attention_heads", defaults.heads)?;
        s.head_dim(("num_attention_heads", heads), ("hidden_size", hidden))?;
        Ok(Layers {
            says,
            list,
            names,
            count: s.layers(defaults.layers)?,
            hidden,
            heads,
            width: match defaults.width {
                Some(width) => s.size("intermediate_size", width)?,
                None => hidden,
            },
            activation: read::activation(s, "hidden_act", defaults.activation)?,
            gated: false,
            bias: true,
            eps: s.epsilon("layer_norm_eps", defaults.eps)?,
        })
    }

    /// A norm of this width and ε.
    pub fn norm(&self, parts: &mut Parts<'_>, x: Value, name: &str, says: impl Into<String>) -> Built {
        parts.layer_norm(x, name, self.hidden, self.eps, true, says)
    }

    /// All layers over the rows `h` (`[rows, hidden]`).
    pub fn build(&self, parts: &mut Parts<'_>, h: Value, sight: &Sight) -> Built {
        let mut h = h;
        for layer in 0..self.count {
            let says = |what: &str| format!("{}{layer}.{what}", self.says);
            let part = |name: &str| format!("{}.{layer}.{name}", self.list);
            let x = self.norm(parts, h, &part(self.names.norms[0]), says("attn_norm"))?;
            let branch = self.attention(parts, x, sight, (&part, &says))?;
            let branch = self.scaled(parts, branch, 0, &part)?;
            h = parts.op(Op::Add, &[h, branch], says("attn_residual"))?;
            let x = self.norm(parts, h, &part(self.names.norms[1]), says("ffn_norm"))?;
            let branch = self.feed_forward(parts, x, (&part, &says))?;
            let branch = self.scaled(parts, branch, 1, &part)?;
            h = parts.op(Op::Add, &[h, branch], says("out"))?;
        }
        Ok(h)
    }

    fn attention(&self, parts: &mut Parts<'_>, x: Value, sight: &Sight, (part, says): Call<'_>) -> Built {
        let (square, names) = ([self.hidden; 2], &self.names);
        let q = parts.linear(x, &part(names.q), square, self.bias, says("q"))?;
        let k = parts.linear(x, &part(names.k), square, self.bias, says("k"))?;
        let v = parts.linear(x, &part(names.v), square, self.bias, says("v"))?;
        let head_dim = self.hidden / self.heads;
        let op = Op::SegmentAttention {
            heads: self.heads,
            kv_heads: self.heads,
            head_dim,
            window: 0,
            scale: scale(head_dim).into(),
            softcap: 0.0.into(),
        };
        let operands: Vec<Value> = [q, k, v, sight.segments].into_iter().chain(sight.bias).collect();
        let mixed = parts.op(op, &operands, says("attn"))?;
        parts.linear(mixed, &part(names.out), square, true, says("attn_out"))
    }

    fn feed_forward(&self, parts: &mut Parts<'_>, x: Value, (part, says): Call<'_>) -> Built {
        let (hidden, width) = (self.hidden, self.width);
        let rows = if self.gated { 2 * width } else { width };
        let up = parts.linear(x, &part(self.names.up), [rows, hidden], true, says("up"))?;
        let y = match self.gated {
            true => {
                let halves = parts.split(up, &[width; 2])?;
                let gate = super::activated(parts, halves[0], self.activation)?;
                parts.op(Op::Mul, &[gate, halves[1]], says("gated"))?
            }
            false => super::activated(parts, up, self.activation)?,
        };
        parts.linear(y, &part(self.names.down), [hidden, width], true, says("ffn_out"))
    }

    /// A branch times its scales, where the type has some.
    fn scaled(&self, parts: &mut Parts<'_>, x: Value, at: usize, part: &dyn Fn(&str) -> String) -> Built {
        let Some(names) = self.names.scales else { return Ok(x) };
        let scale = parts.weight(&part(names[at]), &[self.hidden])?;
        parts.graph.op(Op::Mul, &[x, scale])
    }
}

/// What scores of heads of this size are multiplied by.
pub(super) fn scale(head_dim: u32) -> f32 {
    (1.0 / f64::from(head_dim).sqrt()) as f32
}

/// The full names of tensors and of values in a layer.
type Call<'a> = (&'a dyn Fn(&str) -> String, &'a dyn Fn(&str) -> String);
