//! Sound from files: WAV, FLAC or MP3 of any rate and number of channels, as one channel at 16 kHz.

mod flac;
mod mp3;
mod resample;
mod wav;

pub use resample::Resampler;

use crate::{Error, Result};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::path::Path;
use symphonia::core::audio::SampleBuffer;
use symphonia::core::codecs::{CodecParameters, DecoderOptions};
use symphonia::core::errors::Error as Fault;
use symphonia::core::formats::FormatOptions;
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::probe::Hint;

/// Sampling rates that are read, in hertz.
const RATES: RangeInclusive<u32> = 1_000..=384_000;
/// The longest sound, in seconds: four hours.
const LONGEST: u64 = 4 * 60 * 60;

/// A sound: one channel at 16 kHz.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    samples: Vec<f32>,
    /// What is wrong with the file.
    damage: Option<String>,
}

impl Sound {
    /// Samples of a second.
    pub const RATE: u32 = 16_000;

    /// The sound of a WAV, FLAC or MP3 file. Channels are averaged.
    ///
    /// # Errors
    /// What is no regular file; another format or codec; a file that is empty, damaged or shorter than it says; a sound of no
    /// or more than four hours' length, or of an absurd rate.
    pub fn open(path: impl AsRef<Path>) -> Result<Sound> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let io = |source| Error::Io { path: path.to_owned(), source };
        let kind = std::fs::metadata(path).map_err(io)?;
        if kind.is_dir() {
            return Err(fault(&name, "is a folder; give one file in it"));
        }
        // Its length is not known, and opening it might wait for ever.
        if !kind.is_file() {
            return Err(fault(&name, "is no regular file but a pipe or device; save the sound into a file first"));
        }
        let mut file = File::open(path).map_err(io)?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD).read_to_end(&mut head).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        if has_no_length(&head) {
            let mut bytes = Vec::new();
            file.take(MOST_WITHOUT_LENGTH).read_to_end(&mut bytes).map_err(io)?;
            return Sound::decode(bytes, &name);
        }
        decode(Box::new(file), &head, &name, None)
    }

    /// The sound of a WAV, FLAC or MP3 file in memory; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`Sound::open`].
    pub fn decode(mut bytes: Vec<u8>, name: &str) -> Result<Sound> {
        let head = bytes.iter().take(HEAD as usize).copied().collect::<Vec<_>>();
        let damage = has_no_length(&head).then(|| wav::tell_lengths(&mut bytes)).flatten();
        decode(Box::new(Cursor::new(bytes)), &head, name, damage)
    }

    /// Samples of one channel, usually from −1 to 1, at any rate.
    ///
    /// # Errors
    /// No samples, or too many; numbers that are not finite; an absurd rate.
    pub fn new(samples: &[f32], rate: u32) -> Result<Sound> {
        let mut mixer = Mixer::new("sound", rate)?;
        mixer.add(samples, 1)?;
        mixer.finish()
    }

    /// The samples.
    pub fn samples(&self) -> &[f32] {
        &self.samples
    }

    /// What is wrong with the file of which this is as much as could be read: it is damaged or cut off, by its own words or
    /// by those of its frames.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(Self::RATE)
    }
}

/// Bytes that are read of a WAV file that does not tell its length: an hour of 8 channels at 48 kHz in 16 bits.
const MOST_WITHOUT_LENGTH: u64 = 2_764_800_000;

/// Samples of a channel that may be lost between two frames of a FLAC file: those of several of the longest frames.
const MOST_LOST: u64 = 1 << 18;

/// Bytes that tell the format of a file, and of a WAV file its rate and its lengths.
const HEAD: u64 = 1 << 16;

fn fault(name: &str, cause: impl Into<String>) -> Error {
    Error::Sound { file: name.to_owned(), cause: cause.into() }
}

/// Formats that can be told by how they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Wav,
    Flac,
    Mp3,
    /// With a tag before it, which MP3 files have and some FLAC files.
    Tagged,
}

/// The format, or what it is instead.
fn kind(head: &[u8]) -> std::result::Result<Kind, &'static str> {
    let part = |range: std::ops::Range<usize>| head.get(range).unwrap_or_default();
    match (part(0..4), part(4..8), part(8..12)) {
        (b"RIFF", _, b"WAVE") => Ok(Kind::Wav),
        (b"RF64", _, b"WAVE") => Err("a WAV file of the 64-bit kind (RF64)"),
        (b"RIFX", ..) => Err("a WAV file with its bytes the other way round (RIFX)"),
        (b"fLaC", ..) => Ok(Kind::Flac),
        ([b'I', b'D', b'3', _], ..) => Ok(Kind::Tagged),
        ([0xff, second, ..], ..) if second & 0xe0 == 0xe0 => Ok(Kind::Mp3),
        (b"OggS", ..) => Err("an Ogg file"),
        (_, b"ftyp", _) => Err("an MP4 file"),
        (b"FORM", _, b"AIFF" | b"AIFC") => Err("an AIFF file"),
        ([0x1a, 0x45, 0xdf, 0xa3], ..) => Err("a Matroska or WebM file"),
        (b".snd", ..) => Err("an AU file"),
        _ => Err("of no kind that can be told by how it begins"),
    }
}

fn unsupported(name: &str, what: impl std::fmt::Display) -> Error {
    Error::Unsupported(format!(
        "{name}: is {what}; WAV, FLAC and MP3 files are read: convert it, as with `ffmpeg -i FILE out.wav`"
    ))
}

/// Whether a file is a WAV file that does not tell its length.
fn has_no_length(head: &[u8]) -> bool {
    kind(head) == Ok(Kind::Wav) && wav::has_no_length(head)
}

/// The sound of a file that begins with `head`, of which it is known already what is wrong with it.
fn decode(mut source: Box<dyn MediaSource>, head: &[u8], name: &str, mut damage: Option<String>) -> Result<Sound> {
    if head.is_empty() {
        return Err(fault(name, "is empty"));
    }
    let kind = kind(head).map_err(|what| unsupported(name, what))?;
    if kind == Kind::Wav && wav::rate(head) == Some(0) {
        return Err(fault(name, "tells a sampling rate of 0 Hz"));
    }
    let unread = |e: std::io::Error| fault(name, format!("cannot be read: {e}"));
    let frames = match kind {
        Kind::Flac | Kind::Tagged => flac::frames(&mut *source).map_err(unread)?,
        Kind::Wav | Kind::Mp3 => None,
    };
    let kind = if frames.is_some() { Kind::Flac } else { kind };
    if matches!(kind, Kind::Mp3 | Kind::Tagged) {
        damage = mp3::damage(&mut *source).map_err(unread)?;
    }
    let options = FormatOptions { enable_gapless: true, ..FormatOptions::default() };
    let stream = MediaSourceStream::new(source, Default::default());
    let probed = symphonia::default::get_probe()
        .format(&Hint::new(), stream, &options, &MetadataOptions::default())
        .map_err(|e| of_decoder(name, "its head", e))?;
    let mut format = probed.format;
    let Some(track) = format.default_track() else { return Err(fault(name, "holds no sound")) };
    let (id, parameters) = (track.id, track.codec_params.clone());
    let Some(rate) = parameters.sample_rate else { return Err(fault(name, "tells no sampling rate")) };
    let mut mixer = Mixer::new(name, rate)?;
    let declared = declared(kind, &parameters);
    mixer.check(declared.unwrap_or(0))?;
    let mut decoder = symphonia::default::get_codecs()
        .make(&parameters, &DecoderOptions { verify: frames.is_some() })
        .map_err(|e| of_decoder(name, "its codec", e))?;
    // Where the first frame belongs, which is not 0 in what was cut out of another file; and what is wrong between frames.
    let (mut begin, mut torn) = (None, None);
    // Bytes of the frames of a FLAC file that have not come.
    let mut missing = frames.map(|frames| frames.end.saturating_sub(frames.start));
    loop {
        let packet = match format.next_packet() {
            Ok(packet) => packet,
            Err(Fault::IoError(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(e) => return Err(of_decoder(name, &mixer.place(), e)),
        };
        if packet.track_id() != id {
            continue;
        }
        missing = missing.map(|bytes| bytes.saturating_sub(packet.buf().len() as u64));
        // A frame of a FLAC file tells where it belongs; one that does not fit its checksum does not come.
        let place = packet.ts().saturating_sub(*begin.get_or_insert(packet.ts()));
        let lost = if kind == Kind::Flac { place.saturating_sub(mixer.frames) } else { 0 };
        if lost > 0 {
            let place = mixer.place();
            if lost > MOST_LOST {
                return Err(fault(name, format!("is damaged at about {place}: what follows lies far behind it")));
            }
            mixer.add(&vec![0.0; lost as usize], 1)?;
            let seconds = lost as f64 / f64::from(rate);
            let said = format!("is damaged at about {place}: {seconds:.2} s are lost, and silent here");
            torn = torn.or(Some(said));
        }
        let decoded = match decoder.decode(&packet) {
            Ok(decoded) => decoded,
            // A stream that was cut out of another begins with frames whose data lie before it.
            Err(Fault::DecodeError(_)) if mixer.frames == 0 && matches!(kind, Kind::Mp3 | Kind::Tagged) => continue,
            Err(Fault::IoError(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(e) => return Err(of_decoder(name, &mixer.place(), e)),
        };
        let spec = *decoded.spec();
        if spec.rate != rate {
            return Err(fault(name, format!("changes its sampling rate at {}", mixer.place())));
        }
        let mut samples = SampleBuffer::<f32>::new(decoded.capacity() as u64, spec);
        samples.copy_interleaved_ref(decoded);
        mixer.add(samples.samples(), spec.channels.count())?;
    }
    if let Some(declared) = declared.filter(|&n| mixer.frames < n) {
        let (found, whole) = (mixer.seconds(), declared as f64 / f64::from(rate));
        return Err(fault(
            name,
            format!("ends after {found:.2} s of the {whole:.2} s that its head tells: it is damaged or was cut off"),
        ));
    }
    if torn.is_some() {
        damage = torn;
    } else if decoder.finalize().verify_ok == Some(false) {
        damage = Some("is damaged: its samples are not those that its checksum is of".to_owned());
    } else if let Some(missing) = missing.filter(|bytes| *bytes > 0) {
        damage = Some(format!("is damaged or was cut off: {missing} bytes of it are no whole frames"));
    }
    Ok(Sound { damage, ..mixer.finish()? })
}

/// The samples of a channel, where a file's head tells them for sure.
fn declared(kind: Kind, parameters: &CodecParameters) -> Option<u64> {
    let frames = parameters.n_frames?;
    match kind {
        Kind::Wav | Kind::Flac => Some(frames),
        // Worked out from the size of the file.
        Kind::Mp3 | Kind::Tagged => None,
    }
}

/// What the decoder says about `place`.
fn of_decoder(name: &str, place: &str, error: Fault) -> Error {
    match error {
        Fault::Unsupported(what) => unsupported(name, format_args!("sound in a form that is not read ({what})")),
        Fault::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            fault(name, format!("ends in the middle of {place}: it was cut off"))
        }
        other => fault(name, format!("cannot be read at {place}: {other}")),
    }
}

/// Gathers a sound from pieces of several channels.
struct Mixer<'a> {
    name: &'a str,
    rate: u32,
    resampler: Resampler,
    samples: Vec<f32>,
    mono: Vec<f32>,
    /// Samples of a channel so far.
    frames: u64,
}

impl<'a> Mixer<'a> {
    fn new(name: &'a str, rate: u32) -> Result<Self> {
        if !RATES.contains(&rate) {
            let (low, high) = (RATES.start(), RATES.end());
            return Err(fault(name, format!("has a sampling rate of {rate} Hz; {low} to {high} Hz are read")));
        }
        let resampler = Resampler::new(rate, Sound::RATE);
        Ok(Mixer { name, rate, resampler, samples: Vec::new(), mono: Vec::new(), frames: 0 })
    }

    fn seconds(&self) -> f64 {
        self.frames as f64 / f64::from(self.rate)
    }

    fn place(&self) -> String {
        format!("{:.2} s", self.seconds())
    }

    /// Refuses a sound of so many samples that is too long.
    fn check(&self, frames: u64) -> Result<()> {
        match frames > LONGEST * u64::from(self.rate) {
            true => {
                let hours = LONGEST / 3600;
                Err(fault(self.name, format!("is longer than {hours} hours, the most that is read; cut it into parts")))
            }
            false => Ok(()),
        }
    }

    /// Adds samples of so many channels that alternate.
    fn add(&mut self, samples: &[f32], channels: usize) -> Result<()> {
        let channels = channels.max(1);
        let count = (samples.len() / channels) as u64;
        self.check(self.frames + count)?;
        if samples.iter().any(|x| !x.is_finite()) {
            return Err(fault(self.name, format!("holds samples behind {} that are no finite numbers", self.place())));
        }
        self.mono.clear();
        self.mono.extend(samples.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32));
        self.frames += count;
        self.resampler.push(&self.mono, &mut self.samples);
        Ok(())
    }

    fn finish(mut self) -> Result<Sound> {
        self.resampler.finish(&mut self.samples);
        match self.samples.is_empty() {
            true => Err(fault(self.name, "holds no sound")),
            false => Ok(Sound { samples: self.samples, damage: None }),
        }
    }
}
