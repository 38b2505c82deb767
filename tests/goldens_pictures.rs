//! Picture files against the image processors of `transformers`, and a tiny classifier from a file to its labels.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, import, open, values};
use tallow::picture::{Picture, Processor, Seen};
use tallow::{Engine, tensor_file};

/// The processor of a folder, as import writes it into a config.
fn processor(name: &str) -> Processor {
    let table =
        tallow::import::config::processor::read(&folder("tests/goldens-pictures").join(name), "").unwrap().unwrap();
    let mut text = String::from("model_type = \"vit\"\n[architecture.processor]\n");
    for (key, value) in table {
        // Numbers, texts and lists are written alike.
        text.push_str(&format!("{key} = {value}\n"));
    }
    Processor::of(&tallow::format::Config::parse(&text).unwrap()).unwrap().unwrap()
}

fn picture(name: &str) -> Picture {
    let files = ["picture.png", "picture.jpg"].map(|f| folder("tests/goldens-pictures").join(name).join(f));
    Picture::read(files.iter().find(|f| f.exists()).unwrap()).unwrap()
}

#[test]
fn pictures_are_prepared_as_by_the_processors_of_transformers() {
    let mut cases = 0;
    for entry in std::fs::read_dir(folder("tests/goldens-pictures")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let want = tensor_file::read(&path.join("golden.safetensors"), "pixel_values").unwrap();
        let got = processor(&name).pixels(&picture(&name)).unwrap();
        assert_eq!(got.dims(), want.dims(), "{name}");
        // One grey level, which the deviation widens.
        let config = std::fs::read_to_string(path.join("preprocessor_config.json")).unwrap();
        let config: serde_json::Value = serde_json::from_str(&config).unwrap();
        let least = config["image_std"].as_array().into_iter().flatten().filter_map(|x| x.as_f64()).fold(1.0, f64::min);
        let normal = config["do_normalize"].as_bool().unwrap_or(true);
        let level = 1.0 / 255.0 / if normal { least } else { 1.0 };
        let (got, want) = (values(&got), values(&want));
        let worst = got.iter().zip(&want).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
        let mean = got.iter().zip(&want).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / got.len() as f64;
        // Decoders of JPEG differ among each other, before anything is resized.
        let (most, usual) = if path.join("picture.jpg").exists() { (4.05, 0.8) } else { (1.05, 0.3) };
        assert!(worst < most * level, "{name}: off by {:.2} grey levels", worst / level);
        assert!(mean < usual * level, "{name}: off by {:.3} grey levels in the mean", mean / level);
        cases += 1;
    }
    assert!(cases >= 9, "only {cases} cases");
}

#[test]
fn a_picture_file_becomes_labels() {
    let source = folder("tests/goldens-pictures/vit");
    let dir = tempfile::tempdir().unwrap();
    let path = import(&source, dir.path(), "u32");
    let logits = values(&tensor_file::read(&source.join("golden.safetensors"), "logits").unwrap());
    let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
    for engine in [Engine::Reference, Engine::Cpu] {
        let model = open(&path, engine, 2, 512);
        let Seen::Labels(labels) = model.see(&picture("vit")).unwrap() else { panic!("no labels") };
        let names = model.file().config().architecture().strings("labels").unwrap().unwrap();
        assert_eq!(labels.len(), 7);
        assert!(labels.windows(2).all(|w| w[0].score >= w[1].score));
        for label in &labels {
            let at = names.iter().position(|n| *n == label.label).unwrap();
            let want = f64::from(logits[at]).exp() / sum;
            assert!((f64::from(label.score) - want).abs() < 5e-3, "{label:?} instead of {want}");
            assert!((label.logit - logits[at]).abs() < 0.05, "{label:?} instead of {}", logits[at]);
        }
    }
}

#[test]
fn what_is_no_picture_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &std::path::Path| Picture::read(path).unwrap_err().to_string();
    assert!(refused(&dir.path().join("none.png")).contains("none.png"));
    assert!(refused(dir.path()).contains("is a folder"));
    let text = dir.path().join("text.png");
    std::fs::write(&text, "no picture at all").unwrap();
    assert!(refused(&text).contains("is no picture"), "{}", refused(&text));
    let cut = dir.path().join("cut.png");
    let whole = std::fs::read(folder("tests/goldens-pictures/vit/picture.png")).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    assert!(refused(&cut).contains("cut.png"), "{}", refused(&cut));
    // A size that would take more memory than there is.
    let mut huge = whole.clone();
    huge[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let path = dir.path().join("huge.png");
    std::fs::write(&path, huge).unwrap();
    assert!(refused(&path).contains("huge.png"), "{}", refused(&path));
    // A model that takes no picture, and one that does not say how they are prepared.
    let error = tallow::Model::storyteller().unwrap().see(&picture("vit")).unwrap_err().to_string();
    assert!(error.contains("takes no picture"), "{error}");
}
