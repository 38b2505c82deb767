//! The table of operations. Everything that must be said about an operation in this crate is one
//! entry here and one shape rule; the enum, the codecs, the printer and parser, arity checks and
//! the reference page follow from it.
//!
//! Tags below 200 are fixed by existing files; new operations append from 200 and are never
//! renumbered.

use super::payload::{Payload, Reader, Real, Text, choice};
use super::{Effect, FieldInfo, OpInfo};
use crate::DType;
use crate::shape::{
    attention, batch, convolution, detection, elementwise, fused, host, index, layout, matrix, norm, other, random,
    recurrent, reduce, reshape, rope_multi, routing, select, sound,
};
use Effect::{Host, Pure, Random, State};

choice! {
    /// How `Pool` combines a window.
    PoolMode {
        /// The largest value; padding counts as negative infinity.
        0 Max "max",
        /// The mean; padding counts as zero inside the divisor.
        1 Average "avg",
    }
}

choice! {
    /// How `Interpolate` fills in, with half-pixel centres.
    Interpolation {
        /// The nearest source value.
        0 Nearest "nearest",
        /// Linear in both directions.
        1 Bilinear "bilinear",
        /// The mean of the covered area.
        2 Area "area",
    }
}

choice! {
    /// How `LogMel` spaces its bands.
    MelScale {
        /// Slaney's scale, each band with the area 1: linear below 1000 Hz, logarithmic above.
        0 Slaney "slaney",
        /// `2595 · log10(1 + f/700)`, each band with the peak 1.
        1 Htk "htk",
    }
}

choice! {
    /// What `LogMel` gives for the power of a band.
    MelLog {
        /// `(max(l, L − 8) + 4) / 4` with `l = log10(max(power, 1e-10))` and L the largest `l` of the item.
        0 Whisper "whisper",
        /// `ln(max(power, 1e-10))`.
        1 Natural "natural",
        /// The power.
        2 Power "none",
    }
}

choice! {
    /// How `Sample` picks a token.
    SampleMethod {
        /// The largest logit.
        0 Greedy "greedy",
        /// From the softmax of `logits / temperature`.
        1 Temperature "temperature",
        /// From the `k` likeliest.
        2 TopK "top_k",
        /// From the likeliest that together reach probability `p`.
        3 TopP "top_p",
        /// From those at least `p` times as likely as the likeliest.
        4 MinP "min_p",
    }
}

choice! {
    /// How `RopeScaled` stretches its frequencies; see [`crate::rope`].
    Scaling {
        /// Not at all.
        0 Unscaled "none",
        /// All divided by `factor`.
        1 Linear "linear",
        /// A larger base once a call reaches past `original`.
        2 Dynamic "dynamic",
        /// Interpolated by band between `low` (beta_slow) and `high` (beta_fast) turns.
        3 Yarn "yarn",
        /// As yarn, with band edges that are not rounded to whole lanes.
        4 YarnExact "yarn_exact",
        /// By wavelength, between `original / low` and `original / high`.
        5 Llama3 "llama3",
        /// Divided by `long` once a call reaches past `original`, else by `short`.
        6 LongRope "longrope",
        /// Divided by `short`.
        7 Factors "factors",
    }
}

choice! {
    /// What `Compare` asks of each pair. NaN compares as unequal and in no order.
    Comparison {
        /// Whether `a = b`.
        0 Equal "eq",
        /// Whether `a ≠ b`.
        1 NotEqual "ne",
        /// Whether `a < b`.
        2 Less "lt",
        /// Whether `a ≤ b`.
        3 LessEqual "le",
        /// Whether `a > b`.
        4 Greater "gt",
        /// Whether `a ≥ b`.
        5 GreaterEqual "ge",
    }
}

choice! {
    /// How `Logical` combines two truth values.
    Connective {
        /// Both.
        0 And "and",
        /// At least one.
        1 Or "or",
        /// Exactly one.
        2 Xor "xor",
    }
}

choice! {
    /// What `Pad` puts around a tensor.
    PadMode {
        /// The field `value`.
        0 Constant "constant",
        /// The elements mirrored at the edge, which is not repeated.
        1 Reflect "reflect",
        /// The element at the edge.
        2 Replicate "replicate",
    }
}

choice! {
    /// How `Reduce` combines elements.
    Reduction {
        /// The sum; 0 of none.
        0 Sum "sum",
        /// The mean; NaN of none.
        1 Mean "mean",
        /// The largest, or NaN where there is one.
        2 Max "max",
        /// The smallest, or NaN where there is one.
        3 Min "min",
        /// The product; 1 of none.
        4 Product "prod",
    }
}

choice! {
    /// What a fused operation does with each value last. The names are those of the operations that do it alone, but
    /// for `gelu`, which is `Gelu` in its erf form, and `gelu_tanh`, its tanh form.
    Activation {
        /// Nothing.
        0 Linear "none",
        /// `Relu`.
        1 Relu "relu",
        /// `Gelu` in the erf form.
        2 Gelu "gelu",
        /// `Gelu` in the tanh form.
        3 GeluTanh "gelu_tanh",
        /// `Silu`.
        4 Silu "silu",
        /// `QuickGelu`.
        5 QuickGelu "quick_gelu",
        /// `Sigmoid`.
        6 Sigmoid "sigmoid",
        /// `Tanh`.
        7 Tanh "tanh",
        /// `ReluSquared`.
        8 ReluSquared "relu_squared",
    }
}

choice! {
    /// How `CachedAttention` turns queries and keys.
    Rotary {
        /// Not at all.
        0 Unturned "none",
        /// As `Rope`.
        1 Plain "plain",
        /// As `RopeScaled`.
        2 Scaled "scaled",
    }
}

macro_rules! operations {
    ($($tag:literal $name:ident $({ $($field:ident : $ty:ty),* $(,)? })?
        ($operands:literal -> $results:literal) $effect:ident $rule:path, $doc:literal;)*) => {
        /// An operation with its payload.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // Fields are described on the reference page of the operation.
        pub enum Op { $(#[doc = $doc] $name $({ $($field: $ty),* })?),* }

        pub(super) static INFOS: &[OpInfo] = &[$(OpInfo {
            tag: $tag,
            name: stringify!($name),
            fields: &[$($(FieldInfo { name: stringify!($field), kind: <$ty as Payload>::KIND }),*)?],
            operands: $operands,
            results: $results,
            effect: $effect,
            doc: $doc,
            rule: $rule,
        }),*];

        impl Op {
            /// The position of the operation in [`OpInfo::all`].
            fn index(&self) -> usize {
                #[allow(non_camel_case_types)]
                enum Index { $($name),* }
                match self { $(Op::$name { .. } => Index::$name as usize),* }
            }

            /// The facts of this operation.
            pub fn info(&self) -> &'static OpInfo { &INFOS[self.index()] }

            /// The name.
            pub fn name(&self) -> &'static str { self.info().name }

            /// The tag of the binary form.
            pub fn tag(&self) -> u16 { self.info().tag }

            /// Appends the payload of the binary form.
            pub fn write_payload(&self, out: &mut Vec<u8>) {
                match self { $(Op::$name $({ $($field),* })? => { let _ = &out; $($($field.write(out);)*)? }),* }
            }

            /// Reads the payload of the operation `tag`. The error names the field.
            pub fn read_payload(tag: u16, input: &mut Reader<'_>) -> Result<Op, String> {
                match tag {
                    $($tag => { let _ = &input; Ok(Op::$name $({ $($field: <$ty as Payload>::read(input)
                        .map_err(|e| format!(concat!("field `", stringify!($field), "` of ", stringify!($name), ": {}"), e))?),* })?) })*
                    _ => Err(format!("operation tag {tag} is unknown")),
                }
            }

            /// Each field with its text, in order.
            pub fn fields(&self) -> Vec<(&'static str, String)> {
                match self { $(Op::$name $({ $($field),* })? => vec![$($((stringify!($field), text_of($field))),*)?]),* }
            }

            /// Calls `f` with the facts and the text of each field, in order.
            pub fn each_field(&self, mut f: impl FnMut(&'static FieldInfo, String)) {
                let mut fields = self.info().fields.iter();
                match self { $(Op::$name $({ $($field),* })? => {
                    let _ = (&mut f, &mut fields);
                    $($(if let Some(info) = fields.next() {
                        let mut text = String::new();
                        $field.print(&mut text);
                        f(info, text);
                    })*)?
                }),* }
            }

            /// Builds the operation `name` from texts of its fields; `get` gives the text of a field
            /// or says that it is missing.
            pub fn from_fields(name: &str, mut get: impl FnMut(&str) -> Result<String, String>) -> Result<Op, String> {
                match OpInfo::by_name(name).map(|info| info.tag) {
                    $(Some($tag) => { let _ = &mut get; Ok(Op::$name $({ $($field: <$ty as Payload>::parse(&get(stringify!($field))?)
                        .map_err(|e| format!("`{}`: {e}", stringify!($field)))?),* })?) })*
                    _ => Err(format!("there is no operation `{name}`")),
                }
            }
        }
    };
}

fn text_of<T: Payload>(value: &T) -> String {
    let mut out = String::new();
    value.print(&mut out);
    out
}

operations! {
    0 Matmul ("x W" -> "y") Pure matrix::matmul, "`x · Wᵀ` over the last dimension of both.";
    1 Add ("a b" -> "y") Pure elementwise::broadcast, "Sum, with NumPy broadcasting.";
    2 Mul ("a b" -> "y") Pure elementwise::broadcast, "Product element by element, with NumPy broadcasting.";
    3 Sub ("a b" -> "y") Pure elementwise::broadcast, "Difference, with NumPy broadcasting.";
    4 Div ("a b" -> "y") Pure elementwise::broadcast, "Quotient, with NumPy broadcasting; of integers towards zero, where a zero divisor is an error.";
    5 Transpose { perm: Vec<u32> } ("x" -> "y") Pure layout::permute, "Dimension `i` of the result is dimension `perm[i]` of `x`.";
    6 Reshape { shape: Vec<i64> } ("x" -> "y") Pure layout::reshape, "The same elements in row-major order in another shape; one dimension may be -1.";
    7 Permute { dims: Vec<u32> } ("x" -> "y") Pure layout::permute, "Dimension `i` of the result is dimension `dims[i]` of `x`.";
    8 Concat { axis: u32 } ("x*" -> "y") Pure layout::concat, "Operands one after another along `axis`.";
    9 Split { axis: u32, sizes: Vec<u32> } ("x" -> "y*") Pure layout::split, "Parts of `sizes` along `axis`.";
    10 Chunk { axis: u32, chunks: u32 } ("x" -> "y*") Pure layout::split, "Equal parts along `axis`.";
    11 Clamp { min: Option<Real>, max: Option<Real> } ("x" -> "y") Pure elementwise::same, "Values held between `min` and `max`.";
    12 NanToNum { nan: Real, posinf: Real, neginf: Real } ("x" -> "y") Pure elementwise::real, "NaN and infinities replaced.";

    20 Sdpa { heads: u32, kv_heads: u32, head_dim: u32, causal: bool } ("q k v mask?" -> "y") Pure attention::attention, "Scaled dot-product attention with grouped heads; causal aligns the last query with the last key.";
    21 SdpaCross { heads: u32, head_dim: u32 } ("q k v" -> "y") Pure attention::attention, "Attention over the keys and values of an encoder, without mask.";
    22 SdpaWindow { heads: u32, head_dim: u32, window: u32 } ("q k v" -> "y") Pure attention::attention, "Causal attention in which each query sees `window` keys, itself included.";
    23 KvCache ("k v" -> "k_all v_all") State attention::kv_cache, "Appends to the session's cache of this node and returns all rows so far.";
    24 KvCompress { head_dim: u32, bits: u32 } ("x" -> "y") Pure attention::kv_compress, "Cache rows to blocks of `bits` bits.";
    25 KvDecompress { head_dim: u32, bits: u32 } ("x" -> "y") Pure attention::kv_decompress, "Cache rows from blocks of `bits` bits.";
    26 Rope { head_dim: u32, rope_dim: u32, base: Real } ("x pos" -> "y") Pure attention::rope, "Rotary embedding of the pairs `(j, j + head_dim/2)`, `j < rope_dim/2`.";
    27 SinusoidalEmbed { dim: u32 } ("t" -> "y") Pure other::sinusoidal, "Sines and cosines alternating, with frequencies `10000^(-2j/dim)`.";
    28 RelativePosEmbedding { buckets: u32 } ("q_len k_len table" -> "bias") Pure other::relative_bias, "Bucketed bidirectional attention bias, distances up to 128.";

    40 RmsNorm { eps: Real } ("x g" -> "y") Pure norm::last_dimension, "`x / √(mean(x²) + eps) · g` over the last dimension.";
    41 LayerNorm { eps: Real } ("x g b" -> "y") Pure norm::last_dimension, "Normalised over the last dimension, then scale and shift.";
    42 BatchNorm { eps: Real, momentum: Real } ("x g b mean var" -> "y") Pure norm::channels, "Batch normalisation with stored statistics.";
    43 GroupNorm { groups: u32, eps: Real } ("x g b" -> "y") Pure norm::channels, "Normalised over groups of channels.";
    44 InstanceNorm { eps: Real } ("x g b" -> "y") Pure norm::channels, "Normalised over each channel.";
    45 AdaLN ("x scale shift" -> "y") Pure norm::adaptive, "`norm(x) · (1 + scale) + shift` with ε = 1e-6; scale and shift are `[C]`, one row per sample `[B, C]`, or broadcast to `x`.";

    60 Silu ("x" -> "y") Pure elementwise::real, "`x · sigmoid(x)`.";
    61 Gelu { approximate: bool } ("x" -> "y") Pure elementwise::real, "Gaussian error linear unit: the tanh form if `approximate`, else the erf form.";
    62 GeGlu ("gate up | x W_gate W_up W_down" -> "y") Pure elementwise::gated, "`gelu(gate) · up`, erf form.";
    63 SwiGlu ("gate up | x W_gate W_up W_down" -> "y") Pure elementwise::gated, "`silu(gate) · up`.";
    64 Glu ("gate up | x W_gate W_up W_down" -> "y") Pure elementwise::gated, "`sigmoid(gate) · up`.";
    65 Relu ("x" -> "y") Pure elementwise::same, "`max(x, 0)`.";
    66 LeakyRelu { slope: Real } ("x" -> "y") Pure elementwise::real, "`x` where positive, else `slope · x`.";
    67 PRelu ("x slope" -> "y") Pure elementwise::prelu, "Leaky relu with learned slopes.";
    68 Sigmoid ("x" -> "y") Pure elementwise::real, "`1 / (1 + exp(-x))`.";
    69 Tanh ("x" -> "y") Pure elementwise::real, "Hyperbolic tangent.";
    70 Softmax { dim: i32 } ("x" -> "y") Pure elementwise::along, "Exponentials that sum to 1 along `dim`; where all values are at most -1e30 (all masked), zeros.";

    80 Conv1d { kernel: u32, stride: u32, padding: u32, dilation: u32, groups: u32 } ("x W b?" -> "y") Pure convolution::convolution, "1-D convolution of `[N, C, L]`.";
    81 Conv2d { kernel: [u32; 2], stride: [u32; 2], padding: [u32; 2], dilation: [u32; 2], groups: u32 } ("x W b?" -> "y") Pure convolution::convolution, "2-D convolution of `[N, C, H, W]`.";
    82 Conv3d { kernel: [u32; 3], stride: [u32; 3], padding: [u32; 3], dilation: [u32; 3], groups: u32 } ("x W b?" -> "y") Pure convolution::convolution, "3-D convolution of `[N, C, D, H, W]`.";
    83 ConvTranspose2d { kernel: [u32; 2], stride: [u32; 2], padding: [u32; 2] } ("x W b?" -> "y") Pure convolution::transposed, "Transposed 2-D convolution, weights `[in, out, kh, kw]`.";
    84 CausalConv1d { kernel: u32 } ("x W b?" -> "y") Pure convolution::convolution, "1-D convolution padded on the left only; groups follow from the weight's shape.";
    85 DepthwiseConv { kernel: u32, stride: u32 } ("x W b?" -> "y") Pure convolution::convolution, "Convolution of each channel on its own, 1-D or 2-D by rank, padding kernel/2.";
    86 Pool { mode: PoolMode, kernel: [u32; 2], stride: [u32; 2], padding: [u32; 2] } ("x" -> "y") Pure convolution::pool, "2-D pooling.";

    100 Interpolate { mode: Interpolation, scale: Real } ("x" -> "y") Pure convolution::interpolate, "Resizes `[N, C, H, W]` to `⌊n·scale⌋`, half-pixel centres.";
    101 PixelShuffle { factor: u32 } ("x" -> "y") Pure convolution::pixel_shuffle, "Channels to space.";
    102 PixelUnshuffle { factor: u32 } ("x" -> "y") Pure convolution::pixel_shuffle, "Space to channels.";
    103 PatchEmbed { patch: u32 } ("x W b?" -> "y") Pure convolution::convolution, "Convolution with kernel and stride `patch`.";
    104 Unpatchify ("x" -> "y") Pure convolution::unpatchify, "Patches back to a picture; carries no size of its own.";

    120 TokenEmbed ("ids W" -> "y") Pure other::token_embed, "Rows of a table by id; an id past the table is an error.";
    121 PosEmbed ("x W" -> "y") Pure other::pos_embed, "Learned positions: rows by integer position, or added to `x` from row 0.";

    140 NoiseSchedule ("t" -> "alpha sigma") Pure other::noise_schedule, "`cos(πt/2)` and `sin(πt/2)`.";
    141 FlowStep ("x v dt" -> "y") Pure elementwise::broadcast, "`x + v · dt`.";
    142 Quantize { dtype: DType } ("x" -> "y") Pure other::quantize, "Values rounded through `dtype`, as `f32`: stored as that type and read again.";
    143 Dequantize ("x" -> "y") Pure elementwise::real, "Values of a block type as `f32`.";
    144 Sample { method: SampleMethod, temperature: Real, p: Real, k: u32 } ("logits" -> "token") Random random::sample, "One token id per row of logits.";

    160 LoraApply { rank: u32, alpha: Real } ("x W A B" -> "y") Pure matrix::lora, "`x·Wᵀ + (alpha/rank) · x·Aᵀ·Bᵀ`.";
    161 Kron ("a b" -> "y") Pure matrix::kron, "Kronecker product.";
    162 MatrixInverse ("a" -> "y") Pure matrix::inverse, "Inverse of square matrices.";

    180 FusedNormMatmul { eps: Real } ("x g W" -> "y") Pure matrix::norm_matmul, "`Matmul(RmsNorm(x, g), W)`.";
    181 FusedSkipNorm { eps: Real } ("x skip g" -> "y sum") Pure norm::skip_norm, "`RmsNorm(x + skip, g)`, and the sum.";
    182 FusedSwiGlu ("gate up | x W_gate W_up" -> "y") Pure elementwise::gated, "`silu(gate) · up`, with both products in the three-operand form.";
    183 FlashAttention { heads: u32, kv_heads: u32, head_dim: u32 } ("q k v" -> "y") Pure attention::attention, "Causal `Sdpa` in another order of work.";

    199 Argmax { dim: i32 } ("x" -> "index") Pure elementwise::argmax, "Index of the first largest value along `dim`, as i64.";

    200 AddScalar { value: Real } ("x" -> "y") Pure elementwise::same, "`x + value`.";
    201 MulScalar { value: Real } ("x" -> "y") Pure elementwise::same, "`x · value`.";
    202 Neg ("x" -> "y") Pure elementwise::same, "`-x`.";
    203 Exp ("x" -> "y") Pure elementwise::real, "Exponential.";
    204 Log ("x" -> "y") Pure elementwise::real, "Natural logarithm.";
    205 Sqrt ("x" -> "y") Pure elementwise::real, "Square root.";
    206 Sin ("x" -> "y") Pure elementwise::real, "Sine of radians.";
    207 Cos ("x" -> "y") Pure elementwise::real, "Cosine of radians.";
    208 Erf ("x" -> "y") Pure elementwise::real, "Error function.";
    209 Softplus ("x" -> "y") Pure elementwise::real, "`log(1 + exp(x))`.";
    210 Abs ("x" -> "y") Pure elementwise::same, "Magnitude.";
    211 QuickGelu ("x" -> "y") Pure elementwise::real, "`x · sigmoid(1.702 x)`.";
    212 ReluSquared ("x" -> "y") Pure elementwise::same, "`max(x, 0)²`.";
    213 Rsqrt ("x" -> "y") Pure elementwise::real, "`1 / √x`.";
    214 Floor ("x" -> "y") Pure elementwise::real, "The largest whole number that is not above `x`.";
    215 Round ("x" -> "y") Pure elementwise::real, "The nearest whole number, halves to the even one.";
    216 Sign ("x" -> "y") Pure elementwise::same, "-1, 0 or 1; NaN stays NaN.";
    217 Not ("x" -> "y") Pure select::not, "The other truth value.";
    218 Reciprocal ("x" -> "y") Pure elementwise::real, "`1 / x`.";
    220 Pow ("a b" -> "y") Pure select::arithmetic, "`a` to the power `b`, of real numbers, with NumPy broadcasting.";
    221 Maximum ("a b" -> "y") Pure select::arithmetic, "The larger of each pair, NaN where either is, with NumPy broadcasting.";
    222 Minimum ("a b" -> "y") Pure select::arithmetic, "The smaller of each pair, NaN where either is, with NumPy broadcasting.";
    223 Compare { how: Comparison } ("a b" -> "y") Pure select::compare, "Truth values of `a how b`, with NumPy broadcasting; truth values compare by `eq` and `ne` alone, and NaN satisfies `ne` alone.";
    224 Select ("cond a b" -> "y") Pure select::select, "`a` where `cond` is true, else `b`; `cond` holds truth values, and all three broadcast as in NumPy.";
    225 Logical { how: Connective } ("a b" -> "y") Pure select::logical, "Truth values combined, with NumPy broadcasting.";
    226 Remainder ("a b" -> "y") Pure select::arithmetic, "What is left of `a` after whole multiples of `b`, with the sign of `b` as Python's `%`, with NumPy broadcasting; by zero it is NaN for real numbers and an error for integers.";
    230 Slice { axis: u32, start: i64, end: i64 } ("x" -> "y") Pure layout::slice, "Elements `start..end` along `axis`; negative counts from the end, and i64::MAX is the end.";
    231 Gather { axis: i32 } ("x index" -> "y") Pure index::gather, "Elements of `x` along `axis` by `index`, whose shape takes the place of that dimension, as numpy.take; an index is whole and at least 0, and one past the end is an error.";
    232 GatherElements { axis: i32 } ("x index" -> "y") Pure index::gather_elements, "For each place of `index`, the element of `x` at that place but for `axis`, where the index tells it, as torch.gather; `index` is no larger than `x` in the other dimensions, and one past the end is an error.";
    233 Pad { mode: PadMode, pads: Vec<i64>, value: Real } ("x" -> "y") Pure reshape::pad, "Elements put before and after: `pads` holds both numbers for each dimension in order, none negative. `reflect` needs pads smaller than the size; `value` is read in the mode `constant` alone.";
    234 Expand { shape: Vec<i64> } ("x" -> "y") Pure reshape::expand, "Dimensions of size 1 repeated to `shape`, where -1 keeps a size; new dimensions may lead.";
    235 Cast { dtype: DType } ("x" -> "y") Pure select::cast, "The values in the type `dtype`: f32, f16, bf16, i8, u8, i32, i64 or bool. To integers numbers are cut towards zero, and one that does not fit is an error; what is not 0 is true; a half type rounds to nearest, and to infinity past its range.";
    236 Flatten { start: i32, end: i32 } ("x" -> "y") Pure reshape::flatten, "Dimensions `start` to `end`, both included, as one; a scalar becomes `[1]`.";
    237 Unflatten { axis: i32, sizes: Vec<i64> } ("x" -> "y") Pure reshape::unflatten, "One dimension as several of these `sizes`, of which one may be -1.";
    238 Squeeze { axes: Vec<i64> } ("x" -> "y") Pure reshape::squeeze, "Without the dimensions `axes`, each of size 1; empty `axes` leave all.";
    239 Unsqueeze { axes: Vec<i64> } ("x" -> "y") Pure reshape::unsqueeze, "With new dimensions of size 1, which stand at `axes` of the result.";
    240 Reduce { how: Reduction, axes: Vec<i64>, keep: bool } ("x" -> "y") Pure reduce::reduce, "Elements along `axes` (empty: all dimensions) combined, at least in double precision for real numbers; the dimensions drop out, or become 1 if `keep`. Of no elements the sum is 0, the product 1, the mean NaN, and `max` and `min` an error; integers have no `mean`, and a result past 64 bits, or of u8 past 255, is an error.";
    241 CumSum { axis: i32 } ("x" -> "y") Pure reduce::cumulative, "Sums of the elements up to each along `axis`, itself included, in double precision for real numbers; an integer past 64 bits, or of u8 past 255, is an error.";
    242 TopK { axis: i32, k: u32 } ("x" -> "values index") Pure reduce::top_k, "The `k` largest values along `axis`, in descending order, and their indices as i64; equal values by ascending index, and NaN above every number.";
    243 Size { axis: i32 } ("x" -> "y") Pure reduce::size, "The size of a dimension, as an i64 scalar.";
    244 Iota { axis: i32 } ("x" -> "y") Pure reduce::iota, "The numbers 0, 1, 2 … as i64, as many as the size of the dimension `axis` of `x`.";
    245 Tile { repeats: Vec<u32> } ("x" -> "y") Pure reshape::tile, "The whole tensor repeated, so many times in each dimension, as numpy.tile.";
    246 RepeatEach { axis: i32, times: u32 } ("x" -> "y") Pure reshape::repeat_each, "Each element along `axis` repeated `times` times in a row, as torch.repeat_interleave.";
    247 Flip { axes: Vec<i64> } ("x" -> "y") Pure index::flip, "Elements in reverse order along `axes`.";
    250 BatchMatmul { transpose_b: bool } ("a b" -> "y") Pure batch::batch_matmul, "`a · b` over the last two dimensions, or `a · bᵀ` if `transpose_b`; the dimensions before broadcast as in NumPy.";
    251 ConvTranspose1d { kernel: u32, stride: u32, padding: u32, output_padding: u32, dilation: u32, groups: u32 } ("x W b?" -> "y") Pure convolution::transposed, "Transposed 1-D convolution, weights `[in, out/groups, k]`; `output_padding` lengthens the result at its end.";

    252 Constant { dtype: DType, shape: Vec<i64>, values: Vec<Real> } ("" -> "y") Pure other::constant, "A tensor of these values in row-major order, or of one value everywhere; integers are whole and below 2^24, and a truth value is 0 or 1.";

    260 ExpertMatmul ("x W index" -> "y") Pure routing::expert_matmul, "Row `s` of `x` (or its row for each choice) times the transposed matrices of `W` `[experts, N, K]` that `index` `[S, chosen]` names: `[S, chosen, N]`; only chosen experts are multiplied.";
    261 GatedDelta ("q k v g beta state?" -> "y state") Pure recurrent::gated_delta, "The recurrent gated delta rule, token by token from `state` `[heads, Dk, Dv]` or zeros: `state *= exp(g)`; `state += k ⊗ (v - k·state) · beta`; `y = q·state`. `q` is not scaled and nothing is normalised here: callers do both.";

    270 RopeScaled { head_dim: u32, rope_dim: u32, base: Real, interleaved: bool, scaling: Scaling, factor: Real, original: u32, low: Real, high: Real, attention_factor: Real, short: Vec<Real>, long: Vec<Real> } ("x pos" -> "y") Pure attention::rope, "Rotary embedding of the first `rope_dim` lanes of each head, with scaled frequencies; pairs are `(j, j + rope_dim/2)`, or `(2j, 2j + 1)` if `interleaved`; cosines and sines are multiplied by `attention_factor`.";
    271 RopeMulti { head_dim: u32, base: Real, interleaved: bool, sections: Vec<u32>, restart: bool } ("x pos" -> "y") Pure rope_multi::rope_multi, "Rotary embedding with a position of its own, a row of `pos` `[axes, S]`, for each of `sections`, which divide the pairs of a head; frequencies run on over all pairs, or start anew in each section if `restart`; pairs are `(j, j + head_dim/2)`, or `(2j, 2j + 1)` if `interleaved`.";
    280 Attention { heads: u32, kv_heads: u32, head_dim: u32, causal: bool, window: u32, scale: Real, softcap: Real } ("q k v mask?" -> "y") Pure attention::attention, "Attention with an explicit `scale`; each query sees `window` keys, itself included (0: all); scores become `softcap · tanh(score / softcap)` (0: as they are).";
    281 SegmentAttention { heads: u32, kv_heads: u32, head_dim: u32, window: u32, scale: Real, softcap: Real } ("q k v segments bias?" -> "y") Pure attention::segment_attention, "Attention in both directions inside segments, such as the texts of a batch that stand one after another: token `i` sees token `j` where `segments` `[S]`, numbers that never fall, holds the same number for both; with a `window` above 0 only tokens at most that far away, on either side. `q`, `k` and `v` are `[S, heads · head_dim]`; scores are multiplied by `scale`, then capped as those of `Attention`, and `bias`, which broadcasts to `[heads, S, S]`, is added to them.";
    282 SegmentReduce { how: Reduction } ("x starts" -> "y") Pure reduce::segments, "The rows of each segment of `x` `[S, …]` combined to one: `[B, …]`. Segment `b` is the rows from `starts[b]` up to the next start; `starts` `[B]` begins with 0 and ascends, so that none is empty. Sums, means and products are in double precision.";

    290 RandomNormal { seed: u32 } ("like" -> "y") Random random::normal, "Independent values of the standard normal distribution in the shape of `like`; which ones follows from `seed`, the session's seed and the number of random steps that the session has run.";
    291 LogMel { sample_rate: u32, fft: u32, hop: u32, mels: u32, low: Real, high: Real, scale: MelScale, log: MelLog } ("samples" -> "y") Pure sound::log_mel, "Mel spectrogram of `[N]` or `[B, N]` samples as `[mels, N/hop]` or `[B, mels, N/hop]`.";
    292 NonMaxSuppression { iou: Real, score: Real, limit: u32 } ("boxes scores" -> "index") Pure detection::suppression, "Numbers of the boxes `[N, 4]` (x1 y1 x2 y2) that stay when, by descending score, each that overlaps one that stayed by more than `iou` is dropped; boxes that score below `score` are dropped first; at most `limit` stay (0: all).";
    299 HostCall { function: Text, dtype: DType, shape: Vec<i64> } ("x*" -> "y") Host host::host_call, "What the function of this name that the running program registered gives for the operands; a size of -1 in `shape` is told by running only.";
    300 JoinedMatmul { parts: u32, norm: Option<Real>, bias: Vec<u32> } ("x W*" -> "y*") Pure fused::joined, "`x` times each of the transposed matrices `W…`, `parts` of them: a result for each. The operands are `x g? W… b…`. With `norm`, the ε of it, `x` is `RmsNorm(x, g)` first; `bias` names the parts, in ascending order, to which one of the vectors `b…` is added.";
    301 GatedMatmul { activation: Activation, norm: Option<Real>, bias: bool } ("x W*" -> "y") Pure fused::gated_matmul, "`activation(x·W_gateᵀ + b_gate) · (x·W_upᵀ + b_up)`. The operands are `x g? W_gate W_up b_gate? b_up?`: `g` with `norm`, the ε of a `RmsNorm` of `x` that comes first, and the vectors with `bias`.";
    302 Gated { activation: Activation } ("gate up" -> "y") Pure fused::gated, "`activation(gate) · up`.";
    303 MatmulBias { activation: Activation, norm: Option<Real> } ("x W b | x g W b" -> "y") Pure fused::matmul_bias, "`activation(x·Wᵀ + b)`; with `norm`, the ε of it, `x` is `RmsNorm(x, g)` first.";
    304 SkipLayerNorm { eps: Real } ("x skip g b" -> "y sum") Pure fused::skip_layer_norm, "`LayerNorm(x + skip, g, b)`, and the sum.";
    305 CachedAttention { heads: u32, kv_heads: u32, head_dim: u32, causal: bool, window: u32, scale: Real, softcap: Real, norm: Option<Real>, rotary: Rotary, rope_dim: u32, base: Real, interleaved: bool, scaling: Scaling, factor: Real, original: u32, low: Real, high: Real, attention_factor: Real, short: Vec<Real>, long: Vec<Real> } ("q k v more*" -> "y") State fused::cached_attention, "`Attention` of `q` over the rows of the session's cache of this node, to which `k` and `v` are appended first. The operands are `q k v g_q? g_k? pos?`: with `norm`, the ε of it, each head of q is `RmsNorm(head, g_q)` and of k `RmsNorm(head, g_k)` first; then heads turn by `pos` as `rotary` says, with the fields that `Rope` or `RopeScaled` has; `plain` reads `rope_dim` and `base` alone.";
    306 ExpertFeedForward { activation: Activation, joined: bool } ("x index weights W*" -> "y") Pure fused::expert_feed_forward, "`Σ weights[s, c] · W_down[e]·(activation(W_gate[e]·x[s]) · (W_up[e]·x[s]))` over the choices `c` of row `s`, with `e = index[s, c]`: `[S, chosen]` choose among matrices `[experts, rows, columns]`. The operands are `x index weights W_gate W_up W_down`, or `x index weights W_gate_up W_down` if `joined`, with the rows of the gate first.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_ascend_names_are_unique_and_everything_is_documented() {
        assert!(INFOS.windows(2).all(|w| w[0].tag < w[1].tag));
        let mut names: Vec<_> = INFOS.iter().map(|i| i.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), INFOS.len());
        assert!(INFOS.iter().all(|i| i.doc.ends_with('.') && !i.results.is_empty()));
    }

    #[test]
    fn payload_round_trips_in_bytes_and_text() {
        let op = Op::Clamp { min: None, max: Some(6.0.into()) };
        let mut bytes = Vec::new();
        op.write_payload(&mut bytes);
        assert_eq!(bytes, [0, 1, 0, 0, 0xc0, 0x40]);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Op::read_payload(11, &mut reader).unwrap(), op);
        assert_eq!(reader.remaining(), 0);
        assert_eq!(op.attributes(), "min = none, max = 6");
        let again = Op::from_fields("Clamp", |f| Ok(if f == "min" { "none" } else { "6" }.into()));
        assert_eq!(again.unwrap(), op);
        assert!(Op::read_payload(11, &mut Reader::new(&bytes[..3])).unwrap_err().contains("field `max`"));
        assert!(Op::read_payload(6, &mut Reader::new(&[255, 255, 255, 255])).is_err());
    }

    #[test]
    fn texts_of_any_content_round_trip_and_have_limits() {
        for name in ["f", "a, dtype = \"b\" }\n// \\ é\u{7f}\t", " ", "%x @cpu {", "\"", "]"] {
            let op = Op::HostCall { function: Text::new(name).unwrap(), dtype: DType::F32, shape: vec![-1] };
            let mut bytes = Vec::new();
            op.write_payload(&mut bytes);
            assert_eq!(Op::read_payload(299, &mut Reader::new(&bytes)).unwrap(), op);
            let fields = op.fields();
            let again = Op::from_fields("HostCall", |f| Ok(fields.iter().find(|(n, _)| *n == f).unwrap().1.clone()));
            assert_eq!(again.unwrap(), op);
        }
        assert!(Text::new("").is_err() && Text::new("n".repeat(256)).is_ok() && Text::new("n".repeat(257)).is_err());
        let read = |bytes: &[u8]| Op::read_payload(299, &mut Reader::new(bytes)).unwrap_err();
        assert!(read(&[0; 9]).contains("the text is empty"));
        assert!(read(&[2, 0, 0, 0, 0xc3, 0x28, 0, 0]).contains("not valid UTF-8"));
        assert!(read(&[255; 9]).contains("bytes remain"));
    }
}
