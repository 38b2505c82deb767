//! Long chains through every form. `cargo test -p tallow-ir --test scale -- --nocapture` prints what each step takes on
//! the processor, for a thousand, ten thousand and a hundred thousand nodes; with `TALLOW_SCALE=850000` before it for a
//! million as well. Nothing here depends on time.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;

use std::collections::HashMap;
use std::time::Instant;
use tallow_ir::binary::{Binding, RawGraph};
use tallow_ir::{TensorType, graphs_equal, text, verify};

/// Lengths of chains, each of 1.2 nodes a link.
const LENGTHS: [usize; 3] = [850, 8_500, 85_000];

#[test]
fn long_chains_survive_every_form() {
    let asked: Option<usize> = std::env::var("TALLOW_SCALE").ok().and_then(|n| n.parse().ok());
    println!("    nodes   build   print   parse  verify   write    read    bind  (s)  peak (MiB)");
    for length in LENGTHS.into_iter().chain(asked) {
        chain(length);
    }
}

fn chain(length: usize) {
    let mut clock = Clock::new();
    let g = common::chain(length);
    clock.lap();
    let printed = text::print(&g);
    clock.lap();
    let again = text::parse(&printed).unwrap();
    drop(printed);
    clock.lap();
    let again = verify(again).unwrap();
    clock.lap();
    assert!(graphs_equal(&g, again.graph()));
    drop(again);
    clock.skip();
    let bytes = RawGraph::from_graph(&g).unwrap().write();
    clock.lap();
    let weights: HashMap<String, TensorType> = g.weights().map(|(n, v)| (n.to_owned(), g.ty(v).clone())).collect();
    clock.skip();
    let raw = RawGraph::read(&bytes).unwrap();
    clock.lap();
    let inputs: Vec<_> = g.inputs().map(|(n, v)| (n, g.ty(v).clone())).collect();
    let binding = Binding { weights: &|n| weights.get(n).cloned(), tie_head: false, inputs: &inputs };
    let again = raw.to_graph_with(&binding).unwrap();
    clock.lap();
    assert!(graphs_equal(&g, &again));
    assert_eq!(raw.write(), bytes);
    let laps: String = clock.laps.iter().map(|s| format!("{s:8.3}")).collect();
    println!("{:9}{laps}       {:9}", g.len(), peak());
}

/// Measures steps one after another.
struct Clock {
    begin: Instant,
    last: f64,
    laps: Vec<f64>,
}

impl Clock {
    fn new() -> Self {
        let mut clock = Clock { begin: Instant::now(), last: 0.0, laps: Vec::new() };
        clock.skip();
        clock
    }

    /// Seconds that this thread has run; where the system does not say, seconds that have passed.
    fn now(&self) -> f64 {
        let own = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let ran = own.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
        ran.map_or_else(|| self.begin.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
    }

    fn lap(&mut self) {
        let now = self.now();
        self.laps.push(now - self.last);
        self.last = now;
    }

    fn skip(&mut self) {
        self.last = self.now();
    }
}

/// The most memory that this process has held, in MiB; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
