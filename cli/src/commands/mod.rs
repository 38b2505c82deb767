//! The subcommands, one file each but for the container tools.

pub mod bench;
pub mod chat;
pub mod check;
pub mod compile;
pub mod diff;
pub mod dump;
pub mod import;
pub mod inspect;
pub mod profile;
pub mod run;
pub mod tools;
