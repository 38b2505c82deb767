//! The picture towers of clip (Radford et al. 2021) and siglip (Zhai et al. 2023).

use super::layers::{Defaults, Layers, Names, scale};
use super::patches::{Patches, Rows};
use super::{activated, token};
use crate::families::encoder::read;
use crate::families::parts::{Built, Parts};
use crate::families::{FamilyError, Settings, TensorShapes};
use tallow_ir::ops::Reduction;
use tallow_ir::{IrError, Op, Value};

/// Names in a layer of either tower of clip and siglip.
pub(super) const NAMES: Names = Names {
    q: "self_attn.q_proj",
    k: "self_attn.k_proj",
    v: "self_attn.v_proj",
    out: "self_attn.out_proj",
    norms: ["layer_norm1", "layer_norm2"],
    up: "mlp.fc1",
    down: "mlp.fc2",
    scales: None,
};

/// Which of the two types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A class token and a norm before the layers.
    Clip,
    /// Neither; a head that attends to all patches.
    Siglip,
}

impl Kind {
    fn defaults(self) -> Defaults {
        let (activation, eps) = match self {
            Kind::Clip => ("quick_gelu", 1e-5),
            Kind::Siglip => ("gelu_pytorch_tanh", 1e-6),
        };
        Defaults { hidden: 768, layers: 12, heads: 12, width: Some(3072), activation, eps }
    }
}

/// A picture tower.
#[derive(Clone, Debug)]
pub(super) struct Tower {
    pub kind: Kind,
    pub layers: Layers,
    pub patches: Patches,
    /// Whether there is a head, which makes one row of a picture; clip always has its class token.
    pub pools: bool,
    base: String,
}

impl Tower {
    /// Reads the settings of the tower.
    pub fn read(s: &mut Settings<'_>, tensors: &dyn TensorShapes, kind: Kind) -> Result<Self, FamilyError> {
        let base = read::prefix(tensors, &["vision_model."], "embeddings.patch_embedding");
        let layers = Layers::read(s, ("picture", format!("{base}encoder.layers")), NAMES, kind.defaults())?;
        let patches = Patches::read(s, layers.hidden, 224, if kind == Kind::Clip { 32 } else { 16 })?;
        let pools = kind == Kind::Clip || s.flag("vision_use_head", true)?;
        Ok(Tower { kind, layers, patches, pools, base })
    }

    /// What the layers give for the pictures of the input, `[N · each, hidden]`: siglip's behind its last norm.
    pub fn states(&self, parts: &mut Parts<'_>) -> Result<(Rows, Value), IrError> {
        let (base, hidden) = (&self.base, self.layers.hidden);
        let clip = self.kind == Kind::Clip;
        let x = self.patches.split(parts, &format!("{base}embeddings.patch_embedding"), !clip)?;
        let mut tokens = Vec::new();
        if clip {
            let class = parts.weight(&format!("{base}embeddings.class_embedding"), &[hidden])?;
            tokens.push(parts.graph.op(Op::Reshape { shape: vec![1, 1, hidden.into()] }, &[class])?);
        }
        let places = self.patches.places() + tokens.len() as u32;
        let table = parts.weight(&format!("{base}embeddings.position_embedding.weight"), &[places, hidden])?;
        let table = parts.graph.op(Op::Unsqueeze { axes: vec![0] }, &[table])?;
        let rows = self.patches.rows(parts, x, &tokens, table)?;
        let mut h = rows.h;
        if clip {
            // As the files spell it.
            h = self.layers.norm(parts, h, &format!("{base}pre_layrnorm"), "pre_norm")?;
        }
        let mut h = self.layers.build(parts, h, &rows.sight)?;
        if !clip {
            h = self.layers.norm(parts, h, &format!("{base}post_layernorm"), "final_norm")?;
        }
        Ok((rows, h))
    }

    /// One row for each picture, `[N, hidden]`.
    pub fn pooled(&self, parts: &mut Parts<'_>, rows: &Rows, h: Value) -> Built {
        match self.kind {
            Kind::Clip => {
                let h = rows.apart(parts, h, self.layers.hidden)?;
                let class = token(parts, h, 0, "class")?;
                self.layers.norm(parts, class, &format!("{}post_layernorm", self.base), "pooled")
            }
            Kind::Siglip => self.attended(parts, rows, h),
        }
    }

    /// A learned query attends to all rows of a picture; then a feed-forward with its norm.
    fn attended(&self, parts: &mut Parts<'_>, rows: &Rows, h: Value) -> Built {
        let (base, hidden, heads) = (format!("{}head", self.base), self.layers.hidden, self.layers.heads);
        let head_dim = hidden / heads;
        let probe = parts.weight(&format!("{base}.probe"), &[1, 1, hidden])?;
        let probe = parts.graph.op(Op::Reshape { shape: vec![1, hidden.into()] }, &[probe])?;
        let w = parts.weight(&format!("{base}.attention.in_proj_weight"), &[3 * hidden, hidden])?;
        let b = parts.weight(&format!("{base}.attention.in_proj_bias"), &[3 * hidden])?;
        let mut projected = |x: Value, part: usize, items: i64, each: i64| {
            let x = parts.graph.op(Op::Matmul, &[x, w])?;
            let x = parts.graph.op(Op::Add, &[x, b])?;
            let x = parts.split(x, &[hidden; 3])?[part];
            let shape = vec![items, each, heads.into(), head_dim.into()];
            parts.graph.op(Op::Reshape { shape }, &[x])
        };
        let (q, k) = (projected(probe, 0, 1, 1)?, projected(h, 1, -1, rows.each.into())?);
        let v = projected(h, 2, -1, rows.each.into())?;
        let sum = |axis: i64, keep: bool| Op::Reduce { how: Reduction::Sum, axes: vec![axis], keep };
        let scores = parts.graph.op(Op::Mul, &[k, q])?;
        let scores = parts.graph.op(sum(3, true), &[scores])?;
        let scores = parts.op(Op::MulScalar { value: scale(head_dim).into() }, &[scores], "head_scores")?;
        let shares = parts.graph.op(Op::Softmax { dim: 1 }, &[scores])?;
        let mixed = parts.graph.op(Op::Mul, &[v, shares])?;
        let mixed = parts.graph.op(sum(1, false), &[mixed])?;
        let mixed = parts.op(Op::Reshape { shape: vec![-1, hidden.into()] }, &[mixed], "head_attn")?;
        let y = parts.linear(mixed, &format!("{base}.attention.out_proj"), [hidden; 2], true, "head_out")?;
        let x = self.layers.norm(parts, y, &format!("{base}.layernorm"), "head_norm")?;
        let width = self.layers.width;
        let x = parts.linear(x, &format!("{base}.mlp.fc1"), [width, hidden], true, "head_up")?;
        let x = activated(parts, x, self.layers.activation)?;
        let x = parts.linear(x, &format!("{base}.mlp.fc2"), [hidden, width], true, "head_down")?;
        parts.op(Op::Add, &[y, x], "pooled")
    }

    /// Passes over what makes one row of a picture, where a classifier reads the patches instead.
    pub fn pass_over_pooling(&self, parts: &mut Parts<'_>) {
        let names: &[&str] = match self.kind {
            Kind::Clip => &["post_layernorm.weight", "post_layernorm.bias"],
            Kind::Siglip => &[
                "head.probe",
                "head.attention.in_proj_weight",
                "head.attention.in_proj_bias",
                "head.attention.out_proj.weight",
                "head.attention.out_proj.bias",
                "head.layernorm.weight",
                "head.layernorm.bias",
                "head.mlp.fc1.weight",
                "head.mlp.fc1.bias",
                "head.mlp.fc2.weight",
                "head.mlp.fc2.bias",
            ],
        };
        names.iter().for_each(|name| parts.pass_over(&format!("{}{name}", self.base)));
    }
}
