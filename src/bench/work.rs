//! How much a step has to read and to multiply, whatever the code that runs it: what rates are compared by.

use crate::Model;
use tallow_compiler::{Buffer, Plan, Step};
use tallow_executor::{CacheType, Rows, WeightSource};
use tallow_ir::ops::CachedParts;
use tallow_ir::{Dim, Op, Shape};

/// The work of a step, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of weight matrices, as they are encoded in the file, and of cached keys and values. Each is counted once a
    /// call, however often a kernel comes back to it; activations, which caches hold, are not counted.
    pub bytes: u64,
    /// Multiplications each followed by an addition, of products with matrices and of attention.
    pub multiply_adds: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.multiply_adds = self.multiply_adds.saturating_add(other.multiply_adds);
    }
}

/// A call: so many tokens after those in the cache.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Tokens of the call.
    pub tokens: u64,
    /// Tokens in the cache before.
    pub past: u64,
    /// How cached rows are kept.
    pub cache: CacheType,
}

impl Call {
    /// A call of a model.
    pub fn new(model: &Model, tokens: usize, past: usize) -> Self {
        Call { tokens: tokens as u64, past: past as u64, cache: model.program().cache_type() }
    }
}

/// The work of all steps of a plan.
pub fn of_plan(plan: &Plan, weights: &dyn WeightSource, call: Call) -> Work {
    let mut all = Work::default();
    plan.steps.iter().for_each(|step| all += of_step(plan, step, weights, call));
    all
}

/// The work of a prompt, in the calls that it is cut into.
pub(super) fn of_prompt(model: &Model, tokens: usize) -> Work {
    let program = model.program();
    let options = program.options();
    let chunk = match program.one_token_inputs() {
        [] if program.plan().caches == 0 => tokens,
        [] => options.chunk.max(1),
        _ => 1,
    };
    let mut all = Work::default();
    for past in (0..tokens).step_by(chunk.max(1)) {
        all += of_call(model, (tokens - past).min(chunk), past);
    }
    all
}

/// The work of so many tokens, one after another, after those in the cache.
pub(super) fn of_decoding(model: &Model, past: usize, tokens: usize) -> Work {
    let mut all = Work::default();
    (past..past + tokens).for_each(|past| all += of_call(model, 1, past));
    all
}

fn of_call(model: &Model, tokens: usize, past: usize) -> Work {
    let plan = model.program().call_plan(Rows::Last, tokens);
    of_plan(plan, &*model.weights(), Call::new(model, tokens, past))
}

/// The work of a step: zero where it multiplies by no matrix of weights and attends to nothing.
pub fn of_step(plan: &Plan, step: &Step, weights: &dyn WeightSource, call: Call) -> Work {
    match &step.op {
        Op::Matmul
        | Op::FusedNormMatmul { .. }
        | Op::JoinedMatmul { .. }
        | Op::GatedMatmul { .. }
        | Op::MatmulBias { .. } => products(plan, step, weights, call),
        Op::ExpertMatmul | Op::ExpertFeedForward { .. } => experts(plan, step, weights, call),
        Op::Sdpa { heads, kv_heads, head_dim, causal } => attention(*heads, *kv_heads, *head_dim, *causal, 0, call),
        Op::FlashAttention { heads, kv_heads, head_dim } => attention(*heads, *kv_heads, *head_dim, true, 0, call),
        Op::SdpaWindow { heads, head_dim, window } => attention(*heads, *heads, *head_dim, true, *window, call),
        Op::Attention { heads, kv_heads, head_dim, causal, window, .. } => {
            attention(*heads, *kv_heads, *head_dim, *causal, *window, call)
        }
        // At most: as if all tokens were one text.
        Op::SegmentAttention { heads, kv_heads, head_dim, .. } => {
            attention(*heads, *kv_heads, *head_dim, false, 0, call)
        }
        op => match CachedParts::of(op).map(|parts| parts.attention) {
            Some(Op::Attention { heads, kv_heads, head_dim, causal, window, .. }) => {
                attention(heads, kv_heads, head_dim, causal, window, call)
            }
            _ => Work::default(),
        },
    }
}

/// Products with matrices of weights; the rows of the result say how many there are of each.
fn products(plan: &Plan, step: &Step, weights: &dyn WeightSource, call: Call) -> Work {
    let rows = step.types.first().map_or(1, |ty| rows(&ty.shape, call));
    let mut work = Work::default();
    for operand in &step.operands {
        let Some(view) = weight(plan, *operand).and_then(|name| weights.weight(name)) else { continue };
        if let &[n, k] = view.shape {
            let multiply_adds = n.saturating_mul(k).saturating_mul(rows);
            work += Work { bytes: view.bytes.len() as u64, multiply_adds };
        }
    }
    work
}

/// Products with the chosen ones of several matrices: as many as are chosen, though tokens may choose the same.
fn experts(plan: &Plan, step: &Step, weights: &dyn WeightSource, call: Call) -> Work {
    let chosen = match step.op {
        // x, index, weights, matrices.
        Op::ExpertFeedForward { .. } => {
            let index = step.operands.get(1).and_then(|&b| plan.type_of(b));
            let choices = index.and_then(|ty| ty.shape.last()?.as_const()).map_or(1, |n| n.max(0) as u64);
            index.map_or(1, |ty| rows(&ty.shape, call)).saturating_mul(choices)
        }
        _ => step.types.first().map_or(1, |ty| rows(&ty.shape, call)),
    };
    let mut work = Work::default();
    for view in step.operands.iter().filter_map(|&b| weights.weight(weight(plan, b)?)) {
        if let &[experts, n, k] = view.shape {
            let bytes = view.bytes.len() as u64 / experts.max(1) * chosen.min(experts);
            work += Work { bytes, multiply_adds: n.saturating_mul(k).saturating_mul(chosen) };
        }
    }
    work
}

/// Rows of a shape: the product of all dimensions but the last.
fn rows(shape: &Shape, call: Call) -> u64 {
    let size = |dim: &Dim| match dim.as_const() {
        Some(n) => n.max(0) as u64,
        None => call.tokens,
    };
    shape.dims().iter().rev().skip(1).map(size).product()
}

fn weight(plan: &Plan, buffer: Buffer) -> Option<&str> {
    plan.weights.iter().find(|w| w.buffer == buffer).map(|w| w.name.as_str())
}

/// Scores and weighted sums over the keys that each query sees; keys and values are read once.
fn attention(heads: u32, kv_heads: u32, head_dim: u32, causal: bool, window: u32, call: Call) -> Work {
    let all = call.past + call.tokens;
    let window = if window == 0 { u64::MAX } else { u64::from(window) };
    let seen: u64 = match causal {
        true => (call.past + 1..=all).map(|keys| keys.min(window)).sum(),
        false => all * call.tokens,
    };
    let read = all.min(window.saturating_add(call.tokens - call.tokens.min(1)));
    let width = u64::from(kv_heads) * u64::from(head_dim);
    Work {
        bytes: 2 * read * call.cache.row_bytes(width),
        multiply_adds: 2 * seen * u64::from(heads) * u64::from(head_dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call = Call { tokens: 1, past: 99, cache: CacheType::F16 };

    #[test]
    fn attention_counts_the_keys_that_are_seen() {
        // 100 keys and values of 2 heads of 8; 4 heads multiply by each twice.
        let work = attention(4, 2, 8, true, 0, CALL);
        assert_eq!(work, Work { bytes: 2 * 100 * 16 * 2, multiply_adds: 2 * 100 * 32 });
        assert_eq!(attention(4, 2, 8, true, 10, CALL), Work { bytes: 2 * 10 * 16 * 2, multiply_adds: 2 * 10 * 32 });
        // The first tokens of a text see 1, 2 and 3 keys.
        let prompt = Call { tokens: 3, past: 0, cache: CacheType::F16 };
        assert_eq!(attention(1, 1, 1, true, 0, prompt).multiply_adds, 2 * 6);
        assert_eq!(attention(1, 1, 1, false, 0, prompt).multiply_adds, 2 * 9);
        // With a window of 2 the last three tokens of 10 need 4 keys.
        let late = Call { tokens: 3, past: 7, cache: CacheType::F32 };
        assert_eq!(attention(1, 1, 1, true, 2, late), Work { bytes: 2 * 4 * 4, multiply_adds: 2 * 6 });
        // One byte for a value, and a scale of two bytes for each 32 values of a row, begun ones too.
        let small = Call { cache: CacheType::Q8, ..CALL };
        assert_eq!(attention(4, 2, 8, true, 0, small).bytes, 2 * 100 * (16 + 2));
        assert_eq!(attention(4, 2, 24, true, 0, small).bytes, 2 * 100 * (48 + 4));
    }

    #[test]
    fn a_decode_step_multiplies_by_every_matrix_once() {
        let model = crate::Model::storyteller().unwrap();
        let plan = model.program().call_plan(Rows::Last, 1);
        let start = Call { tokens: 1, past: 0, cache: CacheType::F16 };
        let one = of_plan(plan, &*model.weights(), start);
        let embedded = plan.steps.iter().find(|s| s.op == Op::TokenEmbed).unwrap();
        let table = embedded.operands.iter().find_map(|&b| weight(plan, b)).unwrap();
        let tied = plan.steps.iter().any(|s| s.op != Op::TokenEmbed && s.operands.contains(&embedded.operands[1]));
        let matrices = model.file().tensors().iter().filter(|t| t.shape.len() == 2 && (tied || t.name != table));
        let parameters: u64 = matrices.map(|t| t.shape.iter().product::<u64>()).sum();
        let attention = plan.steps.iter().filter(|s| CachedParts::of(&s.op).is_some());
        let attention: u64 = attention.map(|s| of_step(plan, s, &*model.weights(), start).multiply_adds).sum();
        assert!(attention > 0);
        assert_eq!(one.multiply_adds, parameters + attention);
        // A prompt does so for every token, but for the logits of all tokens but the last.
        let prompt = of_prompt(&model, 8).multiply_adds;
        assert!(prompt > 4 * parameters && prompt < 8 * one.multiply_adds + 64 * attention, "{prompt}");
    }
}
