//! Tests of the tensor types of GGUF files.

use crate::encoding::gguf::{GgmlType, type_name};

#[test]
fn gguf_types() {
    for ty in GgmlType::ALL {
        assert_eq!(GgmlType::from_tag(ty.tag()), Ok(ty));
        assert_eq!(type_name(ty.tag()), Some(ty.name()));
        if let Some(encoding) = ty.same_bytes() {
            assert_eq!(encoding.block_len(), ty.block_len());
            assert_eq!(encoding.block_bytes(), ty.block_bytes());
        }
    }
    assert_eq!(GgmlType::Q4K.name(), "Q4_K");
    let message = |tag| GgmlType::from_tag(tag).unwrap_err().to_string();
    assert_eq!(message(16), "unsupported tensor type IQ2_XXS (16)");
    assert_eq!(message(4), "unsupported tensor type Q4_2 (4)");
    assert_eq!(message(u32::MAX), "unsupported tensor type unknown (4294967295)");
}

#[test]
fn gguf_plain_floats() {
    let mut out = [0.0; 2];
    GgmlType::F32.decode(&[0, 0, 128, 63, 0, 0, 0, 192], &mut out).unwrap();
    assert_eq!(out, [1.0, -2.0]);
    GgmlType::F16.decode(&[0, 0x3c, 1, 0], &mut out).unwrap();
    assert_eq!(out, [1.0, 2.0_f32.powi(-24)]);
    GgmlType::BF16.decode(&[0x80, 0x3f, 0, 0xc0], &mut out).unwrap();
    assert_eq!(out, [1.0, -2.0]);
    // More than one chunk of half-precision numbers.
    let bytes: Vec<u8> = (0..200_u16).flat_map(|bits| (bits << 7).to_le_bytes()).collect();
    let mut out = [0.0; 200];
    GgmlType::F16.decode(&bytes, &mut out).unwrap();
    assert_eq!(out[120], 1.0);
}
