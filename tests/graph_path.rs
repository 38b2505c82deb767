//! A graph section written from a family's graph runs to the same bits as the family.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, ids, values};
use std::path::Path;
use tallow::format::ModelFile;
use tallow::format::tools::{self, Destination, Edit};
use tallow::format::{GraphFormat, ReadOptions};
use tallow::import::{EncodingChoice, ImportOptions};
use tallow::ir::graphs_equal;
use tallow::{Engine, Model, ModelOptions, Path as GraphPath, Rows};

fn open(file: &Path, path: GraphPath, engine: Engine) -> Model {
    let mut options = ModelOptions { path, ..ModelOptions::default() };
    options.program.engine = engine;
    options.program.threads = 2;
    options.program.context = Some(4096);
    Model::open_with(file, &options).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// Logits at once, then token by token.
fn logits(model: &Model, ids: &[u32]) -> [Vec<f32>; 2] {
    let at_once = values(&model.session().unwrap().logits(ids, Rows::All).unwrap());
    let mut session = model.session().unwrap();
    let mut rows = Vec::new();
    for n in 1..=ids.len() {
        rows.extend(values(&session.logits(&ids[..n], Rows::Last).unwrap()));
    }
    [at_once, rows]
}

/// The graphs are equal, and both engines give the same bits by either path.
fn check(name: &str, file: &Path, ids: &[u32]) {
    let opened = ModelFile::open(file).unwrap();
    let graph = |path| tallow::model::graph(&opened, path).unwrap().0.into_inner();
    assert!(opened.graph().is_some(), "{name}");
    assert!(graphs_equal(&graph(GraphPath::Graph), &graph(GraphPath::Family)), "{name}");
    for engine in [Engine::Reference, Engine::Cpu] {
        let by =
            |path| logits(&open(file, path, engine), ids).map(|l| l.into_iter().map(f32::to_bits).collect::<Vec<_>>());
        let (section, family) = (by(GraphPath::Graph), by(GraphPath::Family));
        assert!(section[0] == family[0], "{name}: {engine:?} at once");
        assert!(section[1] == family[1], "{name}: {engine:?} token by token");
        assert!(!section[0].is_empty());
    }
}

#[test]
fn imported_graphs_run_as_their_families_do() {
    for name in [
        "llama-plain",
        "llama-biases",
        "llama-yarn",
        "mistral-window",
        "qwen2-window",
        "qwen3-plain",
        "gemma-plain",
        "gemma3-plain",
        "gemma3-linear",
        "phi3-longrope",
        "smollm3-plain",
        "granite-bias",
    ] {
        let source = folder("tests/goldens").join(name);
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("model.model");
        let encoding: EncodingChoice = "u32".parse().unwrap();
        let options = ImportOptions { encoding, graph: true, ..ImportOptions::default() };
        tallow::import::import(&source, &file, &options, &mut ()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let ids = ids(&source.join("golden.safetensors"), "input_ids").unwrap();
        check(name, &file, &ids);
    }
}

#[test]
fn default_encodings_and_the_other_spelling_do_as_well() {
    let story = ModelFile::open(&folder("models/storyteller.model")).unwrap();
    let (graph, _) = tallow::model::graph(&story, GraphPath::Family).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    for format in [GraphFormat::Hex, GraphFormat::Toml] {
        let content = tallow::frontends::graph_section::of_graph(format, graph.graph()).unwrap();
        let file = temporary.path().join(format!("{}.model", format.name()));
        let add = Edit::Add { name: "graph".into(), format: format.name().into(), content };
        let source = folder("models/storyteller.model");
        tools::edit(&source, &[add], &Destination::File(file.clone()), &ReadOptions::default()).unwrap();
        check(format.name(), &file, &[1, 5, 9, 200, 17, 881, 42]);
    }
}
