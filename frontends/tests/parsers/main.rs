//! Both readers of programs, on files: `good/NAME.EXT` with its tree in `NAME.EXT.tree`, and `faulty/NAME.EXT` with
//! the whole message in `NAME.EXT.txt`. `TALLOW_BLESS=1` writes trees and messages.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod deep;
mod print;

use std::path::{Path, PathBuf};
use tallow_frontends::program::ast::{ExprKind, Name, Pattern, PatternKind, Span};
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

/// Every name of a tree is the text at its place, brackets and texts around included.
#[test]
fn places_are_those_of_the_source() {
    let folder = folder("good");
    for (name, language) in programs(&folder, "tree") {
        let plain = std::fs::read_to_string(folder.join(&name)).unwrap();
        // A byte order mark and other line ends move places, and nothing else.
        for source in [plain.clone(), format!("\u{feff}{}", plain.replace('\n', "\r\n"))] {
            let tree = parse(&source, language).unwrap();
            let text = |span: Span| &source[span.start as usize..span.end as usize];
            let mut seen = 0;
            for expr in &tree.exprs {
                let names: Vec<&Name> = match &expr.kind {
                    ExprKind::Path(names, _) => names.iter().collect(),
                    ExprKind::Field(_, name) | ExprKind::Method { name, .. } => vec![name],
                    ExprKind::For { pattern: Pattern { kind: PatternKind::Bind { name, .. }, .. }, .. } => vec![name],
                    ExprKind::Struct { fields, .. } => fields.iter().map(|(name, _)| name).collect(),
                    _ => continue,
                };
                for name in names {
                    // The name that a closure with a type gives its result.
                    if &*name.text == "result" {
                        continue;
                    }
                    assert_eq!(text(name.span), &*name.text, "{name:?}");
                    assert!(expr.span.start <= name.span.start && name.span.end <= expr.span.end, "{expr:?}");
                    seen += 1;
                }
            }
            assert!(seen > 20, "{name}");
            for f in &tree.functions {
                assert_eq!(text(f.name.span), &*f.name.text);
                assert!(text(f.span).starts_with("fn ") && text(tree.expr(f.body).span).starts_with('{'));
            }
        }
    }
}

#[test]
fn places_of_expressions_hold_their_brackets() {
    for (language, source, want) in [
        (Language::Rs, "fn f() { (a + b) * c.d(1)[2]; }", "(a + b) * c.d(1)[2]"),
        (Language::Rs, "fn f() { -(a).b; }", "-(a).b"),
        (Language::Rs, "fn f() { ((a)) as u32; }", "((a)) as u32"),
        (Language::Rs, "fn f() { 'a: loop {} }", "'a: loop {}"),
        (Language::Rs, "fn f() { |x: u32| (x); }", "|x: u32| (x)"),
        (Language::Rs, "fn f() { r#\"{x}\"#; }", "r#\"{x}\"#"),
        (Language::Tri, "fn f() { (a + b) * c.d(1)[2] }", "(a + b) * c.d(1)[2]"),
        (Language::Tri, "fn f() { a.b = (c) }", "a.b = (c)"),
        (Language::Tri, "fn f() { (a).b(c) }", "(a).b(c)"),
    ] {
        let tree = parse(source, language).unwrap();
        let found = tree.exprs.iter().filter(|e| !matches!(e.kind, ExprKind::Block(_)));
        let widest = found.max_by_key(|e| e.span.end - e.span.start).unwrap().span;
        let shown = &source[widest.start as usize..widest.end as usize];
        assert!(shown == want || shown.starts_with("fn"), "{shown} of {source}");
        assert!(tree.exprs.iter().any(|e| &source[e.span.start as usize..e.span.end as usize] == want), "{source}");
    }
}
