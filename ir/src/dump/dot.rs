//! A graph for Graphviz.

use super::picture::{Detail, Part, Picture, Role, Way, clean, nested};
use crate::Graph;
use std::cell::RefCell;
use std::fmt::Write as _;

/// `graph` in the language of Graphviz: operations as boxes, layers and modules as clusters, weights
/// small, arrows with element type and shape. With [`Detail::Folded`] a layer that repeats is one cluster
/// with its number; dashed arrows go to the next turn, or from outside to one turn only. Attributes that do
/// not fit into a box are its tooltip.
///
/// Names are quoted, and control characters in them spelt out. The same bytes for the same graph.
pub fn dot(graph: &Graph, detail: Detail) -> String {
    let picture = Picture::of(graph, detail);
    let out = RefCell::new(String::new());
    let put = |depth: usize, text: String| {
        let mut out = out.borrow_mut();
        out.extend(std::iter::repeat_n("  ", depth));
        out.push_str(&text);
        out.push('\n');
    };
    picture.head.iter().for_each(|line| put(0, format!("// {line}")));
    put(0, "digraph {".into());
    put(1, "graph [fontname=\"Helvetica\", fontsize=12, color=\"#999999\", style=rounded];".into());
    put(1, "node [fontname=\"Helvetica\", fontsize=11, shape=box, style=filled, fillcolor=\"#eef3fb\"];".into());
    put(1, "edge [fontname=\"Helvetica\", fontsize=9, color=\"#555555\"];".into());
    nested(
        &picture,
        |frame, depth| {
            put(depth, format!("subgraph cluster_{frame} {{"));
            put(depth + 1, format!("label={};", quoted(&picture.frames[frame].label)));
        },
        |part, depth| put(depth, format!("n{part} [{}];", attributes(&picture.parts[part]))),
        |depth| put(depth, "}".into()),
    );
    for arrow in &picture.arrows {
        let style = match arrow.way {
            Way::Always => "",
            Way::Next => ", style=dashed, constraint=false",
            Way::Once => ", style=dashed",
        };
        put(1, format!("n{} -> n{} [label={}{style}];", arrow.from, arrow.to, quoted(&arrow.label)));
    }
    put(0, "}".into());
    out.into_inner()
}

fn attributes(part: &Part) -> String {
    let mut out = String::from("label=\"");
    for (i, line) in part.lines.iter().enumerate() {
        out.push_str(if i > 0 { "\\n" } else { "" });
        out.push_str(&escaped(line));
    }
    out.push('"');
    if let Some(more) = &part.more {
        let _ = write!(out, ", tooltip={}", quoted(more));
    }
    let _ = match part.role {
        Role::Operation => Ok(()),
        Role::Input => write!(out, ", shape=ellipse, fillcolor=\"#e4f4e1\""),
        Role::Output => write!(out, ", shape=ellipse, fillcolor=\"#fbe9d7\""),
        Role::Weight => {
            write!(out, ", shape=note, fontsize=8, height=0.2, margin=\"0.06,0.03\", fillcolor=\"#f7f7f2\"")
        }
    };
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Inside quotes: backslashes would be escapes, `&` would begin an entity.
fn escaped(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;")
}
