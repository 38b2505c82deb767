//! The reference page of operations, written from the table.

use crate::ops::FieldInfo;
use crate::{Effect, OpInfo};
use std::fmt::Write as _;

/// Headings by the first tag that stands under them.
const SECTIONS: [(u16, &str); 13] = [
    (0, "Products, arithmetic and layout"),
    (20, "Attention, caches and positions"),
    (40, "Normalisation"),
    (60, "Activations"),
    (80, "Convolutions and pools"),
    (100, "Pictures"),
    (120, "Embeddings"),
    (140, "Schedules, quantisation and sampling"),
    (160, "Matrices"),
    (180, "Fused operations"),
    (199, "Selection"),
    (200, "Our additions"),
    (300, "Fused by the compiler"),
];

/// The page in Markdown; the same text for the same table.
pub fn operations_page() -> String {
    let mut out = String::from(include_str!("head.md"));
    let mut sections = SECTIONS.iter().peekable();
    for info in OpInfo::all() {
        let mut heading = None;
        while let Some((_, name)) = sections.next_if(|(from, _)| *from <= info.tag) {
            heading = Some(name);
        }
        if let Some(heading) = heading {
            let _ = write!(
                out,
                "\n## {heading}\n\n| tag | name | payload | operands → results | meaning | effect |\n|---|---|---|---|---|---|\n"
            );
        }
        row(info, &mut out);
    }
    out.push('\n');
    out.push_str(include_str!("tail.md"));
    out
}

fn row(info: &OpInfo, out: &mut String) {
    let payload: Vec<String> = info.fields.iter().map(field).collect();
    let operands: Vec<String> = info.operands.split('|').map(commas).collect();
    let effect = match info.effect {
        Effect::Pure => "pure",
        Effect::State => "state",
        Effect::Random => "random",
        Effect::Host => "host",
    };
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} → {} | {} | {effect} |",
        info.tag,
        info.name,
        payload.join(", "),
        operands.join(" or "),
        commas(info.results),
        info.doc.replace('|', "\\|"),
    );
}

fn field(field: &FieldInfo) -> String {
    format!("`{}` {}", field.name, field.kind.trim_end_matches(';'))
}

fn commas(names: &str) -> String {
    let names: Vec<String> = names.split_whitespace().map(|n| format!("`{n}`")).collect();
    names.join(", ")
}
