//! What the bytes of a picture file tell before it is decoded: whether it is whole, and how many pictures it holds.

use image::ImageFormat;

/// Whether a JPEG file reaches the end of its own picture. Segments are skipped by their lengths, so that the end of a
/// thumbnail inside of one counts for nothing (ITU-T T.81, annex B).
pub(super) fn jpeg_is_whole(bytes: &[u8]) -> bool {
    let mut at = 2;
    loop {
        // A marker may have more of its first bytes before it.
        let Some(code) = bytes.get(at..).and_then(|rest| rest.iter().position(|&b| b != 0xff)) else { return false };
        let marker = bytes[at + code];
        let start = at + code + 1;
        if code == 0 {
            // Data that no segment accounts for: decoders look for the next marker.
            match next_marker(bytes, at) {
                Some(next) => at = next,
                None => return false,
            }
            continue;
        }
        at = match marker {
            0xd9 => return true,
            // Without a length: restarts, a beginning, and one that stands for itself.
            0x01 | 0xd0..=0xd8 => start,
            _ => match bytes.get(start..start + 2) {
                Some(length) => start + usize::from(u16::from_be_bytes([length[0], length[1]])).max(2),
                None => return false,
            },
        };
        // Behind the head of a scan comes its data.
        if marker == 0xda {
            match next_marker(bytes, at) {
                Some(next) => at = next,
                None => return false,
            }
        }
    }
}

/// The place of the next marker that is neither a byte of data nor a restart.
fn next_marker(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff | 0xd0..=0xd7);
    rest.windows(2).position(marker).map(|at| from + at)
}

/// How many pictures a file holds, as its own chunks tell; at least one.
pub(super) fn count(bytes: &[u8], format: ImageFormat) -> usize {
    match format {
        ImageFormat::Gif => gif(bytes),
        ImageFormat::Png => png(bytes),
        ImageFormat::WebP => webp(bytes),
        _ => 1,
    }
    .max(1)
}

/// The pictures of a GIF file (its version 89a, sections 15 to 26).
fn gif(bytes: &[u8]) -> usize {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let Some(&flags) = bytes.get(10) else { return 0 };
    let (mut at, mut count) = (13 + table(flags), 0);
    // Blocks of data, each behind its length, up to one of no length.
    let data = |mut at: usize| loop {
        match bytes.get(at) {
            Some(&length) if length > 0 => at += 1 + usize::from(length),
            _ => return at + 1,
        }
    };
    loop {
        at = match bytes.get(at) {
            Some(0x21) => data(at + 2),
            Some(0x2c) => {
                let Some(&flags) = bytes.get(at + 9) else { return count };
                count += 1;
                data(at + 11 + table(flags))
            }
            _ => return count,
        };
    }
}

/// The pictures of an animated PNG file, as its chunk `acTL` tells; it stands before all data.
fn png(bytes: &[u8]) -> usize {
    let mut at = 8;
    while let Some(head) = bytes.get(at..at + 8) {
        match &head[4..] {
            b"acTL" => return number(bytes, at + 8, u32::from_be_bytes),
            b"IDAT" | b"IEND" => return 1,
            _ => at += 12 + number(bytes, at, u32::from_be_bytes),
        }
    }
    1
}

/// The pictures of an animated WebP file: its chunks `ANMF`.
fn webp(bytes: &[u8]) -> usize {
    let (mut at, mut count) = (12, 0);
    while let Some(head) = bytes.get(at..at + 8) {
        count += usize::from(&head[..4] == b"ANMF");
        // Chunks are filled up to an even length.
        at += 8 + number(bytes, at + 4, u32::from_le_bytes).next_multiple_of(2);
    }
    count
}

/// The four bytes at a place as a number; 0 behind the end.
fn number(bytes: &[u8], at: usize, read: fn([u8; 4]) -> u32) -> usize {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, |four| read(four) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment with its length.
    fn segment(code: u8, data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u16 + 2).to_be_bytes();
        [&[0xff, code], &length[..], data].concat()
    }

    #[test]
    fn only_the_end_of_the_main_picture_counts() {
        let thumbnail = [&[0xff, 0xd8][..], &segment(0xda, &[1, 2]), &[5, 0xff, 0xd9]].concat();
        let start = [&[0xff, 0xd8][..], &segment(0xe1, &thumbnail)].concat();
        let scan = [&segment(0xda, &[1, 2])[..], &[1, 0xff, 0, 2, 0xff, 0xd0, 3]].concat();
        let whole = [&start[..], &scan, &segment(0xc4, &[9]), &scan, &[0xff, 0xff, 0xd9, 7]].concat();
        assert!(jpeg_is_whole(&whole));
        for end in 0..whole.len() - 1 {
            assert!(!jpeg_is_whole(&whole[..end]), "{end}");
        }
        assert!(!jpeg_is_whole(&[0xff, 0xd8, 0xff, 0xe1, 0, 0]));
    }

    #[test]
    fn chunks_that_end_early_count_as_far_as_they_go() {
        let still = b"GIF89a\x01\0\x01\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x01\0\0";
        let frame = &still[13..];
        let twice = [&still[..], b"\x21\xf9\x01\0\0", frame, b"\x3b"].concat();
        assert_eq!([count(still, ImageFormat::Gif), count(&twice, ImageFormat::Gif)], [1, 2]);
        for format in [ImageFormat::Gif, ImageFormat::Png, ImageFormat::WebP, ImageFormat::Bmp] {
            assert_eq!([count(&[], format), count(&[0xff; 40], format)], [1, 1], "{format:?}");
        }
    }
}
