//! The description of a decoder: everything that types, configs and tensors change.

use super::{Latent, Rope};
use crate::families::experts::Experts;
use tallow_ir::Op;

/// A decoder without a batch dimension: ids `[S]` to logits `[S, vocab]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderSpec {
    /// The canonical type, for messages.
    pub model_type: &'static str,
    /// Rows of the embedding and of the logits.
    pub vocab: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Names of tensors.
    pub names: Names,
    /// From ids to the residual stream.
    pub embedding: Embedding,
    /// The norm used at every place of the residual stream, and per head.
    pub norm: Norm,
    /// Where the norms of a layer stand.
    pub places: NormPlaces,
    /// Each branch is multiplied by this before it is added; 1 does nothing.
    pub residual_scale: f32,
    /// The attention of every layer.
    pub attention: Attention,
    /// The feed-forward of every layer.
    pub feed_forward: FeedForward,
    /// What differs from layer to layer.
    pub layers: Vec<Layer>,
    /// From the residual stream to logits.
    pub head: Head,
}

/// Names of tensors. Those of a layer follow `{prefix}{layers}.{number}.`; a linear map `n` has
/// `n.weight` and, where it has one, `n.bias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// What the names of the decoder begin with, as in `model.`; may be empty.
    pub prefix: String,
    /// The table of embeddings.
    pub embedding: &'static str,
    /// The table of learned positions; with [`Embedding::positions`] only.
    pub positions: &'static str,
    /// The list of layers.
    pub layers: &'static str,
    /// The last norm.
    pub final_norm: &'static str,
    /// The head, which stands beside the decoder: its name has no prefix.
    pub head: &'static str,
    /// The norm before attention; not with [`NormPlaces::After`].
    pub attention_norm: &'static str,
    /// The norm after attention, before the sum; with [`NormPlaces::Around`] and [`NormPlaces::After`] only.
    pub attention_post_norm: &'static str,
    /// The norm before the feed-forward; not with [`NormPlaces::After`] and [`NormPlaces::Parallel`].
    pub feed_forward_norm: &'static str,
    /// The norm after the feed-forward, before the sum; with [`NormPlaces::Around`] and [`NormPlaces::After`] only.
    pub feed_forward_post_norm: &'static str,
    /// Projections to queries, keys and values.
    pub q: &'static str,
    /// See `q`.
    pub k: &'static str,
    /// See `q`.
    pub v: &'static str,
    /// All three in one matrix; with [`Projections::Fused`] and [`Projections::FusedByHead`] only.
    pub qkv: &'static str,
    /// The norm of queries.
    pub q_norm: &'static str,
    /// The norm of keys.
    pub k_norm: &'static str,
    /// The output projection of attention.
    pub out: &'static str,
    /// The activated half of a gated feed-forward.
    pub gate: &'static str,
    /// The other half; the first matrix of a feed-forward without a gate.
    pub up: &'static str,
    /// Both halves in one matrix, gate rows first; with [`Gate::Fused`] only.
    pub gate_up: &'static str,
    /// The last matrix of the feed-forward.
    pub down: &'static str,
}

impl Names {
    /// The names of the llama scheme under a prefix.
    pub fn llama(prefix: impl Into<String>) -> Self {
        Names {
            prefix: prefix.into(),
            embedding: "embed_tokens",
            positions: "",
            layers: "layers",
            final_norm: "norm",
            head: "lm_head",
            attention_norm: "input_layernorm",
            attention_post_norm: "post_attention_layernorm",
            feed_forward_norm: "post_attention_layernorm",
            feed_forward_post_norm: "post_feedforward_layernorm",
            q: "self_attn.q_proj",
            k: "self_attn.k_proj",
            v: "self_attn.v_proj",
            qkv: "self_attn.qkv_proj",
            q_norm: "self_attn.q_norm",
            k_norm: "self_attn.k_norm",
            out: "self_attn.o_proj",
            gate: "mlp.gate_proj",
            up: "mlp.up_proj",
            gate_up: "mlp.gate_up_proj",
            down: "mlp.down_proj",
        }
    }

    /// The full name of something in a layer.
    pub fn in_layer(&self, layer: usize, part: &str) -> String {
        format!("{}{}.{layer}.{part}", self.prefix, self.layers)
    }
}

/// From ids to the residual stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The table, `[vocab, hidden]`.
    pub tensor: String,
    /// Each row is multiplied by this; 1 does nothing.
    pub scale: f32,
    /// How many learned positions there are, whose rows are added; `None` where there are none.
    pub positions: Option<u32>,
}

/// A normalisation over the last dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// `x / √(mean(x²) + eps) · (offset + weight)`.
    Rms {
        /// Added to the mean square.
        eps: f32,
        /// 1 where the file holds the gain minus 1, else 0.
        offset: f32,
    },
    /// `(x − mean(x)) / √(variance(x) + eps) · weight + bias`.
    Layer {
        /// Added to the variance.
        eps: f32,
        /// Whether there is a bias.
        bias: bool,
    },
}

/// Where the norms of a layer stand, and how its branches join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlaces {
    /// `h + attention(norm(h))`, then `h + feed_forward(norm(h))`.
    Before,
    /// `h + norm(attention(norm(h)))`, then `h + norm(feed_forward(norm(h)))`.
    Around,
    /// `h + norm(attention(h))`, then `h + norm(feed_forward(h))`.
    After,
    /// `h + attention(norm(h)) + feed_forward(norm(h))`, with one norm for both branches.
    Parallel,
    /// The same with a norm for each branch.
    ParallelNorms,
}

/// The attention of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: u32,
    /// Key/value heads, which divide the query heads.
    pub kv_heads: u32,
    /// Size of a head.
    pub head_dim: u32,
    /// How queries, keys and values are projected.
    pub projections: Projections,
    /// Whether these projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub out_bias: bool,
    /// The norm of queries and keys, before the rotation.
    pub head_norm: HeadNorm,
    /// Scores are multiplied by this; `None` for `1/√head_dim`.
    pub scale: Option<f32>,
    /// Whether scores of layer `n`, counted from 0, are divided by `n + 1` too.
    pub scale_by_depth: bool,
    /// Scores become `c · tanh(score / c)`.
    pub softcap: Option<f32>,
    /// Whether a query sees no key after itself. Without it the graph keeps no cache: all tokens
    /// must come in one call.
    pub causal: bool,
    /// Queries, keys and values through narrow projections, in place of all of the above but the heads.
    pub latent: Option<Latent>,
}

/// How queries, keys and values are projected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projections {
    /// One matrix each.
    Separate,
    /// One matrix: rows of all queries, then keys, then values.
    Fused,
    /// One matrix: for each head the rows of its query, its key and its value. There are as many key/value heads as
    /// query heads.
    FusedByHead,
}

/// The norm of queries and keys, before the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorm {
    /// None.
    Off,
    /// Over each head; one weight of `head_dim` for all heads.
    PerHead,
    /// Over all heads together; one weight of `heads · head_dim`.
    Projection,
    /// Over each head; one weight `[heads, head_dim]`, a row for each, and no bias.
    RowPerHead,
    /// The same, with each row a tensor of its own: `norms.{head}` under the name of the norm.
    TensorPerHead,
}

/// The feed-forward of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward {
    /// Width between its matrices.
    pub width: u32,
    /// Gating.
    pub gate: Gate,
    /// The activation.
    pub activation: Activation,
    /// Whether its matrices have biases.
    pub bias: bool,
}

/// Gating of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// `down(act(gate(x)) · up(x))`, one matrix each.
    Separate,
    /// The same, with `gate` and `up` as the two halves of one matrix.
    Fused,
    /// `down(act(up(x)))`.
    Off,
}

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// `gelu`, erf form.
    Gelu,
    /// `gelu`, tanh form.
    GeluTanh,
    /// `x · sigmoid(1.702 x)`.
    QuickGelu,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    ReluSquared,
}

impl Activation {
    /// Every name that a config may use.
    pub const NAMES: &'static [(&'static str, Activation)] = &[
        ("silu", Activation::Silu),
        ("swish", Activation::Silu),
        ("gelu", Activation::Gelu),
        ("gelu_new", Activation::GeluTanh),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
        ("gelu_fast", Activation::GeluTanh),
        ("quick_gelu", Activation::QuickGelu),
        ("relu", Activation::Relu),
        ("relu2", Activation::ReluSquared),
    ];

    /// The operation.
    pub fn op(self) -> Op {
        match self {
            Activation::Silu => Op::Silu,
            Activation::Gelu => Op::Gelu { approximate: false },
            Activation::GeluTanh => Op::Gelu { approximate: true },
            Activation::QuickGelu => Op::QuickGelu,
            Activation::Relu => Op::Relu,
            Activation::ReluSquared => Op::ReluSquared,
        }
    }

    /// The activation of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, a)| *a)
    }
}

/// What differs from layer to layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// How many keys a query sees, itself included; `None` for all.
    pub window: Option<u32>,
    /// The rotation of queries and keys, if there is one.
    pub rope: Option<Rope>,
    /// The experts of its feed-forward; `None` for the feed-forward of the decoder.
    pub experts: Option<Experts>,
}

/// From the residual stream to logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The matrix, `[vocab, hidden]`; the embedding's where they are tied.
    pub tensor: String,
    /// A bias, `[vocab]`.
    pub bias: Option<String>,
    /// Logits are multiplied by this; 1 does nothing.
    pub scale: f32,
    /// Logits become `c · tanh(logit / c)`.
    pub softcap: Option<f32>,
}
