//! The interpreter: each operation of the IR as plain Candle operations in `f32`, one by one.
//!
//! It is the oracle that every faster path is tested against, so it stays slow and obvious.

pub(crate) mod attention;
mod convolution;
mod elementwise;
pub(crate) mod layout;
mod matrix;
mod norm;
mod picture;
pub(crate) mod rope;
mod sound;

use crate::cache::{Cache, Part};
use crate::error::{ExecutorError, Result};
use crate::value::{Val, with_slice};
use candle_core::Tensor;
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
}

/// Runs one step.
pub(crate) fn step(step: &Step, operands: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>> {
    if let (Op::KvCache, Some(cache)) = (&step.op, step.cache) {
        return kv_cache(step, operands, cache, frame);
    }
    let tensors: Vec<Tensor> = operands.iter().map(|v| v.tensor(frame.caches)).collect::<Result<_>>()?;
    Ok(compute(step, &tensors, frame)?.into_iter().map(Val::Tensor).collect())
}

fn compute(step: &Step, x: &[Tensor], frame: &Frame<'_>) -> Result<Vec<Tensor>> {
    let one = |t: Result<Tensor>| t.map(|t| vec![t]);
    match &step.op {
        Op::Matmul => one(matrix::matmul(&x[0], &x[1])),
        Op::LoraApply { rank, alpha } => one(matrix::lora(x, *rank, alpha.get())),
        Op::FusedNormMatmul { eps } => one(norm::rms(&x[0], &x[1], eps.get()).and_then(|n| matrix::matmul(&n, &x[2]))),

        Op::Add => one(Ok(x[0].broadcast_add(&x[1])?)),
        Op::Mul => one(Ok(x[0].broadcast_mul(&x[1])?)),
        Op::Sub => one(Ok(x[0].broadcast_sub(&x[1])?)),
        Op::Div => one(Ok(x[0].broadcast_div(&x[1])?)),
        Op::FlowStep => one(Ok(x[0].broadcast_add(&x[1].broadcast_mul(&x[2])?)?)),
        Op::GeGlu | Op::SwiGlu | Op::Glu | Op::FusedSwiGlu => one(elementwise::gated(&step.op, x)),
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
        | Op::ReluSquared => one(elementwise::unary(&step.op, &x[0])),
        Op::Softmax { dim } => one(elementwise::softmax(&x[0], *dim)),
        Op::Argmax { dim } => one(elementwise::argmax(&x[0], *dim)),

        Op::Transpose { perm: dims } | Op::Permute { dims } => {
            let dims: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
            one(Ok(x[0].permute(dims)?.contiguous()?))
        }
        Op::Reshape { shape } => one(layout::reshape(step, &x[0], shape)),
        Op::Concat { axis } => one(Ok(Tensor::cat(x, *axis as usize)?)),
        Op::Split { axis, sizes } => layout::split(&x[0], *axis as usize, sizes),
        Op::Chunk { axis, chunks } => layout::chunk(&x[0], *axis as usize, *chunks as usize),
        Op::Slice { axis, start, end } => one(layout::slice(step, &x[0], *axis as usize, *start, *end)),
        Op::TokenEmbed => one(layout::token_embed(step, &x[0], &x[1])),

        Op::RmsNorm { eps } => one(norm::rms(&x[0], &x[1], eps.get())),
        Op::LayerNorm { eps } => one(norm::layer(&x[0], &x[1], &x[2], eps.get())),
        Op::FusedSkipNorm { eps } => {
            let sum = (&x[0] + &x[1])?;
            Ok(vec![norm::rms(&sum, &x[2], eps.get())?, sum])
        }

        Op::Rope { .. } | Op::RopeScaled { .. } => one(rope::rope(step, &x[0], &x[1], frame)),
        Op::Sdpa { .. }
        | Op::SdpaCross { .. }
        | Op::SdpaWindow { .. }
        | Op::FlashAttention { .. }
        | Op::Attention { .. } => one(attention::attention(step, x)),

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

        Op::KvCache
        | Op::KvCompress { .. }
        | Op::KvDecompress { .. }
        | Op::SinusoidalEmbed { .. }
        | Op::RelativePosEmbedding { .. }
        | Op::BatchNorm { .. }
        | Op::GroupNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::AdaLN
        | Op::PRelu
        | Op::PosEmbed
        | Op::NoiseSchedule
        | Op::Quantize { .. }
        | Op::Dequantize
        | Op::Sample { .. }
        | Op::Kron
        | Op::MatrixInverse => Err(ExecutorError::Unsupported {
            op: step.op.name(),
            place: step.name.clone(),
            what: "this operation".into(),
            cure: "use a graph without it".into(),
        }),
    }
}

/// Appends the rows to the session's cache; the results refer to it.
fn kv_cache(step: &Step, operands: &[Val], cache: u32, frame: &mut Frame<'_>) -> Result<Vec<Val>> {
    for (value, part) in operands.iter().zip([Part::Key, Part::Value]) {
        let rows = value.tensor(frame.caches)?;
        let &[_, width] = rows.dims() else {
            return Err(ExecutorError::Unsupported {
                op: step.op.name(),
                place: step.name.clone(),
                what: format!("cache rows of shape {:?}", rows.dims()),
                cure: "keep rows as [tokens, width]".into(),
            });
        };
        let tokens = frame.tokens;
        let cache = &mut frame.caches[cache as usize];
        with_slice(&rows, |rows| cache.append(part, rows, width, tokens))?;
    }
    Ok(vec![Val::Cache(cache, Part::Key), Val::Cache(cache, Part::Value)])
}
