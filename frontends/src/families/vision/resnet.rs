//! The reader of resnet (He et al. 2015).

use super::convnext::{Stages, stages};
use super::{Window, activated, convolution, mean, output, pixels};
use crate::families::encoder::read;
use crate::families::parts::{Built, Parts};
use crate::families::{Build, FamilyError, Settings, TensorShapes};
use tallow_ir::ops::{Activation, PoolMode};
use tallow_ir::{Dim, IrError, Op, Value};

/// Added to the variance of every batch norm.
const EPS: f32 = 1e-5;
/// A bottleneck has so many times fewer channels inside.
const REDUCTION: u32 = 4;

/// Stages of residual layers, a batch norm behind each convolution. Pictures may have any size.
#[derive(Clone, Debug)]
struct ResNet {
    base: String,
    channels: u32,
    /// Channels before the first stage.
    first: u32,
    stages: Stages,
    /// Whether layers go through fewer channels; else they are two convolutions of 3 × 3.
    bottleneck: bool,
    activation: Activation,
    /// Whether the first stage halves the picture too.
    halves_first: bool,
    /// Whether the first convolution of a bottleneck halves; else the second.
    early: bool,
    /// Rows of the classifier, where there is one.
    labels: Option<u32>,
}

/// resnet: running statistics; classifier of the mean of the last stage.
pub fn resnet(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    let base = read::prefix(tensors, &["resnet."], "embedder.embedder.convolution");
    let kind = s.text("layer_type")?.unwrap_or_else(|| "bottleneck".to_owned());
    if !matches!(kind.as_str(), "basic" | "bottleneck") {
        let shown: String = kind.chars().take(60).collect();
        return Err(s.unsupported(
            "layer_type",
            format!("\"{shown}\""),
            "layers are basic or bottleneck",
            "Use a program or a graph section for another one",
        ));
    }
    let bottleneck = kind == "bottleneck";
    let stages = stages(s, &[3, 4, 6, 3], &[256, 512, 1024, 2048])?;
    if let Some(odd) = stages.iter().map(|stage| stage.1).find(|n| bottleneck && n % REDUCTION != 0) {
        let cause = format!("a bottleneck divides its channels by {REDUCTION}");
        return Err(s.bad("hidden_sizes", odd, cause, "Correct it"));
    }
    let labels = labels(s, tensors, "classifier.1")?;
    Ok(Box::new(ResNet {
        base,
        channels: s.size("num_channels", 3)?,
        first: s.size("embedding_size", 64)?,
        stages,
        bottleneck,
        activation: read::activation(s, "hidden_act", "relu")?,
        halves_first: s.flag("downsample_in_first_stage", false)?,
        early: s.flag("downsample_in_bottleneck", false)?,
        labels,
    }))
}

/// Rows of the classifier `name`, where there is one.
pub(super) fn labels(s: &Settings<'_>, tensors: &dyn TensorShapes, name: &str) -> Result<Option<u32>, FamilyError> {
    if tensors.shape(&format!("{name}.weight")).is_some() {
        return read::labels(s, tensors, name).map(Some);
    }
    // Names of labels say nothing without it.
    s.texts("labels")?;
    Ok(None)
}

/// The input of pictures of any size.
pub(super) fn any_size(parts: &mut Parts<'_>, channels: u32) -> Built {
    pixels(parts, channels, [Dim::symbol("H"), Dim::symbol("W")])
}

impl Build for ResNet {
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let x = any_size(parts, self.channels)?;
        let base = &self.base;
        let x = conv(parts, x, &format!("{base}embedder.embedder"), [self.first, self.channels], 7, 2)?;
        let x = activated(parts, x, self.activation)?;
        let pool = Op::Pool { mode: PoolMode::Max, kernel: [3; 2], stride: [2; 2], padding: [1; 2] };
        let mut h = parts.op(pool, &[x], "embed")?;
        let mut from = self.first;
        for (stage, &(depth, to)) in self.stages.iter().enumerate() {
            for layer in 0..depth {
                let halves = layer == 0 && (stage > 0 || self.halves_first);
                let name = format!("{base}encoder.stages.{stage}.layers.{layer}");
                h = self.layer(parts, h, &name, [to, from], if halves { 2 } else { 1 })?;
                from = to;
            }
        }
        output(parts, "last_hidden_state", h)?;
        let pooled = mean(parts, h, &[2, 3], "pooled")?;
        output(parts, "pooler_output", pooled)?;
        if let Some(labels) = self.labels {
            let logits = parts.linear(pooled, "classifier.1", [labels, from], true, "logits")?;
            output(parts, "logits", logits)?;
        }
        Ok(())
    }
}

impl ResNet {
    /// `act(branch(h) + shortcut(h))`; the shortcut is a convolution where size or channels change.
    fn layer(&self, parts: &mut Parts<'_>, h: Value, name: &str, [to, from]: [u32; 2], stride: u32) -> Built {
        let kept = match to != from || stride != 1 {
            true => conv(parts, h, &format!("{name}.shortcut"), [to, from], 1, stride)?,
            false => h,
        };
        let inner = to / REDUCTION;
        let steps = match (self.bottleneck, self.early) {
            (false, _) => vec![([to, from], 3, stride), ([to, to], 3, 1)],
            (true, true) => vec![([inner, from], 1, stride), ([inner, inner], 3, 1), ([to, inner], 1, 1)],
            (true, false) => vec![([inner, from], 1, 1), ([inner, inner], 3, stride), ([to, inner], 1, 1)],
        };
        let mut x = h;
        for (number, (channels, kernel, stride)) in steps.into_iter().enumerate() {
            if number > 0 {
                // Inside a branch it is this one, whatever the config says.
                x = parts.graph.op(Op::Relu, &[x])?;
            }
            x = conv(parts, x, &format!("{name}.layer.{number}"), channels, kernel, stride)?;
        }
        let sum = parts.graph.op(Op::Add, &[x, kept])?;
        let y = activated(parts, sum, self.activation)?;
        parts.graph.name(y, name);
        Ok(y)
    }
}

/// A convolution without bias, padded to keep the size at stride 1, and its batch norm.
fn conv(parts: &mut Parts<'_>, x: Value, name: &str, channels: [u32; 2], kernel: u32, stride: u32) -> Built {
    let window = Window::square(kernel, stride);
    let x = convolution(parts, x, &format!("{name}.convolution"), channels, window, false)?;
    let mut operands = vec![x];
    for part in ["weight", "bias", "running_mean", "running_var"] {
        operands.push(parts.weight(&format!("{name}.normalization.{part}"), &channels[..1])?);
    }
    parts.graph.op(Op::BatchNorm { eps: EPS.into(), momentum: 0.1.into() }, &operands)
}
