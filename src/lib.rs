//! Tallow opens a single-file `.model` package, turns its graph or family into a graph IR, and runs
//! it on Candle tensors.
//!
//! ```
//! let model = tallow::Model::storyteller()?;
//! let mut session = model.session()?;
//! let mut story = String::new();
//! for piece in session.generate("Tell me a story about a fox.")?.take(40) {
//!     story.push_str(&piece?);
//! }
//! assert!(story.contains("fox"), "{story}");
//! # Ok::<(), tallow::Error>(())
//! ```
//!
//! A file instead of the embedded model: `tallow::Model::open("some.model")?`; a GGUF file or a
//! Hugging Face folder: [`import`] it first, or let [`library::resolve`] do so once.

pub mod audio;
pub mod beam;
pub mod bench;
pub mod check;
pub mod compiled;
pub mod error;
pub mod generation;
pub mod graph_file;
mod languages;
pub mod library;
pub mod model;
pub mod numeric;
pub mod page;
pub mod picture;
pub mod program;
pub mod session;
pub mod source;
pub mod speech;
pub mod tensor_file;
pub mod text;
mod tokens;
pub mod vision_language;

pub use audio::Sound;
pub use beam::{BeamOptions, EarlyStopping};
pub use error::{Error, Result};
pub use generation::{Ended, Generation, Statistics};
pub use model::{Model, ModelOptions, Path};
pub use session::{GenerateOptions, Session};
pub use source::{Opened, Source};
pub use speech::{Segment, Task, TranscribeOptions, Transcript, Transcription};
pub use text::{Encoder, TextTask};
pub use vision_language::Patches;

pub use tallow_compiler as compiler;
pub use tallow_executor as executor;
pub use tallow_executor::chat::Message;
pub use tallow_executor::{CacheType, Engine, HostFunctions, PackedCache, PackedReport, Rows, Tensor};
pub use tallow_format as format;
pub use tallow_frontends as frontends;
pub use tallow_import as import;
pub use tallow_ir as ir;
