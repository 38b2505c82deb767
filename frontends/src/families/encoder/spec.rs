//! The description of an encoder of text: everything that types, configs and tensors change.

use crate::families::decoder::Rope;
use tallow_ir::ops::Activation;

/// An encoder of the texts of a batch, one after another. A tensor `n` in it is a whole name; a linear map or a norm `n`
/// has `n.weight` and, where it has one, `n.bias`.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderSpec {
    /// Rows of the table of words.
    pub vocab: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// From ids to the residual stream.
    pub embeddings: Embeddings,
    /// The norm used at every place.
    pub norm: Norm,
    /// Where the norms of a layer stand.
    pub places: Places,
    /// Names in a layer.
    pub names: Names,
    /// The attention of every layer.
    pub attention: Attention,
    /// What distances between tokens add to the scores of every layer.
    pub relative: Option<Relative>,
    /// The feed-forward of every layer.
    pub feed_forward: FeedForward,
    /// What differs from layer to layer.
    pub layers: Vec<Layer>,
    /// Neighbouring embeddings, added to the result of the first layer.
    pub convolution: Option<Convolution>,
    /// The last norm.
    pub final_norm: Option<String>,
    /// From the first token of each text to `pooler_output`.
    pub pooler: Option<Vec<Step>>,
    /// From the last layer to `logits`.
    pub head: Option<Head>,
    /// Logits of a second, smaller head over `pooler_output`, whether the one text of a pair follows the other.
    pub next_sentence: Option<Step>,
    /// Without a head, what becomes `embedding`.
    pub pooling: Pooling,
    /// Whether `embedding` is scaled to the length 1.
    pub normalize: bool,
    /// Tensors that say again what another one says.
    pub idle: Vec<String>,
}

/// From ids to the residual stream: sums of rows of tables, a norm and perhaps a linear map.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// The table of words, `[vocab, width]`.
    pub words: String,
    /// Width of the tables.
    pub width: u32,
    /// The table of positions.
    pub positions: Option<Positions>,
    /// The table of token types and its rows.
    pub types: Option<(String, u32)>,
    /// The norm of the sum.
    pub norm: String,
    /// From `width` to the width of the residual stream.
    pub projection: Option<Projection>,
}

/// A table of positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Positions {
    /// The table.
    pub tensor: String,
    /// Its rows.
    pub rows: u32,
    /// Which row a token takes.
    pub counting: Counting,
}

/// Which position a token has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Its place in its text, from 0.
    Places,
    /// This id of padding plus the number of tokens up to it that are no padding, itself included; padding has the id
    /// itself.
    Words(u32),
}

/// A linear map of embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// Its name.
    pub name: String,
    /// Whether it has a bias.
    pub bias: bool,
    /// Whether it comes before the norm.
    pub before_norm: bool,
}

/// A layer normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Added to the variance.
    pub eps: f32,
    /// Whether it has a bias.
    pub bias: bool,
}

/// Where the norms of a layer stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// `norm(h + branch(h))`.
    After,
    /// `h + branch(norm(h))`.
    Before,
}

/// Names in a layer, which follow `{layers}.{number}.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The list of layers, with the prefix of the model.
    pub layers: String,
    /// Queries.
    pub q: &'static str,
    /// Keys.
    pub k: &'static str,
    /// Values.
    pub v: &'static str,
    /// All three in one matrix: rows of queries, keys, values.
    pub qkv: &'static str,
    /// The output projection of attention.
    pub out: &'static str,
    /// The norm at attention.
    pub attention_norm: &'static str,
    /// The activated half of a gated feed-forward.
    pub gate: &'static str,
    /// The first matrix of the feed-forward, or the other half of a gated one.
    pub up: &'static str,
    /// The last matrix of the feed-forward.
    pub down: &'static str,
    /// The norm at the feed-forward.
    pub feed_forward_norm: &'static str,
}

impl Names {
    /// The full name of something in a layer.
    pub fn in_layer(&self, layer: usize, part: &str) -> String {
        format!("{}.{layer}.{part}", self.layers)
    }
}

/// The attention of a layer, in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Heads.
    pub heads: u32,
    /// Size of a head.
    pub head_dim: u32,
    /// Whether queries, keys and values come from one matrix.
    pub fused: bool,
    /// Whether the projections to queries, keys and values have biases.
    pub bias: bool,
    /// Whether the output projection has a bias.
    pub out_bias: bool,
    /// Scores are multiplied by this.
    pub scale: f32,
}

/// What distances between tokens add to scores.
#[derive(Clone, Debug, PartialEq)]
pub enum Relative {
    /// A learned number for each head and bucket of distances, the same for all layers.
    Buckets {
        /// The table, `[rows, heads]`.
        tensor: String,
        /// Its rows, of which the first [`Relative::BUCKETS`] count.
        rows: u32,
    },
    /// Products of queries and keys with vectors of distances (DeBERTa, arXiv 2006.03654).
    Disentangled(Disentangled),
}

impl Relative {
    /// Buckets of [`Relative::Buckets`], whatever the table holds.
    pub const BUCKETS: u32 = 32;
}

/// See [`Relative::Disentangled`].
#[derive(Clone, Debug, PartialEq)]
pub struct Disentangled {
    /// The table of distances, `[2 · span, hidden]`.
    pub tensor: String,
    /// The norm of its rows.
    pub norm: Option<String>,
    /// Rows on either side.
    pub span: u32,
    /// The row of each distance, from `-reach` to `reach`, past which it does not change.
    pub table: Vec<u32>,
    /// Queries meet distances: the projection of the table to keys.
    pub keys: Option<&'static str>,
    /// Keys meet distances: the projection of the table to queries.
    pub queries: Option<&'static str>,
}

/// The feed-forward of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward {
    /// Width between its matrices.
    pub width: u32,
    /// The activation.
    pub activation: Activation,
    /// Gating.
    pub gating: Gating,
    /// Whether its matrices have biases.
    pub bias: bool,
}

/// Gating of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// `down(act(up(x)))`.
    Off,
    /// `down(act(gate(x)) · up(x))`, one matrix each.
    Separate,
    /// The same with `gate` and `up` as the two halves of the matrix `up`.
    Fused,
}

/// What differs from layer to layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Whether the norm at attention is there.
    pub attention_norm: bool,
    /// How far a token sees on either side; `None` for the whole text.
    pub window: Option<u32>,
    /// The rotation of queries and keys.
    pub rope: Option<Rope>,
}

/// A convolution over the tokens of a text: `norm(h + act(conv(embeddings)))`.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// The convolution, `[hidden, hidden, kernel]`.
    pub name: String,
    /// The norm.
    pub norm: String,
    /// Tokens that it reads, an odd number.
    pub kernel: u32,
    /// The activation.
    pub activation: Activation,
}

/// From the last layer to logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// What it reads.
    pub rows: Rows,
    /// One after another.
    pub steps: Vec<Step>,
}

/// Rows of the last layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Every token.
    Tokens,
    /// The first token of each text.
    First,
    /// The mean of the tokens of each text.
    Mean,
}

/// A step of a head.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `x · Wᵀ + b`.
    Linear {
        /// W, `[rows, columns]`.
        weight: String,
        /// Its shape.
        shape: [u32; 2],
        /// b.
        bias: Option<String>,
    },
    /// An activation.
    Activate(Activation),
    /// A layer normalisation.
    Norm {
        /// Its name.
        name: String,
        /// Its width.
        width: u32,
        /// The rest.
        norm: Norm,
    },
}

impl Step {
    /// The linear map `name`, with or without a bias.
    pub fn linear(name: &str, shape: [u32; 2], bias: bool) -> Step {
        let bias = bias.then(|| format!("{name}.bias"));
        Step::Linear { weight: format!("{name}.weight"), shape, bias }
    }
}

/// What stands for a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Its first token.
    First,
    /// The mean of its tokens.
    Mean,
    /// The largest of each value.
    Max,
}
