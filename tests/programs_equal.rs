//! Programs of the library that describe decoders, against the graphs of their families, node for node.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, import};
use std::path::Path;
use tallow::format::ModelFile;
use tallow::frontends::families;
use tallow::frontends::program::{self, Language, Module, Options};
use tallow::ir::graphs_equal;

const RS: &str = include_str!("../programs/decoder.rs");
const TRI: &str = include_str!("../programs/decoder.tri");
const GEMMA: &str = include_str!("../programs/gemma.rs");
const SEED: &str = include_str!("../frontends/tests/parsers/good/decoder.tri");

fn module(source: &str, language: Language, file: &ModelFile) -> Result<Module, String> {
    program::compile(source, language, "program", file.config(), Some(file.tensors()), Options::default())
        .map_err(|e| e.to_string())
}

/// What is wrong with a program as a description of a model.
fn fault(source: &str, language: Language, file: &ModelFile) -> Option<String> {
    let family = families::build(file.config(), file.tensors()).unwrap();
    let module = match module(source, language, file) {
        Ok(module) => module,
        Err(e) => return Some(e),
    };
    let own = module.main().unwrap();
    if module.graphs.len() != 1 || module.driver.is_none() {
        return Some(format!("{} graphs, driver {:?}", module.graphs.len(), module.driver));
    }
    (!graphs_equal(own, &family.graph)).then(|| format!("{}\n--- the family's:\n{}", text(own), text(&family.graph)))
}

fn text(graph: &tallow::ir::Graph) -> String {
    tallow::ir::text::print(graph)
}

fn opened(name: &str, into: &Path) -> ModelFile {
    ModelFile::open(&import(&folder(&format!("tests/goldens/{name}")), into, "u32")).unwrap()
}

/// Every golden of some types, each against some programs.
fn check(kinds: &[&str], programs: &[(&str, &str, Language)], least: usize) {
    let mut names: Vec<String> = std::fs::read_dir(folder("tests/goldens"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| kinds.iter().any(|k| n.starts_with(&format!("{k}-"))))
        .collect();
    names.sort();
    assert!(names.len() >= least, "only {names:?}");
    let mut faults = Vec::new();
    for name in names {
        let temporary = tempfile::tempdir().unwrap();
        let file = opened(&name, temporary.path());
        for (which, source, language) in programs {
            faults.extend(fault(source, *language, &file).map(|f| format!("{name}, {which}: {f}")));
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn the_decoder_programs_are_their_families() {
    let programs =
        [("decoder.rs", RS, Language::Rs), ("decoder.tri", TRI, Language::Tri), ("seed", SEED, Language::Tri)];
    check(&["qwen2", "qwen3", "llama", "mistral", "smollm3"], &programs, 20);
}

#[test]
fn the_roles_of_trident_carry_the_multipliers_of_a_family() {
    check(&["granite", "gemma", "gemma3"], &[("decoder.tri", TRI, Language::Tri)], 8);
}

#[test]
fn the_gemma_program_is_both_of_its_families() {
    check(&["gemma", "gemma3"], &[("gemma.rs", GEMMA, Language::Rs)], 6);
}

#[test]
fn the_storyteller_is_the_decoder_program() {
    let file = ModelFile::open(&folder("models/storyteller.model")).unwrap();
    for (source, language) in [(RS, Language::Rs), (TRI, Language::Tri)] {
        assert_eq!(fault(source, language, &file), None);
    }
}
