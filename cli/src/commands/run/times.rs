//! How long a run took: the same words beside texts, pictures and sounds.

use crate::ui;
use serde_json::{Value, json};
use tallow::Model;
use tallow::text::Encoder;

/// The times of a run, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// From the beginning until the model was there.
    pub load: f64,
    /// From then on until the last result.
    pub run: f64,
}

impl Times {
    /// Adds to a JSON object `load_seconds`, `seconds`, `threads` and `peak_memory_bytes`.
    pub fn add_to(self, mut object: Value, model: &Model) -> Value {
        object["load_seconds"] = self.load.into();
        object["seconds"] = self.run.into();
        object["threads"] = model.program().threads().into();
        object["peak_memory_bytes"] = tallow::bench::peak_memory().into();
        object
    }

    /// `load 0.02 s · 2 pictures in 0.105 s`, of what has been counted.
    pub fn line(self, what: &str) -> String {
        format!("load {:.2} s · {what} in {:.3} s", self.load, self.run)
    }
}

/// Adds to a JSON object the `tokens` of the last call of an encoder, and which texts were `cut`.
pub fn add_tokens(mut object: Value, encoder: &Encoder) -> Value {
    object["tokens"] = encoder.tokens().into();
    object["cut"] = encoder.cut().iter().map(|c| json!({ "text": c.text, "tokens": c.tokens })).collect();
    object
}

/// `3 texts, 25 tokens`.
pub fn texts(count: usize, encoder: &Encoder) -> String {
    format!("{}, {}", ui::count(count, "text"), ui::count(encoder.tokens(), "token"))
}
