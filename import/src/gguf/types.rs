//! Names and sizes of the tensor types that are not weights.

/// The name of a tensor type, or its number when it has none here.
pub fn type_name(tag: u32) -> String {
    tallow_format::encoding::gguf::type_name(tag).map_or_else(|| format!("number {tag}"), str::to_owned)
}

/// Bytes per value of the integer types, which are left out on import; `None` for every other type.
pub(super) fn integer_size(tag: u32) -> Option<u64> {
    match tag {
        24 => Some(1),
        25 => Some(2),
        26 => Some(4),
        27 => Some(8),
        _ => None,
    }
}
