//! Front ends: everything that turns a model into a graph of the IR.
//!
//! | module | turns |
//! |---|---|
//! | [`families`] | a config, and the shapes of the tensors beside it, into a graph |
//! | [`graph_section`] | the graph section of a `.model` into a graph |
//! | [`nearest`] | a name that nobody knows into the one that was probably meant |
//! | [`program`] | the program section of a `.model`, in either language, into graphs |
//!
//! This crate runs nothing, knows no tensor library, and reads no weight: names, shapes and
//! encodings of tensors are all that a front end sees of them.

pub mod families;
pub mod graph_section;
pub mod nearest;
pub mod program;

pub use families::{Family, FamilyError, TensorShapes, dtype_of};
pub use graph_section::{GraphSectionError, from_section};
