//! Decoders: one description of everything that varies, one builder, one reader per type.
//!
//! | module | holds |
//! |---|---|
//! | `spec` | [`DecoderSpec`] |
//! | `builder` | from a description to a graph |
//! | `read` | what the readers of all types share |
//! | [`rope`], `windows` | rotary embedding; which keys each layer sees |
//! | [`latent`] | attention through narrow projections |
//! | [`llama`], [`gemma`], [`sparse`], [`deepseek`] | a reader for each type |
//! | [`gemma4`] | a description and a builder of its own |

mod builder;
pub mod deepseek;
pub mod gemma;
pub mod gemma4;
pub mod latent;
pub mod llama;
mod read;
pub mod rope;
pub mod sparse;
mod spec;
mod windows;

pub use builder::build;
pub(crate) use builder::{attend, gain, gated, norm, scaled, soft_capped, turn_heads};
pub use latent::Latent;
pub use rope::Rope;
pub use spec::{
    Activation, Attention, DecoderSpec, Embedding, FeedForward, Gate, Head, HeadNorm, Layer, Names, Norm, NormPlaces,
    Projections,
};
