//! What the head of a WAV file tells: its rate and its lengths, which writers behind a pipe do not know.

use std::ops::Range;

/// Lengths from here on, in bytes, stand in heads of files whose writer did not know theirs.
const UNKNOWN_LENGTH: u32 = 0x7fff_0000;
/// Where the first chunk begins.
const CHUNKS: usize = 12;

/// The number at a place.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The place of the number that tells the length of a chunk.
fn chunk(bytes: &[u8], name: &[u8; 4]) -> Option<Range<usize>> {
    let mut at = CHUNKS;
    while let Some(length) = number(bytes, at + 4) {
        if &bytes[at..at + 4] == name {
            return Some(at + 4..at + 8);
        }
        // Chunks are filled up to an even length.
        at = at.saturating_add(8).saturating_add(length as usize).next_multiple_of(2);
    }
    None
}

/// The sampling rate by the file's own words.
pub(super) fn rate(head: &[u8]) -> Option<u32> {
    number(head, chunk(head, b"fmt ")?.end + 4)
}

/// Whether the file does not tell how long it is, or how long its sound is.
pub(super) fn has_no_length(head: &[u8]) -> bool {
    let unknown = |at| number(head, at).is_some_and(|length| length >= UNKNOWN_LENGTH);
    unknown(4) || chunk(head, b"data").is_some_and(|length| unknown(length.start))
}

/// Writes the lengths of such a file into its head, as if its sound reached to its end. Says what is wrong where the head
/// tells a length of the sound that the file does not have.
pub(super) fn tell_lengths(bytes: &mut [u8]) -> Option<String> {
    let end = bytes.len();
    let tell = |bytes: &mut [u8], place: Range<usize>| {
        let length = u32::try_from(end.saturating_sub(place.end)).unwrap_or(u32::MAX);
        bytes.get_mut(place).into_iter().for_each(|four| four.copy_from_slice(&length.to_le_bytes()));
    };
    tell(bytes, 4..8);
    let place = chunk(bytes, b"data")?;
    let told = number(bytes, place.start).filter(|length| *length < UNKNOWN_LENGTH);
    match told {
        Some(told) if told as usize <= end - place.end => None,
        told => {
            let found = end - place.end;
            tell(bytes, place);
            told.map(|told| format!("ends after {found} of the {told} bytes of sound that its head tells"))
        }
    }
}
