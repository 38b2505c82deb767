//! What the frames of an MP3 file tell about it before they are decoded: whether something lies between them, and whether
//! all are there. Decoders look for the next frame behind what is none, and say nothing.

use std::io::{Read, Result, SeekFrom};
use symphonia::core::io::MediaSource;

/// Kilobits per second of layer III, of version 1 and of the others (ISO 11172-3 and 13818-3).
const RATES: [[u32; 15]; 2] = [
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
/// Bytes that are looked through for the next frame.
const MOST_SKIPPED: u64 = 1 << 24;
/// Bytes that are read at a time.
const PIECE: u64 = 1 << 16;

/// The head of a frame of layer III.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// Version 1, and not 2 or 2.5.
    first: bool,
    /// Samples of a channel per second.
    rate: u32,
    /// Bytes of the frame.
    length: u64,
    /// Bytes from its beginning to what an encoder writes into a frame without sound.
    inner: usize,
}

impl Head {
    /// The head that these bytes are; nothing where they are none, or of another layer or of a rate of their own.
    fn of(bytes: &[u8]) -> Option<Head> {
        let &[0xff, b, c, d] = bytes.get(..4)? else { return None };
        let version = (b >> 3) & 3;
        if b & 0xe0 != 0xe0 || version == 1 || (b >> 1) & 3 != 1 {
            return None;
        }
        let first = version == 3;
        let kilobits = *RATES[usize::from(!first)].get(usize::from(c >> 4)).filter(|rate| **rate > 0)?;
        let rate = *[44_100, 48_000, 32_000].get(usize::from((c >> 2) & 3))? >> [2, 0, 1, 0][usize::from(version)];
        let length = u64::from(if first { 144_000 } else { 72_000 } * kilobits / rate) + u64::from((c >> 1) & 1);
        let side = match (first, d >> 6 == 3) {
            (true, false) => 32,
            (true, true) | (false, false) => 17,
            (false, true) => 9,
        };
        Some(Head { first, rate, length, inner: 4 + side })
    }

    fn samples(self) -> u64 {
        if self.first { 1152 } else { 576 }
    }
}

/// A file that is read here and there.
struct Bytes<'a> {
    source: &'a mut dyn MediaSource,
    piece: Vec<u8>,
    from: u64,
}

impl Bytes<'_> {
    /// So many bytes at a place, fewer at the end.
    fn get(&mut self, at: u64, count: usize) -> Result<&[u8]> {
        let inside = at >= self.from && at + count as u64 <= self.from + self.piece.len() as u64;
        if !inside {
            self.piece.clear();
            self.from = at;
            self.source.seek(SeekFrom::Start(at))?;
            self.source.take(PIECE.max(count as u64)).read_to_end(&mut self.piece)?;
        }
        let start = (at - self.from) as usize;
        Ok(&self.piece[start..(start + count).min(self.piece.len())])
    }

    /// The length of a tag at a place; 0 where there is none.
    fn tag(&mut self, at: u64) -> Result<u64> {
        let bytes = self.get(at, 16)?;
        let seven = |bytes: &[u8]| bytes.iter().fold(0, |all, b| all << 7 | u64::from(b & 0x7f));
        Ok(match bytes {
            [b'I', b'D', b'3', _, _, flags, length @ ..] if length.len() >= 4 => {
                10 + seven(&length[..4]) + if flags & 0x10 == 0 { 0 } else { 10 }
            }
            [b'T', b'A', b'G', ..] => 128,
            [b'A', b'P', b'E', b'T', b'A', b'G', b'E', b'X', _, _, _, _, length @ ..] if length.len() == 4 => {
                32 + length.iter().rev().fold(0, |all, b| all << 8 | u64::from(*b))
            }
            _ => 0,
        })
    }

    /// The frame at a place, of the version and the rate of the first.
    fn frame(&mut self, at: u64, like: Option<Head>) -> Result<Option<Head>> {
        let head = Head::of(self.get(at, 4)?);
        Ok(head.filter(|head| like.is_none_or(|like| (like.first, like.rate) == (head.first, head.rate))))
    }
}

/// What is wrong with the file; nothing where all of it is frames and tags, or where it is not of layer III. The source
/// stands at its beginning again.
///
/// # Errors
/// Those of reading.
pub(super) fn damage(source: &mut dyn MediaSource) -> Result<Option<String>> {
    let end = source.seek(SeekFrom::End(0))?;
    let mut bytes = Bytes { source, piece: Vec::new(), from: 0 };
    let found = walk(&mut bytes, end);
    bytes.source.seek(SeekFrom::Start(0))?;
    found
}

/// What the frames of a file are.
#[derive(Default)]
struct Found {
    /// The head of the first.
    first: Option<Head>,
    /// Those with sound.
    frames: u64,
    /// How many the first one tells.
    told: Option<u64>,
    /// How often something else lies between two of them, and its bytes.
    gaps: u64,
    lost: u64,
    /// Whether the last is not whole.
    cut: bool,
}

fn walk(bytes: &mut Bytes<'_>, end: u64) -> Result<Option<String>> {
    let (mut found, mut at, mut skipped) = (Found::default(), 0, 0);
    while at < end && skipped < MOST_SKIPPED {
        let tag = bytes.tag(at)?;
        if tag > 0 {
            at += tag;
            continue;
        }
        let head = bytes.frame(at, found.first)?;
        // What looks like a head behind something else is one if another follows it.
        let alone = skipped > 0 || found.first.is_none();
        let head = match head.filter(|head| alone && at + head.length < end) {
            Some(head) => bytes.frame(at + head.length, Some(head))?.map(|_| head),
            None => head,
        };
        let Some(head) = head else {
            (at, skipped) = (at + 1, skipped + 1);
            continue;
        };
        if at + head.length > end {
            found.cut = skipped == 0;
            break;
        }
        found.take(head, bytes.get(at, head.length.min(PIECE) as usize)?, skipped);
        (at, skipped) = (at + head.length, 0);
    }
    Ok(found.damage())
}

impl Found {
    /// One more frame, behind so many bytes that are none.
    fn take(&mut self, head: Head, frame: &[u8], skipped: u64) {
        if self.first.is_none() {
            self.first = Some(head);
            self.told = frames_told(frame, head.inner);
            // One that tells how many there are is none of them.
            self.frames = u64::from(self.told.is_none());
            return;
        }
        if skipped > 0 {
            (self.gaps, self.lost) = (self.gaps + 1, self.lost + skipped);
        }
        self.frames += 1;
    }

    fn damage(&self) -> Option<String> {
        let first = self.first?;
        let seconds = |frames: u64| (frames * first.samples()) as f64 / f64::from(first.rate);
        let mut causes = Vec::new();
        if self.gaps > 0 {
            let places = if self.gaps == 1 { "one place".to_owned() } else { format!("{} places", self.gaps) };
            causes.push(format!("is damaged in {places}: {} bytes between its frames are no sound", self.lost));
        }
        match self.told {
            Some(told) if self.frames < told => {
                let (found, whole) = (seconds(self.frames), seconds(told));
                causes.push(format!("ends after {found:.2} s of the {whole:.2} s that its head tells"));
            }
            None if self.cut => causes.push("ends in the middle of a frame: it was cut off".to_owned()),
            _ => {}
        }
        (!causes.is_empty()).then(|| causes.join(", and "))
    }
}

/// How many frames follow, where the first frame of a file tells it instead of sound.
fn frames_told(frame: &[u8], inner: usize) -> Option<u64> {
    let number = |at: usize| Some(u64::from(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?)));
    match frame.get(inner..inner + 4) {
        Some(b"Xing" | b"Info") if number(inner + 4)? & 1 == 1 => number(inner + 8),
        _ if frame.get(36..40) == Some(b"VBRI") => number(36 + 14),
        _ => None,
    }
}
