//! Models that see pictures and write about them: a graph that runs once over the pictures, and a decoder whose text holds
//! what it gave.
//!
//! | module | holds |
//! |---|---|
//! | `tower` | from patches of pictures to rows of the text |
//! | `text` | the decoder, with those rows among its words |
//! | [`sight`] | what a host needs to cut pictures and to place them in a text |
//!
//! Inputs of the graph that runs once, with P patches of which `merge²` together become one of M rows:
//!
//! | input | type | holds |
//! |---|---|---|
//! | `pixel_values` | f32 `[P, channels · frames · patch · patch]` | patches; those of one row stand together |
//! | `patch_places` | i64 `[2, P]` | the row and the column of each in its picture |
//! | `frames` | i64 `[P]` | the number of its picture, which never falls |
//! | `windows` | i64 `[P]` | the number of its window, which never falls; where layers have windows |
//! | `order` | i64 `[M]` | at each place of the result the row that belongs there; with `windows` |
//!
//! Its output `picture` (f32 `[M, hidden]`) is an input of the graph for tokens, beside two tables that hold for a whole text
//! and all that is generated behind it. L is the length of the prompt:
//!
//! | input | type | holds |
//! |---|---|---|
//! | `places` | i64 `[3, L + 1]` | time, height and width of each token; last where generation goes on |
//! | `picture_rows` | i64 `[L + 1]` | 0 for a word, else 1 + the row of `picture` that stands there; last 0 |
//!
//! A text without pictures has tables for L = 0, of zeros.

pub mod sight;
mod text;
mod tower;

pub use sight::Sight;

use super::decoder::{DecoderSpec, llama};
use super::parts::Parts;
use super::{Build, FamilyError, Settings, TensorShapes};
use tallow_ir::IrError;
use tower::Tower;

/// Keys of the root that say nothing about the computation.
pub(super) const IGNORED: &[&str] = &["vision_token_id"];

/// The dimension of rows that the tower gives.
const ROWS: &str = "M";

/// A tower and a decoder.
#[derive(Clone, Debug)]
struct SeeingDecoder {
    text: DecoderSpec,
    tower: Tower,
    sight: Sight,
}

/// qwen2_vl: LayerNorm, an ungated feed-forward, all patches of a picture see each other.
pub fn qwen2_vl(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    seeing(s, tensors, tower::qwen2_vl)
}

/// qwen2_5_vl: RMSNorm, a gated feed-forward, windows on most layers.
pub fn qwen2_5_vl(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    seeing(s, tensors, tower::qwen2_5_vl)
}

fn seeing(s: &mut Settings<'_>, tensors: &dyn TensorShapes, read: tower::Read) -> Result<Box<dyn Build>, FamilyError> {
    let text = llama::qwen2_vl_text(s, tensors)?;
    let Some(mut vision) = s.table("vision")? else {
        return Err(s.bad("vision", "nothing", "the part that sees pictures is described there", "Add the table"));
    };
    let prefix =
        if tensors.shape("model.visual.patch_embed.proj.weight").is_some() { "model.visual." } else { "visual." };
    let tower = read(&mut vision, prefix, text.hidden)?;
    s.absorb(vision, tower::IGNORED);
    let sight = Sight::read(s, &tower)?;
    Ok(Box::new(SeeingDecoder { text, tower, sight }))
}

impl Build for SeeingDecoder {
    fn once(&self, parts: &mut Parts<'_>) -> Result<bool, IrError> {
        self.tower.build(parts)?;
        Ok(true)
    }

    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        text::build(parts, &self.text)
    }

    fn sight(&self) -> Option<Sight> {
        Some(self.sight.clone())
    }
}
