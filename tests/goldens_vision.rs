//! Tiny random models of pictures against `transformers`: imported exactly, all pictures and texts at once and each alone,
//! on the oracle and on the CPU path; and from picture files and texts to what a model says of them.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, import, open, page, values};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use tallow::executor::{Device, load_safetensors};
use tallow::picture::{Picture, Seen};
use tallow::{Engine, Model, Rows, Tensor};

/// What an output may differ by, as `max|a − b| / max|b|`.
const TOLERANCE: f32 = 1e-4;
/// What a case gives beside what the model takes.
const OUTPUTS: [&str; 7] = [
    "image_embeds",
    "last_hidden_state",
    "logits",
    "logits_per_image",
    "pooler_output",
    "probabilities",
    "text_embeds",
];

type Tensors = HashMap<String, Tensor>;

fn cases() -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder("tests/goldens-vision")).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = all.filter(|p| p.join("config.json").exists()).collect();
    all.sort();
    all
}

fn golden(path: &Path) -> Tensors {
    load_safetensors(&std::fs::read(path.join("golden.safetensors")).unwrap()).unwrap().into_iter().collect()
}

/// Every output of a model for pixels and texts: of a pair of towers those of both.
fn run(model: &Model, pixels: Option<&Tensor>, texts: Option<(&Tensor, &Tensor)>) -> Tensors {
    let mut session = model.session().unwrap();
    let named = |name: &str, tensor: &Tensor| (name.to_owned(), tensor.clone());
    let mut given: Vec<_> = pixels.iter().map(|x| named("pixel_values", x)).collect();
    let mut outputs = Vec::new();
    if model.takes_once("pixel_values") {
        given = session.once(&given).unwrap();
        outputs = given.clone();
    }
    if let Some((ids, starts)) = texts {
        given.extend([named("input_ids", ids), named("starts", starts)]);
    }
    outputs.extend(session.run(&given, Rows::All).unwrap());
    outputs.into_iter().collect()
}

/// Faults of `found` against `wanted`, and the largest error.
fn compare(what: &str, found: &Tensors, wanted: &Tensors, tolerance: f32) -> (Vec<String>, f32) {
    let (mut faults, mut worst) = (Vec::new(), 0_f32);
    let mut expected: Vec<&str> = wanted.keys().map(String::as_str).filter(|k| OUTPUTS.contains(k)).collect();
    expected.sort_unstable();
    for name in expected {
        let Some(tensor) = found.get(name) else {
            faults.push(format!("{what}: gives no {name}"));
            continue;
        };
        if tensor.dims() != wanted[name].dims() {
            faults.push(format!("{what}: {name} is {:?}, not {:?}", tensor.dims(), wanted[name].dims()));
            continue;
        }
        let off = error(&values(tensor), &values(&wanted[name]));
        worst = worst.max(off);
        if off.is_nan() || off > tolerance {
            faults.push(format!("{what}: {name} is off by {off:.2e}"));
        }
    }
    (faults, worst)
}

/// What row `at` of the pictures, or of the texts, of a golden alone should give.
fn part(wanted: &Tensors, at: usize, of_text: bool) -> Tensors {
    let rows = |name: &str, tensor: &Tensor| match (name, of_text) {
        ("text_embeds", true) | ("pooler_output", true) => Some(tensor.narrow(0, at, 1).unwrap()),
        ("text_embeds", false) => Some(tensor.clone()),
        // Probabilities may be among the texts of a call.
        ("logits_per_image", true) => Some(tensor.narrow(1, at, 1).unwrap()),
        (_, true) => None,
        (name, false) if OUTPUTS.contains(&name) => Some(tensor.narrow(0, at, 1).unwrap()),
        _ => None,
    };
    wanted.iter().filter_map(|(name, tensor)| Some((name.clone(), rows(name, tensor)?))).collect()
}

/// Checks one golden on both engines; the faults found, and the largest error on the CPU path.
fn check(model: &Path, golden: &Tensors) -> (Vec<String>, f32) {
    let (mut faults, mut worst) = (Vec::new(), 0_f32);
    let pixels = golden.get("pixel_values");
    let texts = golden.get("input_ids").map(|ids| (ids, &golden["starts"]));
    let mut first: Option<BTreeMap<String, Vec<f32>>> = None;
    for (what, engine, threads) in
        [("reference", Engine::Reference, 1), ("cpu", Engine::Cpu, 2), ("cpu alone", Engine::Cpu, 1)]
    {
        let model = open(model, engine, threads, 512);
        let all = run(&model, pixels, texts);
        let (found, off) = compare(what, &all, golden, TOLERANCE);
        faults.extend(found);
        if engine == Engine::Cpu {
            worst = worst.max(off);
            let bits: BTreeMap<_, _> = all.iter().map(|(name, tensor)| (name.clone(), values(tensor))).collect();
            if first.get_or_insert_with(|| bits.clone()) != &bits {
                faults.push(format!("{what}: threads change bits"));
            }
        }
        if let Some(pixels) = pixels {
            let alone = run(&model, Some(&pixels.narrow(0, 1, 1).unwrap()), texts);
            // A picture may have small values only, where others have large ones.
            faults.extend(compare(&format!("{what}, a picture"), &alone, &part(golden, 1, false), 4.0 * TOLERANCE).0);
        }
        if let Some((ids, starts)) = texts {
            let starts: Vec<usize> = starts.to_vec1::<i64>().unwrap().into_iter().map(|n| n as usize).collect();
            let own = ids.narrow(0, starts[1], starts.get(2).copied().unwrap_or(ids.dim(0).unwrap()) - starts[1]);
            let zero = Tensor::from_vec(vec![0_i64], 1, &Device::Cpu).unwrap();
            let alone = run(&model, pixels, Some((&own.unwrap(), &zero)));
            faults.extend(compare(&format!("{what}, a text"), &alone, &part(golden, 1, true), 4.0 * TOLERANCE).0);
        }
    }
    (faults, worst)
}

#[test]
fn pictures_give_the_outputs_of_transformers() {
    let (mut faults, mut errors) = (Vec::new(), BTreeMap::new());
    for path in cases() {
        let temporary = tempfile::tempdir().unwrap();
        let model = import(&path, temporary.path(), "u32");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (found, off) = check(&model, &golden(&path));
        faults.extend(found.into_iter().map(|f| format!("{name}: {f}")));
        errors.insert(name, off);
    }
    let cases = errors.len();
    assert!(cases >= 26, "only {cases} goldens found");
    assert!(faults.is_empty(), "{} faults in {cases} goldens:\n{}", faults.len(), faults.join("\n"));
    page::record("vision", &folder("tests/goldens-vision"), &errors);
}

/// The cosine of two vectors.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn a_picture_file_becomes_what_the_processor_and_the_model_make_of_it() {
    let mut types = std::collections::BTreeSet::new();
    for path in cases() {
        let golden = golden(&path);
        let Some((name, wanted)) = golden.iter().find(|(name, _)| name.starts_with("picture.")) else { continue };
        let temporary = tempfile::tempdir().unwrap();
        let model = open(&import(&path, temporary.path(), "u32"), Engine::Cpu, 2, 512);
        let case = path.display();
        let wanted = values(wanted);
        match model.see(&Picture::read(&path.join("picture.png")).unwrap()).unwrap() {
            Seen::Labels(labels) => {
                assert_eq!(name, "picture.logits", "{case}");
                let names = model.file().config().architecture().strings("labels").unwrap().unwrap();
                let sum: f64 = wanted.iter().map(|x| f64::from(*x).exp()).sum();
                for label in labels {
                    let at = names.iter().position(|name| *name == label.label).unwrap();
                    let want = f64::from(wanted[at]).exp() / sum;
                    assert!((f64::from(label.score) - want).abs() < 0.02, "{case}: {label:?} instead of {want}");
                }
            }
            Seen::Embedding(vector) => {
                let near = cosine(&vector, &wanted);
                assert!(near >= 0.999, "{case}: {name}: cosine {near}");
            }
        }
        types.insert(model.file().config().model_type().to_owned());
    }
    let wanted = ["clip", "convnext", "deit", "dinov2", "resnet", "siglip", "vit"];
    assert_eq!(types.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
}

#[test]
fn texts_are_embedded_and_compared_with_a_picture() {
    for case in ["clip-pair", "siglip-pair"] {
        let path = folder("tests/goldens-vision").join(case);
        let golden = golden(&path);
        let temporary = tempfile::tempdir().unwrap();
        let model = open(&import(&path, temporary.path(), "u32"), Engine::Cpu, 2, 512);
        let texts: Vec<String> =
            serde_json::from_str(&std::fs::read_to_string(path.join("texts.json")).unwrap()).unwrap();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = model.embed(&texts).unwrap();
        let off = error(&vectors.concat(), &values(&golden["texts.text_embeds"]));
        assert!(off < TOLERANCE, "{case}: vectors of texts are off by {off}");
        let picture = Picture::read(&path.join("picture.png")).unwrap();
        let both = model.compare(&[picture.clone(), picture.clone()], &texts).unwrap();
        assert_eq!(both[0], both[1]);
        let wanted = values(&golden["texts.probabilities"]);
        for (found, want) in both[0].iter().zip(&wanted) {
            assert!((found - want).abs() < 0.01, "{case}: {both:?} instead of {wanted:?}");
        }
        let cut = model.compare(&[picture], &["dog ".repeat(20_000).as_str()]).unwrap();
        assert_eq!(cut[0].len(), 1, "a long text is cut");
    }
}

#[test]
fn what_a_model_does_not_do_is_told_by_name() {
    let path = folder("tests/goldens-vision");
    let dir = tempfile::tempdir().unwrap();
    let picture = Picture::read(&path.join("clip-pair/picture.png")).unwrap();
    let labels = open(&import(&path.join("vit-labels"), dir.path(), "u32"), Engine::Cpu, 1, 512);
    let error = labels.compare(std::slice::from_ref(&picture), &["a cat"]).unwrap_err().to_string();
    assert!(error.contains("takes no whole texts"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let texts = open(&import(&path.join("clip_text_model-plain"), dir.path(), "u32"), Engine::Cpu, 1, 512);
    let error = texts.see(&picture).unwrap_err().to_string();
    assert!(error.contains("takes no picture"), "{error}");
    // A pair is two graphs, and a section holds one.
    let options = tallow::import::ImportOptions { graph: true, ..Default::default() };
    let out = dir.path().join("graph.model");
    let error = tallow::import::import(&path.join("clip-pair"), &out, &options, &mut ()).unwrap_err().to_string();
    assert!(error.contains("several graphs"), "{error}");
    tallow::import::import(&path.join("convnext-labels"), &out, &options, &mut ()).unwrap();
    let one =
        Model::open_with(&out, &tallow::ModelOptions { path: tallow::Path::Graph, ..Default::default() }).unwrap();
    let seen = one.see(&Picture::read(&path.join("convnext-labels/picture.png")).unwrap()).unwrap();
    assert!(matches!(seen, Seen::Labels(labels) if labels.len() == 5));
}
