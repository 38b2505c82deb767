//! Comparison by numbers: the first operation where two computations part.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, import};
use std::sync::Arc;
use tallow::executor::ProgramOptions;
use tallow::format::ModelFile;
use tallow::ir::text;
use tallow::ir::verify::verify;
use tallow::numeric::{self, Given, Report, Side, Verdict};
use tallow::{Engine, Model, ModelOptions};

fn open(path: &std::path::Path, engine: Engine) -> Model {
    common::open(path, engine, 2, 512)
}

/// The graph of a model with one part of its text replaced, over the model's weights.
fn edited(model: &Model, from: &str, to: &str) -> Side {
    let plain = text::print(model.graph().graph());
    assert_eq!(plain.matches(from).count(), 1, "{from:?} in\n{plain}");
    let graph = verify(text::parse(&plain.replace(from, to)).unwrap()).unwrap();
    Side::of_graph("edited", graph, model.weights(), *model.program().options()).unwrap()
}

fn given(text: &str) -> Given {
    Given { text: Some(text.to_owned()), ..Given::default() }
}

fn compare(left: &Side, right: &Side, given: &Given) -> Report {
    let inputs = numeric::inputs(&[left, right], given).unwrap();
    let pairs = numeric::pairs(left, right).unwrap();
    numeric::compare(left, right, &pairs, &inputs, None).unwrap()
}

/// The value that a report names first.
fn first(report: &Report) -> &str {
    &report.values[report.first.unwrap_or_else(|| panic!("all within:\n{}", report.text(true)))].right
}

fn qwen(engine: Engine) -> (Model, tempfile::TempDir) {
    let temporary = tempfile::tempdir().unwrap();
    let path = import(&folder("tests/goldens/qwen3-plain"), temporary.path(), "u32");
    (open(&path, engine), temporary)
}

#[test]
fn a_model_agrees_with_itself_value_by_value() {
    let model = Model::storyteller().unwrap();
    let side = Side::of_model(&model);
    let report = compare(&side, &side, &given("Tell me a story about a fox."));
    assert!(report.is_within(), "{}", report.text(false));
    assert_eq!((report.worst(3), report.unknown.len()), (vec![], 0));
    let operations = model.program().plan().prelude.len() + model.program().plan().steps.len();
    assert!(report.values.len() >= operations, "{} of {operations}", report.values.len());
    assert!(report.unmatched.left.is_empty() && report.unmatched.right.is_empty());
    assert!(report.text(false).contains("all within tolerance"), "{}", report.text(false));
}

#[test]
fn the_engines_agree_within_what_rounding_of_activations_makes() {
    let mut options = ModelOptions::default();
    options.program.engine = Engine::Reference;
    let oracle = Model::storyteller_with(&options).unwrap();
    let fast = Model::storyteller().unwrap();
    let report = compare(&Side::of_model(&oracle), &Side::of_model(&fast), &given("Once upon a time a fox"));
    assert!(report.is_within(), "{}", report.text(true));
    assert!(!report.worst(1).is_empty());
}

#[test]
fn each_planted_bug_is_charged_to_its_operation() {
    let (model, _folder) = qwen(Engine::Cpu);
    println!("{}", text::print(model.graph().graph()));
}
