//! The text towers of clip and siglip: the texts of a batch stand one after another, as those of
//! [text encoders](crate::families::encoder).

use super::layers::{Defaults, Layers, Sight};
use super::token;
use super::tower::{Kind, NAMES};
use crate::families::encoder::{read, texts::Texts};
use crate::families::parts::{Built, Parts};
use crate::families::{FamilyError, Settings, TensorShapes};
use tallow_ir::ops::{Comparison, Real, Reduction};
use tallow_ir::{DType, Dim, IrError, Op, SEQUENCE, Shape, TensorType, Value};

/// A text tower.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub layers: Layers,
    base: String,
    vocab: u32,
    /// Rows of the table of positions.
    positions: u32,
    pooling: Pooling,
}

/// How one row is made of a text.
#[derive(Clone, Copy, Debug)]
enum Pooling {
    /// Tokens see those before them, and the row is that of the first token with this id, or the largest id without one.
    End(Option<u32>),
    /// Texts are filled up with an id to as many tokens as there are positions, all of which see each other; the row is a
    /// map, with so many rows, of the last.
    Last { padding: u32, rows: u32 },
}

/// Positions of clip's texts where the config names no number.
pub const CLIP_POSITIONS: u32 = 77;
/// Those of siglip's.
pub const SIGLIP_POSITIONS: u32 = 64;
/// The id of the end that old configs of clip name, and that no text holds: the largest id is meant.
const OLD_END: u32 = 2;
/// Added to scores of tokens that are not seen.
const HIDDEN: f32 = -1e30;
/// A row that no batch has.
const NO_ROW: f32 = 8_388_608.0;

impl Text {
    /// Reads the settings of the tower.
    pub fn read(s: &mut Settings<'_>, tensors: &dyn TensorShapes, kind: Kind) -> Result<Self, FamilyError> {
        let base = read::prefix(tensors, &["text_model."], "embeddings.token_embedding");
        let clip = kind == Kind::Clip;
        let defaults = match kind {
            Kind::Clip => {
                Defaults { hidden: 512, layers: 12, heads: 8, width: Some(2048), activation: "quick_gelu", eps: 1e-5 }
            }
            Kind::Siglip => Defaults {
                hidden: 768,
                layers: 12,
                heads: 12,
                width: Some(3072),
                activation: "gelu_pytorch_tanh",
                eps: 1e-6,
            },
        };
        let layers = Layers::read(s, ("text", format!("{base}encoder.layers")), NAMES, defaults)?;
        let pooling = match kind {
            Kind::Clip => {
                let end = s.token_id("eos_token_id")?.unwrap_or(49_407);
                Pooling::End((end != OLD_END).then_some(end))
            }
            Kind::Siglip => Pooling::Last {
                padding: s.token_id("pad_token_id")?.unwrap_or(1),
                rows: s.optional_size("projection_size")?.unwrap_or(layers.hidden),
            },
        };
        let vocab = s.size("vocab_size", if clip { 49_408 } else { 32_000 })?;
        let positions = s.size("max_position_embeddings", if clip { CLIP_POSITIONS } else { SIGLIP_POSITIONS })?;
        if positions > MOST_POSITIONS {
            let cause = format!("at most {MOST_POSITIONS} are built");
            return Err(s.bad("max_position_embeddings", positions, cause, "Correct it"));
        }
        Ok(Text { layers, base, vocab, positions, pooling })
    }

    /// Width of the row of a text.
    pub fn width(&self) -> u32 {
        match self.pooling {
            Pooling::End(_) => self.layers.hidden,
            Pooling::Last { rows, .. } => rows,
        }
    }

    /// What the last norm gives for the tokens of the input, and one row for each text (`[B, width]`).
    pub fn build(&self, parts: &mut Parts<'_>) -> Result<(Value, Value), IrError> {
        let ids = parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
        let texts = Texts::new(parts, ids)?;
        match self.pooling {
            Pooling::End(end) => {
                let places = texts.places(parts)?;
                let h = self.embed(parts, ids, places)?;
                let sight = Sight { segments: texts.segments, bias: Some(earlier(parts, &texts)?) };
                let h = self.layers.build(parts, h, &sight)?;
                let h = self.last_norm(parts, h)?;
                let row = self.end(parts, ids, &texts, end)?;
                Ok((h, parts.op(Op::Gather { axis: 0 }, &[h, row], "pooled")?))
            }
            Pooling::Last { padding, rows } => {
                let hidden = i64::from(self.layers.hidden);
                let (ids, places) = self.filled_up(parts, ids, &texts, padding)?;
                let h = self.embed(parts, ids, places)?;
                let sight = Sight::of(parts, h, self.positions)?;
                let h = self.layers.build(parts, h, &sight)?;
                let h = self.last_norm(parts, h)?;
                let h = parts.graph.op(Op::Reshape { shape: vec![-1, self.positions.into(), hidden] }, &[h])?;
                let last = token(parts, h, -1, "last")?;
                let head = format!("{}head", self.base);
                Ok((h, parts.linear(last, &head, [rows, self.layers.hidden], true, "pooled")?))
            }
        }
    }

    /// The rows of ids plus those of their places, `[tokens, hidden]`.
    fn embed(&self, parts: &mut Parts<'_>, ids: Value, places: Value) -> Built {
        let (base, hidden) = (format!("{}embeddings", self.base), self.layers.hidden);
        let words = parts.weight(&format!("{base}.token_embedding.weight"), &[self.vocab, hidden])?;
        let words = parts.op(Op::TokenEmbed, &[ids, words], "words")?;
        let table = parts.weight(&format!("{base}.position_embedding.weight"), &[self.positions, hidden])?;
        let positions = parts.op(Op::TokenEmbed, &[places, table], "positions")?;
        parts.op(Op::Add, &[words, positions], "embed")
    }

    fn last_norm(&self, parts: &mut Parts<'_>, h: Value) -> Built {
        self.layers.norm(parts, h, &format!("{}final_layer_norm", self.base), "final_norm")
    }

    /// The row of the end of each text, i64 `[B]`: the first of its tokens with the id `end`, or with the largest id of the
    /// text; its first token where there is none.
    fn end(&self, parts: &mut Parts<'_>, ids: Value, texts: &Texts, end: Option<u32>) -> Built {
        let wanted = match end {
            Some(id) => constant(parts, DType::I64, &[id as f32], false)?,
            None => {
                // Ids are below 2^24, which single precision holds.
                let x = parts.graph.op(Op::Cast { dtype: DType::F32 }, &[ids])?;
                let most = texts.combined(parts, x, Reduction::Max)?;
                let most = parts.graph.op(Op::Cast { dtype: DType::I64 }, &[most])?;
                parts.graph.op(Op::Gather { axis: 0 }, &[most, texts.segments])?
            }
        };
        let ends = parts.graph.op(Op::Compare { how: Comparison::Equal }, &[ids, wanted])?;
        let row = parts.graph.op(Op::Cast { dtype: DType::F32 }, &[texts.row])?;
        let none = constant(parts, DType::F32, &[NO_ROW], false)?;
        let row = parts.graph.op(Op::Select, &[ends, row, none])?;
        let first = texts.combined(parts, row, Reduction::Min)?;
        let missing = parts.graph.op(Op::Compare { how: Comparison::Equal }, &[first, none])?;
        let first = parts.graph.op(Op::Cast { dtype: DType::I64 }, &[first])?;
        parts.op(Op::Select, &[missing, texts.starts, first], "ends")
    }

    /// The ids of each text with `padding` behind, as many as there are positions, and their places: i64
    /// `[B · positions]` both.
    fn filled_up(
        &self,
        parts: &mut Parts<'_>,
        ids: Value,
        texts: &Texts,
        padding: u32,
    ) -> Result<(Value, Value), IrError> {
        let numbers: Vec<f32> = (0..self.positions).map(|n| n as f32).collect();
        let places = constant(parts, DType::I64, &numbers, true)?;
        let column = |parts: &mut Parts<'_>, x: Value| parts.graph.op(Op::Unsqueeze { axes: vec![1] }, &[x]);
        let start = column(parts, texts.starts)?;
        let row = parts.graph.op(Op::Add, &[start, places])?;
        // Of the tokens of a text that have the number of it.
        let ones = parts.graph.op(Op::Cast { dtype: DType::F32 }, &[ids])?;
        let ones = parts.graph.op(Op::MulScalar { value: 0.0.into() }, &[ones])?;
        let ones = parts.graph.op(Op::AddScalar { value: 1.0.into() }, &[ones])?;
        let count = texts.combined(parts, ones, Reduction::Sum)?;
        let count = parts.graph.op(Op::Cast { dtype: DType::I64 }, &[count])?;
        let count = column(parts, count)?;
        let inside = parts.graph.op(Op::Compare { how: Comparison::Less }, &[places, count])?;
        let last = parts.graph.op(Op::Size { axis: 0 }, &[ids])?;
        let last = parts.graph.op(Op::AddScalar { value: (-1.0).into() }, &[last])?;
        let row = parts.graph.op(Op::Minimum, &[row, last])?;
        let found = parts.graph.op(Op::Gather { axis: 0 }, &[ids, row])?;
        let padding = constant(parts, DType::I64, &[padding as f32], false)?;
        let filled = parts.graph.op(Op::Select, &[inside, found, padding])?;
        let flat = Op::Reshape { shape: vec![-1] };
        let filled_ids = parts.op(flat.clone(), &[filled], "filled_ids")?;
        // Each text has the same places: 0 for each row of the first column, and so on.
        let zero = parts.graph.op(Op::Sub, &[row, row])?;
        let places = parts.graph.op(Op::Add, &[zero, places])?;
        Ok((filled_ids, parts.op(flat, &[places], "places")?))
    }
}

/// Positions of a text.
const MOST_POSITIONS: u32 = 1 << 16;

/// What hides later tokens from each, `[S, S]`.
fn earlier(parts: &mut Parts<'_>, texts: &Texts) -> Built {
    let query = parts.graph.op(Op::Unsqueeze { axes: vec![1] }, &[texts.row])?;
    let key = parts.graph.op(Op::Unsqueeze { axes: vec![0] }, &[texts.row])?;
    let later = parts.graph.op(Op::Compare { how: Comparison::Greater }, &[key, query])?;
    let later = parts.graph.op(Op::Cast { dtype: DType::F32 }, &[later])?;
    parts.op(Op::MulScalar { value: HIDDEN.into() }, &[later], "earlier")
}

/// Numbers as a vector, or one of them alone.
fn constant(parts: &mut Parts<'_>, dtype: DType, values: &[f32], vector: bool) -> Built {
    let shape = if vector { vec![values.len() as i64] } else { Vec::new() };
    let values: Vec<Real> = values.iter().map(|&x| x.into()).collect();
    parts.graph.op(Op::Constant { dtype, shape, values }, &[])
}
