//! Models that a program of the library computes, from a Hugging Face folder to an answer: import writes the program into
//! the file where no family knows the type, and the program is what runs. The folders are made from the cases in
//! `tests/programs`.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, values};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::path::Path;
use tallow::compiled::Answer;
use tallow::executor::load_safetensors;
use tallow::format::ProgramFormat;
use tallow::format::tools::{Destination, Edit, edit};
use tallow::import::{GivenProgram, ImportOptions};
use tallow::{Engine, GenerateOptions, Model, ModelOptions, PackedCache, Sound, Tensor, TranscribeOptions};

/// A folder as the model's own library would save it.
fn saved(case: &str, into: &Path) {
    let from = folder("tests/programs").join(case);
    let config = tallow::format::Config::parse(&std::fs::read_to_string(from.join("config.toml")).unwrap()).unwrap();
    let mut root = Map::new();
    root.insert("model_type".into(), json!(config.model_type()));
    for (key, item) in config.document()["architecture"].as_table().unwrap() {
        let value = plain(item);
        let key = if value.is_object() { format!("{key}_config") } else { key.to_owned() };
        root.insert(key, value);
    }
    std::fs::write(into.join("config.json"), Json::Object(root).to_string()).unwrap();
    std::fs::copy(from.join("model.safetensors"), into.join("model.safetensors")).unwrap();
    std::fs::copy(folder("executor/tests/data/storyteller-tokenizer.json"), into.join("tokenizer.json")).unwrap();
}

/// A setting as JSON.
fn plain(item: &toml_edit::Item) -> Json {
    fn of(value: &toml_edit::Value) -> Json {
        match value {
            toml_edit::Value::String(s) => json!(s.value()),
            toml_edit::Value::Integer(n) => json!(n.value()),
            toml_edit::Value::Float(x) => json!(x.value()),
            toml_edit::Value::Boolean(b) => json!(b.value()),
            toml_edit::Value::Array(items) => items.iter().map(of).collect(),
            toml_edit::Value::InlineTable(t) => Json::Object(t.iter().map(|(k, v)| (k.into(), of(v))).collect()),
            toml_edit::Value::Datetime(d) => json!(d.value().to_string()),
        }
    }
    match item {
        toml_edit::Item::Value(value) => of(value),
        toml_edit::Item::Table(t) => Json::Object(t.iter().map(|(k, v)| (k.into(), plain(v))).collect()),
        _ => Json::Null,
    }
}

fn case(name: &str) -> HashMap<String, Tensor> {
    load_safetensors(&std::fs::read(folder("tests/programs").join(name).join("case.safetensors")).unwrap()).unwrap()
}

/// What a graph calls a parameter of a program: a list of ids has one name.
fn input(parameter: &str) -> String {
    if parameter == "ids" { "input_ids".into() } else { parameter.into() }
}

fn imported(name: &str, into: &Path) -> Model {
    saved(name, into);
    for (kind, program) in [("encoder-", "encoder.rs"), ("vit-", "vit.rs"), ("resnet-", "resnet.rs")] {
        if name.starts_with(kind) {
            return with_program(name, program, into);
        }
    }
    let path = common::import(into, into, "u32");
    common::open(&path, Engine::Cpu, 2, 512)
}

/// The model of a case with a program of the library that import does not write by itself, since there is a family.
fn with_program(case: &str, program: &str, into: &Path) -> Model {
    let given = GivenProgram {
        format: ProgramFormat::Rs,
        source: std::fs::read_to_string(folder("programs").join(program)).unwrap(),
        label: program.to_owned(),
        config: std::fs::read_to_string(folder("tests/programs").join(case).join("config.toml")).unwrap(),
    };
    let options = ImportOptions { encoding: "u32".parse().unwrap(), ..ImportOptions::default() };
    let out = into.join("model.model");
    tallow::import::import_with_program(&into.join("model.safetensors"), &given, &out, &options, &mut ()).unwrap();
    let mut options = ModelOptions { path: tallow::Path::Program, ..ModelOptions::default() };
    options.program.packed_cache = PackedCache::Off;
    Model::open_with(&out, &options).unwrap()
}

#[test]
fn pictures_sound_and_texts_are_answered_as_by_the_reference() {
    for name in ["encoder-bert-mean", "encoder-distilbert-tags", "vit-classifier", "resnet-basic", "tagger", "vits"] {
        let dir = tempfile::tempdir().unwrap();
        let model = imported(name, dir.path());
        assert!(model.compiled().is_some(), "{name}");
        let case = case(name);
        let inputs: Vec<(String, Tensor)> =
            case.iter().filter_map(|(k, t)| Some((input(k.strip_prefix("in.")?), t.clone()))).collect();
        let Answer::Tensors(outputs) = model.session().unwrap().answer(&inputs).unwrap() else { panic!("{name}") };
        let mut compared = 0;
        for (output, tensor) in &outputs {
            // A single output is what the case holds in its shape, whatever the program calls it.
            let single =
                || case.iter().find(|(k, t)| k.starts_with("out.") && t.dims() == tensor.dims()).map(|(_, t)| t);
            let wanted = case.get(&format!("out.{output}")).or_else(single).unwrap();
            if wanted.dtype().is_float() {
                let off = error(&values(tensor), &values(wanted));
                assert!(off <= 1e-4, "{name}: {output} is off by {off}");
                compared += 1;
            }
        }
        assert!(compared > 0, "{name}");
    }
}

#[test]
fn sound_becomes_the_tokens_of_the_reference() {
    for name in ["whisper-english", "whisper-forced"] {
        let dir = tempfile::tempdir().unwrap();
        // What its type says, and then the program of the library in its place.
        let family = imported(name, dir.path());
        let content = std::fs::read_to_string(folder("programs/whisper.rs")).unwrap();
        let program = Edit::Add { name: "program".into(), format: "rs".into(), content };
        let (path, changed) = (dir.path().join("model.model"), dir.path().join("program.model"));
        edit(&path, &[program], &Destination::File(changed.clone()), &Default::default()).unwrap();
        let mut options = ModelOptions { path: tallow::Path::Program, ..ModelOptions::default() };
        options.program.packed_cache = tallow::PackedCache::Off;
        let model = Model::open_with(&changed, &options).unwrap();
        assert!(model.compiled().is_some() && family.compiled().is_none());
        let driver = model.driver().unwrap().clone();
        let case = case(name);
        let wanted: Vec<i64> = case["out.tokens"].flatten_all().unwrap().to_vec1().unwrap();
        let mut session = model.session().unwrap();
        let inputs = [("samples".to_owned(), case["in.samples"].clone())];
        let mut generation = session.generate_from(&inputs, None, &GenerateOptions::default()).unwrap();
        for piece in generation.by_ref() {
            piece.unwrap();
        }
        let ends = |id: &&u32| !driver.stop.contains(id);
        let ids: Vec<i64> = generation.ids().iter().filter(ends).map(|&i| i.into()).collect();
        let tallow::frontends::program::module::Start::Ids(start) = driver.start else { panic!("{name}") };
        let all: Vec<i64> = start.into_iter().map(i64::from).chain(ids).collect();
        assert_eq!(all, wanted, "{name}");
        // The program hears one window, and takes what is longer to its end.
        let mut samples = values(&case["in.samples"]);
        samples.truncate(16_000);
        let mut heard =
            family.transcription(&Sound::new(&samples, 16_000).unwrap(), &TranscribeOptions::default()).unwrap();
        let segments: Vec<_> = heard.by_ref().map(Result::unwrap).collect();
        let tokens = segments.iter().flat_map(|s| s.tokens.iter());
        let all: Vec<i64> = heard.prompt().iter().chain(tokens).map(|&id| id.into()).collect();
        assert_eq!(all, wanted, "{name}: by its type");
        // Without the sound there is an error that names it.
        let error = model.session().unwrap().generate("Hello").err().unwrap().to_string();
        assert!(error.contains("samples"), "{error}");
    }
}

#[test]
fn a_type_that_nothing_computes_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    saved("resnet-basic", dir.path());
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "resnett", "depths": [1]}"#).unwrap();
    let out = dir.path().join("x.model");
    let error = tallow::import::import(dir.path(), &out, &Default::default(), &mut ()).err().unwrap().to_string();
    assert!(error.contains("resnett") && error.contains("resnet,"), "{error}");
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "resnet", "depths": [1]}"#).unwrap();
    let error = tallow::import::import(dir.path(), &out, &Default::default(), &mut ()).err().unwrap().to_string();
    assert!(error.contains("`architecture.depths`"), "{error}");
    saved("tagger", dir.path());
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "audio-spectrogram-transformer"}"#).unwrap();
    let error = tallow::import::import(dir.path(), &out, &Default::default(), &mut ()).err().unwrap().to_string();
    assert!(error.contains("E0202") && error.contains("has no key"), "{error}");
}
