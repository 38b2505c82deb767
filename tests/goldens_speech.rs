//! Tiny random models of speech against `transformers`: features, logits, and what is heard in short and long sounds, with
//! and without times, in given and in detected languages; and sound files of all kinds.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, ids, import, open, values};
use serde_json::Value;
use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use tallow::{Engine, Error, Model, Rows, Sound, Task, Tensor, TranscribeOptions, tensor_file};

/// What features and logits may differ by, as `max|a − b| / max|b|`.
const TOLERANCE: f32 = 1e-4;
const CASES: [&str; 3] = ["english", "multilingual", "multilingual-old"];

fn sounds() -> PathBuf {
    folder("tests/goldens-speech/sounds")
}

fn sound(name: &str) -> Sound {
    Sound::open(sounds().join(format!("{name}.wav"))).unwrap()
}

fn close(what: &str, found: &[f32], wanted: &Tensor) {
    let off = error(found, &values(wanted));
    println!("{what}: error {off:.2e}");
    assert!(off <= TOLERANCE, "{what} is off by {off}");
}

fn options(run: &Value) -> TranscribeOptions {
    TranscribeOptions {
        language: run["language"].as_str().map(str::to_owned),
        task: run["task"].as_str().map(|t| Task::from_name(t).unwrap()),
        timestamps: run["timestamps"].as_bool(),
        max_tokens: None,
    }
}

fn check(name: &str, path: &Path, model: &Model) {
    let golden = path.join("golden.safetensors");
    let runs: Value = serde_json::from_slice(&std::fs::read(path.join("golden.json")).unwrap()).unwrap();
    let runs = runs.as_array().unwrap();
    for run in runs {
        let of = run["sound"].as_str().unwrap();
        if let Ok(wanted) = tensor_file::read(&golden, &format!("features.{of}")) {
            let features = model.sound_features(&sound(of)).unwrap();
            assert_eq!(features.dims(), wanted.dims());
            close(&format!("{name} features of {of}"), &values(&features), &wanted);
        }
    }
    let features = model.sound_features(&sound(runs[0]["sound"].as_str().unwrap())).unwrap();
    let mut session = model.session().unwrap();
    session.begin(&[("input_features".to_owned(), features)]).unwrap();
    let logits = session.logits(&ids(&golden, "decoder_input_ids").unwrap(), Rows::All).unwrap();
    close(&format!("{name} logits"), &values(&logits), &tensor_file::read(&golden, "logits").unwrap());
    for run in runs {
        let what =
            format!("{name} {}", serde_json::json!([run["sound"], run["language"], run["task"], run["timestamps"]]));
        let heard = model.transcribe(&sound(run["sound"].as_str().unwrap()), &options(run)).unwrap();
        let wanted = run["segments"].as_array().unwrap();
        let tokens: Vec<Value> = heard.segments.iter().map(|s| serde_json::json!(s.tokens)).collect();
        let expected: Vec<Value> = wanted.iter().map(|s| s["tokens"].clone()).collect();
        assert_eq!(tokens, expected, "{what}");
        for (segment, wanted) in heard.segments.iter().zip(wanted) {
            let near = |a: f64, b: &Value| (a - b.as_f64().unwrap()).abs() < 1e-6;
            assert!(
                near(segment.start, &wanted["start"]) && near(segment.end, &wanted["end"]),
                "{what}: {segment:?}, {wanted}"
            );
        }
        assert_eq!(heard.text, run["text"].as_str().unwrap(), "{what}");
        assert_eq!(heard.language.as_deref(), run["heard"].as_str(), "{what}");
    }
}

#[test]
fn models_of_speech_hear_what_transformers_hears() {
    for name in CASES {
        let path = folder("tests/goldens-speech").join(name);
        let temporary = tempfile::tempdir().unwrap();
        let model = import(&path, temporary.path(), "u32");
        for (engine, threads) in [(Engine::Reference, 1), (Engine::Cpu, 2), (Engine::Cpu, 1)] {
            check(&format!("{name} {engine:?} {threads}"), &path, &open(&model, engine, threads, 512));
        }
    }
    let count = std::fs::read_dir(folder("tests/goldens-speech")).unwrap().count();
    assert_eq!(count, CASES.len() + 1, "a folder beside the cases and the sounds is not tested");
}

fn message(error: Error, code: u8) -> String {
    assert_eq!(error.exit_code(), code, "{error}");
    error.to_string()
}

#[test]
fn what_a_model_does_not_have_is_refused_by_name() {
    let temporary = tempfile::tempdir().unwrap();
    let many =
        open(&import(&folder("tests/goldens-speech/multilingual"), temporary.path(), "u32"), Engine::Cpu, 1, 512);
    let other = tempfile::tempdir().unwrap();
    let one = open(&import(&folder("tests/goldens-speech/english"), other.path(), "u32"), Engine::Cpu, 1, 512);
    let short = sound("short");
    let refused = |model: &Model, language: Option<&str>, task| {
        let options = TranscribeOptions { language: language.map(str::to_owned), task, ..TranscribeOptions::default() };
        message(model.transcribe(&short, &options).unwrap_err(), 2)
    };
    let error = refused(&many, Some("germn"), None);
    assert!(error.contains("`germn`") && error.contains("`german`") && error.contains("en, de, fr"), "{error}");
    let error = refused(&many, Some("Welsh"), None);
    assert!(error.contains("`Welsh`") && error.contains("en, de, fr"), "{error}");
    let error = refused(&one, Some("en"), None);
    assert!(error.contains("is_multilingual"), "{error}");
    let error = refused(&one, None, Some(Task::Translate));
    assert!(error.contains("is_multilingual"), "{error}");
    let error = refused(&Model::storyteller().unwrap(), None, None);
    assert!(error.contains("hears no sound"), "{error}");
    // A window may be given fewer tokens.
    let options = TranscribeOptions { max_tokens: Some(2), ..TranscribeOptions::default() };
    assert_eq!(many.transcribe(&short, &options).unwrap().segments[0].tokens.len(), 2);
}

#[test]
fn segments_come_one_by_one_with_how_far_they_are() {
    let temporary = tempfile::tempdir().unwrap();
    let model = open(&import(&folder("tests/goldens-speech/english"), temporary.path(), "u32"), Engine::Cpu, 2, 512);
    let long = sound("long");
    let mut transcription = model.transcription(&long, &TranscribeOptions::default()).unwrap();
    assert!(transcription.has_timestamps() && transcription.language().is_none());
    let mut at = 0.0;
    while let Some(segment) = transcription.next() {
        segment.unwrap();
        let (done, all) = transcription.progress();
        assert!(done >= at && done <= all && (all - long.seconds()).abs() < 0.011, "{done} of {all}");
        at = done;
    }
    assert_eq!(transcription.progress().0, transcription.progress().1);
}

/// A WAV file of 16-bit samples whose channels alternate.
fn wav(rate: u32, channels: u16, samples: &[i16]) -> Vec<u8> {
    let bytes = samples.len() as u32 * 2;
    let mut file = Vec::new();
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + bytes).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16u32.to_le_bytes());
    for value in [1, channels] {
        file.extend_from_slice(&value.to_le_bytes());
    }
    file.extend_from_slice(&rate.to_le_bytes());
    file.extend_from_slice(&(rate.wrapping_mul(2 * u32::from(channels))).to_le_bytes());
    for value in [2 * channels, 16] {
        file.extend_from_slice(&value.to_le_bytes());
    }
    file.extend_from_slice(b"data");
    file.extend_from_slice(&bytes.to_le_bytes());
    samples.iter().for_each(|s| file.extend_from_slice(&s.to_le_bytes()));
    file
}

#[test]
fn a_sine_in_stereo_at_44_1_khz_is_the_same_sine_at_16_khz() {
    let sine = |rate: f64, i: usize| (0.4 * (TAU * 440.0 * i as f64 / rate).sin()) as f32;
    // The mean of both channels is the sine.
    let frames =
        (0..44_100).flat_map(|i| [1.5f32, 0.5].map(|loud| (loud * sine(44_100.0, i) * 32768.0).round() as i16));
    let sound = Sound::decode(wav(44_100, 2, &frames.collect::<Vec<_>>()), "sine.wav").unwrap();
    assert_eq!(sound.samples().len(), 16_000);
    let inner = 500..15_500;
    let worst = inner.map(|i| (sound.samples()[i] - sine(16_000.0, i)).abs()).fold(0f32, f32::max);
    println!("sine: error {worst:.2e}");
    assert!(worst < 1e-3, "{worst}");
}

#[test]
fn flac_is_the_same_sound_and_mp3_nearly() {
    let short = sound("short");
    assert_eq!(Sound::open(sounds().join("short.flac")).unwrap(), short);
    let lossy = Sound::open(sounds().join("short.mp3")).unwrap();
    // What the encoder put before and behind it is taken away.
    assert_eq!(lossy.samples().len(), short.samples().len());
    let pairs = lossy.samples().iter().zip(short.samples());
    let (ab, aa, bb) = pairs.fold((0.0, 0.0, 0.0), |(ab, aa, bb), (a, b)| (ab + a * b, aa + a * a, bb + b * b));
    let cosine = ab / (aa * bb).sqrt();
    println!("mp3: cosine {cosine}");
    assert!(cosine > 0.97, "{cosine}");
}

fn unreadable(bytes: Vec<u8>, code: u8) -> String {
    message(Sound::decode(bytes, "a.wav").unwrap_err(), code)
}

#[test]
fn files_without_sound_are_refused_by_name() {
    let good = wav(8_000, 1, &[100; 800]);
    assert_eq!(Sound::decode(good.clone(), "a.wav").unwrap().samples().len(), 1600);
    assert!(unreadable(Vec::new(), 3).contains("is empty"));
    assert!(unreadable(wav(8_000, 1, &[]), 3).contains("no sound"));
    let error = unreadable(good[..good.len() - 500].to_vec(), 3);
    assert!(error.contains("cut off"), "{error}");
    let error = unreadable(good[..30].to_vec(), 3);
    assert!(error.contains("cut off") || error.contains("head"), "{error}");
    for rate in [1, 999, 400_000, u32::MAX] {
        let error = unreadable(wav(rate, 1, &[0; 100]), 3);
        assert!(error.contains(&rate.to_string()) && error.contains("384000"), "{error}");
    }
    // A head that promises a day of sound is refused before anything is decoded.
    let mut day = wav(1_000, 1, &[0; 100]);
    day[4..8].copy_from_slice(&(36 + 2 * 86_400_000u32).to_le_bytes());
    day[40..44].copy_from_slice(&(2 * 86_400_000u32).to_le_bytes());
    let error = unreadable(day, 3);
    assert!(error.contains("4 hours"), "{error}");
    // One whose writer did not know the length is what it holds.
    let mut piped = good.clone();
    piped[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    piped[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Sound::decode(piped, "a.wav").unwrap().samples().len(), 1600);
    let mut codec = good;
    codec[20] = 0x55;
    let error = unreadable(codec, 4);
    assert!(error.contains("not read") || error.contains("ffmpeg"), "{error}");
    for (head, kind) in [(&b"OggS\0\0"[..], "Ogg"), (b"\0\0\0\x18ftypM4A ", "MP4"), (b"hello world!", "no kind")] {
        let error = unreadable(head.to_vec(), 4);
        assert!(error.contains(kind) && error.contains("WAV, FLAC and MP3"), "{error}");
    }
    for (samples, part) in [(&[][..], "no sound"), (&[0.5, f32::NAN][..], "finite")] {
        assert!(message(Sound::new(samples, 16_000).unwrap_err(), 3).contains(part));
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(message(Sound::open(dir.path()).unwrap_err(), 3).contains("folder"));
    assert!(message(Sound::open(dir.path().join("none.wav")).unwrap_err(), 3).contains("none.wav"));
    #[cfg(unix)]
    assert!(message(Sound::open("/dev/null").unwrap_err(), 3).contains("pipe or device"));
    let flac = std::fs::read(sounds().join("short.flac")).unwrap();
    let error = message(Sound::decode(flac[..flac.len() / 2].to_vec(), "a.flac").unwrap_err(), 3);
    assert!(error.contains("cut off") || error.contains("cannot be read"), "{error}");
    // No bytes, however changed, end in a panic.
    for name in ["short.flac", "short.mp3", "silence.wav"] {
        let whole = std::fs::read(sounds().join(name)).unwrap();
        for at in (0..whole.len().min(400)).step_by(7) {
            let mut changed = whole.clone();
            changed[at] ^= 0x5a;
            let _ = Sound::decode(changed, name);
        }
    }
}

/// What is wrong with a file, and its seconds.
fn damage(bytes: Vec<u8>) -> (String, f64) {
    let sound = Sound::decode(bytes, "a").unwrap();
    (sound.damage().unwrap_or_default().to_owned(), sound.seconds())
}

/// Where the frames of the committed MP3 file begin, by their sync bytes.
fn frames(file: &[u8]) -> Vec<usize> {
    let head = file.windows(2).position(|w| w[0] == 0xff && w[1] & 0xe0 == 0xe0).unwrap();
    let same = [file[head], file[head + 1]];
    (head..file.len() - 1).filter(|&at| file[at..at + 2] == same).collect()
}

#[test]
fn files_that_are_damaged_say_how_much_was_read() {
    let read = |name: &str| std::fs::read(sounds().join(name)).unwrap();
    let whole = sound("short").seconds();
    for name in ["short.wav", "short.flac", "short.mp3"] {
        assert_eq!(damage(read(name)), (String::new(), whole), "{name}");
    }
    // MP3: less than its head tells, something between frames, tags where they may be.
    let mp3 = read("short.mp3");
    let (said, seconds) = damage(mp3[..mp3.len() / 2].to_vec());
    assert!(said.contains("s that its head tells") && seconds < whole * 0.6, "{said} {seconds}");
    let starts = frames(&mp3);
    let middle = starts[starts.len() / 2];
    let torn = [&mp3[..middle], &[0; 333][..], &mp3[middle..]].concat();
    let (said, _) = damage(torn);
    assert!(said.contains("damaged in one place: 333 bytes"), "{said}");
    let tag = |name: &[u8]| [name, &vec![0; 128 - name.len()]].concat();
    assert_eq!(damage([&mp3[..], &tag(b"TAG")].concat()).0, "");
    // Without its first frame, which holds no sound and tells how many follow.
    let bare = mp3[starts[1]..].to_vec();
    assert_eq!(damage(bare.clone()).0, "");
    let (said, _) = damage(bare[..bare.len() - 20].to_vec());
    assert!(said.contains("in the middle of a frame"), "{said}");

    // FLAC that tells neither its length nor its checksum, and FLAC whose checksum is another.
    let flac = read("short.flac");
    let mut unknown = flac.clone();
    unknown[21] &= 0xf0;
    unknown[22..42].fill(0);
    assert_eq!(damage(unknown.clone()), (String::new(), whole));
    let (said, seconds) = damage(unknown[..unknown.len() * 2 / 3].to_vec());
    assert!(said.contains("no whole frames") && seconds < whole && seconds > 0.0, "{said} {seconds}");
    let mut other = flac.clone();
    other[30] ^= 1;
    assert!(damage(other).0.contains("checksum"));

    // FLAC with a frame that is damaged: the others stay where they are.
    for at in [5000, 9000] {
        let mut torn = flac.clone();
        torn[at] ^= 0x10;
        let (said, seconds) = damage(torn);
        let place = if at < 8640 { "0.26 s" } else { "0.51 s" };
        assert!(said.contains(&format!("damaged at about {place}: 0.26 s are lost")), "{said}");
        assert_eq!(seconds, whole);
    }

    // WAV whose writer knew the length of the sound and not that of the file.
    let mut wav = wav(16_000, 1, &[5; 1600]);
    wav[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(damage(wav.clone()), (String::new(), 0.1));
    wav.truncate(44 + 1600);
    let (said, seconds) = damage(wav.clone());
    assert_eq!((said.as_str(), seconds), ("ends after 1600 of the 3200 bytes of sound that its head tells", 0.05));
    // And the other way round.
    wav[4..8].copy_from_slice(&(36 + 1600u32).to_le_bytes());
    wav[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(damage(wav.clone()), (String::new(), 0.05));
    // One that tells of more sound than would lie in it.
    wav[40..44].copy_from_slice(&4000u32.to_le_bytes());
    let (said, seconds) = damage(wav);
    assert_eq!((said.as_str(), seconds), ("ends after 1600 of the 4000 bytes of sound that its head tells", 0.05));
    // Where nothing can be read there is no sound.
    assert!(unreadable(mp3[..starts[0] + 60].to_vec(), 3).contains("cut off"));
}
