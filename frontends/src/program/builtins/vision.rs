//! Builtins.

use super::Builtin;

/// The methods.
pub static METHODS: &[Builtin] = &[];

/// The functions.
pub static FUNCTIONS: &[Builtin] = &[];
