//! Passes: each takes a verified graph and gives back one that computes the same, or less of it.

mod last_row;
mod whole_prompt;

pub use last_row::last_row;
pub use whole_prompt::{Missed, takes_one_token, token_inputs, whole_prompt};
