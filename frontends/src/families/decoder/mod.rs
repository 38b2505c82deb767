//! Decoders: one description of everything that varies, one builder, one reader per type.
//!
//! | module | holds |
//! |---|---|
//! | `spec` | [`DecoderSpec`] |
//! | `builder` | from a description to a graph |
//! | `read` | what the readers of all types share |
//! | [`rope`], `windows` | rotary embedding; which keys each layer sees |
//! | [`llama`], [`gemma`] | a reader for each type |

mod builder;
pub mod gemma;
pub mod llama;
mod read;
pub mod rope;
mod spec;
mod windows;

pub use builder::build;
pub(crate) use builder::{attend, gain, gated, norm, scaled, soft_capped, turn_heads};
pub use rope::Rope;
pub use spec::{
    Activation, Attention, DecoderSpec, Embedding, FeedForward, Gate, Head, HeadNorm, Layer, Names, Norm, NormPlaces,
    Projections,
};
