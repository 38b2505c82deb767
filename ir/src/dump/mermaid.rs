//! A graph for Mermaid.

use super::picture::{Detail, Picture, Role, Way, clean, nested};
use crate::Graph;
use std::cell::RefCell;

/// `graph` as a Mermaid flowchart, drawn as [`dot`](super::dot()) draws it: subgraphs are layers and
/// modules, dotted arrows go to another turn. Mermaid itself refuses charts of over 500 arrows or 50,000
/// characters unless its page raises `maxEdges` and `maxTextSize`.
///
/// What Mermaid would read as more than text is an entity. The same bytes for the same graph.
pub fn mermaid(graph: &Graph, detail: Detail) -> String {
    let picture = Picture::of(graph, detail);
    let out = RefCell::new(String::from("flowchart TD\n"));
    let put = |depth: usize, text: String| {
        let mut out = out.borrow_mut();
        out.extend(std::iter::repeat_n("  ", depth));
        out.push_str(&text);
        out.push('\n');
    };
    picture.head.iter().for_each(|line| put(1, format!("%% {line}")));
    nested(
        &picture,
        |frame, depth| put(depth, format!("subgraph f{frame}[\"{}\"]", escaped(&picture.frames[frame].label))),
        |part, depth| {
            let lines: Vec<String> = picture.parts[part].lines.iter().map(|line| escaped(line)).collect();
            let text = lines.join("<br/>");
            put(
                depth,
                match picture.parts[part].role {
                    Role::Operation => format!("n{part}[\"{text}\"]"),
                    Role::Input => format!("n{part}([\"{text}\"]):::input"),
                    Role::Output => format!("n{part}([\"{text}\"]):::output"),
                    Role::Weight => format!("n{part}[\"{text}\"]:::weight"),
                },
            );
        },
        |depth| put(depth, "end".into()),
    );
    for arrow in &picture.arrows {
        let line = match arrow.way {
            Way::Always => "-->",
            Way::Next | Way::Once => "-.->",
        };
        let label = match arrow.label.is_empty() {
            true => String::new(),
            false => format!("|\"{}\"|", escaped(&arrow.label)),
        };
        put(1, format!("n{} {line}{label} n{}", arrow.from, arrow.to));
    }
    put(1, "classDef input fill:#e4f4e1,stroke:#7a9".into());
    put(1, "classDef output fill:#fbe9d7,stroke:#b97".into());
    put(1, "classDef weight fill:#f7f7f2,stroke:#bbb,font-size:10px".into());
    out.into_inner()
}

/// Inside quotes. The sign of values goes, as `%%` begins a comment or a directive wherever it stands.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    for c in clean(text).chars() {
        let sign = c == '%' && matches!(before, ' ' | '(');
        match c {
            '%' if sign => {}
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '#' => out.push_str("#35;"),
            '%' => out.push_str("#37;"),
            '`' => out.push_str("#96;"),
            '\\' => out.push_str("#92;"),
            c => out.push(c),
        }
        before = if sign { '%' } else { c };
    }
    out
}
