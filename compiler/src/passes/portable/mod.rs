//! Passes whose results are the same on every device and can be written to a file.

pub(super) mod batch_norm;
pub(super) mod common;
pub(super) mod constants;
pub(super) mod dead;
pub(super) mod identities;
pub(super) mod last_row;
pub(super) mod layout;
pub(super) mod one_token;
pub(super) mod whole_prompt;
