//! Buffer planning: where each intermediate of a plan lies in one block of memory.
//!
//! A buffer lives from the step that fills it to the last one that reads it. Buffers that never live at the same time
//! share memory; what only gives another shape shares that of its operand, and a step that computes element by element
//! writes over an operand that dies there.

use crate::plan::{Buffer, Plan, Step};
use std::collections::{BTreeMap, BTreeSet};
use tallow_ir::{Bindings, DType, Effect, Op, TensorType};

/// Every buffer begins at a multiple of so many bytes: a cache line.
const ALIGN: u64 = 64;

/// Where the intermediates of a plan lie, for given sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// For each buffer number its offset and its size in bytes; `None` for inputs, weights, what is computed once, and
    /// rows of caches, which lie elsewhere.
    pub places: Vec<Option<(u64, u64)>>,
    /// Bytes of the block.
    pub block: u64,
    /// Bytes of all intermediates, each on its own.
    pub sum: u64,
}

impl Plan {
    /// Plans the buffers for the sizes that `bindings` gives the symbols. `None` where a size is told only by running.
    /// O(n log n) in the steps.
    pub fn memory(&self, bindings: &Bindings) -> Option<Memory> {
        self.memory_after(bindings, 0)
    }

    /// [`Plan::memory`] where the memory of a buffer is taken again only `later` steps after its last reader: threads
    /// that go on to the next step then need not wait for those that still read.
    pub fn memory_after(&self, bindings: &Bindings, later: usize) -> Option<Memory> {
        let mut sizes: Vec<Option<u64>> = vec![None; self.buffers as usize];
        let mut sum = 0u64;
        for step in self.steps.iter().filter(|s| !in_cache(s)) {
            for (buffer, ty) in step.results.iter().zip(&step.types) {
                let size = bytes(ty, bindings)?;
                sizes[buffer.0 as usize] = Some(size);
                sum = sum.checked_add(size)?;
            }
        }
        let last_read = self.last_reads();
        // The buffer whose memory each one uses.
        let mut home: Vec<u32> = (0..self.buffers).collect();
        let mut dies: Vec<usize> = last_read.clone();
        let mut memory = Memory { places: vec![None; self.buffers as usize], block: 0, sum };
        let mut free = Free::default();
        let mut ends: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            for &buffer in step.results.iter().filter(|b| sizes[b.0 as usize].is_some()) {
                let own = buffer.0 as usize;
                if let Some(under) = self.shared(step, at, &sizes, &home, &dies, own) {
                    home[own] = under;
                    let under = under as usize;
                    memory.places[own] = memory.places[under];
                    dies[under] = dies[under].max(last_read[own]);
                } else if let Some(size) = sizes[own] {
                    let offset = free.take(size);
                    memory.places[own] = Some((offset, size));
                }
                let root = home[own];
                ends.entry(dies[root as usize].max(at)).or_default().push(root);
            }
            let Some(over) = at.checked_sub(later) else { continue };
            for root in ends.remove(&over).unwrap_or_default() {
                // It may have been listed before its memory went on to another value.
                if dies[root as usize].max(over) == over
                    && let Some((offset, size)) = memory.places[root as usize]
                    && sizes[root as usize].take().is_some()
                {
                    free.give(offset, size);
                }
            }
        }
        memory.block = free.end;
        Some(memory)
    }

    /// For each buffer the last step that reads it; outputs live past the end.
    fn last_reads(&self) -> Vec<usize> {
        let mut last = vec![0; self.buffers as usize];
        for (at, step) in self.steps.iter().enumerate() {
            step.operands.iter().for_each(|b| last[b.0 as usize] = at);
        }
        self.outputs.iter().for_each(|(_, b)| last[b.0 as usize] = usize::MAX);
        last
    }

    /// The buffer whose memory the result of a step may use.
    fn shared(
        &self,
        step: &Step,
        at: usize,
        sizes: &[Option<u64>],
        home: &[u32],
        dies: &[usize],
        own: usize,
    ) -> Option<u32> {
        let size = sizes[own]?;
        let fits = |b: &Buffer| {
            let root = home[b.0 as usize];
            let same = sizes[root as usize].is_some_and(|n| n == size) && root as usize != own;
            let view = step.op.is_view() && step.operands.first() == Some(b);
            (same && (view || (in_place(&step.op) && dies[root as usize] == at))).then_some(root)
        };
        if step.results.len() == 1 { step.operands.iter().find_map(fits) } else { None }
    }
}

/// Results that are rows of a cache.
fn in_cache(step: &Step) -> bool {
    step.op.info().effect == Effect::State && matches!(step.op, Op::KvCache)
}

/// Bytes of a tensor as the executor holds it: truth values and u8 in one byte, other integers in eight.
fn bytes(ty: &TensorType, bindings: &Bindings) -> Option<u64> {
    let width = match ty.dtype {
        DType::F16 | DType::BF16 => 2,
        DType::Bool | DType::U8 => 1,
        dtype if dtype.is_integer() => 8,
        _ => 4,
    };
    let elements = ty.shape.evaluate(bindings)?.into_iter().try_fold(1u64, |n, d| n.checked_mul(d as u64))?;
    elements.checked_mul(width)?.checked_next_multiple_of(ALIGN)
}

/// Operations that read each element, or each row, before they write it.
fn in_place(op: &Op) -> bool {
    matches!(
        op,
        Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::AddScalar { .. }
            | Op::MulScalar { .. }
            | Op::Neg
            | Op::Silu
            | Op::Gelu { .. }
            | Op::QuickGelu
            | Op::Relu
            | Op::Sigmoid
            | Op::Tanh
            | Op::SwiGlu
            | Op::GeGlu
            | Op::FusedSwiGlu
            | Op::RmsNorm { .. }
            | Op::LayerNorm { .. }
            | Op::Rope { .. }
            | Op::RopeScaled { .. }
            | Op::Softmax { .. }
    )
}

/// Memory that is free again, in one block that grows.
#[derive(Default)]
struct Free {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    end: u64,
}

impl Free {
    /// The smallest free stretch that fits, else the block's end.
    fn take(&mut self, size: u64) -> u64 {
        let fit = self.by_size.range((size, 0)..).next().copied();
        if let Some((found, offset)) = fit {
            self.drop(offset, found);
            if found > size {
                self.put(offset + size, found - size);
            }
            return offset;
        }
        // A free stretch at the end grows.
        let last = self.by_offset.last_key_value().map(|(&o, &n)| (o, n)).filter(|(o, n)| o + n == self.end);
        let offset = match last {
            Some((offset, found)) => {
                self.drop(offset, found);
                offset
            }
            None => self.end,
        };
        self.end = offset + size;
        offset
    }

    fn give(&mut self, mut offset: u64, mut size: u64) {
        if size == 0 {
            return;
        }
        if let Some((&before, &n)) = self.by_offset.range(..offset).next_back()
            && before + n == offset
        {
            self.drop(before, n);
            (offset, size) = (before, size + n);
        }
        if let Some(&n) = self.by_offset.get(&(offset + size)) {
            self.drop(offset + size, n);
            size += n;
        }
        self.put(offset, size);
    }

    fn put(&mut self, offset: u64, size: u64) {
        self.by_offset.insert(offset, size);
        self.by_size.insert((size, offset));
    }

    fn drop(&mut self, offset: u64, size: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower;
    use tallow_ir::{text, verify::verify};

    fn memory(statements: &str, s: i64) -> (Plan, Memory) {
        let graph = verify(text::parse(&format!("graph {{\n{statements}\n}}")).unwrap()).unwrap();
        let plan = lower(&graph).unwrap();
        let memory = plan.memory(&Bindings::from([("S".to_owned(), s)])).unwrap();
        (plan, memory)
    }

    /// No two buffers that are alive at once share a byte, unless one is the other's view or writes over it.
    fn check(plan: &Plan, memory: &Memory) {
        let last = plan.last_reads();
        let mut born = vec![0; plan.buffers as usize];
        for (at, step) in plan.steps.iter().enumerate() {
            step.results.iter().for_each(|b| born[b.0 as usize] = at);
        }
        for (at, step) in plan.steps.iter().enumerate() {
            for result in &step.results {
                let Some((offset, size)) = memory.places[result.0 as usize] else { continue };
                assert!(offset + size <= memory.block);
                for other in 0..plan.buffers {
                    let alive = born[other as usize] < at && last[other as usize] > at;
                    let Some((o, n)) = memory.places[other as usize].filter(|_| alive) else { continue };
                    let view = step.op.is_view() && (o, n) == (offset, size);
                    assert!(view || o + n <= offset || offset + size <= o, "{result:?} on %{other}\n{plan}");
                }
            }
        }
    }

    #[test]
    fn a_chain_needs_one_buffer_and_branches_two() {
        let (plan, m) = memory(
            "input %x: f32[S, 16]
             %a: f32[S, 16] = Exp(%x)
             %b: f32[S, 16] = Silu(%a)
             %c: f32[16*S] = Reshape(%b) { shape = [-1] }
             %d: f32[16*S] = Tanh(%c)
             output y = %d",
            3,
        );
        assert_eq!((m.block, m.sum), (192, 4 * 192));
        check(&plan, &m);
        let (plan, m) = memory(
            "input %x: f32[S, 16]
             %a: f32[S, 16] = Exp(%x)
             %b: f32[S, 16] = Silu(%a)
             %c: f32[S, 16] = Add(%a, %b)
             %d: f32[S, 16] = Exp(%c)
             output y = %d
             output z = %b",
            1,
        );
        assert_eq!((m.block, m.sum), (192, 256));
        check(&plan, &m);
    }

    #[test]
    fn memory_may_be_taken_later() {
        let text = "input %x: f32[S, 16]
             %a: f32[S, 16] = Exp(%x)
             %b: f32[S, 16] = Exp(%a)
             %c: f32[S, 16] = Exp(%b)
             %d: f32[S, 16] = Exp(%c)
             %e: f32[S, 16] = Exp(%d)
             output y = %e";
        let (plan, at_once) = memory(text, 1);
        let later = |steps| plan.memory_after(&Bindings::from([("S".to_owned(), 1)]), steps).unwrap();
        assert_eq!([at_once.block, later(1).block, later(2).block, later(9).block], [128, 192, 256, 320]);
        for steps in [1, 2, 9] {
            check(&plan, &later(steps));
        }
    }

    #[test]
    fn freed_neighbours_join_and_the_last_one_grows() {
        let mut free = Free::default();
        let (a, b, c) = (free.take(64), free.take(128), free.take(64));
        free.give(a, 64);
        free.give(b, 128);
        assert_eq!(free.take(192), 0);
        free.give(c, 64);
        assert_eq!(free.take(128), 192);
        assert_eq!(free.end, 320);
    }

    #[test]
    fn a_view_of_what_others_read_keeps_its_memory() {
        let (plan, m) = memory(
            "input %x: f32[S, 4]
             %a: f32[S, 4] = Exp(%x)
             %r: f32[4*S] = Reshape(%a) { shape = [-1] }
             %b: f32[S, 4] = Neg(%a)
             %c: f32[4*S] = Exp(%r)
             output y = %b
             output z = %c",
            16,
        );
        check(&plan, &m);
    }
}
