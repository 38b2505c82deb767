//! Pictures against texts, for a model that has a tower for each.

use super::Picture;
use crate::text::softmax;
use crate::{Encoder, Error, Model, Result, Tensor};
use tallow_executor::{Device, ExecutorError};
use tallow_frontends::families::canonical_type;
use tallow_frontends::families::vision::IMAGE_EMBEDS;

/// The output that tells how well each text fits each picture, `[pictures, texts]`.
const LOGITS: &str = "logits_per_image";
/// The same among the texts of a call, or of each by itself.
const PROBABILITIES: &str = "probabilities";

impl Model {
    /// Whether it tells how well texts fit pictures.
    pub fn compares(&self) -> bool {
        self.graph().graph().input_named(IMAGE_EMBEDS).is_some()
            && self.graph().graph().output_named(PROBABILITIES).is_some()
    }

    /// The probability of each text for each picture, in the order of both: among the texts as clip has it, of each text by
    /// itself as siglip has it. A text that is too long is cut.
    ///
    /// # Errors
    /// A model that does not compare pictures and texts; as [`Model::picture`] and [`Model::embed`].
    pub fn compare(&self, pictures: &[Picture], texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.encoder()?.compare(pictures, texts)
    }
}

impl Encoder {
    /// As [`Model::compare`].
    pub fn compare(&mut self, pictures: &[Picture], texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let model = self.model().clone();
        if !model.compares() {
            let label = model.file().label();
            return Err(Error::Usage(format!(
                "{label}: does not compare pictures and texts; it takes {}",
                model.signature()
            )));
        }
        if pictures.is_empty() || texts.is_empty() {
            return Ok(vec![Vec::new(); pictures.len()]);
        }
        let session = model.session()?;
        let mut vectors = Vec::with_capacity(pictures.len());
        for picture in pictures {
            let made = session.once(&[model.picture(picture)?])?;
            vectors.extend(made.into_iter().find(|(name, _)| name == IMAGE_EMBEDS).map(|(_, vector)| vector));
        }
        let vectors = Tensor::cat(&vectors, 0).map_err(ExecutorError::from)?;
        let mut rows = self.beside(vectors, texts, LOGITS)?;
        // Of each text by itself, or among all texts, of however many calls.
        let alone = canonical_type(model.file().config().model_type()) == Some("siglip");
        for row in &mut rows {
            match alone {
                true => row.iter_mut().for_each(|x| *x = (1.0 / (1.0 + f64::from(-*x).exp())) as f32),
                false => *row = softmax(row),
            }
        }
        Ok(rows)
    }
}

/// A vector for the place of pictures where there are only texts: nothing of what texts give depends on it.
pub(crate) fn no_picture(model: &Model) -> Result<Option<Tensor>> {
    let plan = model.program().plan();
    let Some(input) = plan.inputs.iter().find(|input| input.name == IMAGE_EMBEDS) else { return Ok(None) };
    let width = input.ty.shape.last().and_then(|dim| dim.as_const()).and_then(|n| usize::try_from(n).ok());
    let zeros = vec![0.0_f32; width.unwrap_or_default()];
    let width = zeros.len();
    Ok(Some(Tensor::from_vec(zeros, (1, width), &Device::Cpu).map_err(ExecutorError::from)?))
}
