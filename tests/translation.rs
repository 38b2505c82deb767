//! Translation from text to text with languages, by tiny random models with their tokenizers, against `generate` of
//! `transformers` (`tests/translation/`).

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, import, open};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use tallow::{BeamOptions, Engine, GenerateOptions, Model};

const CASES: [&str; 5] = ["m2m_100", "marian", "mbart", "mbart-start", "mbart50"];

fn model(case: &str, into: &Path, engine: Engine) -> Model {
    open(&import(&folder("tests/translation").join(case), into, "u32"), engine, 1, 512)
}

fn options(source: Option<&str>, target: Option<&str>) -> GenerateOptions {
    GenerateOptions {
        max_tokens: Some(14),
        source_language: source.map(str::to_owned),
        target_language: target.map(str::to_owned),
        ..GenerateOptions::default()
    }
}

#[test]
fn texts_are_translated_as_by_the_reference() {
    let mut names: Vec<String> = std::fs::read_dir(folder("tests/translation"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, CASES);
    for case in CASES {
        let expected = std::fs::read_to_string(folder("tests/translation").join(case).join("expected.json")).unwrap();
        let expected: Vec<Json> = serde_json::from_str(&expected).unwrap();
        for engine in [Engine::Cpu, Engine::Reference] {
            let temporary = tempfile::tempdir().unwrap();
            let model = model(case, temporary.path(), engine);
            for entry in &expected {
                let how = options(entry["source"].as_str(), entry["target"].as_str());
                let text = entry["text"].as_str().unwrap();
                let mut session = model.session().unwrap();
                let mut generation = session.generate_with(text, &how).unwrap();
                let written: String = generation.by_ref().map(Result::unwrap).collect();
                let found = serde_json::json!([generation.ids(), written]);
                assert_eq!(found, entry["greedy"], "{case}, {engine:?}: {entry}");
                let beams = BeamOptions { beams: 3, ..BeamOptions::default() };
                let (written, ids) = model.session().unwrap().search(text, beams, &how).unwrap();
                assert_eq!(serde_json::json!([ids, written]), entry["search"], "{case}, {engine:?}: {entry}");
            }
        }
    }
}

#[test]
fn languages_have_several_names() {
    let temporary = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str], usize); 2] = [
        ("m2m_100", &["ro", "RO", "__ro__", "Romanian", " romanian ", "ro_RO", "ro-MD", "ron"], 100),
        ("mbart", &["ro", "ro_RO", "RO_ro", "Romanian", "romanian", "ro-RO", "ron_Latn"], 25),
    ];
    for (case, names, codes) in cases {
        let model = model(case, temporary.path(), Engine::Cpu);
        assert_eq!(model.languages().unwrap().len(), codes);
        let written = |language: &str| -> Vec<u32> {
            let mut session = model.session().unwrap();
            let mut generation = session.generate_with("The dog", &options(Some("en"), Some(language))).unwrap();
            generation.by_ref().for_each(|piece| drop(piece.unwrap()));
            generation.ids().to_vec()
        };
        let first = written("ro");
        for name in names {
            assert_eq!(written(name), first, "{case}: {name}");
        }
        assert_ne!(written("zh"), first);
        std::fs::remove_file(temporary.path().join("model.model")).unwrap();
    }
}

/// A copy of the folder of a case.
fn copy_of(case: &str, into: &Path) -> PathBuf {
    let copy = into.join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(folder("tests/translation").join(case)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    copy
}

/// A copy of the folder of a case, with one of its files changed.
fn changed(case: &str, into: &Path, file: &str, change: impl Fn(&mut Json)) -> Model {
    let copy = copy_of(case, into);
    let mut value: Json = serde_json::from_str(&std::fs::read_to_string(copy.join(file)).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(copy.join(file), value.to_string()).unwrap();
    open(&import(&copy, into, "u32"), Engine::Cpu, 1, 512)
}

#[test]
fn languages_that_the_files_choose_need_not_be_given() {
    let ids = |model: &Model, how: &GenerateOptions| -> Vec<u32> {
        let mut session = model.session().unwrap();
        let mut generation = session.generate_with("The dog", how).unwrap();
        generation.by_ref().for_each(|piece| drop(piece.unwrap()));
        generation.ids().to_vec()
    };
    let temporary = tempfile::tempdir().unwrap();
    let plain = model("m2m_100", temporary.path(), Engine::Cpu);
    let chosen = |source: &str, target: &str| ids(&plain, &options(Some(source), Some(target)));
    let (first, other) = (chosen("de", "ro"), chosen("de", "zh"));
    assert_ne!(first, other);
    let second = tempfile::tempdir().unwrap();
    let model = changed("m2m_100", second.path(), "tokenizer_config.json", |config| {
        config["src_lang"] = "de".into();
        config["tgt_lang"] = "ro".into();
    });
    assert_eq!(ids(&model, &options(None, None)), first);
    assert_eq!(ids(&model, &options(None, Some("zh"))), other, "a caller's choice counts for more");
    // A forced token that is a language says which one to write, too.
    let third = tempfile::tempdir().unwrap();
    let forced = first[0];
    let model = changed("m2m_100", third.path(), "generation_config.json", |config| {
        config["forced_bos_token_id"] = forced.into();
    });
    assert_eq!(ids(&model, &options(Some("de"), None)), first);
    assert_eq!(ids(&model, &options(Some("de"), Some("zh"))), other);
}

#[test]
fn what_is_missing_or_unknown_is_said() {
    let refused = |case: &str, source: Option<&str>, target: Option<&str>| {
        let temporary = tempfile::tempdir().unwrap();
        let model = model(case, temporary.path(), Engine::Cpu);
        let mut session = model.session().unwrap();
        let error = session.generate_with("The dog", &options(source, target)).map(|_| ()).unwrap_err().to_string();
        let mut session = model.session().unwrap();
        let searched = session.search("The dog", BeamOptions::default(), &options(source, target)).unwrap_err();
        assert_eq!(searched.to_string(), error);
        error
    };
    for (case, source, target, parts) in [
        ("m2m_100", None, Some("ro"), ["the text is not said; give `--source-language CODE`", "af, am, ar"]),
        ("m2m_100", Some("en"), None, ["to write is not said; give `--target-language CODE`", "yi, yo, zh, zu"]),
        ("mbart", None, None, ["`--target-language CODE`, one of ar_AR, cs_CZ", "zh_CN"]),
        ("mbart", Some("Klingon"), Some("ro"), ["there is no language `Klingon`", "it knows ar_AR, cs_CZ"]),
        ("mbart", Some("Welsh"), Some("ro"), ["does not know the language `Welsh`", "it knows ar_AR"]),
        ("mbart", Some("Germn"), Some("ro"), ["did you mean `german`?", "de_DE"]),
        ("marian", Some("en"), None, ["it has no languages to choose from", "leave `--source-language` out"]),
    ] {
        let error = refused(case, source, target);
        for part in parts {
            assert!(error.contains(part), "{case}: {error}");
        }
    }
    let decoder = Model::storyteller().unwrap();
    let mut session = decoder.session().unwrap();
    let error = session.generate_with("The dog", &options(None, Some("ro"))).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("leave `--target-language` out"), "{error}");
}

#[test]
fn a_model_without_a_tokenizer_says_how_to_get_one() {
    let temporary = tempfile::tempdir().unwrap();
    let copy = copy_of("m2m_100", temporary.path());
    for entry in std::fs::read_dir(&copy).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with("config.json") && !name.ends_with(".safetensors") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let model = open(&import(&copy, temporary.path(), "u32"), Engine::Cpu, 1, 512);
    for how in [options(None, None), options(Some("en"), Some("ro"))] {
        let mut session = model.session().unwrap();
        let error = session.generate_with("The dog", &how).map(|_| ()).unwrap_err().to_string();
        for part in ["it has no tokenizer", "import it again from a folder with the tokenizer's files"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn a_token_without_a_row_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let model = changed("marian", temporary.path(), "vocab.json", |vocab| {
        vocab[">>tlh<<"] = 4321.into();
    });
    let mut session = model.session().unwrap();
    let error = session.generate_with(">>tlh<< The dog", &options(None, None)).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("token 1 of the text, `>>tlh<<`, has the id 4321, and the model's table of tokens has"),
        "{error}"
    );
    assert!(error.contains("its tokenizer is larger"), "{error}");
    assert!(session.generate_with("The dog", &options(None, None)).is_ok());
}
