//! Models that only their graph can run, against PyTorch: tensors, a graph in the text form, and a
//! model type that no family knows. `scripts/make-graph-model*.py` make the folders.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, values};
use std::path::{Path, PathBuf};
use tallow::executor::load_safetensors;
use tallow::format::GraphFormat;
use tallow::import::{GivenGraph, ImportOptions, import_with_graph};
use tallow::{Engine, Model, ModelOptions, Rows, Tensor};

/// A model of a folder's tensors and graph, the graph in this form.
fn build(name: &str, format: GraphFormat, to: &Path) -> PathBuf {
    let source = folder("tests/graphs").join(name);
    let text = std::fs::read_to_string(source.join("graph.txt")).unwrap();
    let graph = tallow::ir::text::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let graph = tallow::ir::verify::verify(graph).unwrap_or_else(|e| panic!("{name}: {e}"));
    let graph = graph.graph();
    let raw = tallow::ir::RawGraph::from_graph(graph).unwrap();
    let given = GivenGraph {
        format,
        text: tallow::frontends::graph_section::to_text(format, &raw),
        label: "graph.txt".into(),
        weights: graph.weights().map(|(name, v)| (name.to_owned(), graph.ty(v).clone())).collect(),
        model_type: format!("tiny_{name}"),
    };
    let out = to.join(format!("{name}-{}.model", format.name()));
    import_with_graph(&source.join("weights.safetensors"), &given, &out, &ImportOptions::default(), &mut ()).unwrap();
    out
}

fn tensors(path: &Path) -> Vec<(String, Tensor)> {
    let mut all: Vec<_> = load_safetensors(&std::fs::read(path).unwrap()).unwrap().into_iter().collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Both spellings of the graph on both engines give PyTorch's results, for every set of inputs.
fn check(name: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let source = folder("tests/graphs").join(name);
    let mut sets = 0;
    for format in [GraphFormat::Hex, GraphFormat::Toml] {
        let path = build(name, format, temporary.path());
        for engine in [Engine::Reference, Engine::Cpu] {
            let mut options = ModelOptions::default();
            options.program.engine = engine;
            options.program.threads = 2;
            let model = Model::open_with(&path, &options).unwrap();
            assert_eq!(model.file().config().model_type(), format!("tiny_{name}"));
            for set in ["", "2", "3"] {
                let (inputs, outputs) =
                    (source.join(format!("inputs{set}.safetensors")), source.join(format!("outputs{set}.safetensors")));
                if !inputs.exists() {
                    continue;
                }
                sets += 1;
                let made = model.session().unwrap().run(&tensors(&inputs), Rows::All).unwrap();
                let wanted = tensors(&outputs);
                assert_eq!(made.len(), wanted.len());
                for (name, wanted) in wanted {
                    let found = &made.iter().find(|(n, _)| *n == name).unwrap().1;
                    assert_eq!(found.dims(), wanted.dims(), "{name}");
                    let off = error(&values(found), &values(&wanted));
                    println!("{engine:?} {} {name}{set}: {off:e}", format.name());
                    assert!(off < 1e-4, "{engine:?}, {name}: {off}");
                }
            }
        }
    }
    assert!(sets >= 4);
}

#[test]
fn a_convolutional_classifier_runs_by_its_graph_alone() {
    check("classifier");
}

#[test]
fn an_encoder_decoder_with_cross_attention_runs_by_its_graph_alone() {
    check("translator");
}

#[test]
fn a_diffusion_step_runs_by_its_graph_alone() {
    check("diffusion");
}

#[test]
fn a_graph_that_does_not_fit_its_tensors_makes_no_model() {
    let temporary = tempfile::tempdir().unwrap();
    let source = folder("tests/graphs/classifier/weights.safetensors");
    let out = temporary.path().join("x.model");
    let import = |text: &str| {
        let given = GivenGraph {
            format: GraphFormat::Toml,
            text: text.into(),
            label: "mine.toml".into(),
            weights: Vec::new(),
            model_type: "tiny".into(),
        };
        let error = import_with_graph(&source, &given, &out, &ImportOptions::default(), &mut ()).unwrap_err();
        assert!(!out.exists());
        error.to_string()
    };
    let node = "[[nodes]]\nid = 0\nop = \"Neg\"\ninputs = [\"absent.weight\"]\noutputs = [\"y\"]\nattrs = {}\n";
    let text = import(node);
    assert!(text.contains("mine.toml") && text.contains("the model has no tensor `absent.weight`"), "{text}");
    let text = import("nodes = 3");
    assert!(text.contains("mine.toml"), "{text}");
}
