//! The figures of `docs/passes.md`: what the passes make of real models. `TALLOW_BLESS=1` writes them anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use tallow::compiler::passes::PASSES;
use tallow::compiler::{Plan, Stage};
use tallow::executor::Variants;
use tallow::format::ModelFile;
use tallow::ir::Bindings;
use tallow::ir::verify::Verified;

const PAGE: &str = "docs/passes.md";

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).unwrap()
}

/// Writes a row of the page's tables, or says that the page has another one.
#[track_caller]
fn row(key: &str, row: &str) {
    let text = page();
    let old = text.lines().find(|l| l.starts_with(&format!("| {key} |"))).unwrap_or_else(|| panic!("no row {key}"));
    if old == row {
        return;
    }
    if std::env::var_os("TALLOW_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        std::fs::write(path, text.replace(old, row)).unwrap();
        return;
    }
    panic!("{PAGE} says\n{old}\nand it is\n{row}\n(TALLOW_BLESS=1 writes it)");
}

fn steps(plan: &Plan) -> usize {
    plan.steps.len()
}

fn megabytes(n: u64) -> String {
    format!("{:.1} MB", n as f64 / 1e6)
}

fn figures(name: &str, graph: &Verified) {
    let of = |stage| Variants::new(graph, stage).unwrap();
    let (raw, portable, target) = (of(Stage::Raw), of(Stage::Portable), of(Stage::Target));
    let prompt = |v: &Variants| v.last.as_ref().map(|v| v.plan.clone()).unwrap();
    let sizes = Bindings::from([("S".to_owned(), 512), ("P".to_owned(), 0)]);
    let before = prompt(&raw).memory(&sizes).unwrap();
    let after = prompt(&target).memory(&sizes).unwrap();
    let nodes = |v: &Variants| v.all.compiled.graph.graph().len();
    row(
        name,
        &format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            nodes(&raw),
            nodes(&portable),
            nodes(&target),
            steps(&prompt(&raw)),
            steps(&prompt(&target)),
            steps(&target.one.as_ref().unwrap().plan),
            megabytes(before.sum),
            megabytes(after.sum),
            megabytes(after.block),
        ),
    );
}

#[test]
fn the_storyteller() {
    let file = tallow::model::storyteller_file().unwrap();
    let (graph, _) = tallow::model::graph(&file, tallow::Path::Auto).unwrap();
    figures("storyteller", &graph);
}

#[test]
fn real_models() {
    for (name, file) in [("Qwen2.5 0.5B", "qwen2.5-coder-0.5b.gguf"), ("Gemma 3 270M", "gemma3-270m-q4_k_m.gguf")] {
        let Some((path, _folder)) = common::real_model(file) else { continue };
        let model = ModelFile::open(&path).unwrap();
        let (graph, _) = tallow::model::graph(&model, tallow::Path::Auto).unwrap();
        figures(name, &graph);
    }
}

#[test]
fn the_page_has_every_pass_in_order() {
    let text = page();
    let listed: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name)).collect();
    let passes: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
    assert_eq!(listed, passes);
    for pass in PASSES {
        row(&format!("`{}`", pass.name), &format!("| `{}` | {} | {} |", pass.name, pass.stage.name(), pass.doc));
    }
}
