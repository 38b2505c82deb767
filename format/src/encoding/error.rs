//! What can be wrong with values to encode or bytes to decode.

/// An error of encoding or decoding. Indices count values from the start of the slice that was
/// passed; [`EncodingError::shifted`] moves them to the start of a tensor.
///
/// The messages name no tensor and no file: the caller knows these and adds them.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EncodingError {
    /// A value (or, for stored bytes, a super-block's scale) is NaN or infinite.
    #[error("value {index} is not a finite number")]
    NotFinite {
        /// Index of the value.
        index: usize,
    },
    /// A value is further from zero than the encoding reaches on that side.
    #[error("value {index} is {value}, beyond the encoding's range up to {limit}")]
    OutOfRange {
        /// Index of the value.
        index: usize,
        /// The value.
        value: f32,
        /// The largest (or, for a negative value, the least) number that the encoding holds.
        limit: f64,
    },
    /// A stored ternary value has the code `11`, which stands for nothing.
    #[error("value {index} has the invalid ternary code 11")]
    InvalidTernary {
        /// Index of the value.
        index: usize,
    },
    /// A value to encode as ternary is none of −1, 0 and 1.
    #[error("value {index} is {value}, but ternary holds only -1, 0 and 1")]
    NotTernary {
        /// Index of the value.
        index: usize,
        /// The value.
        value: f32,
    },
    /// The length is no multiple of the block.
    #[error("length {len} is not a whole number of blocks of {block}")]
    NotWholeBlocks {
        /// Length of what was passed: values to encode, or bytes to decode.
        len: usize,
        /// Block length in the same unit.
        block: usize,
    },
    /// The output of a decode does not hold the values of the blocks.
    #[error("{blocks} blocks of {block} values do not fill {values} values")]
    LengthMismatch {
        /// Blocks passed.
        blocks: usize,
        /// Values per block.
        block: usize,
        /// Values for which there was room.
        values: usize,
    },
}

impl EncodingError {
    /// The same error with `base` added to its index, for a caller that works in chunks.
    #[must_use]
    pub fn shifted(mut self, base: usize) -> Self {
        match &mut self {
            Self::NotFinite { index }
            | Self::OutOfRange { index, .. }
            | Self::InvalidTernary { index }
            | Self::NotTernary { index, .. } => *index = index.saturating_add(base),
            Self::NotWholeBlocks { .. } | Self::LengthMismatch { .. } => {}
        }
        self
    }

    /// The index of the value at fault, where one value is.
    pub fn index(&self) -> Option<usize> {
        match *self {
            Self::NotFinite { index }
            | Self::OutOfRange { index, .. }
            | Self::InvalidTernary { index }
            | Self::NotTernary { index, .. } => Some(index),
            Self::NotWholeBlocks { .. } | Self::LengthMismatch { .. } => None,
        }
    }
}

/// The first value that is not finite or lies outside `least ..= most`, as an error.
pub(super) fn check_range(values: &[f32], least: f64, most: f64) -> Result<(), EncodingError> {
    for (index, &value) in values.iter().enumerate() {
        if !value.is_finite() {
            return Err(EncodingError::NotFinite { index });
        }
        let limit = if value < 0.0 { least } else { most };
        if f64::from(value).abs() > limit.abs() {
            return Err(EncodingError::OutOfRange { index, value, limit });
        }
    }
    Ok(())
}

/// Whether a magnitude fits a limit; NaN does not.
pub(super) fn fits(magnitude: f32, limit: f64) -> bool {
    f64::from(magnitude) <= limit
}
