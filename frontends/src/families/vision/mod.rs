//! Pictures: transformers over patches and convolutional networks, with their classifiers, and pairs of towers that put
//! pictures and texts side by side.
//!
//! | module | holds |
//! |---|---|
//! | `patches` | from pixels to rows, one a patch, with their positions |
//! | `layers` | layers of a transformer over rows of several pictures or texts |
//! | `bicubic` | a table of positions for another number of patches |
//! | `tower` | clip's and siglip's picture towers |
//! | [`text`] | their text towers |
//! | [`vit`], [`dinov2`], [`pair`], [`convnext`], [`resnet`] | a reader for each type |
//!
//! Pictures come as `pixel_values`, f32 `[N, channels, height, width]`, prepared as the type wants them. Outputs have the
//! names of the library that the types come from: `last_hidden_state`, `pooler_output`, and `logits` `[N, labels]` of a
//! classifier. [`pair`] says what clip and siglip give.

mod bicubic;
pub mod convnext;
pub mod dinov2;
mod layers;
pub mod pair;
mod patches;
pub mod resnet;
pub mod text;
mod tower;
pub mod vit;

use super::parts::{Built, Parts};
use super::{FamilyError, PROCESSOR, Settings};
use tallow_ir::ops::{Activation, Reduction};
use tallow_ir::{Dim, IrError, Op, Shape, TensorType, Value};

/// The input of pixels.
pub const PIXELS: &str = "pixel_values";
/// The vectors of pictures, `[N, width]`.
pub const IMAGE_EMBEDS: &str = "image_embeds";
/// The vectors of texts, `[B, width]`.
pub const TEXT_EMBEDS: &str = "text_embeds";

/// Pictures of a call.
const PICTURES: &str = "N";

/// Keys that none of these types reads: training, backbones of other networks, and what a tensor says already.
pub const IGNORED: &[&str] = &[
    "_out_features",
    "_out_indices",
    "apply_layernorm",
    "attention_probs_dropout_prob",
    "drop_path_rate",
    // Of pictures whose patches are to be guessed.
    "encoder_stride",
    "use_mask_token",
    // Values that tensors began with.
    "layerscale_value",
    "logit_scale_init_value",
    "num_labels",
    "out_features",
    "out_indices",
    "problem_type",
    "pruned_heads",
    "reshape_hidden_states",
    "stage_names",
    "tie_word_embeddings",
    "top_k",
];

/// The input of pictures, `[N, channels, height, width]`.
fn pixels(parts: &mut Parts<'_>, channels: u32, [height, width]: [Dim; 2]) -> Built {
    let shape = Shape::new([Dim::symbol(PICTURES), Dim::constant(channels.into()), height, width]);
    parts.graph.input(PIXELS, TensorType::f32(shape))
}

/// How a convolution moves over a picture.
#[derive(Clone, Copy, Debug)]
struct Window {
    kernel: [u32; 2],
    stride: [u32; 2],
    padding: u32,
    groups: u32,
}

impl Window {
    /// A square one, padded so that at stride 1 the size stays.
    fn square(kernel: u32, stride: u32) -> Self {
        Window { kernel: [kernel; 2], stride: [stride; 2], padding: kernel / 2, groups: 1 }
    }

    /// One that takes each pixel once.
    fn tiles(size: [u32; 2]) -> Self {
        Window { kernel: size, stride: size, padding: 0, groups: 1 }
    }
}

/// The convolution `name` of `x` `[N, from, H, W]` to `to` channels.
fn convolution(parts: &mut Parts<'_>, x: Value, name: &str, [to, from]: [u32; 2], window: Window, bias: bool) -> Built {
    let Window { kernel, stride, padding, groups } = window;
    let mut operands = vec![x];
    operands.push(parts.weight(&format!("{name}.weight"), &[to, from / groups, kernel[0], kernel[1]])?);
    if bias {
        operands.push(parts.weight(&format!("{name}.bias"), &[to])?);
    }
    let op = Op::Conv2d { kernel, stride, padding: [padding; 2], dilation: [1; 2], groups };
    parts.op(op, &operands, name)
}

/// An activation, which may be none.
fn activated(parts: &mut Parts<'_>, x: Value, activation: Activation) -> Built {
    match activation.op() {
        Some(op) => parts.graph.op(op, &[x]),
        None => Ok(x),
    }
}

/// The mean over some dimensions.
fn mean(parts: &mut Parts<'_>, x: Value, axes: &[i64], says: &str) -> Built {
    parts.op(Op::Reduce { how: Reduction::Mean, axes: axes.to_vec(), keep: false }, &[x], says)
}

/// Rows of `x` (`[N, rows, width]`) from `start` to `end`.
fn tokens(parts: &mut Parts<'_>, x: Value, start: i64, end: i64) -> Built {
    parts.graph.op(Op::Slice { axis: 1, start, end }, &[x])
}

/// Row `at` of each picture of `x` (`[N, rows, width]`): `[N, width]`.
fn token(parts: &mut Parts<'_>, x: Value, at: i64, says: &str) -> Built {
    let end = if at < 0 { i64::MAX } else { at + 1 };
    let row = tokens(parts, x, at, end)?;
    parts.op(Op::Squeeze { axes: vec![1] }, &[row], says)
}

/// Names a value as it is called outside, and gives it out.
fn output(parts: &mut Parts<'_>, name: &str, value: Value) -> Result<(), IrError> {
    parts.graph.name(value, name);
    parts.graph.output(name, value)
}

/// One size, or one each for height and width.
fn sides(s: &mut Settings<'_>, key: &str, default: u32) -> Result<[u32; 2], FamilyError> {
    let Some(list) = s.integers(key)? else { return s.size(key, default).map(|n| [n; 2]) };
    let side = |n: &i64| u32::try_from(*n).ok().filter(|n| (1..=MOST_PIXELS).contains(n));
    let sides = match list.as_slice() {
        [both] => side(both).map(|n| [n; 2]),
        [height, width] => side(height).zip(side(width)).map(|(h, w)| [h, w]),
        _ => None,
    };
    let cause = format!("expected a number of pixels up to {MOST_PIXELS}, or two: a height and a width");
    sides.ok_or_else(|| s.bad(key, format!("{list:?}"), cause, "Correct it"))
}

/// Pixels of a side.
const MOST_PIXELS: u32 = 1 << 15;

/// Height and width of the pictures that `[architecture.processor]` makes, where they are the same for all.
fn prepared(s: &Settings<'_>) -> Result<Option<[u32; 2]>, FamilyError> {
    let Some(mut table) = s.table(PROCESSOR)? else { return Ok(None) };
    for key in ["crop", "size"] {
        if table.contains(key) {
            return sides(&mut table, key, 1).map(Some);
        }
    }
    Ok(None)
}

/// An error where pictures are prepared in another size than the one that a type takes.
fn same_size(s: &Settings<'_>, taken: [u32; 2], key: &str) -> Result<(), FamilyError> {
    let pair = |[h, w]: [u32; 2]| format!("{h} × {w}");
    match prepared(s)? {
        Some(made) if made != taken => Err(s.bad(
            PROCESSOR,
            pair(made),
            format!("`{key}` is {}, and this type takes pictures of that size alone", pair(taken)),
            "Correct one of them",
        )),
        _ => Ok(()),
    }
}
