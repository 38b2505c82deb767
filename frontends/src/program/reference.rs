//! The pages of the documentation that the tables of this module make: `docs/languages.md` and `docs/errors.md`.

use super::builtins::{Builtin, Owner, TABLES};
use super::codes::Code;
use super::eval::ordinary;
use std::fmt::Write as _;

/// The most characters of a line of an example.
const LONGEST: usize = 100;

/// `docs/languages.md`: everything that programs can say.
pub fn languages() -> String {
    let mut out = String::from(include_str!("languages.md"));
    out.push_str("\n## Builtins of `.rs`\n\nParameters in brackets may be left out. ");
    out.push_str("Axes count from 0, and negative ones from the end; an ε of at least 1 stands for its reciprocal.\n");
    let mut last = None;
    for (owner, title, table) in TABLES.iter().filter(|(o, _, _)| !is_tri(*o)) {
        if last != Some(*owner) {
            let _ = write!(out, "\n### {}\n", heading(*owner));
            last = Some(*owner);
        }
        if table.is_empty() {
            continue;
        }
        let _ = write!(out, "\n{title}:\n\n");
        rows(&mut out, prefix(*owner), table);
    }
    out.push_str("\n## Builtins of `.tri`\n");
    for (owner, title, table) in TABLES.iter().filter(|(o, _, t)| is_tri(*o) && !t.is_empty()) {
        match last == Some(*owner) {
            true => drop(write!(out, "\n{title}:\n\n")),
            false => drop(write!(out, "\n### {}\n\n", heading(*owner))),
        }
        last = Some(*owner);
        rows(&mut out, prefix(*owner), table);
    }
    out.push_str("\n## Methods of ordinary values\n\nAs in Rust, with the number of arguments after each name.\n\n");
    for (of, table) in ordinary::TABLES {
        let mut names: Vec<(&str, usize)> = table.to_vec();
        names.sort_unstable();
        let count = |n: usize| if n == usize::MAX { "1 or 2".to_owned() } else { n.to_string() };
        let names: Vec<String> = names.iter().map(|(name, n)| format!("`{name}`\u{a0}{}", count(*n))).collect();
        let _ = writeln!(out, "- **{of}**: {}", names.join(", "));
    }
    out
}

fn is_tri(owner: Owner) -> bool {
    match owner {
        Owner::TriTensor | Owner::TriIo | Owner::TriConvert | Owner::TriLlama => true,
        Owner::Weights | Owner::Tensor | Owner::Function | Owner::Tokenizer => false,
    }
}

fn heading(owner: Owner) -> &'static str {
    match owner {
        Owner::Weights => "The weight store",
        Owner::Tensor => "Methods of tensors",
        Owner::Function => "Functions of `Tensor`",
        Owner::Tokenizer => "The tokenizer",
        Owner::TriTensor => "`tensor`",
        Owner::TriIo => "`io`",
        Owner::TriConvert => "`convert`",
        Owner::TriLlama => "`transformer_llama`",
    }
}

fn prefix(owner: Owner) -> &'static str {
    match owner {
        Owner::Weights => "w.",
        Owner::Tensor => "x.",
        Owner::Function => "Tensor::",
        Owner::Tokenizer => "tok.",
        Owner::TriTensor => "tensor.",
        Owner::TriIo => "io.",
        Owner::TriConvert => "convert.",
        Owner::TriLlama => "transformer_llama.",
    }
}

fn rows(out: &mut String, prefix: &str, table: &[Builtin]) {
    out.push_str("| call | gives |\n|---|---|\n");
    for builtin in table {
        let doc = builtin.doc.replace('|', "\\|");
        let _ = writeln!(out, "| `{prefix}{}({})` | {doc} |", builtin.name, builtin.params);
    }
}

/// `docs/errors.md`: every code with its explanation, and the examples that `example` has: source and message.
pub fn errors(example: &dyn Fn(Code) -> Option<(String, String)>) -> String {
    let mut out = String::from(
        "# Errors of programs\n\nEvery error has a code, which never changes its meaning, and shows the place in the program. \
         All that can be found in one go is reported, sorted by place; what follows from a mistake that was reported is not \
         reported again, nor is one that every round of a loop or every layer repeats. [languages.md](languages.md) says what \
         programs can say. Examples leave out the `use` lines; their config and their tensors are those of a tiny decoder or \
         of a tiny model of pictures.\n\nThis page is made from the table of codes and from tests of messages.\n",
    );
    for &code in Code::ALL {
        let _ = write!(out, "\n## {}: {}\n\n{}\n", code.name(), code.summary(), code.explanation());
        if code.is_unsupported() {
            out.push_str("\nThe program may be sound: this version does not compile it (exit code 4).\n");
        }
        if let Some((source, message)) = example(code) {
            let fence = if source.starts_with("module ") { "text" } else { "rust,ignore" };
            let source: Vec<String> = source.trim_end().lines().map(cut).collect();
            let _ = write!(out, "\n```{fence}\n{}\n```\n\n```text\n{}\n```\n", source.join("\n"), message.trim_end());
        }
    }
    out
}

/// A line of an example; the end of a long one is left out.
fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
