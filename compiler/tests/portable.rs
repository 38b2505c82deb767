//! Each portable pass on small graphs: what it changes, and what it leaves alone and why.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use tallow_compiler::{Options, Outcome, optimise};
use tallow_ir::verify::verify;
use tallow_ir::{Evaluate, Literal, Op, text};

/// Adds and negates vectors: enough to see constants being computed.
struct Adder;

impl Evaluate for Adder {
    fn evaluate(&self, op: &Op, operands: &[Literal]) -> Option<Vec<Literal>> {
        let types: Vec<_> = operands.iter().map(|l| l.ty.clone()).collect();
        let ty = op.infer(&types).ok()?.pop()?;
        let values = match (op, operands) {
            (Op::Add, [a, b]) if a.ty == b.ty => a.values.iter().zip(&b.values).map(|(a, b)| a + b).collect(),
            (Op::Neg, [a]) => a.values.iter().map(|a| -a).collect(),
            _ => return None,
        };
        Some(vec![Literal { ty, values }])
    }
}

/// The statements of a graph after one pass, and its remarks: `applied: what` or `missed: why`.
fn after(pass: &str, statements: &str) -> (Vec<String>, Vec<String>) {
    let graph = verify(text::parse(&format!("graph {{\n{statements}\n}}")).unwrap()).unwrap();
    let options =
        Options { passes: Some(vec![pass.into()]), verify: true, evaluate: Some(&Adder), ..Options::default() };
    let made = optimise(&graph, &options).unwrap();
    let text = text::print(made.graph.graph());
    let lines = text.lines().map(|l| l.trim().to_owned()).filter(|l| l.starts_with('%') || l.starts_with("output"));
    let remarks = made.remarks.iter().map(|r| match &r.outcome {
        Outcome::Applied(_) => format!("applied: {}", r.what),
        Outcome::Missed(why) => format!("missed: {why}"),
    });
    (lines.collect(), remarks.collect())
}

#[track_caller]
fn becomes(pass: &str, before: &str, wanted: &[&str]) {
    let (lines, remarks) = after(pass, before);
    assert_eq!(lines, wanted, "{remarks:?}");
}

#[test]
fn identities_go_and_constants_become_attributes() {
    let pass = "identities";
    for statement in [
        "%a: f32[S, 4] = AddScalar(%x) { value = -0 }",
        "%a: f32[S, 4] = Permute(%x) { dims = [0, 1] }",
        "%a: f32[S, 4] = Reshape(%x) { shape = [-1, 4] }",
        "%a: f32[S, 4] = Concat(%x) { axis = 0 }",
        "%a: f32[S, 4] = Slice(%x) { axis = 1, start = 0, end = 4 }",
        "%a: f32[S, 4] = Cast(%x) { dtype = f32 }",
        "%n: f32[S, 4] = Neg(%x)\n%a: f32[S, 4] = Neg(%n)",
        "%c: f32[] = Constant() { dtype = f32, shape = [], values = [1] }\n%a: f32[S, 4] = Mul(%c, %x)",
    ] {
        becomes(pass, &format!("input %x: f32[S, 4]\n{statement}\noutput y = %a"), &["output y = %x"]);
    }
    let constant = "%c: f32[4] = Constant() { dtype = f32, shape = [4], values = [3] }";
    for (op, wanted) in [
        ("Add(%c, %x)", "AddScalar(%x) { value = 3 }"),
        ("Sub(%x, %c)", "AddScalar(%x) { value = -3 }"),
        ("Mul(%x, %c)", "MulScalar(%x) { value = 3 }"),
    ] {
        let before = format!("input %x: f32[S, 4]\n{constant}\n%a: f32[S, 4] = {op}\noutput y = %a");
        becomes(pass, &before, &[&format!("%a: f32[S, 4] = {wanted}"), "output y = %a"]);
    }
    // What spreads, what divides inexactly, and what makes 0 of -0, stays.
    for op in
        ["%a: f32[4, 4] = Sub(%x, %z)", "%a: f32[1, 4] = Div(%x, %c)", "%a: f32[1, 4] = AddScalar(%x) { value = 0 }"]
    {
        let zero = "%z: f32[4, 4] = Constant() { dtype = f32, shape = [4, 4], values = [0] }";
        let before = format!("input %x: f32[1, 4]\n{constant}\n{zero}\n{op}\noutput y = %a");
        assert!(after(pass, &before).0.contains(&op.to_owned()));
    }
}

#[test]
fn constants_are_computed_and_large_or_impossible_ones_are_remarked() {
    let pass = "constants";
    becomes(
        pass,
        "input %x: f32[S, 7]
         %n: i64[] = Size(%x) { axis = 1 }
         %m: i64[] = Neg(%n)
         output y = %m",
        &["%m: i64[] = Constant() { dtype = i64, shape = [], values = [-7] }", "output y = %m"],
    );
    becomes(
        pass,
        "input %x: f32[3, S]
         %n: i64[3] = Iota(%x) { axis = 0 }
         output y = %n",
        &["%n: i64[3] = Constant() { dtype = i64, shape = [3], values = [0, 1, 2] }", "output y = %n"],
    );
    let (lines, remarks) = after(
        pass,
        "%a: f32[70, 70] = Constant() { dtype = f32, shape = [70, 70], values = [1] }
         %b: f32[70, 70] = Neg(%a)
         %c: f32[2] = Constant() { dtype = f32, shape = [2], values = [1, 2] }
         %d: f32[2] = Exp(%c)
         output y = %b
         output z = %d",
    );
    assert_eq!(lines.len(), 6);
    assert_eq!(
        remarks,
        [
            "missed: f32[70, 70] would hold more than 4096 elements",
            "missed: Exp of these values is an error, or no number that a graph can hold"
        ]
    );
}

#[test]
fn moves_join() {
    let pass = "layout";
    let x = "input %x: f32[S, 2, 6]";
    for (statements, wanted) in [
        (
            "%a: f32[S, 12] = Reshape(%x) { shape = [-1, 12] }\n%b: f32[S, 3, 4] = Reshape(%a) { shape = [-1, 3, 4] }",
            "%b: f32[S, 3, 4] = Reshape(%x) { shape = [-1, 3, 4] }",
        ),
        (
            "%a: f32[2, S, 6] = Permute(%x) { dims = [1, 0, 2] }\n%b: f32[6, 2, S] = Permute(%a) { dims = [2, 0, 1] }",
            "%b: f32[6, 2, S] = Permute(%x) { dims = [2, 1, 0] }",
        ),
        (
            "%a: f32[S, 2, 4] = Slice(%x) { axis = 2, start = 1, end = 5 }
             %b: f32[S, 2, 2] = Slice(%a) { axis = 2, start = -2, end = 9223372036854775807 }",
            "%b: f32[S, 2, 2] = Slice(%x) { axis = 2, start = 3, end = 5 }",
        ),
    ] {
        becomes(pass, &format!("{x}\n{statements}\noutput y = %b"), &[wanted, "output y = %b"]);
    }
    for statements in [
        "%a: f32[S, 12] = Reshape(%x) { shape = [-1, 12] }\n%b: f32[S, 2, 6] = Reshape(%a) { shape = [-1, 2, 6] }",
        "%a: f32[2, S, 6] = Permute(%x) { dims = [1, 0, 2] }\n%b: f32[S, 2, 6] = Permute(%a) { dims = [1, 0, 2] }",
        "%p: f32[S, 2, 2], %q: f32[S, 2, 4] = Split(%x) { axis = 2, sizes = [2, 4] }\n%b: f32[S, 2, 6] = Concat(%p, %q) { axis = 2 }",
        "%c: f32[S, 2, 12] = Concat(%x, %x) { axis = 2 }\n%b: f32[S, 2, 6], %q: f32[S, 2, 6] = Chunk(%c) { axis = 2, chunks = 2 }",
        "%c: f32[S, 2, 12] = Concat(%x, %x) { axis = 2 }\n%b: f32[S, 2, 6] = Slice(%c) { axis = 2, start = 6, end = 12 }",
    ] {
        becomes(pass, &format!("{x}\n{statements}\noutput y = %b"), &["output y = %x"]);
    }
    becomes(
        pass,
        "input %x: f32[S, 1, 6]\n%b: f32[1, S, 6] = Permute(%x) { dims = [1, 0, 2] }\noutput y = %b",
        &["%b: f32[1, S, 6] = Reshape(%x) { shape = [1, -1, 6] }", "output y = %b"],
    );
    becomes(
        pass,
        "input %x: f32[S, 6]\ninput %z: f32[6, 4]\n%t: f32[4, 6] = Permute(%z) { dims = [1, 0] }
         %b: f32[S, 4] = BatchMatmul(%x, %t) { transpose_b = true }\noutput y = %b",
        &["%b: f32[S, 4] = BatchMatmul(%x, %z) { transpose_b = false }", "output y = %b"],
    );
    // What others read stays beside what is joined.
    let (lines, _) = after(
        pass,
        &format!(
            "{x}\n%a: f32[S, 12] = Reshape(%x) {{ shape = [-1, 12] }}
             %b: f32[S, 3, 4] = Reshape(%a) {{ shape = [-1, 3, 4] }}\noutput y = %b\noutput z = %a"
        ),
    );
    assert_eq!(lines[1], "%b: f32[S, 3, 4] = Reshape(%x) { shape = [-1, 3, 4] }");
    let two = "input %x: f32[S, N, 6]\n%a: f32[N, 1, S, 6] = Unsqueeze(%p) { axes = [1] }";
    let before = format!(
        "{}\n%p: f32[N, S, 6] = Permute(%x) {{ dims = [1, 0, 2] }}\n{}\n%b: f32[N, S, 6] = Squeeze(%a) {{ axes = [1] }}
         %c: f32[1, N, S, 6] = Unsqueeze(%b) {{ axes = [0] }}\noutput y = %c",
        two.lines().next().unwrap(),
        two.lines().nth(1).unwrap()
    );
    let (_, remarks) = after(pass, &before);
    assert_eq!(
        remarks,
        [
            "applied: Squeeze of Unsqueeze",
            // Unsqueeze now reads the permutation itself.
        ]
    );
}

#[test]
fn equal_operations_are_computed_once_and_effects_as_often_as_written() {
    becomes(
        "common",
        "input %x: f32[S, 4]
         input %z: f32[S, 4]
         %a: f32[S, 4] = Add(%x, %z)
         %b: f32[S, 4] = Add(%z, %x)
         %c: f32[S, 4] = Exp(%a)
         %d: f32[S, 4] = Exp(%b)
         %e: f32[S, 4] = Sub(%x, %z)
         %f: f32[S, 4] = Sub(%z, %x)
         output c = %c
         output d = %d
         output e = %e
         output f = %f",
        &[
            "%a: f32[S, 4] = Add(%x, %z)",
            "%c: f32[S, 4] = Exp(%a)",
            "%e: f32[S, 4] = Sub(%x, %z)",
            "%f: f32[S, 4] = Sub(%z, %x)",
            "output c = %c",
            "output d = %c",
            "output e = %e",
            "output f = %f",
        ],
    );
    let (lines, _) = after(
        "common",
        "input %x: f32[S, 4]
         %a: f32[S, 4] = RandomNormal(%x) { seed = 1 }
         %b: f32[S, 4] = RandomNormal(%x) { seed = 1 }
         output a = %a
         output b = %b",
    );
    assert_eq!(lines.len(), 4);
}

const CONVOLUTION: &str = "
    input %x: f32[1, 3, 8]
    weight %w = \"w\": DTYPE[5, 3, 3]
    weight %g = \"g\": f32[5]
    weight %b = \"b\": f32[5]
    weight %m = \"m\": f32[5]
    weight %v = \"v\": f32[5]
    %c: f32[1, 5, 8] = Conv1d(%x, %w) { kernel = 3, stride = 1, padding = 1, dilation = 1, groups = 1 }
    %y: f32[1, 5, 8] = BatchNorm(%c, %g, %b, %m, %v) { eps = 1e-5, momentum = 0.1 }
    output y = %y";

#[test]
fn batch_norm_folds_into_a_convolution_with_plain_weights_that_nothing_else_reads() {
    let (lines, remarks) = after("batch-norm", &CONVOLUTION.replace("DTYPE", "u32"));
    assert!(lines.iter().any(|l| l.starts_with("%y: f32[1, 5, 8] = Conv1d(%x, ")), "{lines:?}");
    assert!(!lines.iter().any(|l| l.contains("BatchNorm")));
    assert_eq!(remarks, ["applied: batch norm + convolution"]);
    for (graph, why) in [
        (CONVOLUTION.replace("DTYPE", "q8"), "missed: the weight is q8, and would have to be kept decoded"),
        (CONVOLUTION.replace("DTYPE", "u32") + "\noutput z = %c", "missed: `c` is the output `z`"),
        (
            CONVOLUTION.replace("DTYPE", "u32") + "\n%e: f32[1, 5, 8] = Exp(%c)\noutput z = %e",
            "missed: `c` has 2 readers",
        ),
    ] {
        assert_eq!(after("batch-norm", &graph).1, [why]);
    }
}
