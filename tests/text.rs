//! Encoders from a folder with a tokenizer to vectors, labels, tagged tokens and words for masks, against what
//! `transformers` makes of each text alone (`tests/text/`).

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder};
use serde_json::Value as Json;
use std::path::Path;
use tallow::{Encoder, Engine, Model, TextTask};

/// Copies a case and the tokenizer that it names into `into`.
fn saved(case: &str, into: &Path) -> Json {
    let from = folder("tests/text").join(case);
    let expected: Json = serde_json::from_str(&std::fs::read_to_string(from.join("expected.json")).unwrap()).unwrap();
    let tokenizer = folder("tests/tokenizers").join(expected["tokenizer"].as_str().unwrap());
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(tokenizer.join(file), into.join(file)).unwrap();
    }
    copy(&from, into);
    expected
}

fn copy(from: &Path, into: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = into.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => {
                std::fs::create_dir(&to).unwrap();
                copy(&entry.path(), &to);
            }
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The model of a case, and what is expected of it.
fn model(case: &str, engine: Engine) -> (Model, Json) {
    let dir = tempfile::tempdir().unwrap();
    let expected = saved(case, dir.path());
    let path = common::import(dir.path(), dir.path(), "u32");
    (common::open(&path, engine, 2, 512), expected)
}

/// All texts, in batches of so many tokens and one by one.
fn runs(model: &Model) -> impl Iterator<Item = Encoder> {
    [512, 30, 1].into_iter().map(|batch| {
        let mut encoder = model.encoder().unwrap();
        encoder.set_batch(batch);
        encoder
    })
}

fn floats(value: &Json) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

fn texts<'a>(expected: &'a Json, key: &str) -> Vec<&'a str> {
    expected[key].as_array().unwrap().iter().map(|entry| entry[0].as_str().unwrap()).collect()
}

#[test]
fn vectors_of_texts() {
    for case in ["vectors", "vectors-cls", "vectors-max", "vectors-bare"] {
        for engine in [Engine::Cpu, Engine::Reference] {
            let (model, expected) = model(case, engine);
            assert_eq!(model.text_task(), Some(TextTask::Embed));
            let texts = texts(&expected, "embeddings");
            let mut first = None;
            for mut encoder in runs(&model) {
                let vectors = encoder.embed(&texts).unwrap();
                for (n, vector) in vectors.iter().enumerate() {
                    let worst = error(vector, &floats(&expected["embeddings"][n][1]));
                    assert!(worst < 1e-4, "{case}, text {n}: {worst}");
                }
                // The interpreter's products take sums in another order for other sizes.
                if engine == Engine::Cpu {
                    assert_eq!(*first.get_or_insert(vectors.clone()), vectors, "{case}: a batch changes nothing");
                }
                let cut: Vec<usize> = encoder.cut().iter().map(|cut| cut.text).collect();
                assert_eq!(cut, [4], "{case}: the long text is cut");
            }
            if let Some(first) = first {
                assert_eq!(model.embed(&texts).unwrap(), first);
            }
        }
    }
}

#[test]
fn labels_of_texts_and_pairs() {
    for (case, names) in [
        ("labels", &["joy", "anger", "fear"][..]),
        ("labels-many", &["joy", "anger", "fear"]),
        ("labels-one", &["relevant"]),
    ] {
        let (model, expected) = model(case, Engine::Cpu);
        assert_eq!(model.text_task(), Some(TextTask::Classify));
        for mut encoder in runs(&model) {
            let entries = expected["labels"].as_array().unwrap();
            let (pairs, single): (Vec<&Json>, Vec<&Json>) = entries.iter().partition(|entry| entry[1].is_string());
            let texts: Vec<&str> = single.iter().map(|entry| entry[0].as_str().unwrap()).collect();
            let made = encoder.classify(&texts).unwrap();
            let halves: Vec<(&str, &str)> =
                pairs.iter().map(|entry| (entry[0].as_str().unwrap(), entry[1].as_str().unwrap())).collect();
            assert!(halves.len() >= 2);
            let more = encoder.classify_pairs(&halves).unwrap();
            for (labels, entry) in made.iter().chain(&more).zip(single.iter().chain(&pairs)) {
                assert!(labels.windows(2).all(|w| w[0].score >= w[1].score), "{labels:?}");
                let score = |name: &&str| labels.iter().find(|l| l.label == **name).unwrap().score;
                let scores: Vec<f32> = names.iter().map(score).collect();
                let worst = error(&scores, &floats(&entry[2]));
                assert!(worst < 1e-4, "{case}, {entry}: {worst}");
            }
        }
    }
}

#[test]
fn labels_of_tokens() {
    let (model, expected) = model("tags", Engine::Cpu);
    assert_eq!(model.text_task(), Some(TextTask::Tag));
    let texts = texts(&expected, "tags");
    for mut encoder in runs(&model) {
        for (tags, entry) in encoder.tag(&texts).unwrap().iter().zip(expected["tags"].as_array().unwrap()) {
            let wanted = entry[1].as_array().unwrap();
            assert_eq!(tags.len(), wanted.len(), "{entry}");
            for (tag, wanted) in tags.iter().zip(wanted) {
                assert_eq!(
                    (i64::from(tag.id), Some(tag.label.as_str())),
                    (wanted[0].as_i64().unwrap(), wanted[1].as_str())
                );
                assert!((f64::from(tag.score) - wanted[2].as_f64().unwrap()).abs() < 1e-4, "{tag:?} {wanted}");
                assert_eq!(Some(tag.token.as_str()), model.tokenizer().unwrap().token_text(tag.id));
            }
        }
    }
}

#[test]
fn words_for_masks() {
    for case in ["masks", "masks-roberta"] {
        let (model, expected) = model(case, Engine::Cpu);
        assert_eq!(model.text_task(), Some(TextTask::FillMask));
        let texts = texts(&expected, "masks");
        for mut encoder in runs(&model) {
            let filled = encoder.fill_mask(&texts, 5).unwrap();
            for (masks, entry) in filled.iter().zip(expected["masks"].as_array().unwrap()) {
                assert_eq!(masks.len(), entry[1].as_array().unwrap().len(), "{entry}");
                for (best, wanted) in masks.iter().zip(entry[1].as_array().unwrap()) {
                    let ids: Vec<u64> = best.iter().map(|f| u64::from(f.id)).collect();
                    let wanted_ids: Vec<u64> =
                        wanted.as_array().unwrap().iter().map(|w| w[0].as_u64().unwrap()).collect();
                    assert_eq!(ids, wanted_ids, "{case}, {entry}");
                    let scores: Vec<f32> = best.iter().map(|f| f.score).collect();
                    let wanted: Vec<f32> =
                        wanted.as_array().unwrap().iter().map(|w| w[1].as_f64().unwrap() as f32).collect();
                    assert!(error(&scores, &wanted) < 1e-4, "{case}, {entry}");
                }
            }
        }
        let error = model.fill_mask(&["no mask"], 5).unwrap_err().to_string();
        assert!(error.contains("text 1 has no"), "{error}");
        // What stands behind the last token that is read cannot be filled.
        let mask = model.tokenizer().unwrap();
        let mask = mask.token_text(mask.mask().unwrap()).unwrap();
        let (early, late) =
            (format!("a {mask} {}", "fox ".repeat(80)), format!("a {mask} {}{mask}", "fox ".repeat(80)));
        assert_eq!(model.fill_mask(&[&early], 1).unwrap()[0].len(), 1);
        // Nothing for a text without a mask, unless there is none at all.
        let counts: Vec<usize> = model.fill_mask(&["a", &early], 1).unwrap().iter().map(Vec::len).collect();
        assert_eq!(counts, [0, 1]);
        let error = model.fill_mask(&["a", "b"], 1).unwrap_err().to_string();
        assert!(error.contains("none of the texts has a"), "{error}");
        let error = model.fill_mask(&[&early, &late], 1).unwrap_err().to_string();
        assert!(error.contains("text 2 is cut to") && error.contains(&format!("1 `{mask}` stand behind")), "{error}");
    }
}

#[test]
fn what_a_model_does_not_give_is_an_error_by_name() {
    let (model, _) = model("vectors", Engine::Cpu);
    for error in [
        model.classify(&["a"]).unwrap_err(),
        model.tag(&["a"]).unwrap_err(),
        model.fill_mask(&["[MASK]"], 1).unwrap_err(),
        model.session().unwrap().generate("a").map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("gives vectors of texts"), "{error}");
    }
    let error = Model::storyteller().unwrap().embed(&["a"]).unwrap_err().to_string();
    assert!(error.contains("takes no whole texts"), "{error}");
}
