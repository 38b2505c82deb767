//! Both readers of programs, on files: `good/NAME.EXT` with its tree in `NAME.EXT.tree`, and `faulty/NAME.EXT` with
//! the whole message in `NAME.EXT.txt`. `TALLOW_BLESS=1` writes trees and messages.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod deep;
mod print;

use std::path::{Path, PathBuf};
use tallow_frontends::program::{Diagnostics, Language, parse};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parsers").join(name)
}

/// The programs of a folder, by name. Every other file must be the golden of one.
fn programs(folder: &Path, golden: &str) -> Vec<(String, Language)> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let mut out = Vec::new();
    for name in &names {
        match name.rsplit_once('.') {
            Some((_, "rs")) => out.push((name.clone(), Language::Rs)),
            Some((_, "tri")) => out.push((name.clone(), Language::Tri)),
            Some((source, ending)) if ending == golden && names.iter().any(|n| n == source) => {}
            _ => panic!("{}: what is this file?", folder.join(name).display()),
        }
    }
    assert!(!out.is_empty());
    out
}

/// Compares with a golden, or writes it.
fn compare(path: &Path, found: &str) {
    if std::env::var_os("TALLOW_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(path, found).unwrap();
    }
    let want = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        want == found,
        "{} differs; `TALLOW_BLESS=1 cargo test -p tallow-frontends --test parsers` writes it:\n{found}",
        path.display()
    );
}

/// What is said about a program.
fn message(name: &str, source: &str, list: Vec<tallow_frontends::program::Diagnostic>) -> String {
    Diagnostics { name: name.into(), source: source.into(), list }.to_string() + "\n"
}

#[test]
fn good_programs_give_their_trees() {
    let folder = folder("good");
    for (name, language) in programs(&folder, "tree") {
        let source = std::fs::read_to_string(folder.join(&name)).unwrap();
        match parse(&source, language) {
            Ok(tree) => compare(&folder.join(format!("{name}.tree")), &print::print(&tree)),
            Err(errors) => panic!("{}", message(&name, &source, errors)),
        }
    }
}

#[test]
fn faulty_programs_give_their_messages() {
    let folder = folder("faulty");
    for (name, language) in programs(&folder, "txt") {
        let source = std::fs::read_to_string(folder.join(&name)).unwrap();
        let errors = parse(&source, language).err().unwrap_or_else(|| panic!("{name} is read"));
        compare(&folder.join(format!("{name}.txt")), &message(&name, &source, errors));
    }
}
