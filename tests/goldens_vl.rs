//! Tiny random models that see and write against `transformers`: what their towers make of pictures, logits of texts with and
//! without pictures, at once, in chunks and token by token, and what they write about picture files.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, ids, import, open, page, values};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tallow::picture::Picture;
use tallow::{Engine, GenerateOptions, Message, Model, Patches, Rows, Session, tensor_file};

/// What rows of pictures and logits may differ by, as `max|a − b| / max|b|`.
const TOLERANCE: f32 = 1e-4;
/// The mark of a picture in a prompt.
const MARK: &str = "<|vision_start|><|image_pad|><|vision_end|>";

fn golden(path: &Path) -> std::path::PathBuf {
    path.join("golden.safetensors")
}

/// Pictures as the library has prepared them.
fn patches(model: &Model, path: &Path, names: &[String]) -> Patches {
    let (mut pixels, mut grids) = (Vec::new(), Vec::new());
    for name in names {
        pixels.extend(values(&tensor_file::read(&golden(path), &format!("pixels.{name}")).unwrap()));
        let grid = ids(&golden(path), &format!("grid.{name}")).unwrap();
        grids.push([grid[0] as usize, grid[1] as usize]);
    }
    Patches::new(model.sight().unwrap(), &pixels, &grids).unwrap()
}

/// A run of the golden.
struct Run {
    name: String,
    pictures: Vec<String>,
    /// The prompt, with marks where pictures do not simply stand before it.
    prompt: String,
    text: String,
}

fn runs(path: &Path) -> Vec<Run> {
    let notes: Vec<Value> = serde_json::from_slice(&std::fs::read(path.join("golden.json")).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let run = |note: &Value| {
        let prompt = match &note["content"] {
            Value::String(text) => text.clone(),
            parts => {
                let part = |p: &Value| p["text"].as_str().unwrap_or(MARK).to_owned();
                let whole: String = parts.as_array().unwrap().iter().map(part).collect();
                // One in front of the words needs no mark.
                whole.strip_prefix(MARK).filter(|rest| !rest.contains(MARK)).map_or(whole.clone(), str::to_owned)
            }
        };
        let pictures = note["pictures"].as_array().unwrap().iter().map(text).collect();
        Run { name: text(&note["run"]), pictures, prompt, text: text(&note["text"]) }
    };
    notes.iter().map(run).collect()
}

/// A session that has looked at the pictures of a run.
fn looked(model: &Model, path: &Path, run: &Run, prompt: &[u32]) -> Session {
    let mut session = model.session().unwrap();
    if !run.pictures.is_empty() {
        let whole = session.look(&patches(model, path, &run.pictures), prompt).unwrap();
        assert_eq!(whole, prompt);
    }
    session
}

fn options() -> GenerateOptions {
    GenerateOptions { max_tokens: Some(10), ..GenerateOptions::default() }
}

/// The worst error of rows of pictures and of logits, at once and step by step.
fn check(what: &str, path: &Path, model: &Model) -> f32 {
    let image = model.sight().unwrap().image;
    let names = ["wide".to_owned(), "tall".to_owned()];
    let rows = model.picture_rows(&patches(model, path, &names)).unwrap();
    let mut worst = error(&values(&rows), &values(&tensor_file::read(&golden(path), "tower").unwrap()));
    assert!(worst <= TOLERANCE, "{what}: rows of pictures are off by {worst:.2e}");
    for run in runs(path) {
        let prompt = ids(&golden(path), &format!("{}.ids", run.name)).unwrap();
        let expected = values(&tensor_file::read(&golden(path), &format!("{}.logits", run.name)).unwrap());
        let width = expected.len() / prompt.len();
        let whole = values(&looked(model, path, &run, &prompt).logits(&prompt, Rows::All).unwrap());
        let e = error(&whole, &expected);
        assert!(e <= TOLERANCE, "{what} {}: logits are off by {e:.2e}", run.name);
        worst = worst.max(e);
        // A text with pictures begins with one of them.
        let first = prompt.iter().position(|&id| id == image).unwrap_or(0) + 1;
        for step in [1, 7] {
            let mut session = looked(model, path, &run, &prompt);
            for n in (first..prompt.len()).step_by(step).chain([prompt.len()]) {
                let row = values(&session.logits(&prompt[..n], Rows::Last).unwrap());
                let place = (n - 1) * width..n * width;
                let top = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
                let e = error(&row, &expected[place.clone()]) * row.iter().fold(0f32, |m, v| m.max(v.abs())) / top;
                assert!(e <= TOLERANCE, "{what} {}: by {step} at {n}: off by {e:.2e}", run.name);
                if !model.is_reference() {
                    assert_eq!(row, whole[place], "{what} {}: by {step} at {n}: other bits", run.name);
                }
            }
        }
        let wanted = ids(&golden(path), &format!("{}.generated", run.name)).unwrap();
        let mut session = looked(model, path, &run, &prompt);
        let mut generation = session.continue_ids(&prompt, &options()).unwrap();
        generation.by_ref().for_each(|piece| drop(piece.unwrap()));
        assert_eq!(generation.ids(), wanted, "{what} {}", run.name);
    }
    worst
}

/// Whether picture files are prepared as the library does it.
fn check_pixels(what: &str, path: &Path, model: &Model) {
    for name in ["wide", "tall"] {
        let made = model.patches(&[Picture::read(&path.join(format!("{name}.png"))).unwrap()]).unwrap();
        let wanted = patches(model, path, &[name.to_owned()]);
        assert_eq!(made.cells(), wanted.cells(), "{what} {name}");
        let pixels = |patches: &Patches| values(&patches.inputs()[0].1);
        let pairs = pixels(&made).into_iter().zip(pixels(&wanted)).collect::<Vec<_>>();
        let off = pairs.iter().fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(off < 1e-5, "{what} {name}: pixels are off by {off}");
    }
}

/// The pictures of a run from their files.
fn files(path: &Path, run: &Run) -> Vec<Picture> {
    run.pictures.iter().map(|name| Picture::read(&path.join(format!("{name}.png"))).unwrap()).collect()
}

/// From picture files and a prompt to text.
fn check_files(what: &str, path: &Path, model: &Model) {
    let mut session = model.session().unwrap();
    for run in runs(path) {
        let pictures = files(path, &run);
        let mut generation = match pictures.is_empty() {
            true => session.generate_with(&run.prompt, &options()).unwrap(),
            false => session.generate_about(&pictures, &run.prompt, &options()).unwrap(),
        };
        let text: String = generation.by_ref().map(Result::unwrap).collect();
        let wanted = ids(&golden(path), &format!("{}.generated", run.name)).unwrap();
        assert_eq!(generation.ids(), wanted, "{what} {}", run.name);
        assert_eq!(text, run.text, "{what} {}", run.name);
        let prompt = ids(&golden(path), &format!("{}.ids", run.name)).unwrap();
        assert_eq!(generation.statistics().prompt_tokens, prompt.len(), "{what} {}", run.name);
    }
}

#[test]
fn models_that_see_give_what_transformers_gives() {
    let mut errors = BTreeMap::new();
    let all = folder("tests/goldens-vl");
    for entry in std::fs::read_dir(&all).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let temporary = tempfile::tempdir().unwrap();
        let model = import(&path, temporary.path(), "u32");
        for (engine, threads) in [(Engine::Reference, 1), (Engine::Cpu, 2), (Engine::Cpu, 1)] {
            let model = open(&model, engine, threads, 512);
            let what = format!("{name} {engine:?} {threads}");
            let worst = check(&what, &path, &model);
            println!("{what}: error {worst:.2e}");
            if engine == Engine::Cpu {
                errors.insert(name.clone(), worst.max(errors.get(&name).copied().unwrap_or(0.0)));
            }
            check_files(&what, &path, &model);
        }
        // Prompts in short chunks.
        let model = open(&model, Engine::Cpu, 2, 7);
        check_files(&format!("{name} in chunks"), &path, &model);
        check_pixels(&name, &path, &model);
    }
    assert!(errors.len() >= 4, "only {} goldens found", errors.len());
    page::record("vl", &all, &errors);
}

fn opened(name: &str) -> (Model, tempfile::TempDir) {
    let temporary = tempfile::tempdir().unwrap();
    let model = import(&folder("tests/goldens-vl").join(name), temporary.path(), "u32");
    (open(&model, Engine::Cpu, 2, 512), temporary)
}

fn written(generation: tallow::Generation<'_>) -> String {
    generation.map(Result::unwrap).collect()
}

#[test]
fn a_conversation_goes_on_with_the_same_pictures() {
    let path = folder("tests/goldens-vl/qwen2_5_vl-plain");
    let (model, _keep) = opened("qwen2_5_vl-plain");
    let runs = runs(&path);
    let pictures = files(&path, &runs[1]);
    let mut messages = vec![Message::new("user", &runs[1].prompt).with_pictures(1)];
    let mut session = model.session().unwrap();
    let answer = written(session.reply_about(&pictures, &messages, &options()).unwrap());
    assert_eq!(answer, runs[1].text);
    messages.extend([Message::new("assistant", answer), Message::new("user", "and the dog?")]);
    let mut later = session.reply(&messages, &options()).unwrap();
    let text: String = later.by_ref().map(Result::unwrap).collect();
    assert!(later.statistics().reused_tokens > 30, "{:?}", later.statistics());
    let mut fresh = model.session().unwrap();
    assert_eq!(text, written(fresh.reply_about(&pictures, &messages, &options()).unwrap()));
    // A text without pictures is what it is without them.
    assert_eq!(written(session.generate_with(&runs[0].prompt, &options()).unwrap()), runs[0].text);
    assert_eq!(written(session.generate_about(&[], &runs[0].prompt, &options()).unwrap()), runs[0].text);
    // Another picture is seen anew.
    let other = [Picture::read(&path.join("tall.png")).unwrap()];
    let about = |session: &mut Session| written(session.generate_about(&other, &runs[1].prompt, &options()).unwrap());
    assert_eq!(about(&mut session), about(&mut model.session().unwrap()));
}

#[test]
fn without_a_chat_template_pictures_stand_before_the_prompt() {
    let path = folder("tests/goldens-vl/qwen2_vl-plain");
    let (model, _keep) = opened("qwen2_vl-plain");
    let picture = [Picture::read(&path.join("wide.png")).unwrap()];
    let raw = GenerateOptions { raw: true, ..options() };
    let mut session = model.session().unwrap();
    let plain = written(session.generate_about(&picture, "what is there?", &raw).unwrap());
    let marked = format!("{MARK}what is there?");
    assert_eq!(plain, written(session.generate_about(&picture, &marked, &raw).unwrap()));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let path = folder("tests/goldens-vl/qwen2_vl-plain");
    let (model, _keep) = opened("qwen2_vl-plain");
    let picture = Picture::read(&path.join("wide.png")).unwrap();
    let mut session = model.session().unwrap();
    let mut refused = |pictures: &[Picture], prompt: &str| {
        let error = session.generate_about(pictures, prompt, &options()).err().unwrap();
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string()
    };
    let error = refused(&[picture.clone(), picture.clone()], &format!("{MARK} what?"));
    assert!(error.contains("1 place for pictures") && error.contains("2 pictures are given"), "{error}");
    let error = refused(std::slice::from_ref(&picture), &format!("{MARK}{MARK}"));
    assert!(error.contains("2 places") && error.contains("1 picture is given"), "{error}");
    let error = refused(std::slice::from_ref(&picture), &format!("{MARK}<|video_pad|>"));
    assert!(error.contains("videos are not read"), "{error}");
    let error = session.generate_with(&format!("{MARK} what?"), &options()).err().unwrap().to_string();
    assert!(error.contains("1 tokens for pictures") && error.contains("--image"), "{error}");
    let error = session.begin(&[]).unwrap_err().to_string();
    assert!(error.contains("--image"), "{error}");
    let temporary = tempfile::tempdir().unwrap();
    let mut short = tallow::ModelOptions::default();
    short.program.context = Some(20);
    let model = Model::open_with(import(&path, temporary.path(), "u32"), &short).unwrap();
    let error = model
        .session()
        .unwrap()
        .generate_about(std::slice::from_ref(&picture), "what?", &options())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("15 of them for pictures") && error.contains("holds 20"), "{error}");
    let mut teller = Model::storyteller().unwrap().session().unwrap();
    let error = teller.generate_about(&[picture], "what?", &options()).err().unwrap().to_string();
    assert!(error.contains("sees no pictures") && error.contains("qwen2_vl"), "{error}");
}

/// A copy of a golden with other settings of pictures, imported and opened.
fn with_processor(change: impl Fn(&mut Value)) -> Model {
    let (source, temporary) = (folder("tests/goldens-vl/qwen2_vl-plain"), tempfile::tempdir().unwrap());
    for entry in std::fs::read_dir(&source).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), temporary.path().join(entry.file_name())).unwrap();
    }
    let file = temporary.path().join("preprocessor_config.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut settings);
    std::fs::write(file, settings.to_string()).unwrap();
    Model::open(import(temporary.path(), temporary.path(), "u32")).unwrap()
}

#[test]
fn pictures_that_cannot_be_prepared_are_refused_by_name() {
    let picture = [Picture::read(&folder("tests/goldens-vl/qwen2_vl-plain/wide.png")).unwrap()];
    let refused = |change: fn(&mut Value)| with_processor(change).patches(&picture).unwrap_err().to_string();
    let error = refused(|s| s["patch_size"] = 8.into());
    assert!(error.contains("processor.patch") && error.contains("is 8") && error.contains("sees with 4"), "{error}");
    let error = refused(|s| s["do_resize"] = false.into());
    assert!(error.contains("45 × 27") && error.contains("squares of 8 pixels"), "{error}");
}
