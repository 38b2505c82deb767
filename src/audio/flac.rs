//! Where the sound of a FLAC file lies: what is neither head nor frame is damage.

use std::io::{Read, Result, SeekFrom};
use symphonia::core::io::MediaSource;

/// Where the frames of a file begin and end; nothing where it does not begin as such a file. The source stands at its
/// beginning again.
///
/// # Errors
/// Those of reading.
pub(super) fn frames(source: &mut dyn MediaSource) -> Result<Option<std::ops::Range<u64>>> {
    let end = source.seek(SeekFrom::End(0))?;
    let begin = begin(source);
    source.seek(SeekFrom::Start(0))?;
    Ok(begin?.map(|begin| begin..end))
}

/// Behind the blocks of the head, each with a byte that says which it is and whether it is the last, and its length.
fn begin(source: &mut dyn MediaSource) -> Result<Option<u64>> {
    let mut at = 0;
    source.seek(SeekFrom::Start(at))?;
    if let Some([b'I', b'D', b'3', _, _, _, length @ ..]) = read::<10>(source)? {
        at = 10 + length.iter().fold(0, |all, b| all << 7 | u64::from(b & 0x7f));
    }
    source.seek(SeekFrom::Start(at))?;
    if read::<4>(source)? != Some(*b"fLaC") {
        return Ok(None);
    }
    at += 4;
    loop {
        source.seek(SeekFrom::Start(at))?;
        let Some([kind, a, b, c]) = read::<4>(source)? else { return Ok(None) };
        at += 4 + u64::from(u32::from_be_bytes([0, a, b, c]));
        if kind & 0x80 != 0 {
            return Ok(Some(at));
        }
    }
}

/// So many bytes; nothing where the file ends before.
fn read<const N: usize>(source: &mut dyn MediaSource) -> Result<Option<[u8; N]>> {
    let mut bytes = Vec::with_capacity(N);
    source.take(N as u64).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok())
}
