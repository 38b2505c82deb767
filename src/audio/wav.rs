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

/// Whether the file does not tell how long it is, or how long its sound is, or tells of more sound than would lie in it.
pub(super) fn has_no_length(head: &[u8]) -> bool {
    let of_file = number(head, 4).map_or(0, |length| u64::from(length) + 8);
    let unknown = |length: u32| length >= UNKNOWN_LENGTH;
    let of_sound = chunk(head, b"data").and_then(|place| Some((place.end as u64, number(head, place.start)?)));
    let too_long = |(from, length): (u64, u32)| unknown(length) || from + u64::from(length) > of_file;
    number(head, 4).is_some_and(unknown) || of_sound.is_some_and(too_long)
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
