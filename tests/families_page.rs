//! The table of `docs/families.md`: every type with the goldens that prove it and their worst error.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, page};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tallow::frontends::families;

const BEGIN: &str = "<!-- goldens: begin (written by `TALLOW_BLESS=1 cargo test --test families_page`) -->\n";
const END: &str = "<!-- goldens: end -->";

/// Kinds of goldens, and what they are about.
const KINDS: [(&str, &str); 5] = [
    ("decoder", "logits"),
    ("encoder", "hidden states, embeddings, logits of heads"),
    ("seq2seq", "logits, generated tokens"),
    ("vision", "hidden states, vectors, logits, probabilities"),
    ("vl", "rows of pictures, logits, generated tokens, text about picture files"),
];

/// Types whose proof is no error of logits.
const OTHERS: [(&str, &str); 1] =
    [("whisper", "features, tokens and times of short and long sounds (`tests/goldens_speech.rs`)")];

fn table() -> String {
    let mut types: BTreeMap<String, (usize, f32, &str)> = BTreeMap::new();
    for (kind, about) in KINDS {
        for (of, error) in page::recorded(kind).into_values() {
            let row = types.entry(of).or_insert((0, 0.0, about));
            *row = (row.0 + 1, row.1.max(error), about);
        }
    }
    let mut out = String::from("| `model_type` | goldens | of | worst error |\n|---|---|---|---|\n");
    for (of, (count, error, about)) in types {
        writeln!(out, "| {of} | {count} | {about} | {error:.1e} |").unwrap();
    }
    for (of, about) in OTHERS {
        writeln!(out, "| {of} | | {about} | |").unwrap();
    }
    out
}

#[test]
fn the_page_lists_every_type_with_its_proof() {
    let path = folder("docs/families.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("TALLOW_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(found, table, "TALLOW_BLESS=1 cargo test --test families_page writes it");
    }
    for name in families::known_types() {
        let canonical = families::canonical_type(name).unwrap();
        let listed = [name, canonical].iter().any(|n| table.contains(&format!("| {n} |")))
            || families::known_types()
                .iter()
                .any(|n| families::canonical_type(n) == Some(canonical) && table.contains(&format!("| {n} |")));
        assert!(listed, "`{name}` has no golden");
    }
}
