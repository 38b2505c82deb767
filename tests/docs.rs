//! The documentation names things that exist: links and paths in `README.md` and `docs/`, and every operation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Endings by which a text in back quotes is taken for a path.
const ENDINGS: [&str; 12] =
    ["rs", "md", "py", "sh", "toml", "txt", "json", "jsonl", "model", "gguf", "safetensors", "yml"];

/// A folder or file of this repository.
fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The pages of the documentation with their texts, by name.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(at("docs")).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "md"));
    paths.push(at("README.md"));
    paths.sort();
    assert!(paths.len() >= 5, "the documentation is missing: {paths:?}");
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(&path).unwrap());
    paths.into_iter().map(read).collect()
}

/// The lines outside fenced code, each with its number.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().map(|(n, line)| (n + 1, line)).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The texts in back quotes of a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of the links of a line: `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Whether a text in back quotes is the path of one file or folder here: `dir/file.ext` or `dir/`. Names in capitals stand for others.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let relative = !text.starts_with(['/', '.']) || text.starts_with(".ci/");
    let placeholder = ["NAME", "FILE", "FOLDER"].iter().any(|word| text.contains(word));
    let file = Path::new(text).extension().and_then(|e| e.to_str()).is_some_and(|e| ENDINGS.contains(&e));
    text.contains('/') && text.chars().all(plain) && relative && !placeholder && (file || text.ends_with('/'))
}

/// The anchor of a heading, as hosts of repositories make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_and_paths_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, text) in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        for (n, line) in prose(&text) {
            for path in quoted(line).filter(|text| is_path(text)) {
                seen += 1;
                if !at(path).exists() {
                    wrong.push(format!("{name}:{n}: there is no `{path}`"));
                }
            }
            for link in links(line).filter(|link| !link.contains(':')) {
                seen += 1;
                let (file, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
                let Ok(text) = std::fs::read_to_string(&target).or(target.metadata().map(|_| String::new())) else {
                    wrong.push(format!("{name}:{n}: the link leads nowhere: {link}"));
                    continue;
                };
                if !heading.is_empty() && !prose(&text).any(|(_, l)| l.starts_with('#') && anchor(l) == heading) {
                    wrong.push(format!("{name}:{n}: no such heading: {link}"));
                }
            }
        }
    }
    assert!(seen > 30, "only {seen} links and paths found");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_operation_has_a_line() {
    let page = std::fs::read_to_string(at("docs/operations.md")).unwrap();
    let missing: Vec<&str> = tallow::ir::OpInfo::all()
        .iter()
        .filter(|op| !page.lines().any(|line| line.starts_with(&format!("| {} | {} | ", op.tag, op.name))))
        .map(|op| op.name)
        .collect();
    assert!(missing.is_empty(), "docs/operations.md lacks {}", missing.join(", "));
}

#[test]
fn what_counts_as_a_path() {
    for path in ["src/lib.rs", "docs/format.md", "ir/tests/", "models/storyteller.model", ".ci/run.sh"] {
        assert!(is_path(path), "{path}");
    }
    for other in ["rust.md", "a/b", "kernel/2", "gguf/NAME.gguf", "/etc/a.txt", "~/a.txt", "../a.md", "x · y/z.rs"] {
        assert!(!is_path(other), "{other}");
    }
    assert_eq!(links("[a](b.md) and [c](d.md#e)").collect::<Vec<_>>(), ["b.md", "d.md#e"]);
    assert_eq!(prose("a\n```sh\nb\n```\nc").map(|(n, _)| n).collect::<Vec<_>>(), [1, 5]);
    assert_eq!(anchor("### What import chooses"), "what-import-chooses");
}
