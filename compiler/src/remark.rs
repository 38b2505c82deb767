//! Remarks: what each pass did, and what it nearly did.

use crate::Stage;
use std::fmt;
use tallow_ir::NodeId;

/// One candidate of one pass: applied, or missed and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The pass.
    pub pass: &'static str,
    /// The stage that the pass is of.
    pub stage: Stage,
    /// Where: the name of the value, else `Add#12`.
    pub place: String,
    /// The nodes of the first graph that it is about.
    pub nodes: Vec<NodeId>,
    /// What was, or might have been, done: `Add of 0`, `norm + matmul`.
    pub what: String,
    /// How it came out.
    pub outcome: Outcome,
}

/// How a candidate came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, as the patch of this number, counted from 1 over all passes.
    Applied(u32),
    /// Left alone, since this guard did not hold.
    Missed(String),
}

impl Remark {
    /// Whether it was done.
    pub fn is_applied(&self) -> bool {
        matches!(self.outcome, Outcome::Applied(_))
    }
}

/// `  12  norm-matmul  layers.0.attn.q: norm + matmul`, or `   -  … : missed, why`.
impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Applied(number) => write!(f, "{number:>5}  {}: {}", self.place, self.what),
            Outcome::Missed(why) => write!(f, "    -  {}: {}: missed, {why}", self.place, self.what),
        }
    }
}
