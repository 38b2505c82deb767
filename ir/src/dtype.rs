//! Element types of tensors, with the tags that the binary graph form uses.

macro_rules! dtypes {
    ($($tag:literal $variant:ident $name:literal $doc:literal;)*) => {
        /// The element type of a tensor. The block types are encodings of weights: what an
        /// operation computes is `F32`, `F16`, `BF16`, `I32`, `I64` or `Bool`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType { $(#[doc = $doc] $variant,)* }

        impl DType {
            /// Every type, in the order of the tags.
            pub const ALL: &'static [DType] = &[$(DType::$variant),*];

            /// The tag in the binary graph form.
            pub fn tag(self) -> u8 { match self { $(DType::$variant => $tag),* } }

            /// The type of a tag.
            pub fn from_tag(tag: u8) -> Option<Self> { match tag { $($tag => Some(DType::$variant),)* _ => None } }

            /// The name in the text form.
            pub fn name(self) -> &'static str { match self { $(DType::$variant => $name),* } }

            /// The type of a name of the text form.
            pub fn from_name(name: &str) -> Option<Self> { match name { $($name => Some(DType::$variant),)* _ => None } }
        }
    };
}

dtypes! {
    0 F32 "f32" "IEEE single precision.";
    1 F16 "f16" "IEEE half precision.";
    2 BF16 "bf16" "Brain float, 16 bits.";
    3 I8 "i8" "Signed byte.";
    4 U8 "u8" "Unsigned byte.";
    5 Bool "bool" "Truth value.";
    6 Q8_0 "q8_0" "GGUF Q8_0 blocks.";
    7 Q4_0 "q4_0" "GGUF Q4_0 blocks.";
    8 Q2K "q2k" "GGUF Q2_K super-blocks.";
    9 Q3K "q3k" "GGUF Q3_K super-blocks.";
    10 Q4K "q4k" "GGUF Q4_K super-blocks.";
    11 Q5K "q5k" "GGUF Q5_K super-blocks.";
    12 Q6K "q6k" "GGUF Q6_K super-blocks.";
    13 Ternary "ternary" "Two bits a value: 0, +1, -1.";
    14 U32 "u32" "Fixed point, i32 / 65536.";
    15 U16 "u16" "Fixed point, i16 / 256.";
    16 Q4 "q4" "Blocks of 32 nibbles with an 8.8 fixed-point scale.";
    17 Q8 "q8" "Blocks of 32 bytes with an 8.8 fixed-point scale.";
    32 I32 "i32" "Signed 32-bit integer.";
    33 I64 "i64" "Signed 64-bit integer.";
}

impl DType {
    /// Whether tensors of this type hold integers (ids, indices, positions).
    pub fn is_integer(self) -> bool {
        matches!(self, DType::I8 | DType::U8 | DType::I32 | DType::I64)
    }

    /// Whether this is an encoding of weights, which no computed tensor has.
    pub fn is_encoding(self) -> bool {
        match self {
            DType::F32 | DType::F16 | DType::BF16 => false,
            DType::I8 | DType::U8 | DType::Bool | DType::I32 | DType::I64 => false,
            DType::Q8_0
            | DType::Q4_0
            | DType::Q2K
            | DType::Q3K
            | DType::Q4K
            | DType::Q5K
            | DType::Q6K
            | DType::Ternary
            | DType::U32
            | DType::U16
            | DType::Q4
            | DType::Q8 => true,
        }
    }

    /// Whether this is an encoding whose values share scales, or codes, by the block: smaller by half and more than what
    /// it decodes to, so that kernels multiply by it as it lies.
    pub fn is_block(self) -> bool {
        self.is_encoding() && !matches!(self, DType::U32 | DType::U16)
    }

    /// The least and the largest whole number of a type of integers or truth values; `None` for
    /// another.
    pub fn range(self) -> Option<(i64, i64)> {
        Some(match self {
            DType::Bool => (0, 1),
            DType::I8 => (i8::MIN.into(), i8::MAX.into()),
            DType::U8 => (0, u8::MAX.into()),
            DType::I32 => (i32::MIN.into(), i32::MAX.into()),
            DType::I64 => (i64::MIN, i64::MAX),
            _ => return None,
        })
    }

    /// What an operation sees when it reads a tensor of this type: the encodings of weights, and the
    /// half types, compute as `F32`.
    pub fn computes_as(self) -> DType {
        if self.range().is_some() { self } else { DType::F32 }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
