//! The driver: patches in order, their numbers, and where they stop.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use tallow_compiler::{Options, Outcome, Stage, optimise};
use tallow_ir::text;
use tallow_ir::verify::{Verified, verify};

fn graph(statements: &str) -> Verified {
    verify(text::parse(&format!("graph {{\n{statements}\n}}")).unwrap()).unwrap()
}

const THREE: &str = "
    input %x: f32[4]
    %a: f32[4] = AddScalar(%x) { value = -0 }
    %b: f32[4] = MulScalar(%a) { value = 1 }
    %c: f32[4] = Exp(%b)
    %d: f32[4] = Clamp(%c) { min = none, max = none }
    output y = %d";

#[test]
fn patches_are_numbered_and_stop_where_asked() {
    let graph = graph(THREE);
    let portable = Options { stage: Stage::Portable, verify: true, ..Options::default() };
    let all = optimise(&graph, &portable).unwrap();
    assert_eq!(all.graph.graph().len(), 2);
    let numbers: Vec<_> = all.remarks.iter().map(|r| r.outcome.clone()).collect();
    assert_eq!(numbers, [Outcome::Applied(1), Outcome::Applied(2), Outcome::Applied(3)]);
    for (limit, nodes) in [(0, 5), (1, 4), (2, 3), (3, 2), (9, 2)] {
        let some = optimise(&graph, &Options { stop_after: Some(limit), ..portable.clone() }).unwrap();
        assert_eq!(some.graph.graph().len(), nodes, "after {limit}");
    }
}

#[test]
fn what_nothing_needs_goes_and_inputs_stay() {
    let graph = graph(
        "input %x: f32[4]
         input %unused: f32[4]
         weight %w = \"w\": f32[4]
         %a: f32[4] = Exp(%x)
         %b: f32[4] = Add(%a, %w)
         output y = %a",
    );
    let made = optimise(&graph, &Options { stage: Stage::Portable, ..Options::default() }).unwrap();
    let text = text::print(made.graph.graph());
    assert!(text.contains("%unused") && !text.contains("Add") && !text.contains("%w"), "{text}");
}
