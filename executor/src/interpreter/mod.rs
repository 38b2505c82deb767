//! The interpreter: each operation of the IR as plain Candle operations in `f32`, one by one.
//!
//! It is the oracle that every faster path is tested against, so it stays slow and obvious.

pub(crate) mod attention;
mod batch;
mod cast;
mod convolution;
mod detection;
mod elementwise;
mod evaluate;
mod experts;
pub(crate) mod fused;
mod gather;
mod host;
mod host_call;
mod integers;
mod kv_blocks;
pub(crate) mod layout;
pub(crate) mod limits;
mod matrix;
mod norm;
mod picture;
mod pointwise;
mod position;
mod quantize;
pub(crate) mod random;
mod recurrent;
mod reduce;
mod resize;
pub(crate) mod rope;
mod rope_multi;
pub(crate) mod segments;
mod sound;

pub use evaluate::Interpreter;

use crate::cache::{Cache, Part};
use crate::error::{ExecutorError, Result};
use crate::host::HostFunctions;
use crate::value::Val;
use candle_core::{DType, Tensor};
use random::RandomState;
use tallow_compiler::Step;
use tallow_ir::Op;

/// What a step may use beside its operands.
pub(crate) struct Frame<'a> {
    /// The session's caches.
    pub caches: &'a mut [Cache],
    /// Tokens of this call.
    pub tokens: usize,
    /// Tokens once the whole text of this call has run: what length-dependent frequencies look at.
    pub length: usize,
    /// The session's random numbers.
    pub random: &'a mut RandomState,
    /// What `HostCall` calls.
    pub host: Option<&'a dyn HostFunctions>,
}

/// The most dimensions over which Candle walks: with more it panics.
const CANDLE_RANK: usize = 8;

/// Whether the operation is computed without Candle's walks over strides.
fn takes_any_rank(op: &Op) -> bool {
    let tag = op.tag();
    // Operations of flat vectors, and those that only give another shape.
    (213..=250).contains(&tag) || matches!(op, Op::Reshape { .. })
}

/// Runs one step.
pub(crate) fn step(step: &Step, operands: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>> {
    if let (Op::KvCache, Some(cache)) = (&step.op, step.cache) {
        return kv_cache(step, operands, cache, frame);
    }
    if fused::is_fused(&step.op) {
        return fused::run(&fused::Oracle, step, operands, frame);
    }
    let tensors: Vec<Tensor> = operands.iter().map(|v| widened(v.tensor(frame.caches)?)).collect::<Result<_>>()?;
    if let Some(t) = tensors.iter().find(|t| t.rank() > CANDLE_RANK).filter(|_| !takes_any_rank(&step.op)) {
        return Err(ExecutorError::Unsupported {
            op: step.op.name(),
            place: step.name.clone(),
            what: format!("an operand of {} dimensions", t.rank()),
            cure: format!("flatten some, so that {CANDLE_RANK} are left"),
        });
    }
    Ok(compute(step, &tensors, frame)?.into_iter().map(Val::Tensor).collect())
}

/// Runs one step outside any session: there are no caches, no random numbers of its own, and no host.
pub(crate) fn alone(made: &Step, operands: &[Val]) -> Result<Vec<Val>> {
    let mut random = RandomState::default();
    let mut frame = Frame { caches: &mut [], tokens: 0, length: 0, random: &mut random, host: None };
    step(made, operands, &mut frame)
}

fn compute(step: &Step, x: &[Tensor], frame: &mut Frame<'_>) -> Result<Vec<Tensor>> {
    let one = |t: Result<Tensor>| t.map(|t| vec![t]);
    match &step.op {
        Op::Matmul => one(matrix::matmul(step, &x[0], &x[1])),
        Op::LoraApply { rank, alpha } => one(matrix::lora(step, x, *rank, alpha.get())),

        Op::Add | Op::Mul | Op::Sub | Op::Div => one(elementwise::binary(step, &step.op, &x[0], &x[1])),
        Op::FlowStep => {
            let moved = elementwise::binary(step, &Op::Mul, &x[1], &x[2])?;
            one(elementwise::binary(step, &Op::Add, &x[0], &moved))
        }
        Op::GeGlu | Op::SwiGlu | Op::Glu | Op::FusedSwiGlu => one(elementwise::gated(step, x)),
        Op::PRelu => one(elementwise::prelu(step, &x[0], &x[1])),
        Op::Clamp { .. }
        | Op::NanToNum { .. }
        | Op::Silu
        | Op::Gelu { .. }
        | Op::Relu
        | Op::LeakyRelu { .. }
        | Op::Sigmoid
        | Op::Tanh
        | Op::AddScalar { .. }
        | Op::MulScalar { .. }
        | Op::Neg
        | Op::Exp
        | Op::Log
        | Op::Sqrt
        | Op::Sin
        | Op::Cos
        | Op::Erf
        | Op::Softplus
        | Op::Abs
        | Op::QuickGelu
        | Op::ReluSquared => one(elementwise::unary(step, &x[0])),
        Op::Softmax { dim } => one(elementwise::softmax(&x[0], *dim)),
        Op::Argmax { dim } => one(elementwise::argmax(step, &x[0], *dim)),

        Op::Transpose { perm: dims } | Op::Permute { dims } => {
            let dims: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
            one(Ok(x[0].permute(dims)?.contiguous()?))
        }
        Op::Reshape { shape } => one(layout::reshape(step, &x[0], shape)),
        Op::Concat { axis } => one(layout::concat(step, x, *axis as usize)),
        Op::Split { axis, sizes } => layout::split(&x[0], *axis as usize, sizes),
        Op::Chunk { axis, chunks } => layout::chunk(&x[0], *axis as usize, *chunks as usize),
        Op::Slice { axis, start, end } => one(layout::slice(step, &x[0], *axis as usize, *start, *end)),
        Op::TokenEmbed => one(layout::token_embed(step, &x[0], &x[1])),

        Op::Rsqrt | Op::Floor | Op::Round | Op::Sign | Op::Not | Op::Reciprocal => one(pointwise::unary(step, &x[0])),
        Op::Pow | Op::Maximum | Op::Minimum | Op::Remainder => one(pointwise::arithmetic(step, &x[0], &x[1])),
        Op::Compare { how } => one(pointwise::compare(step, &x[0], &x[1], *how)),
        Op::Logical { how } => one(pointwise::logical(step, &x[0], &x[1], *how)),
        Op::Select => one(pointwise::select(step, &x[0], &x[1], &x[2])),
        Op::Cast { dtype } => one(cast::cast(step, &x[0], *dtype)),
        Op::Gather { axis } => one(gather::gather(step, &x[0], &x[1], *axis)),
        Op::GatherElements { axis } => one(gather::gather_elements(step, &x[0], &x[1], *axis)),
        Op::Flip { axes } => one(gather::flip(step, &x[0], axes)),
        Op::Size { axis } => one(gather::size(step, &x[0], *axis)),
        Op::Constant { dtype, shape, values } => one(gather::constant(step, *dtype, shape, values)),
        Op::Iota { axis } => one(gather::iota(step, &x[0], *axis)),
        Op::Pad { mode, pads, value } => one(resize::pad(step, &x[0], *mode, pads, value.get())),
        Op::Expand { shape } => one(resize::expand(step, &x[0], shape)),
        Op::Flatten { start, end } => one(resize::flatten(step, &x[0], *start, *end)),
        Op::Unflatten { axis, sizes } => one(resize::unflatten(step, &x[0], *axis, sizes)),
        Op::Squeeze { axes } => one(resize::squeeze(step, &x[0], axes)),
        Op::Unsqueeze { axes } => one(resize::unsqueeze(step, &x[0], axes)),
        Op::Tile { repeats } => one(resize::tile(step, &x[0], repeats)),
        Op::RepeatEach { axis, times } => one(resize::repeat_each(step, &x[0], *axis, *times)),
        Op::Reduce { how, axes, keep } => one(reduce::reduce(step, &x[0], *how, axes, *keep)),
        Op::SegmentReduce { how } => one(segments::reduce(step, &x[0], &x[1], *how)),
        Op::CumSum { axis } => one(reduce::cumulative(step, &x[0], *axis)),
        Op::TopK { axis, k } => reduce::top_k(step, &x[0], *axis, *k),
        Op::BatchMatmul { transpose_b } => one(batch::batch_matmul(step, &x[0], &x[1], *transpose_b)),
        Op::Kron => one(matrix::kron(step, &x[0], &x[1])),
        Op::MatrixInverse => one(matrix::inverse(step, &x[0])),

        Op::SinusoidalEmbed { dim } => one(position::sinusoidal(step, &x[0], *dim)),
        Op::RelativePosEmbedding { buckets } => one(position::relative_bias(step, x, *buckets)),
        Op::PosEmbed => one(position::pos_embed(step, &x[0], &x[1])),
        Op::NoiseSchedule => position::noise_schedule(&x[0]),

        Op::KvCompress { head_dim, bits } => one(kv_blocks::compress(step, &x[0], *head_dim, *bits)),
        Op::KvDecompress { head_dim, bits } => one(kv_blocks::decompress(step, &x[0], *head_dim, *bits)),
        Op::Quantize { dtype } => one(quantize::quantize(step, &x[0], *dtype)),
        // Operands are decoded before any operation reads them.
        Op::Dequantize => one(Ok(x[0].clone())),

        Op::RmsNorm { eps } => one(norm::rms(&x[0], &x[1], eps.get())),
        Op::LayerNorm { eps } => one(norm::layer(&x[0], &x[1], &x[2], eps.get())),
        Op::BatchNorm { eps, .. } => one(norm::batch(x, eps.get())),
        Op::GroupNorm { groups, eps } => one(norm::grouped(x, *groups as usize, eps.get())),
        Op::InstanceNorm { eps } => one(x[0].dim(1).map_err(Into::into).and_then(|c| norm::grouped(x, c, eps.get()))),
        Op::AdaLN => one(norm::adaptive(step, &x[0], &x[1], &x[2])),

        Op::Rope { .. } | Op::RopeScaled { .. } => one(rope::rope(step, &x[0], &x[1], frame)),
        Op::Sdpa { .. }
        | Op::SdpaCross { .. }
        | Op::SdpaWindow { .. }
        | Op::FlashAttention { .. }
        | Op::Attention { .. }
        | Op::SegmentAttention { .. } => one(attention::attention(step, x)),

        Op::Conv1d { .. }
        | Op::Conv2d { .. }
        | Op::Conv3d { .. }
        | Op::CausalConv1d { .. }
        | Op::DepthwiseConv { .. }
        | Op::PatchEmbed { .. } => one(convolution::convolution(step, x)),
        Op::ConvTranspose1d { .. } | Op::ConvTranspose2d { .. } => one(convolution::transposed(step, x)),
        Op::Pool { mode, kernel, stride, padding } => one(picture::pool(step, &x[0], *mode, kernel, stride, padding)),
        Op::Interpolate { mode, scale } => one(picture::interpolate(step, &x[0], *mode, scale.get())),
        Op::PixelShuffle { factor } => one(picture::pixel_shuffle(step, &x[0], *factor)),
        Op::PixelUnshuffle { factor } => one(picture::pixel_unshuffle(step, &x[0], *factor)),
        // The rule refuses it.
        Op::Unpatchify => {
            Err(layout::operand(step, "it carries no patch size; write Reshape and Permute instead".into()))
        }
        Op::LogMel { .. } => one(sound::log_mel(step, &x[0])),

        Op::ExpertMatmul => one(experts::expert_matmul(step, &x[0], &x[1], &x[2])),
        Op::GatedDelta => recurrent::gated_delta(x),
        Op::RopeMulti { .. } => one(rope_multi::rope_multi(step, &x[0], &x[1])),
        Op::Sample { .. } => one(random::sample(step, &x[0], frame)),
        Op::RandomNormal { seed } => one(random::normal(*seed, &x[0], frame)),
        Op::NonMaxSuppression { .. } => one(detection::suppression(step, &x[0], &x[1])),
        Op::HostCall { .. } => one(host_call::host_call(step, x, frame)),

        Op::FusedNormMatmul { .. }
        | Op::FusedSkipNorm { .. }
        | Op::JoinedMatmul { .. }
        | Op::GatedMatmul { .. }
        | Op::Gated { .. }
        | Op::MatmulBias { .. }
        | Op::ExpertFeedForward { .. }
        | Op::SkipLayerNorm { .. }
        | Op::CachedAttention { .. } => Err(layout::operand(step, "it is run as the operations it stands for".into())),

        // `step` runs it where a session has caches; what runs once has none.
        Op::KvCache => Err(layout::operand(step, "there is no cache outside a session".into())),
    }
}

/// Appends the rows to the session's cache; the results refer to it.
fn kv_cache(step: &Step, operands: &[Val], cache: u32, frame: &mut Frame<'_>) -> Result<Vec<Val>> {
    for (value, part) in operands.iter().zip([Part::Key, Part::Value]) {
        let rows = widened(value.tensor(frame.caches)?)?;
        let outcome = frame.caches[cache as usize].append(part, &rows, frame.tokens)?;
        outcome.map_err(|cause| layout::operand(step, cause))?;
    }
    Ok(vec![Val::Cache(cache, Part::Key), Val::Cache(cache, Part::Value)])
}

/// Half-precision values are for storage: every operation computes in `f32`.
fn widened(tensor: Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 | DType::F64 => Ok(tensor.to_dtype(DType::F32)?),
        _ => Ok(tensor),
    }
}
