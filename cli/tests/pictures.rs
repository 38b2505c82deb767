//! Models of pictures as a user runs them: a folder, picture files and texts in, labels, vectors and probabilities out.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use std::path::{Path, PathBuf};

fn golden(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens-vision").join(case)
}

/// A folder with the folder `m` in it, a case of `tests/goldens-vision/`, and its picture twice.
fn folder(case: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("m");
    std::fs::create_dir_all(&into).unwrap();
    for file in std::fs::read_dir(golden(case)).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&file, into.join(file.file_name().unwrap())).unwrap();
    }
    for name in ["a.png", "b.png"] {
        std::fs::copy(golden(case).join("picture.png"), dir.path().join(name)).unwrap();
    }
    dir
}

#[test]
fn a_classifier_gives_labels() {
    let dir = folder("resnet-bottleneck");
    let text = tallow(dir.path(), &["run", "m", "--image", "a.png"]).fine();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().all(|line| line.contains(" %")) && text.contains("tabby cat"), "{text}");
    let json = tallow(dir.path(), &["run", "m", "--image", "a.png", "b.png", "--json"]).json();
    let labels = |n: usize| json["images"][n]["labels"].as_array().unwrap().clone();
    assert_eq!((labels(0).len(), json["images"][1]["file"].as_str()), (5, Some("b.png")));
    assert_eq!(labels(0), labels(1));
    let sum: f64 = labels(0).iter().map(|label| label["score"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5);
    let error = tallow(dir.path(), &["run", "m", "--image", "a.png", "--text", "a cat"]).fails(2);
    assert!(error.contains("takes no whole texts"), "{error}");
}

#[test]
fn a_pair_of_towers_gives_vectors_of_either_and_probabilities() {
    let dir = folder("clip-pair");
    let run = |more: &[&str]| tallow(dir.path(), &[&["run", "m"], more].concat());
    let text = run(&["--image", "a.png"]).fine();
    assert!(text.starts_with("12 numbers, length 1.0000: "), "{text}");
    let vector = run(&["--image", "a.png", "--json"]).json()["images"][0]["embedding"].as_array().unwrap().len();
    assert_eq!(vector, 12);
    let text = run(&["--text", "a fox", "a dog"]).fine();
    assert!(text.contains("cosine") && text.contains("a fox"), "{text}");
    let json = run(&["--text", "a fox", "--json"]).json();
    assert_eq!((json["task"].as_str(), json["results"][0]["embedding"].as_array().unwrap().len()), (Some("embed"), 12));

    let text = run(&["--image", "a.png", "b.png", "--text", "a fox", "a dog"]).fine();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[3]), (6, "a.png", "b.png"), "{text}");
    assert_eq!(lines[1..3], lines[4..6]);
    let json = run(&["--image", "a.png", "--text", "a fox", "a dog", "--json"]).json();
    let texts = json["images"][0]["texts"].as_array().unwrap();
    assert_eq!(texts.iter().map(|t| t["text"].as_str().unwrap()).collect::<Vec<_>>(), ["a fox", "a dog"]);
    let scores: Vec<f64> = texts.iter().map(|t| t["score"].as_f64().unwrap()).collect();
    assert!((scores.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{scores:?}");
    // One alone is certain among itself.
    let json = run(&["--image", "a.png", "--text", "a fox", "--json"]).json();
    assert!((json["images"][0]["texts"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6);
}

#[test]
fn texts_of_a_pair_are_cut_and_its_inputs_can_be_given() {
    let dir = folder("siglip-pair");
    let run = |more: &[&str]| tallow(dir.path(), &[&["run", "m"], more].concat());
    let ran = run(&["--image", "a.png", "--text", "a fox", &"dog ".repeat(40)]);
    assert!(ran.stderr.contains("text 2 is longer than 30 tokens"), "{}", ran.stderr);
    ran.fine();
    let pixels = golden("siglip-pair").join("golden.safetensors");
    let input = format!("pixel_values={}", pixels.display());
    let text = run(&["--input", &input]).fine();
    assert!(text.contains("image_embeds") && text.contains("[2, 18]"), "{text}");
    let text = run(&["--input", &input, "--input", "input_ids=5,6,1", "--input", "starts=0"]).fine();
    assert!(text.contains("probabilities") && text.contains("[2, 1]"), "{text}");
    let error = run(&["--image", "a.png", "--text", "a\tb", "--pairs"]).fails(2);
    assert!(error.contains("--pairs"), "{error}");
    let error = run(&["--text", "a", "--image", "none.png"]).fails(3);
    assert!(error.contains("none.png"), "{error}");
}

#[test]
fn inspect_shows_what_the_first_graph_of_a_pair_takes() {
    let dir = folder("clip-pair");
    tallow(dir.path(), &["import", "m", "-o", "c.model"]).fine();
    let text = tallow(dir.path(), &["inspect", "c.model"]).fine();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"));
    assert!(
        at("pixel_values") < at("then, with what a first graph makes") && at("then, with") < at("input_ids"),
        "{text}"
    );
    let json = tallow(dir.path(), &["inspect", "c.model", "--json"]).json();
    let text = json.to_string();
    assert!(text.contains("\"first_inputs\":{\"pixel_values\":"), "{text}");
    let card = tallow(dir.path(), &["cat", "c.model", "card"]).fine();
    assert!(card.contains("tallow run c.model --image picture.jpg --text"), "{card}");
}

#[test]
fn a_picture_that_is_cut_off_and_options_without_effect_are_refused() {
    let dir = folder("resnet-bottleneck");
    let jpeg = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens-pictures/crop-share/picture.jpg");
    let bytes = std::fs::read(jpeg).unwrap();
    std::fs::write(dir.path().join("cut.jpg"), &bytes[..bytes.len() / 2]).unwrap();
    tallow(dir.path(), &["run", "m", "--image", "a.png"]).fine();
    let error = tallow(dir.path(), &["run", "m", "--image", "cut.jpg"]).fails(3);
    assert!(error.contains("cut.jpg") && error.contains("cut off"), "{error}");
    for more in [["--beams", "2"], ["--output", "x.npy"], ["--top-k", "3"]] {
        let error = tallow(dir.path(), &[&["run", "m", "--image", "a.png"], &more[..]].concat()).fails(2);
        assert!(error.contains("has no effect") && error.contains(more[0]), "{error}");
    }
    assert!(tallow(dir.path(), &["run", "m", "a cat", "--image", "a.png"]).fails(2).contains("writes no text"));
    let settings = dir.path().join("m/preprocessor_config.json");
    for (key, value) in [("rescale_factor", "\"x\""), ("resample", "[]"), ("do_flip_channel_order", "true")] {
        let text = std::fs::read_to_string(golden("resnet-bottleneck").join("preprocessor_config.json")).unwrap();
        let mut table: serde_json::Value = serde_json::from_str(&text).unwrap();
        table[key] = serde_json::from_str(value).unwrap();
        std::fs::write(&settings, table.to_string()).unwrap();
        let error = tallow(dir.path(), &["run", "m", "--image", "a.png"]).fails(4);
        assert!(error.contains(key) && error.contains("preprocessor_config.json"), "{error}");
    }
}

#[test]
fn many_texts_are_compared_in_parts() {
    let dir = folder("clip-pair");
    let texts: Vec<String> = (0..600).map(|n| format!("a {n} cat")).collect();
    let run = |texts: &[String]| {
        tallow_with(dir.path(), &["run", "m", "--image", "a.png", "--text", "-", "--json"], texts.join("\n").as_bytes())
            .json()
    };
    let scores = |json: &serde_json::Value| -> Vec<f64> {
        let texts = json["images"][0]["texts"].as_array().unwrap();
        texts.iter().map(|text| text["score"].as_f64().unwrap()).collect()
    };
    let (all, few) = (scores(&run(&texts)), scores(&run(&texts[..3])));
    assert_eq!(all.len(), 600);
    assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-4);
    // Ratios are those of a few texts alone.
    for n in [1, 2] {
        assert!((all[n] / all[0] - few[n] / few[0]).abs() < 1e-4, "{n}");
    }
}

#[test]
fn json_of_pictures_tells_times_and_logits() {
    let dir = folder("resnet-bottleneck");
    let json = tallow(dir.path(), &["run", "m", "--image", "a.png", "--json"]).json();
    let pair = folder("clip-pair");
    let both = tallow(pair.path(), &["run", "m", "--image", "a.png", "--text", "a fox", "--json"]).json();
    for (json, more) in [(&json, None), (&both, Some("tokens"))] {
        for key in ["load_seconds", "seconds", "threads", "peak_memory_bytes"].into_iter().chain(more) {
            assert!(json[key].as_f64().unwrap() > 0.0, "{key}: {json}");
        }
    }
    let labels = json["images"][0]["labels"].as_array().unwrap();
    let of = |n: usize, key: &str| labels[n][key].as_f64().unwrap();
    assert!(((of(0, "logit") - of(1, "logit")).exp() - of(0, "score") / of(1, "score")).abs() < 1e-3, "{json}");
    let ran = tallow(dir.path(), &["run", "m", "--image", "a.png", "b.png"]);
    assert!(ran.stderr.contains("2 pictures in"), "{}", ran.stderr);
}

#[test]
fn a_picture_of_too_many_pixels_is_refused_by_its_head() {
    let dir = folder("resnet-bottleneck");
    tallow(dir.path(), &["run", "m", "--image", "a.png"]).fine();
    // The head of a BMP file alone.
    let head = |width: u32, height: u32| {
        let mut bytes = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
        bytes.extend([width.to_le_bytes(), height.to_le_bytes()].concat());
        bytes.extend([1, 0, 24, 0]);
        bytes.resize(54, 0);
        bytes
    };
    let run = |width: u32, height: u32| {
        std::fs::write(dir.path().join("large.bmp"), head(width, height)).unwrap();
        tallow(dir.path(), &["run", "m", "--image", "large.bmp"]).fails(3)
    };
    let error = run(20_000, 10_000);
    assert!(
        error.contains("large.bmp") && error.contains("200000000 pixels") && error.contains("178956970"),
        "{error}"
    );
    // So many are not too many, and the file ends too early.
    let error = run(13_377, 13_377);
    assert!(error.contains("large.bmp: cannot be read") && !error.contains("178956970"), "{error}");
    let error = run(40_000, 2);
    assert!(error.contains("large.bmp") && error.contains("40000 × 2") && error.contains("32768"), "{error}");
}

#[test]
fn of_an_animation_the_first_picture_is_looked_at_and_that_is_said() {
    let dir = folder("resnet-bottleneck");
    let seen = |name: &str| {
        let ran = tallow(dir.path(), &["run", "m", "--image", name, "--json"]);
        let json = ran.json();
        (json["images"][0]["labels"].clone(), ran.stderr.clone())
    };
    for kind in ["gif", "webp", "png"] {
        let (still, moving) = (format!("still.{kind}"), format!("moving.{kind}"));
        for name in [&still, &moving] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/picture-files").join(name);
            std::fs::copy(from, dir.path().join(name)).unwrap();
        }
        let ((labels, said), (of_first, note)) = (seen(&still), seen(&moving));
        assert!(!said.contains("pictures;"), "{said}");
        assert!(note.contains(&format!("{moving}: holds 3 pictures; the first is looked at")), "{note}");
        assert_eq!(of_first, labels, "{kind}");
    }
}

#[test]
fn a_jpeg_that_is_cut_behind_its_thumbnail_is_refused() {
    let dir = folder("resnet-bottleneck");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/picture-files/thumbnail.jpg");
    let bytes = std::fs::read(file).unwrap();
    let run = |bytes: &[u8]| {
        std::fs::write(dir.path().join("t.jpg"), bytes).unwrap();
        tallow(dir.path(), &["run", "m", "--image", "t.jpg"])
    };
    run(&bytes).fine();
    assert!(bytes[..bytes.len() / 2].windows(2).any(|pair| pair == [0xff, 0xd9]), "a whole thumbnail");
    for part in [2, 4] {
        let error = run(&bytes[..bytes.len() - bytes.len() / part]).fails(3);
        assert!(error.contains("t.jpg") && error.contains("cut off"), "{error}");
    }
}

#[test]
fn pictures_and_texts_may_stand_in_any_order() {
    let dir = folder("clip-pair");
    let run =
        |arguments: &[&str]| tallow(dir.path(), &[&["run"], arguments, &["--json"]].concat()).json()["images"].clone();
    let wanted = run(&["m", "--image", "a.png", "b.png", "--text", "a fox", "a dog"]);
    assert_eq!((wanted.as_array().unwrap().len(), wanted[0]["texts"].as_array().unwrap().len()), (2, 2));
    for order in [
        &["m", "--text", "a fox", "a dog", "--image", "a.png", "b.png"][..],
        &["m", "--image", "a.png", "--image", "b.png", "--text", "a fox", "--text", "a dog"],
        &["--image", "a.png", "b.png", "--text", "a fox", "a dog", "m"],
        &["--image", "a.png", "b.png", "m", "--text", "a fox", "a dog"],
        &["--text", "a fox", "a dog", "--image", "a.png", "b.png", "m"],
        &["--text", "a fox", "a dog", "m", "--image", "a.png", "b.png"],
    ] {
        assert_eq!(run(order), wanted, "{order:?}");
    }
    for (order, part) in [
        (&["m", "a fox", "--image", "a.png"][..], "--text \"a fox\""),
        (&["m", "--image", "a.png", "a fox"], "no file `a fox`; give a text by --text"),
        (&["m", "a fox", "--text", "a dog", "--image", "a.png"], "not both"),
    ] {
        let error = tallow(dir.path(), &[&["run"], order].concat()).fails(2);
        assert!(error.contains(part), "{order:?}: {error}");
    }
    let classifier = folder("resnet-bottleneck");
    let labels = tallow(classifier.path(), &["run", "--image", "a.png", "m", "--json"]).json();
    assert_eq!(labels["images"][0]["labels"].as_array().unwrap().len(), 5);
    let error = tallow(classifier.path(), &["run", "m", "a.png"]).fails(2);
    assert!(error.contains("--image FILE"), "{error}");
}
