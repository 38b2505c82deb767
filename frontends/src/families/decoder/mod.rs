//! Decoders: one description of everything that varies, one builder, one reader per type.
//!
//! | module | holds |
//! |---|---|
//! | `spec` | [`DecoderSpec`] |
//! | `builder` | from a description to a graph |
//! | `read` | what the readers of all types share |
//! | [`rope`], `axes`, `windows` | rotary embedding, by one position or three; which keys each layer sees |
//! | [`latent`] | attention through narrow projections |
//! | [`gemma4`] | a description and a builder of its own |
//! | the others | readers of types |

pub(crate) mod axes;
mod builder;
pub mod cohere;
pub mod deepseek;
pub mod gemma;
pub mod gemma4;
pub mod gpt2;
pub mod gpt_neox;
pub mod latent;
pub mod llama;
pub mod olmo2;
pub mod phi;
mod read;
pub mod rope;
pub mod sparse;
mod spec;
pub mod stablelm;
pub mod starcoder2;
mod windows;

pub use builder::build;
pub(crate) use builder::{attend, decode, embed, gain, gated, scaled, soft_capped, turn_heads};
pub use latent::Latent;
pub use rope::Rope;
pub use spec::{
    Activation, Attention, DecoderSpec, Embedding, FeedForward, Gate, Head, HeadNorm, Layer, Names, Norm, NormPlaces,
    Projections,
};
