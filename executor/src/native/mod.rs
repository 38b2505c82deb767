//! The native runner: whole plans inside one call of the thread team, over planned memory.
//!
//! A plan, for given sizes, becomes a [`Schedule`]: instructions ([`call`]) over places in one block of memory, which
//! [`Plan::memory`] lays out. All threads of the team walk the list together. Each does its share of an instruction, and
//! they meet at a barrier only where the next one touches what another thread has written, or writes what another may
//! still read. What is little work for a single row of a text, such as a norm, a sum or the quantising of an operand,
//! every thread does for itself, in memory of its own, which saves the barrier.
//!
//! Steps that have no instruction run by themselves between two calls of the team, as they do without this runner, on
//! tensors made of the intermediates. Plans with sizes that only running tells have no schedule at all.
//!
//! Results are those of the steps run one by one, to the bit, for any number of threads: both use the same kernels.
//!
//! | module | holds |
//! |---|---|
//! | [`call`] | the instructions |
//! | [`schedule`] | making them from a plan, for given sizes |
//! | [`barriers`] | where threads must meet |
//! | [`lower`] | the instructions of one step |
//! | [`run`] | walking the list |
//! | [`work`], [`mod@product`], [`heads`] | what one thread does of an instruction |
//! | [`memory`] | handing out parts of the memory to threads |
//! | [`races`] | proof of the schedule in debug builds |
//!
//! [`Plan::memory`]: tallow_compiler::Plan::memory

mod barriers;
mod call;
mod heads;
mod lower;
mod memory;
mod product;
mod races;
mod run;
mod schedule;
mod work;

pub(crate) use run::{Order, Runner};

#[cfg(test)]
mod tests;
