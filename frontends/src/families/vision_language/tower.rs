//! The part that sees: patches of pictures, each turned by its row and column, to rows of the text.

use super::ROWS;
use crate::families::decoder::{Activation, gated};
use crate::families::parts::{Built, Parts};
use crate::families::{FamilyError, Settings};
use tallow_ir::{Dim, IrError, Op, Shape, TensorType, Value};

/// Keys that describe the same things twice, or videos.
pub(super) const IGNORED: &[&str] = &["in_chans", "spatial_patch_size", "tokens_per_second"];

/// What reads a tower from its table: the table, what names of tensors begin with, and the width of the text.
pub(super) type Read = fn(&mut Settings<'_>, &str, u32) -> Result<Tower, FamilyError>;

/// Most pixels, frames or patches along one side of something.
const MOST_SIDE: u32 = 1024;

/// ε of all norms.
const EPS: f32 = 1e-6;

/// The description of a tower.
#[derive(Clone, Debug)]
pub(super) struct Tower {
    prefix: String,
    /// Width of the residual stream.
    width: u32,
    /// Width of the text.
    hidden: u32,
    heads: u32,
    head_dim: u32,
    feed_forward: u32,
    activation: Activation,
    theta: f32,
    newer: bool,
    /// Whether all patches of a picture see each other, layer by layer; else those of a window.
    whole: Vec<bool>,
    pub channels: u32,
    pub patch: u32,
    pub frames: u32,
    pub merge: u32,
    /// Rows of the text along a side of a window, where layers have windows.
    pub window: Option<u32>,
}

/// LayerNorm, an ungated feed-forward, no windows. `hidden_size` is the width of the text.
pub(super) fn qwen2_vl(s: &mut Settings<'_>, prefix: &str, hidden: u32) -> Result<Tower, FamilyError> {
    let width = ("embed_dim", s.size("embed_dim", 1280)?);
    fits_text(s, "hidden_size", hidden, 3584)?;
    let ratio = s.size("mlp_ratio", 4)?;
    let feed_forward = product(s, "mlp_ratio", [width.1, ratio, 1])?;
    Tower::read(s, prefix, width, hidden, (feed_forward, Activation::QuickGelu, false))
}

/// RMSNorm, a gated feed-forward, and windows on the layers that `fullatt_block_indexes` does not name.
pub(super) fn qwen2_5_vl(s: &mut Settings<'_>, prefix: &str, hidden: u32) -> Result<Tower, FamilyError> {
    let width = ("hidden_size", s.size("hidden_size", 3584)?);
    fits_text(s, "out_hidden_size", hidden, 3584)?;
    let feed_forward = s.size("intermediate_size", 3420)?;
    let mut tower = Tower::read(s, prefix, width, hidden, (feed_forward, Activation::Silu, true))?;
    let whole = s.integers("fullatt_block_indexes")?.unwrap_or_else(|| vec![7, 15, 23, 31]);
    let layers = tower.whole.len() as i64;
    tower.whole = (0..layers).map(|layer| whole.contains(&layer)).collect();
    let size = s.size("window_size", 112)?;
    let window = size / tower.merge / tower.patch;
    if window == 0 {
        return Err(s.bad(
            "window_size",
            size,
            format!("a window holds no {} × {} patches of {} pixels", tower.merge, tower.merge, tower.patch),
            "Correct it",
        ));
    }
    tower.window = tower.whole.contains(&false).then_some(window);
    Ok(tower)
}

/// The key that must say how wide the text is.
fn fits_text(s: &mut Settings<'_>, key: &str, hidden: u32, default: u32) -> Result<(), FamilyError> {
    match s.size(key, default)? {
        found if found != hidden => Err(s.bad(
            key,
            found,
            format!("rows of pictures stand among words, and those are {hidden} wide (`hidden_size` of the text)"),
            "Correct one of them",
        )),
        _ => Ok(()),
    }
}

/// A product of sizes, which may not be too large; `key` gives one of them.
fn product(s: &Settings<'_>, key: &str, sizes: [u32; 3]) -> Result<u32, FamilyError> {
    let product: u128 = sizes.iter().map(|&n| u128::from(n)).product();
    match u32::try_from(product) {
        Ok(n) if n <= 1 << 28 => Ok(n),
        _ => Err(s.bad(key, sizes[1], format!("it makes rows of {product} values"), "Correct it")),
    }
}

impl Tower {
    /// What both types have.
    fn read(
        s: &mut Settings<'_>,
        prefix: &str,
        width: (&str, u32),
        hidden: u32,
        (feed_forward, activation, newer): (u32, Activation, bool),
    ) -> Result<Tower, FamilyError> {
        let layers = s.layers_under("depth", 32)?;
        let heads = s.size("num_heads", 16)?;
        let head_dim = s.head_dim(("num_heads", heads), width)?;
        if !head_dim.is_multiple_of(4) {
            return Err(s.bad(
                "num_heads",
                heads,
                format!("heads of {head_dim} do not divide into pairs for rows and for columns"),
                "Make the size of a head a multiple of 4",
            ));
        }
        let channels = s.size("in_channels", 3)?;
        if channels != 3 {
            return Err(s.unsupported("in_channels", channels, "pictures have 3 channels", "Use a program"));
        }
        let patch = side(s, "patch_size", 14)?;
        let frames = side(s, "temporal_patch_size", 2)?;
        product(s, "patch_size", [channels * frames, patch, patch])?;
        let merge = side(s, "spatial_merge_size", 2)?;
        product(s, "spatial_merge_size", [width.1, merge, merge])?;
        Ok(Tower {
            prefix: prefix.to_owned(),
            width: width.1,
            hidden,
            heads,
            head_dim,
            feed_forward,
            activation: s.activation("hidden_act", activation)?,
            theta: theta(s)?,
            newer,
            whole: vec![true; layers as usize],
            channels,
            patch,
            frames,
            merge,
            window: None,
        })
    }

    /// Values of a patch.
    fn patch_values(&self) -> u32 {
        self.channels * self.frames * self.patch * self.patch
    }

    /// Builds the graph, from its inputs to `picture`.
    pub(super) fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let inputs = self.inputs(parts)?;
        let kernel = [self.width, self.channels, self.frames, self.patch, self.patch];
        let kernel = parts.weight(&format!("{}patch_embed.proj.weight", self.prefix), &kernel)?;
        // A convolution whose step is as wide as its kernel: each patch is multiplied on its own.
        let flat = vec![self.width.into(), self.patch_values().into()];
        let kernel = parts.op(Op::Reshape { shape: flat }, &[kernel], "patch_matrix")?;
        let mut h = parts.op(Op::Matmul, &[inputs.pixels, kernel], "patch_embed")?;
        for (layer, whole) in self.whole.iter().enumerate() {
            let segments = inputs.windows.filter(|_| !whole).unwrap_or(inputs.frames);
            h = self.layer(parts, layer, h, inputs.places, segments)?;
        }
        let mut rows = self.merged(parts, h)?;
        if let Some(order) = inputs.order {
            rows = parts.graph.op(Op::Gather { axis: 0 }, &[rows, order])?;
        }
        parts.graph.name(rows, "picture");
        parts.graph.output("picture", rows)
    }

    fn inputs(&self, parts: &mut Parts<'_>) -> Result<Inputs, IrError> {
        let side = i64::from(self.merge);
        let rows = Dim::symbol(ROWS);
        let patches = rows.mul(&Dim::constant(side * side)).unwrap_or_else(|| rows.clone());
        let pixels = TensorType::f32(Shape::new([patches.clone(), Dim::constant(self.patch_values().into())]));
        let pixels = parts.graph.input("pixel_values", pixels)?;
        let places = TensorType::i64(Shape::new([Dim::constant(2), patches.clone()]));
        let places = parts.graph.input("patch_places", places)?;
        let numbers = || TensorType::i64(Shape::new([patches.clone()]));
        let frames = parts.graph.input("frames", numbers())?;
        let (mut windows, mut order) = (None, None);
        if self.window.is_some() {
            windows = Some(parts.graph.input("windows", numbers())?);
            order = Some(parts.graph.input("order", TensorType::i64(Shape::new([rows])))?);
        }
        Ok(Inputs { pixels, places, frames, windows, order })
    }

    fn layer(&self, parts: &mut Parts<'_>, layer: usize, h: Value, places: Value, segments: Value) -> Built {
        let name = |part: &str| format!("{}blocks.{layer}.{part}", self.prefix);
        let says = |part: &str| format!("block{layer}.{part}");
        let x = self.norm(parts, h, &name("norm1"), says("attn_norm"))?;
        let branch = self.attention(parts, layer, x, places, segments)?;
        let h = parts.op(Op::Add, &[h, branch], says("attn_residual"))?;
        let x = self.norm(parts, h, &name("norm2"), says("ffn_norm"))?;
        let branch = self.feed_forward(parts, layer, x)?;
        parts.op(Op::Add, &[h, branch], says("out"))
    }

    fn norm(&self, parts: &mut Parts<'_>, x: Value, name: &str, says: String) -> Built {
        match self.newer {
            true => parts.rms_norm(x, name, self.width, EPS, says),
            false => parts.layer_norm(x, name, self.width, EPS, true, says),
        }
    }

    fn attention(&self, parts: &mut Parts<'_>, layer: usize, x: Value, places: Value, segments: Value) -> Built {
        let name = |part: &str| format!("{}blocks.{layer}.attn.{part}", self.prefix);
        let says = |part: &str| format!("block{layer}.{part}");
        let (width, heads, head_dim) = (self.width, self.heads, self.head_dim);
        let qkv = parts.linear(x, &name("qkv"), [3 * width, width], true, says("qkv"))?;
        let [q, k, v] = parts.split(qkv, &[width; 3])?[..] else { return Ok(qkv) };
        let q = self.turned(parts, q, places, says("q"))?;
        let k = self.turned(parts, k, places, says("k"))?;
        let scale = (1.0 / f64::from(head_dim).sqrt()) as f32;
        let op = Op::SegmentAttention {
            heads,
            kv_heads: heads,
            head_dim,
            window: 0,
            scale: scale.into(),
            softcap: 0.0.into(),
        };
        let mixed = parts.op(op, &[q, k, v, segments], says("attn"))?;
        parts.linear(mixed, &name("proj"), [width, width], true, says("attn_out"))
    }

    /// Queries or keys (`[P, width]`), the first half of whose pairs turn by the row of a patch, the others by its column.
    fn turned(&self, parts: &mut Parts<'_>, x: Value, places: Value, says: String) -> Built {
        let heads = vec![-1, self.heads.into(), self.head_dim.into()];
        let x = parts.op(Op::Reshape { shape: heads }, &[x], format!("{says}_heads"))?;
        let turn = Op::RopeMulti {
            head_dim: self.head_dim,
            base: self.theta.into(),
            interleaved: false,
            sections: vec![self.head_dim / 4; 2],
            restart: true,
        };
        let x = parts.op(turn, &[x, places], format!("{says}_rope"))?;
        parts.op(Op::Reshape { shape: vec![-1, self.width.into()] }, &[x], format!("{says}_rows"))
    }

    fn feed_forward(&self, parts: &mut Parts<'_>, layer: usize, x: Value) -> Built {
        let name = |part: &str| format!("{}blocks.{layer}.mlp.{part}", self.prefix);
        let says = |part: &str| format!("block{layer}.{part}");
        let (inner, outer) = ([self.feed_forward, self.width], [self.width, self.feed_forward]);
        if self.newer {
            let gate = parts.linear(x, &name("gate_proj"), inner, true, says("gate"))?;
            let up = parts.linear(x, &name("up_proj"), inner, true, says("up"))?;
            let y = gated(&mut parts.graph, gate, up, self.activation)?;
            parts.graph.name(y, says("gated"));
            return parts.linear(y, &name("down_proj"), outer, true, says("ffn_out"));
        }
        let up = parts.linear(x, &name("fc1"), inner, true, says("up"))?;
        let y = parts.op(self.activation.op(), &[up], says("active"))?;
        parts.linear(y, &name("fc2"), outer, true, says("ffn_out"))
    }

    /// `merge²` patches side by side, as one row of the text: `[M, hidden]`.
    fn merged(&self, parts: &mut Parts<'_>, h: Value) -> Built {
        let name = |part: &str| format!("{}merger.{part}", self.prefix);
        let side_by_side = self.merge * self.merge * self.width;
        let x = self.norm(parts, h, &name("ln_q"), "merger.norm".into())?;
        let x = parts.op(Op::Reshape { shape: vec![-1, side_by_side.into()] }, &[x], "merger.rows")?;
        let x = parts.linear(x, &name("mlp.0"), [side_by_side; 2], true, "merger.up")?;
        // The erf form, whatever the config's activation.
        let x = parts.op(Op::Gelu { approximate: false }, &[x], "merger.active")?;
        parts.linear(x, &name("mlp.2"), [self.hidden, side_by_side], true, "merger.out")
    }
}

/// Inputs of the graph.
struct Inputs {
    pixels: Value,
    places: Value,
    frames: Value,
    windows: Option<Value>,
    order: Option<Value>,
}

/// A length that is given as a number; lists of several are not known.
fn side(s: &mut Settings<'_>, key: &str, default: u32) -> Result<u32, FamilyError> {
    match s.size(key, default)? {
        n if n <= MOST_SIDE => Ok(n),
        n => Err(s.bad(key, n, format!("expected at most {MOST_SIDE}"), "Correct it")),
    }
}

/// The base of the rotation: `rope_parameters`, which knows one kind.
fn theta(s: &mut Settings<'_>) -> Result<f32, FamilyError> {
    let Some(table) = s.table("rope_parameters")? else { return Ok(THETA) };
    if let Some(kind) = table.text("rope_type")?.filter(|kind| !["axial", "default"].contains(&kind.as_str())) {
        let found = format!("\"{}\"", kind.chars().take(60).collect::<String>());
        return Err(table.unsupported("rope_type", found, "the reference knows only `axial`", "Correct it"));
    }
    let theta = table.positive("rope_theta")?.map_or(THETA, |x| x as f32);
    s.absorb(table, &[]);
    Ok(theta)
}

/// The base where no key gives one.
const THETA: f32 = 10_000.0;
