//! The reader of convnext (Liu et al. 2022).

use super::resnet::{any_size, labels};
use super::{Window, activated, convolution, mean, output, sides};
use crate::families::encoder::read;
use crate::families::parts::{Built, Parts};
use crate::families::{Build, FamilyError, MOST_LAYERS, Settings, TensorShapes};
use tallow_ir::ops::Activation;
use tallow_ir::{IrError, Op, Value};

/// Added to the variance of every norm but the last.
const EPS: f32 = 1e-6;

/// Layers and channels of each stage.
pub(super) type Stages = Vec<(u32, u32)>;

/// Stages of depthwise convolutions with a norm and a feed-forward over channels. Pictures may have any size.
#[derive(Clone, Debug)]
struct ConvNext {
    base: String,
    channels: u32,
    patch: [u32; 2],
    stages: Stages,
    activation: Activation,
    /// Whether branches are multiplied by a scale for each channel.
    scales: bool,
    /// Added to the variance of the last norm.
    eps: f32,
    /// Rows of the classifier, where there is one.
    labels: Option<u32>,
}

/// convnext: norms over channels, a scale for each branch; classifier of the norm of the mean of the last stage.
pub fn convnext(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    let base = read::prefix(tensors, &["convnext."], "embeddings.patch_embeddings");
    let stages = stages(s, &[3, 3, 9, 3], &[96, 192, 384, 768])?;
    let count = s.size("num_stages", 4)?;
    if count as usize != stages.len() {
        let cause = format!("`depths` lists {} stages", stages.len());
        return Err(s.bad("num_stages", count, cause, "Correct one of them"));
    }
    // Pictures of any size do.
    sides(s, "image_size", 224)?;
    Ok(Box::new(ConvNext {
        base,
        channels: s.size("num_channels", 3)?,
        patch: sides(s, "patch_size", 4)?,
        stages,
        activation: read::activation(s, "hidden_act", "gelu")?,
        scales: s.number("layer_scale_init_value")?.is_none_or(|x| x > 0.0),
        eps: s.epsilon("layer_norm_eps", 1e-12)?,
        labels: labels(s, tensors, "classifier")?,
    }))
}

/// `depths` and `hidden_sizes`, an entry each for every stage.
pub(super) fn stages(s: &Settings<'_>, depths: &[u32], channels: &[u32]) -> Result<Stages, FamilyError> {
    let list = |key: &str, default: &[u32], most: u32| -> Result<Vec<u32>, FamilyError> {
        let Some(list) = s.integers(key)? else { return Ok(default.to_vec()) };
        let size = |n: &i64| u32::try_from(*n).ok().filter(|n| (1..=most).contains(n));
        let sizes: Option<Vec<u32>> = list.iter().map(size).collect();
        sizes.filter(|sizes| !sizes.is_empty()).ok_or_else(|| {
            s.bad(key, format!("{list:?}"), format!("expected a number from 1 to {most} for each stage"), "Correct it")
        })
    };
    let depths = list("depths", depths, MOST_LAYERS)?;
    let channels = list("hidden_sizes", channels, 1 << 20)?;
    if depths.len() != channels.len() || depths.iter().map(|&n| u64::from(n)).sum::<u64>() > u64::from(MOST_LAYERS) {
        let cause = format!(
            "`hidden_sizes` lists {} stages, `depths` {} with at most {MOST_LAYERS} layers together",
            channels.len(),
            depths.len()
        );
        return Err(s.bad("depths", format!("{depths:?}"), cause, "Correct one of them"));
    }
    Ok(depths.into_iter().zip(channels).collect())
}

impl Build for ConvNext {
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let x = any_size(parts, self.channels)?;
        let base = &self.base;
        let mut from = self.stages.first().map_or(0, |stage| stage.1);
        let embeddings = format!("{base}embeddings");
        let name = format!("{embeddings}.patch_embeddings");
        let x = convolution(parts, x, &name, [from, self.channels], Window::tiles(self.patch), true)?;
        let mut h = norm(parts, x, &format!("{embeddings}.layernorm"), from)?;
        for (number, &(depth, to)) in self.stages.iter().enumerate() {
            let stage = format!("{base}encoder.stages.{number}");
            if number > 0 {
                let name = format!("{stage}.downsampling_layer");
                let x = norm(parts, h, &format!("{name}.0"), from)?;
                h = convolution(parts, x, &format!("{name}.1"), [to, from], Window::tiles([2; 2]), true)?;
            }
            for layer in 0..depth {
                h = self.layer(parts, h, &format!("{stage}.layers.{layer}"), to)?;
            }
            from = to;
        }
        output(parts, "last_hidden_state", h)?;
        let pooled = mean(parts, h, &[2, 3], "mean")?;
        let pooled = parts.layer_norm(pooled, &format!("{base}layernorm"), from, self.eps, true, "final_norm")?;
        output(parts, "pooler_output", pooled)?;
        if let Some(labels) = self.labels {
            let logits = parts.linear(pooled, "classifier", [labels, from], true, "logits")?;
            output(parts, "logits", logits)?;
        }
        Ok(())
    }
}

impl ConvNext {
    /// `h + scale · down(act(up(norm(depthwise(h)))))`
    fn layer(&self, parts: &mut Parts<'_>, h: Value, name: &str, channels: u32) -> Built {
        let window = Window { groups: channels, ..Window::square(7, 1) };
        let x = convolution(parts, h, &format!("{name}.dwconv"), [channels; 2], window, true)?;
        let x = parts.graph.op(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[x])?;
        let x = parts.layer_norm(x, &format!("{name}.layernorm"), channels, EPS, true, format!("{name}.norm"))?;
        let width = 4 * channels;
        let x = parts.linear(x, &format!("{name}.pwconv1"), [width, channels], true, format!("{name}.up"))?;
        let x = activated(parts, x, self.activation)?;
        let mut x = parts.linear(x, &format!("{name}.pwconv2"), [channels, width], true, format!("{name}.down"))?;
        if self.scales {
            let scale = parts.weight(&format!("{name}.layer_scale_parameter"), &[channels])?;
            x = parts.graph.op(Op::Mul, &[x, scale])?;
        }
        let x = parts.graph.op(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[x])?;
        parts.op(Op::Add, &[h, x], name)
    }
}

/// A norm over the channels of `x` (`[N, channels, H, W]`).
fn norm(parts: &mut Parts<'_>, x: Value, name: &str, channels: u32) -> Built {
    let x = parts.graph.op(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[x])?;
    let x = parts.layer_norm(x, name, channels, EPS, true, name)?;
    parts.graph.op(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[x])
}
