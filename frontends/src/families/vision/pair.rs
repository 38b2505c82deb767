//! The readers of clip and siglip: a tower for pictures and one for texts, whose vectors are compared; and of files that
//! hold one of them.
//!
//! A pair has two graphs. The one that runs once takes pictures and gives `image_embeds` `[N, width]`; the other takes texts
//! as [text encoders](crate::families::encoder) do and those vectors, and gives `text_embeds` `[B, width]`,
//! `logits_per_image` `[N, B]` and their `probabilities`: among the texts of the call in clip, of each text by itself in
//! siglip. Vectors of either have the length 1.
//!
//! A picture tower alone gives `last_hidden_state`, `pooler_output` and with a projection `image_embeds`, a text tower
//! alone `last_hidden_state`, `pooler_output` and with a projection `text_embeds`, none of them scaled; a classifier
//! `logits`.

use super::text::Text;
use super::tower::{Kind, Tower};
use super::{IGNORED, IMAGE_EMBEDS, TEXT_EMBEDS, mean, output, same_size, tokens};
use crate::families::encoder::read;
use crate::families::parts::{Built, Parts};
use crate::families::{Build, FamilyError, Settings, TensorShapes};
use tallow_ir::{Dim, IrError, Op, Shape, TensorType, Value};

type Read = Result<Box<dyn Build>, FamilyError>;

/// The table of the picture tower.
const VISION: &str = "vision";
const PICTURE_PROJECTION: &str = "visual_projection";
const TEXT_PROJECTION: &str = "text_projection";

/// clip: projections of both towers to one width.
pub fn clip(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    pair(s, tensors, Kind::Clip)
}

/// siglip: towers whose own heads give vectors of one width.
pub fn siglip(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    pair(s, tensors, Kind::Siglip)
}

/// The picture tower of clip, perhaps with its projection.
pub fn clip_vision(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let tower = Tower::read(s, tensors, Kind::Clip)?;
    same_size(s, tower.patches.size, "image_size")?;
    s.texts("labels")?;
    let width = s.size("projection_dim", WIDTH)?;
    let head = if has(tensors, PICTURE_PROJECTION) { Head::Projection(width) } else { Head::Own };
    Ok(Box::new(Pictures { tower, head }))
}

/// The picture tower of siglip.
pub fn siglip_vision(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let tower = Tower::read(s, tensors, Kind::Siglip)?;
    same_size(s, tower.patches.size, "image_size")?;
    s.texts("labels")?;
    Ok(Box::new(Pictures { tower, head: Head::Own }))
}

/// The text tower of clip, perhaps with its projection.
pub fn clip_text(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let text = Text::read(s, tensors, Kind::Clip)?;
    let width = s.size("projection_dim", WIDTH)?;
    s.texts("labels")?;
    Ok(Box::new(Texts { text, projection: has(tensors, TEXT_PROJECTION).then_some(width) }))
}

/// The text tower of siglip.
pub fn siglip_text(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let text = Text::read(s, tensors, Kind::Siglip)?;
    s.texts("labels")?;
    Ok(Box::new(Texts { text, projection: None }))
}

/// Width of the vectors of clip where nothing says it.
const WIDTH: u32 = 512;

fn has(tensors: &dyn TensorShapes, name: &str) -> bool {
    tensors.shape(&format!("{name}.weight")).is_some()
}

/// Both towers, or the picture tower with a classifier.
fn pair(s: &mut Settings<'_>, tensors: &dyn TensorShapes, kind: Kind) -> Read {
    let text = Text::read(s, tensors, kind)?;
    let mut vision = s.table_or_empty(VISION)?;
    let tower = Tower::read(&mut vision, tensors, kind)?;
    // That of the whole model counts.
    vision.optional_size("projection_dim")?;
    same_size(s, tower.patches.size, "vision.image_size")?;
    let width = if kind == Kind::Clip { s.size("projection_dim", WIDTH)? } else { tower.layers.hidden };
    if has(tensors, "classifier") {
        let labels = read::labels(s, tensors, "classifier")?;
        s.absorb(vision, IGNORED);
        return Ok(Box::new(Pictures { tower, head: Head::Classifier(labels) }));
    }
    s.texts("labels")?;
    if !tower.pools {
        return Err(vision.unsupported(
            "vision_use_head",
            false,
            "pictures and texts are compared by the vectors that the head gives",
            "Use the picture tower alone",
        ));
    }
    if kind == Kind::Siglip && text.width() != width {
        return Err(s.bad(
            "projection_size",
            text.width(),
            format!("vectors of pictures have {width} values, and those of texts must have as many"),
            "Correct one of them",
        ));
    }
    s.absorb(vision, IGNORED);
    Ok(Box::new(Pair { tower, text, width }))
}

/// A picture tower.
#[derive(Clone, Debug)]
struct Pictures {
    tower: Tower,
    head: Head,
}

/// What a picture tower alone gives.
#[derive(Clone, Copy, Debug)]
enum Head {
    /// `logits` with so many columns, of the mean of the patches.
    Classifier(u32),
    /// `pooler_output`, and a map of it to so many values.
    Projection(u32),
    /// `pooler_output`, where the tower has one.
    Own,
}

impl Build for Pictures {
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let (tower, hidden) = (&self.tower, self.tower.layers.hidden);
        let (rows, h) = tower.states(parts)?;
        let states = rows.apart(parts, h, hidden)?;
        output(parts, "last_hidden_state", states)?;
        if let Head::Classifier(labels) = self.head {
            tower.pass_over_pooling(parts);
            // Those of patches, behind the class token where there is one.
            let first = i64::from(tower.kind == Kind::Clip);
            let patches = tokens(parts, states, first, i64::MAX)?;
            let mean = mean(parts, patches, &[1], "mean_of_patches")?;
            let logits = parts.linear(mean, "classifier", [labels, hidden], true, "logits")?;
            return output(parts, "logits", logits);
        }
        if !tower.pools {
            return Ok(());
        }
        let pooled = tower.pooled(parts, &rows, h)?;
        output(parts, "pooler_output", pooled)?;
        if let Head::Projection(width) = self.head {
            let vector = parts.linear(pooled, PICTURE_PROJECTION, [width, hidden], false, IMAGE_EMBEDS)?;
            output(parts, IMAGE_EMBEDS, vector)?;
        }
        Ok(())
    }
}

/// A text tower.
#[derive(Clone, Debug)]
struct Texts {
    text: Text,
    projection: Option<u32>,
}

impl Build for Texts {
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let (states, pooled) = self.text.build(parts)?;
        output(parts, "last_hidden_state", states)?;
        output(parts, "pooler_output", pooled)?;
        if let Some(width) = self.projection {
            let vector = parts.linear(pooled, TEXT_PROJECTION, [width, self.text.width()], false, TEXT_EMBEDS)?;
            output(parts, TEXT_EMBEDS, vector)?;
        }
        Ok(())
    }
}

/// Both towers.
#[derive(Clone, Debug)]
struct Pair {
    tower: Tower,
    text: Text,
    /// Width of the vectors.
    width: u32,
}

impl Build for Pair {
    fn once(&self, parts: &mut Parts<'_>) -> Result<bool, IrError> {
        let (rows, h) = self.tower.states(parts)?;
        let pooled = self.tower.pooled(parts, &rows, h)?;
        let vector = self.vector(parts, pooled, PICTURE_PROJECTION, self.tower.layers.hidden)?;
        output(parts, IMAGE_EMBEDS, vector)?;
        Ok(true)
    }

    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let shape = Shape::new([Dim::symbol(super::PICTURES), Dim::constant(self.width.into())]);
        let pictures = parts.graph.input(IMAGE_EMBEDS, TensorType::f32(shape))?;
        let (_, pooled) = self.text.build(parts)?;
        let texts = self.vector(parts, pooled, TEXT_PROJECTION, self.text.width())?;
        output(parts, TEXT_EMBEDS, texts)?;
        let cosines = parts.op(Op::Matmul, &[pictures, texts], "cosines")?;
        let scale = parts.weight("logit_scale", &[1])?;
        let scale = parts.graph.op(Op::Exp, &[scale])?;
        let mut logits = parts.graph.op(Op::Mul, &[cosines, scale])?;
        let probabilities = match self.tower.kind {
            Kind::Clip => Op::Softmax { dim: 1 },
            Kind::Siglip => {
                let bias = parts.weight("logit_bias", &[1])?;
                logits = parts.graph.op(Op::Add, &[logits, bias])?;
                Op::Sigmoid
            }
        };
        output(parts, "logits_per_image", logits)?;
        let probabilities = parts.graph.op(probabilities, &[logits])?;
        output(parts, "probabilities", probabilities)
    }
}

impl Pair {
    /// One row of an item as its vector of the length 1; clip has a map between.
    fn vector(&self, parts: &mut Parts<'_>, pooled: Value, projection: &str, from: u32) -> Built {
        let x = match self.tower.kind {
            Kind::Clip => parts.linear(pooled, projection, [self.width, from], false, projection)?,
            Kind::Siglip => pooled,
        };
        parts.unit_length(x)
    }
}
