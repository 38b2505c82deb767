//! Two computations against each other, value by value: the first operation where the numbers part.
//!
//! [`compare`] runs two graphs on the same inputs. The left one is the reference. Values that both have are compared,
//! and each is reset to the reference before the right graph goes on, so that an error is charged to the operation
//! that makes it and to none of those that read it. [`against`] does the same with values that another program
//! wrote to files.
//!
//! ```
//! use tallow::numeric::{self, Given, Side};
//! let model = tallow::Model::storyteller()?;
//! let (left, right) = (Side::of_model(&model), Side::of_model(&model));
//! let inputs = numeric::inputs(&[&left, &right], &Given { text: Some("A fox.".into()), ..Given::default() })?;
//! let pairs = numeric::pairs(&left, &right)?;
//! let report = numeric::compare(&left, &right, &pairs, &inputs, None)?;
//! assert!(report.is_within());
//! # Ok::<(), tallow::Error>(())
//! ```

mod against;
mod inputs;
mod json;
mod lockstep;
mod measure;
mod modules;
mod pairs;
mod region;
mod report;
mod side;
mod sisters;
mod tolerance;
mod weights;

pub use against::{References, against};
pub use inputs::{Given, inputs};
pub use lockstep::compare;
pub use measure::Measure;
pub use pairs::{ValuePair, pairs};
pub use report::{Compared, Report, Suspect, Unmatched, Verdict};
pub use side::Side;
pub use weights::WeightDifference;

/// An error that says on which side it happened.
fn in_side(label: &str, error: crate::Error) -> crate::Error {
    crate::Error::Within { file: label.to_owned(), source: Box::new(error) }
}
