//! Passes over the IR and its lowering to a plan.
//!
//! This crate knows graphs and nothing of devices, tensors or files: it turns a verified graph
//! into a [`Plan`], a flat list of steps over numbered buffers that an executor walks.

pub mod body;
pub mod memory;
pub mod passes;
pub mod patch;
pub mod pipeline;
pub mod plan;
pub mod remark;

pub use memory::Memory;
pub use pipeline::{CompileError, Facts, Optimised, Options, PassReport, Stage, optimise};
pub use plan::{Buffer, Plan, PlanError, PlanInput, PlanWeight, Step, lower, lower_with};
pub use remark::{Outcome, Remark};
