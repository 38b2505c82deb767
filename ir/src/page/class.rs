//! What an operation is for: the colours of a picture.

use crate::Op;

/// A family of operations that share a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Matmul,
    Convolution,
    Attention,
    Position,
    Norm,
    Activation,
    Elementwise,
    Layout,
    Index,
    Reduce,
    Cache,
    Random,
    Constant,
    Host,
}

impl Class {
    /// Every class, in the order of the legend.
    pub const ALL: [Class; 14] = [
        Class::Matmul,
        Class::Convolution,
        Class::Attention,
        Class::Position,
        Class::Norm,
        Class::Activation,
        Class::Elementwise,
        Class::Layout,
        Class::Index,
        Class::Reduce,
        Class::Cache,
        Class::Random,
        Class::Constant,
        Class::Host,
    ];

    /// The name in the style sheet.
    pub fn key(self) -> &'static str {
        match self {
            Class::Matmul => "matmul",
            Class::Convolution => "convolution",
            Class::Attention => "attention",
            Class::Position => "position",
            Class::Norm => "norm",
            Class::Activation => "activation",
            Class::Elementwise => "elementwise",
            Class::Layout => "layout",
            Class::Index => "index",
            Class::Reduce => "reduce",
            Class::Cache => "cache",
            Class::Random => "random",
            Class::Constant => "constant",
            Class::Host => "host",
        }
    }

    /// The name in the legend.
    pub fn label(self) -> &'static str {
        match self {
            Class::Matmul => "matrix product",
            Class::Convolution => "convolution",
            Class::Attention => "attention",
            Class::Position => "position",
            Class::Norm => "norm",
            Class::Activation => "activation",
            Class::Elementwise => "elementwise",
            Class::Layout => "layout",
            Class::Index => "lookup, choice",
            Class::Reduce => "reduction",
            Class::Cache => "cache, state",
            Class::Random => "random, sampling",
            Class::Constant => "constant",
            Class::Host => "host function",
        }
    }

    /// The class of an operation.
    pub fn of(op: &Op) -> Class {
        match op {
            Op::Matmul
            | Op::BatchMatmul { .. }
            | Op::LoraApply { .. }
            | Op::Kron
            | Op::MatrixInverse
            | Op::FusedNormMatmul { .. }
            | Op::ExpertMatmul
            | Op::JoinedMatmul { .. }
            | Op::GatedMatmul { .. }
            | Op::ExpertFeedForward { .. }
            | Op::MatmulBias { .. } => Class::Matmul,
            Op::Conv1d { .. }
            | Op::Conv2d { .. }
            | Op::Conv3d { .. }
            | Op::ConvTranspose1d { .. }
            | Op::ConvTranspose2d { .. }
            | Op::CausalConv1d { .. }
            | Op::DepthwiseConv { .. }
            | Op::PatchEmbed { .. } => Class::Convolution,
            Op::Sdpa { .. }
            | Op::SdpaCross { .. }
            | Op::SdpaWindow { .. }
            | Op::FlashAttention { .. }
            | Op::Attention { .. }
            | Op::SegmentAttention { .. }
            | Op::GatedDelta
            | Op::CachedAttention { .. } => Class::Attention,
            Op::Rope { .. }
            | Op::RopeScaled { .. }
            | Op::RopeMulti { .. }
            | Op::SinusoidalEmbed { .. }
            | Op::RelativePosEmbedding { .. }
            | Op::PosEmbed => Class::Position,
            Op::RmsNorm { .. }
            | Op::LayerNorm { .. }
            | Op::BatchNorm { .. }
            | Op::GroupNorm { .. }
            | Op::InstanceNorm { .. }
            | Op::AdaLN
            | Op::FusedSkipNorm { .. }
            | Op::SkipLayerNorm { .. } => Class::Norm,
            Op::Silu
            | Op::Gelu { .. }
            | Op::GeGlu
            | Op::SwiGlu
            | Op::Glu
            | Op::Relu
            | Op::LeakyRelu { .. }
            | Op::PRelu
            | Op::Sigmoid
            | Op::Tanh
            | Op::Softmax { .. }
            | Op::FusedSwiGlu
            | Op::Gated { .. }
            | Op::Softplus
            | Op::QuickGelu
            | Op::ReluSquared => Class::Activation,
            Op::Add
            | Op::Mul
            | Op::Sub
            | Op::Div
            | Op::Clamp { .. }
            | Op::NanToNum { .. }
            | Op::FlowStep
            | Op::Quantize { .. }
            | Op::Dequantize
            | Op::AddScalar { .. }
            | Op::MulScalar { .. }
            | Op::Neg
            | Op::Exp
            | Op::Log
            | Op::Sqrt
            | Op::Sin
            | Op::Cos
            | Op::Erf
            | Op::Abs
            | Op::Rsqrt
            | Op::Floor
            | Op::Round
            | Op::Sign
            | Op::Not
            | Op::Reciprocal
            | Op::Pow
            | Op::Maximum
            | Op::Minimum
            | Op::Compare { .. }
            | Op::Logical { .. }
            | Op::Remainder
            | Op::Cast { .. }
            | Op::NoiseSchedule
            | Op::LogMel { .. } => Class::Elementwise,
            Op::Transpose { .. }
            | Op::Reshape { .. }
            | Op::Permute { .. }
            | Op::Concat { .. }
            | Op::Split { .. }
            | Op::Chunk { .. }
            | Op::Interpolate { .. }
            | Op::PixelShuffle { .. }
            | Op::PixelUnshuffle { .. }
            | Op::Unpatchify
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Expand { .. }
            | Op::Flatten { .. }
            | Op::Unflatten { .. }
            | Op::Squeeze { .. }
            | Op::Unsqueeze { .. }
            | Op::Tile { .. }
            | Op::RepeatEach { .. }
            | Op::Flip { .. } => Class::Layout,
            Op::TokenEmbed
            | Op::Gather { .. }
            | Op::GatherElements { .. }
            | Op::Select
            | Op::TopK { .. }
            | Op::Argmax { .. }
            | Op::NonMaxSuppression { .. } => Class::Index,
            Op::Reduce { .. } | Op::SegmentReduce { .. } | Op::CumSum { .. } | Op::Pool { .. } => Class::Reduce,
            Op::KvCache | Op::KvCompress { .. } | Op::KvDecompress { .. } => Class::Cache,
            Op::Sample { .. } | Op::RandomNormal { .. } => Class::Random,
            Op::Constant { .. } | Op::Size { .. } | Op::Iota { .. } => Class::Constant,
            Op::HostCall { .. } => Class::Host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Class;

    #[test]
    fn every_class_has_its_own_colours() {
        let css = include_str!("assets/page.css");
        for class in Class::ALL {
            let wanted = format!("--{}:", class.key());
            assert!(css.matches(&wanted).count() >= 2, "{wanted} is wanted for light and dark");
        }
    }
}
