//! SentencePiece's precompiled character maps.
//!
//! A map is a trie over bytes and a block of texts. The trie is a double array (as in Darts-clone): the length of its units in
//! bytes as a `u32`, the units as `u32`, all little-endian, then the texts, each ended by a zero byte. A leaf holds the place of
//! its text. What counts is what models were trained with, the reading of the `tokenizers` library: a grapheme cluster of fewer
//! than six bytes becomes the text of its shortest prefix that is a key, whatever follows in the cluster; else each character
//! is looked up by itself. (The crate `spm_precompiled`, which that library uses, indexes by what the file says; here a broken
//! map finds nothing.)

use super::TokenizerError;
use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation;

/// A character map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    texts: String,
}

/// Clusters of this many bytes or more are looked up character by character.
const LONG_CLUSTER: usize = 6;

impl Charsmap {
    /// The map that a text in base64 holds. Errors: it is no base64, cut short, or its texts are no UTF-8.
    pub(super) fn from_base64(text: &str) -> Result<Self, TokenizerError> {
        let fault = |cause: &str| TokenizerError::BadCharsmap { cause: cause.to_owned() };
        let bytes = base64::decode(text).map_err(|e| fault(&format!("is no base64: {e}")))?;
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| fault("is shorter than its length"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (trie, texts) = rest.split_at_checked(length / 4 * 4).ok_or_else(|| fault("ends before its trie does"))?;
        let texts = std::str::from_utf8(texts).map_err(|e| fault(&format!("has texts that are no UTF-8: {e}")))?;
        let (units, _) = trie.as_chunks::<4>();
        let units = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Ok(Self { units, texts: texts.to_owned() })
    }

    /// The mapped text.
    pub(super) fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::with_capacity(text.len());
        for cluster in text.graphemes(true) {
            if cluster.len() < LONG_CLUSTER
                && let Some(mapped) = self.find(cluster)
            {
                out.push_str(mapped);
                continue;
            }
            for (at, c) in cluster.char_indices() {
                let part = &cluster[at..at + c.len_utf8()];
                out.push_str(self.find(part).unwrap_or(part));
            }
        }
        if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
    }

    /// The text of the shortest prefix of `key` that the map holds.
    fn find<'a>(&'a self, key: &str) -> Option<&'a str> {
        self.prefixes(key.as_bytes()).next().map(|(_, text)| text)
    }

    /// The longest prefix of `key` that the map holds, as SentencePiece itself reads it: its length and its text.
    pub(super) fn longest<'a>(&'a self, key: &str) -> Option<(usize, &'a str)> {
        self.prefixes(key.as_bytes()).last()
    }

    /// Every prefix of `key` that the map holds, the shortest first: its length and its text.
    fn prefixes<'a>(&'a self, key: &[u8]) -> impl Iterator<Item = (usize, &'a str)> {
        let mut at = self.units.first().map(|root| offset(*root));
        let mut bytes = key.iter().take_while(|byte| **byte != 0).enumerate();
        std::iter::from_fn(move || {
            for (n, byte) in bytes.by_ref() {
                let place = at? ^ usize::from(*byte);
                let unit = *self.units.get(place)?;
                if label(unit) != u32::from(*byte) {
                    at = None;
                    return None;
                }
                let below = place ^ offset(unit);
                at = Some(below);
                if has_leaf(unit) {
                    let start = (self.units.get(below)? & 0x7FFF_FFFF) as usize;
                    let rest = self.texts.get(start..)?;
                    return Some((n + 1, rest.split('\0').next().unwrap_or(rest)));
                }
            }
            None
        })
    }
}

fn has_leaf(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

/// The byte of a unit; a leaf's is none.
fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xFF)
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) as usize) << (unit >> 6 & 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map that turns `a` into `xy` and nothing else: the root, its child 97 at place 97 and the leaf of that at 96 ^ …
    fn one_key() -> Vec<u8> {
        let mut units = vec![0_u32; 512];
        // The root's children lie at 256 ^ byte; those of `a` at (256 ^ 97) ^ 128.
        units[0] = 256 << 10;
        units[256 ^ 97] = 128 << 10 | 1 << 8 | 97;
        units[256 ^ 97 ^ 128] = 1 << 31 | 3;
        let mut bytes = (units.len() as u32 * 4).to_le_bytes().to_vec();
        units.iter().for_each(|unit| bytes.extend(unit.to_le_bytes()));
        bytes.extend(b"no\0xy\0");
        bytes
    }

    #[test]
    fn keys_become_their_texts() {
        let map = Charsmap::from_base64(&base64::encode(one_key())).unwrap();
        assert_eq!(map.apply("banana"), "bxynxynxy");
        assert_eq!(map.apply("a\u{301}e\u{301}"), "xye\u{301}", "the whole cluster goes");
        assert!(matches!(map.apply("\u{0}bcd"), Cow::Borrowed(_)));
    }

    #[test]
    fn broken_maps_are_errors_or_find_nothing() {
        for bytes in [vec![], vec![1, 0], vec![8, 0, 0, 0, 1], vec![4, 0, 0, 0, 1, 2, 3, 4, 0xFF]] {
            assert!(Charsmap::from_base64(&base64::encode(&bytes)).is_err(), "{bytes:?}");
        }
        assert!(Charsmap::from_base64("?").is_err());
        let whole = one_key();
        for cut in 4..whole.len() {
            let mut bytes = whole[..cut].to_vec();
            let units = (cut as u32 - 4) / 4 * 4;
            bytes[..4].copy_from_slice(&units.to_le_bytes());
            if let Ok(map) = Charsmap::from_base64(&base64::encode(&bytes)) {
                map.apply("a banana\u{0}é");
            }
        }
        for wild in [u32::MAX, 1 << 9 | 0xFFFF_FC00, 1 << 8] {
            let mut bytes = whole.clone();
            bytes[4..].as_chunks_mut::<4>().0.iter_mut().for_each(|unit| *unit = wild.to_le_bytes());
            bytes.truncate(4 + 512 * 4);
            if let Ok(map) = Charsmap::from_base64(&base64::encode(&bytes)) {
                map.apply("a banana\u{0}é");
            }
        }
    }
}
