//! The readers of vit and deit (Dosovitskiy et al. 2020, Touvron et al. 2020).

use super::layers::{Defaults, Layers, Names};
use super::patches::Patches;
use super::{activated, output, same_size, token};
use crate::families::encoder::read;
use crate::families::parts::{Built, Parts};
use crate::families::{Build, FamilyError, Settings, TensorShapes};
use tallow_ir::ops::Activation;
use tallow_ir::{IrError, Op, Value};

type Read = Result<Box<dyn Build>, FamilyError>;

pub(super) const NAMES: Names = Names {
    q: "attention.attention.query",
    k: "attention.attention.key",
    v: "attention.attention.value",
    out: "attention.output.dense",
    norms: ["layernorm_before", "layernorm_after"],
    up: "intermediate.dense",
    down: "output.dense",
    scales: None,
};

const DEFAULTS: Defaults =
    Defaults { hidden: 768, layers: 12, heads: 12, width: Some(3072), activation: "gelu", eps: 1e-12 };

/// A transformer over patches behind a class token, and in deit a distillation token.
#[derive(Clone, Debug)]
pub(super) struct Vit {
    pub base: String,
    pub patches: Patches,
    pub layers: Layers,
    /// Whether a token for distillation follows that of the class.
    pub distilled: bool,
    pub head: Head,
}

/// From the last norm to what a model gives beside its hidden states.
#[derive(Clone, Debug)]
pub(super) enum Head {
    /// `logits` of the class token by a map with so many rows; beside the mean of the patches where `mean`.
    Classifier { labels: u32, mean: bool },
    /// The mean of the logits of both tokens, each by its own map.
    Teacher { labels: u32 },
    /// A map of the class token with so many rows and an activation: `pooler_output`.
    Pooler { rows: u32, activation: Activation },
    /// The class token, under this name.
    Class(&'static str),
}

/// vit: the class token, pictures of one size.
pub fn vit(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    read(s, tensors, "vit.")
}

/// deit: vit with a token for distillation; the teacher form has two classifiers.
pub fn deit(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    read(s, tensors, "deit.")
}

fn read(s: &mut Settings<'_>, tensors: &dyn TensorShapes, prefix: &str) -> Read {
    let base = read::prefix(tensors, &[prefix], "embeddings.patch_embeddings.projection");
    let list = format!("{base}encoder.layer");
    let mut layers = Layers::read(s, ("layer", list), NAMES, DEFAULTS)?;
    layers.bias = s.flag("qkv_bias", true)?;
    let patches = Patches::read(s, layers.hidden, 224, 16)?;
    same_size(s, patches.size, "image_size")?;
    let head = head(s, tensors, &base, layers.hidden)?;
    let distilled = prefix == "deit.";
    Ok(Box::new(Vit { base, patches, layers, distilled, head }))
}

fn head(s: &Settings<'_>, tensors: &dyn TensorShapes, base: &str, hidden: u32) -> Result<Head, FamilyError> {
    let has = |name: &str| tensors.shape(&format!("{name}.weight")).is_some();
    let rows = s.optional_size("pooler_output_size")?.unwrap_or(hidden);
    let activation = read::activation(s, "pooler_act", "tanh")?;
    if has("cls_classifier") {
        return Ok(Head::Teacher { labels: read::labels(s, tensors, "cls_classifier")? });
    }
    if has("classifier") {
        return Ok(Head::Classifier { labels: read::labels(s, tensors, "classifier")?, mean: false });
    }
    // Names of labels say nothing without a classifier.
    s.texts("labels")?;
    Ok(match has(&format!("{base}pooler.dense")) {
        true => Head::Pooler { rows, activation },
        false => Head::Class("embedding"),
    })
}

impl Build for Vit {
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let (base, hidden) = (&self.base, self.layers.hidden);
        let embeddings = format!("{base}embeddings");
        let x = self.patches.split(parts, &format!("{embeddings}.patch_embeddings.projection"), true)?;
        let mut tokens = vec![parts.weight(&format!("{embeddings}.cls_token"), &[1, 1, hidden])?];
        if self.distilled {
            tokens.push(parts.weight(&format!("{embeddings}.distillation_token"), &[1, 1, hidden])?);
        }
        let places = self.patches.places() + tokens.len() as u32;
        let table = parts.weight(&format!("{embeddings}.position_embeddings"), &[1, places, hidden])?;
        parts.pass_over(&format!("{embeddings}.mask_token"));
        let rows = self.patches.rows(parts, x, &tokens, table)?;
        let h = self.layers.build(parts, rows.h, &rows.sight)?;
        let h = self.layers.norm(parts, h, &format!("{base}layernorm"), "final_norm")?;
        let h = rows.apart(parts, h, hidden)?;
        output(parts, "last_hidden_state", h)?;
        self.outputs(parts, h)
    }
}

impl Vit {
    fn outputs(&self, parts: &mut Parts<'_>, h: Value) -> Result<(), IrError> {
        let hidden = self.layers.hidden;
        let class = token(parts, h, 0, "class")?;
        let pooler = format!("{}pooler.dense", self.base);
        if !matches!(self.head, Head::Pooler { .. }) {
            // Files of classifiers may hold it all the same.
            parts.pass_over(&format!("{pooler}.weight"));
            parts.pass_over(&format!("{pooler}.bias"));
        }
        match self.head {
            Head::Classifier { labels, mean } => {
                let (x, width) = if mean { (self.beside_mean(parts, h, class)?, 2 * hidden) } else { (class, hidden) };
                let logits = parts.linear(x, "classifier", [labels, width], true, "logits")?;
                output(parts, "logits", logits)
            }
            Head::Teacher { labels } => {
                let distilled = token(parts, h, 1, "distilled")?;
                let own = parts.linear(class, "cls_classifier", [labels, hidden], true, "cls_logits")?;
                let taught = "distillation_classifier";
                let taught = parts.linear(distilled, taught, [labels, hidden], true, "distillation_logits")?;
                let sum = parts.graph.op(Op::Add, &[own, taught])?;
                let logits = parts.graph.op(Op::MulScalar { value: 0.5.into() }, &[sum])?;
                output(parts, "logits", logits)
            }
            Head::Pooler { rows, activation } => {
                let x = parts.linear(class, &pooler, [rows, hidden], true, "pooler")?;
                let x = activated(parts, x, activation)?;
                output(parts, "pooler_output", x)
            }
            Head::Class(name) => output(parts, name, class),
        }
    }

    /// The class token and the mean of the patches side by side.
    fn beside_mean(&self, parts: &mut Parts<'_>, h: Value, class: Value) -> Built {
        let patches = super::tokens(parts, h, 1, i64::MAX)?;
        let mean = super::mean(parts, patches, &[1], "mean_of_patches")?;
        parts.graph.op(Op::Concat { axis: 1 }, &[class, mean])
    }
}
