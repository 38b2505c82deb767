//! Passes over the IR and its lowering to a plan.
//!
//! This crate knows graphs and nothing of devices, tensors or files: it turns a verified graph
//! into a [`Plan`], a flat list of steps over numbered buffers that an executor walks.

pub mod passes;
pub mod plan;

pub use plan::{Buffer, Plan, PlanError, PlanInput, PlanWeight, Step, lower};
