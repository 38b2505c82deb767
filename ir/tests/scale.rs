//! A long chain through every form. `TALLOW_SCALE=850000 cargo test -p tallow-ir --test scale -- --nocapture` makes it a
//! million nodes and prints times and memory.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;

use std::time::Instant;
use tallow_ir::binary::RawGraph;
use tallow_ir::{graphs_equal, text, verify};

#[test]
fn a_long_chain_survives_every_form() {
    let layers = std::env::var("TALLOW_SCALE").ok().and_then(|n| n.parse().ok()).unwrap_or(8_500);
    let clock = Instant::now();
    let at = |what: &str| println!("{what}: {:.2} s", clock.elapsed().as_secs_f64());
    let g = common::chain(layers);
    at(&format!("built {} nodes", g.len()));
    let printed = text::print(&g);
    at(&format!("printed {} bytes", printed.len()));
    let again = text::parse(&printed).unwrap();
    drop(printed);
    at("parsed");
    assert!(graphs_equal(&g, &again));
    at("compared");
    let again = verify(again).unwrap();
    at("verified");
    drop(again);
    let bytes = RawGraph::from_graph(&g).unwrap().write();
    at(&format!("written as {} bytes", bytes.len()));
    let weights: std::collections::HashMap<String, _> =
        g.weights().map(|(n, v)| (n.to_owned(), g.ty(v).clone())).collect();
    let raw = RawGraph::read(&bytes).unwrap();
    at("read");
    let again = raw.to_graph(&|n| weights.get(n).cloned(), false).unwrap();
    at("bound");
    assert!(graphs_equal(&g, &again));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default());
}
