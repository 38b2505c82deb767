//! How much a step has to read and to multiply, whatever the code that runs it: what rates are compared by.

use crate::Model;
use tallow_compiler::{Buffer, Plan, Step};
use tallow_executor::{CacheType, Program, Rows, Tensor, WeightSource};
use tallow_ir::ops::CachedParts;
use tallow_ir::{Bindings, Dim, Op, PAST, SEQUENCE, Shape};

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
#[derive(Clone, Debug)]
pub struct Call {
    /// Tokens of the call.
    pub tokens: u64,
    /// Tokens in the cache before.
    pub past: u64,
    /// How cached rows are kept.
    pub cache: CacheType,
    /// Texts that the tokens belong to, each of which attends to itself alone.
    pub texts: u64,
    /// The symbols of shapes.
    pub bindings: Bindings,
}

impl Call {
    /// A call of a program with so many tokens, and with inputs beside them.
    pub fn new(program: &Program, tokens: usize, past: usize, inputs: &[(String, Tensor)]) -> Self {
        let mut bindings = Bindings::from([(PAST.to_owned(), past as i64), (SEQUENCE.to_owned(), tokens as i64)]);
        for (name, tensor) in inputs {
            let Some(input) = program.plan().inputs.iter().find(|input| input.name == *name) else { continue };
            for (dim, &size) in input.ty.shape.dims().iter().zip(tensor.dims()) {
                bindings.extend(dim.as_symbol().map(|symbol| (symbol.to_owned(), size as i64)));
                bindings.extend(dim.solve(size as i64));
            }
        }
        let (tokens, past) = (tokens as u64, past as u64);
        Call { tokens, past, cache: program.cache_type(), texts: 1, bindings }
    }
}

/// The work of all steps of a plan.
pub fn of_plan(plan: &Plan, weights: &dyn WeightSource, call: &Call) -> Work {
    let mut all = Work::default();
    plan.steps.iter().for_each(|step| all += of_step(plan, step, weights, call));
    all
}

/// The work of a prompt, in the calls that it is cut into; `beside` are the inputs beside its tokens.
pub(super) fn of_prompt(model: &Model, tokens: usize, beside: &[(String, Tensor)]) -> Work {
    let program = model.program();
    let options = program.options();
    let chunk = match program.one_token_inputs() {
        [] if program.plan().caches == 0 => tokens,
        [] => options.chunk.max(1),
        _ => 1,
    };
    let mut all = Work::default();
    for past in (0..tokens).step_by(chunk.max(1)) {
        all += of_call(model, (tokens - past).min(chunk), past, beside);
    }
    all
}

/// The work of so many tokens, one after another, after those in the cache.
pub(super) fn of_decoding(model: &Model, past: usize, tokens: usize, beside: &[(String, Tensor)]) -> Work {
    let mut all = Work::default();
    (past..past + tokens).for_each(|past| all += of_call(model, 1, past, beside));
    all
}

fn of_call(model: &Model, tokens: usize, past: usize, beside: &[(String, Tensor)]) -> Work {
    let program = model.program();
    let plan = program.call_plan(Rows::Last, tokens);
    of_plan(plan, &*model.weights(), &Call::new(program, tokens, past, beside))
}

/// The work of a step: zero where it multiplies by no tensor of weights and attends to nothing.
pub fn of_step(plan: &Plan, step: &Step, weights: &dyn WeightSource, call: &Call) -> Work {
    match &step.op {
        Op::Matmul
        | Op::FusedNormMatmul { .. }
        | Op::JoinedMatmul { .. }
        | Op::GatedMatmul { .. }
        | Op::MatmulBias { .. } => products(plan, step, weights, call),
        Op::ExpertMatmul | Op::ExpertFeedForward { .. } => experts(plan, step, weights, call),
        Op::Conv1d { .. }
        | Op::Conv2d { .. }
        | Op::Conv3d { .. }
        | Op::CausalConv1d { .. }
        | Op::DepthwiseConv { .. }
        | Op::PatchEmbed { .. } => convolution(plan, step, weights, call),
        Op::Sdpa { heads, kv_heads, head_dim, causal } => {
            whole_attention(plan, step, [*heads, *kv_heads, *head_dim], *causal, 0, call)
        }
        Op::FlashAttention { heads, kv_heads, head_dim } => {
            whole_attention(plan, step, [*heads, *kv_heads, *head_dim], true, 0, call)
        }
        Op::SdpaWindow { heads, head_dim, window } => {
            whole_attention(plan, step, [*heads, *heads, *head_dim], true, *window, call)
        }
        Op::Attention { heads, kv_heads, head_dim, causal, window, .. } => {
            whole_attention(plan, step, [*heads, *kv_heads, *head_dim], *causal, *window, call)
        }
        Op::SegmentAttention { heads, kv_heads, head_dim, .. } => {
            whole_attention(plan, step, [*heads, *kv_heads, *head_dim], false, 0, call)
        }
        op => match CachedParts::of(op).map(|parts| parts.attention) {
            Some(Op::Attention { heads, kv_heads, head_dim, causal, window, .. }) => {
                attention([heads, kv_heads, head_dim], causal, window, call)
            }
            _ => Work::default(),
        },
    }
}

/// Attention to rows that are not cached: to as many keys as their operand has, of the text of the query alone.
fn whole_attention(plan: &Plan, step: &Step, sizes: [u32; 3], causal: bool, window: u32, call: &Call) -> Work {
    let queries = step.types.first().map_or(call.tokens, |ty| rows(&ty.shape, call));
    let keys = step.operands.get(1).and_then(|keys| plan.type_of(*keys));
    let keys = keys.map_or(call.past + queries, |ty| rows(&ty.shape, call));
    let texts = call.texts.clamp(1, queries.max(1));
    let past = keys.saturating_sub(queries) / texts;
    let of_text = match causal {
        true => Call { tokens: queries / texts, past, ..call.clone() },
        // Keys may be those of another text.
        false => return attended(queries * (keys / texts), keys, sizes, call.cache),
    };
    let one = attention(sizes, true, window, &of_text);
    Work { bytes: one.bytes * texts, multiply_adds: one.multiply_adds * texts }
}

/// A convolution: each value of the result takes the weights of its channel. These may have been worked out from others
/// when the plan was made, and are numbers of four bytes then.
fn convolution(plan: &Plan, step: &Step, weights: &dyn WeightSource, call: &Call) -> Work {
    let Some(&kernel) = step.operands.get(1) else { return Work::default() };
    let (Some(of), Some(ty)) = (plan.type_of(kernel), step.types.first()) else { return Work::default() };
    let product = |dims: &[Dim]| dims.iter().map(|dim| size(dim, call)).product::<u64>();
    let stored = weight(plan, kernel).and_then(|name| weights.weight(name)).map(|view| view.bytes.len() as u64);
    let each = product(of.shape.dims().get(1..).unwrap_or_default());
    Work {
        bytes: stored.unwrap_or_else(|| 4 * product(of.shape.dims())),
        multiply_adds: product(ty.shape.dims()).saturating_mul(each),
    }
}

/// Products with matrices of weights; the rows of the result say how many there are of each.
fn products(plan: &Plan, step: &Step, weights: &dyn WeightSource, call: &Call) -> Work {
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
fn experts(plan: &Plan, step: &Step, weights: &dyn WeightSource, call: &Call) -> Work {
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
fn rows(shape: &Shape, call: &Call) -> u64 {
    shape.dims().iter().rev().skip(1).map(|dim| size(dim, call)).product()
}

fn size(dim: &Dim, call: &Call) -> u64 {
    dim.evaluate(&call.bindings).map_or(call.tokens, |n| n.max(0) as u64)
}

fn weight(plan: &Plan, buffer: Buffer) -> Option<&str> {
    plan.weights.iter().find(|w| w.buffer == buffer).map(|w| w.name.as_str())
}

/// Scores and weighted sums over the keys that each query sees; keys and values are read once.
fn attention(sizes: [u32; 3], causal: bool, window: u32, call: &Call) -> Work {
    let all = call.past + call.tokens;
    let window = if window == 0 { u64::MAX } else { u64::from(window) };
    let seen: u64 = match causal {
        true => (call.past + 1..=all).map(|keys| keys.min(window)).sum(),
        false => all * call.tokens,
    };
    let read = all.min(window.saturating_add(call.tokens - call.tokens.min(1)));
    attended(seen, read, sizes, call.cache)
}

/// So many pairs of a query and a key, of so many keys.
fn attended(seen: u64, read: u64, [heads, kv_heads, head_dim]: [u32; 3], cache: CacheType) -> Work {
    let width = u64::from(kv_heads) * u64::from(head_dim);
    Work { bytes: 2 * read * cache.row_bytes(width), multiply_adds: 2 * seen * u64::from(heads) * u64::from(head_dim) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tokens: u64, past: u64, cache: CacheType) -> Call {
        Call { tokens, past, cache, texts: 1, bindings: Bindings::new() }
    }

    #[test]
    fn attention_counts_the_keys_that_are_seen() {
        // 100 keys and values of 2 heads of 8; 4 heads multiply by each twice.
        let one = call(1, 99, CacheType::F16);
        let work = attention([4, 2, 8], true, 0, &one);
        assert_eq!(work, Work { bytes: 2 * 100 * 16 * 2, multiply_adds: 2 * 100 * 32 });
        assert_eq!(attention([4, 2, 8], true, 10, &one), Work { bytes: 2 * 10 * 16 * 2, multiply_adds: 2 * 10 * 32 });
        // The first tokens of a text see 1, 2 and 3 keys.
        let prompt = call(3, 0, CacheType::F16);
        assert_eq!(attention([1, 1, 1], true, 0, &prompt).multiply_adds, 2 * 6);
        assert_eq!(attention([1, 1, 1], false, 0, &prompt).multiply_adds, 2 * 9);
        // With a window of 2 the last three tokens of 10 need 4 keys.
        let late = call(3, 7, CacheType::F32);
        assert_eq!(attention([1, 1, 1], true, 2, &late), Work { bytes: 2 * 4 * 4, multiply_adds: 2 * 6 });
        // One byte for a value, and a scale of two bytes for each 32 values of a row, begun ones too.
        let small = call(1, 99, CacheType::Q8);
        assert_eq!(attention([4, 2, 8], true, 0, &small).bytes, 2 * 100 * (16 + 2));
        assert_eq!(attention([4, 2, 24], true, 0, &small).bytes, 2 * 100 * (48 + 4));
    }

    #[test]
    fn a_decode_step_multiplies_by_every_matrix_once() {
        let model = crate::Model::storyteller().unwrap();
        let plan = model.program().call_plan(Rows::Last, 1);
        let start = Call::new(model.program(), 1, 0, &[]);
        let one = of_plan(plan, &*model.weights(), &start);
        let embedded = plan.steps.iter().find(|s| s.op == Op::TokenEmbed).unwrap();
        let table = embedded.operands.iter().find_map(|&b| weight(plan, b)).unwrap();
        let tied = plan.steps.iter().any(|s| s.op != Op::TokenEmbed && s.operands.contains(&embedded.operands[1]));
        let matrices = model.file().tensors().iter().filter(|t| t.shape.len() == 2 && (tied || t.name != table));
        let parameters: u64 = matrices.map(|t| t.shape.iter().product::<u64>()).sum();
        let attention = plan.steps.iter().filter(|s| CachedParts::of(&s.op).is_some());
        let attention: u64 = attention.map(|s| of_step(plan, s, &*model.weights(), &start).multiply_adds).sum();
        assert!(attention > 0);
        assert_eq!(one.multiply_adds, parameters + attention);
        // A prompt does so for every token, but for the logits of all tokens but the last.
        let prompt = of_prompt(&model, 8, &[]).multiply_adds;
        assert!(prompt > 4 * parameters && prompt < 8 * one.multiply_adds + 64 * attention, "{prompt}");
    }
}
