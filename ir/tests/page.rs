//! Pages: self-contained, safe against hostile names, the same bytes each time, and linear.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;

use common::{chain, decoder, f};
use serde_json::Value as Json;
use std::time::Instant;
use tallow_ir::page::{About, Remark, Source};
use tallow_ir::{Graph, Op, diff, page, text};

/// The data of a page, as a browser would find them.
fn data(page: &str) -> Json {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn groups(page: &str) -> Vec<(String, String, u64, u64, Option<u64>)> {
    let found = data(page)["graphs"][0]["groups"].as_array().unwrap().clone();
    let text = |g: &Json, key: &str| g[key].as_str().unwrap().to_owned();
    let place = |g: &Json, key: &str| g[key].as_u64().unwrap();
    found
        .iter()
        .map(|g| (text(g, "kind"), text(g, "label"), place(g, "from"), place(g, "to"), g["parent"].as_u64()))
        .collect()
}

#[test]
fn a_page_asks_nothing_of_the_network() {
    let page = page::graph(&decoder(3), &About::titled("three layers"));
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";
    let head = page.split_once("</head>").unwrap().0;
    assert!(head.contains(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")));
    for outside in [
        "<link",
        "<img",
        "<iframe",
        " src=",
        "@import",
        "url(",
        "fetch(",
        "XMLHttpRequest",
        "sourceMappingURL",
        "import(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn names_do_not_become_markup() {
    let hostile = [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "line\u{2028}and\u{2029}paragraph",
        "quotes \" ' ` and \\ \\u003c",
        "]]> & &lt; \u{0} \u{1f}",
    ];
    let mut g = Graph::new();
    let mut x = g.input(hostile[0], f("4")).unwrap();
    for name in &hostile[1..] {
        let w = g.weight(name, f("4")).unwrap();
        x = g.op(Op::Add, &[x, w]).unwrap();
        g.name(x, *name);
    }
    g.output(hostile[1], x).unwrap();
    let mut about = About::titled(hostile[0]);
    about.subtitle = hostile[1].into();
    about.source = Some(Source { name: hostile[3].into(), text: hostile.join("\n") });
    about
        .remarks
        .insert(x.node, vec![Remark { pass: hostile[0].into(), applied: true, text: hostile[2].into(), number: None }]);
    let plain = page::graph(&decoder(1), &About::titled("plain"));
    let page = page::graph(&g, &about);
    // As many elements as in a page without such names, and what was in them comes back as it was.
    for tag in ["<script", "</script", "<!--", "<title", "<body"] {
        assert_eq!(page.matches(tag).count(), plain.matches(tag).count(), "{tag}");
    }
    assert!(!page.contains('\u{2028}') && !page.contains('\u{2029}') && !page.contains('\u{0}'));
    let data = data(&page);
    let names: Vec<&str> =
        data["graphs"][0]["nodes"].as_array().unwrap().iter().filter_map(|n| n["w"].as_str()).collect();
    assert_eq!(names, [hostile[0], hostile[1], hostile[2], hostile[3], hostile[4], hostile[1]]);
    assert_eq!(data["graphs"][0]["source"]["text"], hostile.join("\n"));
}

#[test]
fn equal_layers_stand_in_a_stack_and_hold_modules() {
    let page = page::graph(&decoder(3), &About::default());
    let found = groups(&page);
    let labels: Vec<(&str, &str)> = found.iter().map(|g| (g.0.as_str(), g.1.as_str())).collect();
    let count = |what| labels.iter().filter(|l| **l == what).count();
    assert_eq!(count(("stack", "layer 0–2")), 1);
    assert_eq!((count(("layer", "layer 1")), count(("module", "self_attn")), count(("module", "mlp"))), (1, 3, 3));
    assert_eq!(labels.len(), 10);
    for (kind, label, from, to, parent) in &found {
        assert!(from < to, "{label}");
        let around = parent.map(|p| &found[p as usize]);
        assert!(around.is_none_or(|p| p.2 <= *from && *to <= p.3), "{kind} {label} stands inside its parent");
    }
}

#[test]
fn layers_that_differ_stand_by_themselves() {
    // The second of two layers has another epsilon.
    let text = text::print(&decoder(2));
    let second = text.rfind("= RmsNorm(").and_then(|last| text[..last].rfind("= RmsNorm(")).unwrap();
    let changed = format!("{}{}", &text[..second], text[second..].replacen("eps = ", "eps = 1", 1));
    let found = groups(&page::graph(&text::parse(&changed).unwrap(), &About::default()));
    assert_eq!(found.iter().filter(|g| g.0 == "stack").count(), 0);
    assert_eq!(found.iter().filter(|g| g.0 == "layer").count(), 2);
}

#[test]
fn layers_of_which_one_is_left_out_are_layers() {
    let text = text::print(&decoder(5)).replace(".layers.4.", ".layers.5.").replace(".layers.3.", ".layers.4.");
    let found = groups(&page::graph(&text::parse(&text).unwrap(), &About::default()));
    let of = |kind| found.iter().filter(|g| g.0 == kind).map(|g| g.1.as_str()).collect::<Vec<_>>();
    assert_eq!(of("stack"), ["layer 0–2", "layer 4–5"]);
    let mut layers = of("layer");
    layers.sort_unstable();
    assert_eq!(layers, ["layer 0", "layer 1", "layer 2", "layer 4", "layer 5"]);
}

#[test]
fn what_repeats_without_names_is_turns() {
    let mut g = Graph::new();
    let mut x = g.input("x", f("4")).unwrap();
    for _ in 0..30 {
        let wave = g.op(Op::Sin, &[x]).unwrap();
        let power = g.op(Op::Exp, &[x]).unwrap();
        let sum = g.op(Op::Add, &[wave, power]).unwrap();
        x = g.op(Op::Tanh, &[sum]).unwrap();
    }
    g.output("y", x).unwrap();
    let found = groups(&page::graph(&g, &About::default()));
    assert_eq!(found[0], ("stack".into(), "turn 0–29".into(), 0, 120, None));
    assert_eq!(found.iter().filter(|g| g.0 == "layer" && g.3 - g.2 == 4).count(), 30);
}

#[test]
fn what_is_known_of_a_node_is_in_the_page() {
    let g = decoder(2);
    let node = g.nodes().find(|&n| matches!(g.node(n).kind, tallow_ir::NodeKind::Op(Op::SwiGlu))).unwrap();
    let mut about = About::titled("told");
    let remark = |number| Remark { pass: "gates".into(), applied: false, text: "two readers".into(), number };
    about.remarks.insert(node, vec![remark(None), remark(Some(7))]);
    about.spans.insert(node, (12, 5));
    about.modules.insert(node, "model.layers.0.feed_forward".into());
    let data = data(&page::graph(&g, &about));
    let nodes = data["graphs"][0]["nodes"].as_array().unwrap();
    let told: Vec<&Json> = nodes.iter().filter(|n| n.get("r").is_some() || n.get("s").is_some()).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["r"], serde_json::json!([["gates", 0, "two readers"], ["gates", 0, "two readers", 7]]));
    assert_eq!(told[0]["s"], serde_json::json!([12, 5]));
    assert_eq!(data["graphs"][0]["ops"][told[0]["o"].as_u64().unwrap() as usize]["name"], "SwiGlu");
}

#[test]
fn long_constants_are_cut() {
    let mut g = Graph::new();
    let values = (0..10_000).map(|n| (n as f32).into()).collect();
    let c = g.op(Op::Constant { dtype: tallow_ir::DType::F32, shape: vec![10_000], values }, &[]).unwrap();
    g.output("c", c).unwrap();
    let data = data(&page::graph(&g, &About::default()));
    let attribute = data["graphs"][0]["nodes"][0]["a"][2].as_str().unwrap();
    assert!(attribute.len() < 500 && attribute.ends_with("characters)"), "{attribute}");
}

#[test]
fn a_difference_names_partners_and_places() {
    let left = decoder(2);
    let text = text::print(&left).replace("= SwiGlu(", "= GeGlu(");
    let right = text::parse(&text).unwrap();
    let difference = diff::diff(&left, &right).unwrap();
    let page = page::diff(&left, &right, &difference, &About::titled("a"), &About::titled("b"));
    assert!(page.contains("<title>a ↔ b</title>"));
    let data = data(&page);
    let entries = data["diff"]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), difference.entries.len());
    assert_eq!(entries.len(), 1);
    let (ops, nodes) = (&data["graphs"][1]["ops"], &data["graphs"][1]["nodes"]);
    let spots = entries[0]["spots"].as_array().unwrap();
    assert_eq!(spots.len(), 2);
    for spot in spots {
        let right = spot[1][0].as_u64().unwrap() as usize;
        assert_eq!(ops[nodes[right]["o"].as_u64().unwrap() as usize]["name"], "GeGlu");
    }
    // Every partner exists, and inputs are each other's.
    let partner = data["diff"]["partner"].as_array().unwrap();
    let known = partner.iter().filter_map(Json::as_u64).all(|p| (p as usize) < nodes.as_array().unwrap().len());
    assert!(known);
}

#[test]
fn the_same_graph_gives_the_same_bytes() {
    let about = About::titled("decoder");
    assert_eq!(page::graph(&decoder(4), &about), page::graph(&decoder(4), &about));
    let (a, b) = (decoder(2), decoder(3));
    let page = || page::diff(&a, &b, &diff::diff(&a, &b).unwrap(), &about, &about);
    assert_eq!(page(), page());
}

#[test]
fn pages_are_linear_and_no_name_is_too_deep() {
    // Each weight lies one module deeper than the one before.
    let mut g = Graph::new();
    let mut x = g.input("x", f("4")).unwrap();
    let mut name = String::from("m");
    for i in 0..400 {
        name.push_str(if i % 2 == 0 { ".left" } else { ".right" });
        let w = g.weight(&format!("{name}.weight"), f("4")).unwrap();
        x = g.op(Op::Add, &[x, w]).unwrap();
        x = g.op(Op::Relu, &[x]).unwrap();
    }
    g.output("y", x).unwrap();
    let found = groups(&page::graph(&g, &About::default()));
    let depth = |mut at: usize| {
        let mut n = 1;
        while let Some(parent) = found[at].4 {
            (at, n) = (parent as usize, n + 1);
        }
        n
    };
    assert!((0..found.len()).all(|g| depth(g) <= 40));
    // Ten times the nodes take about ten times as long; thirty would be a walk too many.
    let time = |n: usize| {
        let g = chain(n);
        let start = Instant::now();
        let bytes = page::graph(&g, &About::default()).len();
        (start.elapsed().as_secs_f64(), bytes)
    };
    time(2_000);
    let (few, many) = (time(4_000), time(40_000));
    assert!(many.0 < 30.0 * few.0.max(0.01), "{few:?} {many:?}");
    assert!(many.1 < 15 * few.1, "{few:?} {many:?}");
}
