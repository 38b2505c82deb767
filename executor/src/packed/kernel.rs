//! The packed form that the store keeps.

pub(crate) use crate::kernels::packed::{Packed, pack_panels, panels};

/// The version of the packed form. It grows with each change of what [`pack_panels`] writes, and files of other versions are
/// not looked at.
pub(super) const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::WeightRows;
    use sha2::{Digest as _, Sha256};
    use tallow_format::Encoding;

    /// The first bytes of a digest of what packing makes of fixed bytes in every encoding that is packed.
    const PACKED: &str = "902158449946429c";

    #[test]
    fn another_packed_form_has_another_version() {
        let mut sha = Sha256::new();
        for encoding in Encoding::ALL.into_iter().filter(|&e| Packed::packs(e)) {
            let (rows, k) = (35, 768);
            let mut state = 7_u32;
            let mut byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            let bytes: Vec<u8> =
                (0..rows * k / encoding.block_len() * encoding.block_bytes()).map(|_| byte()).collect();
            let mut out = vec![0; Packed::bytes(encoding, rows, k).unwrap()];
            pack_panels(&WeightRows::new(encoding, &bytes, rows, k).unwrap(), 0..panels(rows), &mut out);
            sha.update(&out);
        }
        let found = super::super::digest::hex(&sha.finalize()[..8]);
        assert_eq!(
            (VERSION, found.as_str()),
            (1, PACKED),
            "packing writes other bytes: raise VERSION, so that no one reads files of the old form, and note both here"
        );
    }
}
