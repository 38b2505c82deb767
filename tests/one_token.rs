//! Graphs that were written for one token a call: whole prompts, one token at a time, and the family
//! give the same logits.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{error, folder, one_token, values};
use std::path::Path;
use tallow::format::ModelFile;
use tallow::{Engine, Model, ModelOptions, PackedCache, Rows, Tensor};

fn open(path: &Path, engine: Engine, token_by_token: bool) -> Model {
    let mut options = ModelOptions { token_by_token, ..ModelOptions::default() };
    options.program.engine = engine;
    options.program.threads = 2;
    options.program.packed_cache = PackedCache::Off;
    Model::open_with(path, &options).unwrap()
}

fn logits(model: &Model, ids: &[u32]) -> Vec<f32> {
    values(&model.session().unwrap().logits(ids, Rows::All).unwrap())
}

/// The graph-only copy of `source` against its family, on both engines; where the model is large,
/// on the fast one.
fn check(source: &Path, ids: &[u32], engines: &[Engine]) {
    let temporary = tempfile::tempdir().unwrap();
    let copy = temporary.path().join("graph-only.model");
    one_token::graph_only(source, &one_token::decoder(&ModelFile::open(source).unwrap()), &copy);
    for &engine in engines {
        let family = logits(&open(source, engine, false), ids);
        let whole = open(&copy, engine, false);
        assert_eq!(whole.notes().collect::<Vec<_>>().join("\n").matches("one token").count(), 0);
        assert!(whole.program().one_token_inputs().is_empty());
        let single = open(&copy, engine, true);
        assert_eq!(single.program().one_token_inputs(), ["input_ids"]);
        let (whole, single) = (logits(&whole, ids), logits(&single, ids));
        println!("{engine:?}: to single {:e}, to family {:e}", error(&whole, &single), error(&whole, &family));
        assert!(error(&whole, &single) < 1e-5, "{engine:?}: {}", error(&whole, &single));
        assert!(error(&whole, &family) < 1e-5, "{engine:?}: {}", error(&whole, &family));
    }
}

#[test]
fn the_storyteller_runs_on_a_bare_graph_alone() {
    let source = folder("models/storyteller.model");
    let model = Model::storyteller().unwrap();
    let ids = model.session().unwrap().encode("Once upon a time, a gentle fox named Poppy lived in a garden.").unwrap();
    assert!(ids.len() > 8);
    check(&source, &ids, &[Engine::Reference, Engine::Cpu]);
}

#[test]
fn qwen_runs_on_a_bare_graph_alone() {
    let Some((source, _folder)) = common::real_model("qwen2.5-coder-0.5b.gguf") else { return };
    let model = open(&source, Engine::Cpu, false);
    let ids = model.session().unwrap().encode("fn reverse(text: &str) -> String {\n    text.chars()").unwrap();
    check(&source, &ids, &[Engine::Cpu]);
}

/// Sessions over a one-token graph: generation, and inputs given by name.
#[test]
fn a_bare_graph_tells_the_family_s_story() {
    let source = folder("models/storyteller.model");
    let temporary = tempfile::tempdir().unwrap();
    let copy = temporary.path().join("graph-only.model");
    one_token::graph_only(&source, &one_token::decoder(&ModelFile::open(&source).unwrap()), &copy);
    let story = |model: &Model| -> String {
        let options =
            tallow::GenerateOptions { sampling: Some(Default::default()), max_tokens: Some(24), ..Default::default() };
        let mut session = model.session().unwrap();
        session.generate_with("A story about an owl.", &options).unwrap().map(Result::unwrap).collect()
    };
    let family = story(&Model::storyteller().unwrap());
    for token_by_token in [false, true] {
        let model = open(&copy, Engine::Cpu, token_by_token);
        assert_eq!(story(&model), family, "token by token: {token_by_token}");
        // The same by name: one row a token, or the last.
        let device = tallow::executor::Device::Cpu;
        let input = |ids: &[f32]| vec![("input_ids".to_owned(), Tensor::new(ids, &device).unwrap())];
        let run = |rows| model.session().unwrap().run(&input(&[5.0, 6.0, 7.0]), rows).unwrap().remove(0).1;
        let (all, last) = (run(Rows::All), run(Rows::Last));
        assert_eq!((all.dims(), last.dims()), (&[3, 1024][..], &[1, 1024][..]));
        assert_eq!(values(&all)[2 * 1024..], values(&last));
        assert_eq!(values(&all), logits(&model, &[5, 6, 7]));
        let fault = model.session().unwrap().run(&input(&[5.0, 6.5]), Rows::All).unwrap_err().to_string();
        assert!(fault.contains("id 6.5 is no row of a table of 1024"), "{fault}");
    }
}

/// A graph that mixes tokens runs one token a call, and says why.
#[test]
fn what_does_not_widen_runs_token_by_token_with_a_note() {
    let source = folder("models/storyteller.model");
    let temporary = tempfile::tempdir().unwrap();
    let copy = temporary.path().join("odd.model");
    let mut graph = one_token::decoder(&ModelFile::open(&source).unwrap());
    // Softmax over the one row is 1 everywhere, and something else over several.
    let last = graph.nodes.len() - 2;
    graph.nodes[last].outputs = vec!["normed".into()];
    let odd = |id, op, inputs: &[&str], output: &str| tallow::ir::binary::RawNode {
        id,
        op,
        inputs: inputs.iter().map(|&n| n.to_owned()).collect(),
        outputs: vec![output.into()],
        hint: None,
    };
    graph.nodes.push(odd(9000, tallow::ir::Op::Softmax { dim: 0 }, &["normed"], "ones"));
    graph.nodes.push(odd(9001, tallow::ir::Op::Mul, &["normed", "ones"], "norm"));
    one_token::graph_only(&source, &graph, &copy);
    let model = open(&copy, Engine::Cpu, false);
    let note = model.notes().find(|n| n.contains("one token a call")).unwrap().to_owned();
    assert!(note.contains("at `ones`: Softmax is not known to treat tokens on their own"), "{note}");
    let family = logits(&Model::storyteller().unwrap(), &[5, 6, 7, 8]);
    assert!(error(&logits(&model, &[5, 6, 7, 8]), &family) < 1e-5);
}
