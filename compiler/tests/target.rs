//! Target passes: what they make of each pattern, and why they leave one alone.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use tallow_compiler::{Facts, Optimised, Options, optimise};
use tallow_ir::text;
use tallow_ir::verify::{Verified, verify};

fn graph(statements: &str) -> Verified {
    verify(text::parse(&format!("graph {{\n{statements}\n}}")).unwrap()).unwrap()
}

fn run(statements: &str, passes: &[&str]) -> Optimised {
    let passes = Some(passes.iter().map(|&p| p.to_owned()).collect());
    optimise(&graph(statements), &Options { passes, verify: true, ..Options::default() }).unwrap()
}

/// The operations of the graph that is left, as the text form writes them, without names and types.
fn left(made: &Optimised) -> Vec<String> {
    let text = text::print(made.graph.graph());
    let operation = |line: &str| {
        let (_, right) = line.split_once(" = ")?;
        (line.trim_start().starts_with('%') && right.contains('(')).then(|| right.to_owned())
    };
    text.lines().filter_map(operation).collect()
}

fn remarks(made: &Optimised) -> Vec<String> {
    made.remarks.iter().map(|r| r.to_string().trim_start().to_owned()).collect()
}

/// Runs the passes: the operations that are left, and the remarks.
#[track_caller]
fn becomes(statements: &str, passes: &[&str], operations: &[&str]) -> Vec<String> {
    let made = run(statements, passes);
    assert_eq!(left(&made), operations, "{}", remarks(&made).join("\n"));
    remarks(&made)
}

/// Nothing changes, and a remark says why.
#[track_caller]
fn stays(statements: &str, passes: &[&str], why: &str) {
    let before = graph(statements);
    let made = run(statements, passes);
    assert_eq!(text::print(made.graph.graph()), text::print(before.graph()));
    let remarks = remarks(&made);
    assert!(remarks.iter().any(|r| r.contains("missed") && r.contains(why)), "no remark says {why:?}: {remarks:?}");
}

const HEADS: &str = "
    input %x: f32[S, 4]
    weight %wq = \"wq\": q8[8, 4]
    weight %wk = \"wk\": f16[2, 4]
    weight %wv = \"wv\": f32[2, 4]
    weight %bq = \"bq\": f32[8]
    weight %bv = \"bv\": f32[2]
    %q0: f32[S, 8] = Matmul(%x, %wq)
    %q: f32[S, 8] = Add(%q0, %bq)
    %k: f32[S, 2] = Matmul(%x, %wk)
    %v0: f32[S, 2] = Matmul(%x, %wv)
    %v: f32[S, 2] = Add(%bv, %v0)
    output q = %q
    output k = %k
    output v = %v";

const JOINED: &[&str] = &["joined-projections"];

#[test]
fn projections_of_one_value_are_joined_with_the_biases_that_they_have() {
    let remarks = becomes(
        HEADS,
        JOINED,
        &["JoinedMatmul(%x, %wq, %wk, %wv, %bq, %bv) { parts = 3, norm = none, bias = [0, 2] }"],
    );
    assert_eq!(remarks, ["1  x: 3 products as one: q, k, v"]);
    let inner = format!("{HEADS}\noutput inner = %q0");
    let made = run(&inner, JOINED);
    assert_eq!(
        left(&made),
        ["JoinedMatmul(%x, %wq, %wk, %wv, %bv) { parts = 3, norm = none, bias = [2] }", "Add(%q0, %bq)"]
    );
    assert!(remarks_say(&made, "q: bias of a joined projection: missed, `q0` is the output `inner`"));
}

fn remarks_say(made: &Optimised, what: &str) -> bool {
    remarks(made).iter().any(|r| r.contains(what))
}

#[test]
fn projections_stay_apart_where_a_guard_fails() {
    let adapter = "
        input %x: f32[S, 4]
        weight %w = \"w\": f32[8, 4]
        weight %a = \"a\": f32[2, 4]
        weight %b = \"b\": f32[8, 2]
        %p: f32[S, 8] = Matmul(%x, %w)
        %q: f32[S, 8] = LoraApply(%x, %w, %a, %b) { rank = 2, alpha = 4 }
        output p = %p
        output q = %q";
    stays(adapter, JOINED, "q: joined projections: missed, it has a low-rank adapter");
    stays(adapter, JOINED, "x: joined projections: missed, fewer than two");
    let computed = "
        input %x: f32[S, 4]
        weight %w = \"w\": f32[8, 4]
        %w1: f32[8, 4] = AddScalar(%w) { value = 1 }
        %p: f32[S, 8] = Matmul(%x, %w)
        %q: f32[S, 8] = Matmul(%x, %w1)
        output p = %p
        output q = %q";
    stays(computed, JOINED, "the matrix of `q` is computed");
    let options = Options { facts: Some(Facts::plain("elsewhere")), ..Options::default() };
    let made = optimise(&graph(HEADS), &options).unwrap();
    assert_eq!(left(&made).len(), 5);
    assert!(remarks_say(&made, "x: joined projections: missed, device elsewhere runs no fused operations"));
}

const GATE: &str = "
    input %x: f32[S, 4]
    weight %wg = \"wg\": q8[8, 4]
    weight %wu = \"wu\": q4[8, 4]
    weight %bg = \"bg\": f32[8]
    weight %bu = \"bu\": f32[8]
    %g: f32[S, 8] = Matmul(%x, %wg)
    %u: f32[S, 8] = Matmul(%x, %wu)
    ";

const GATED: &[&str] = &["gated-activations"];

#[test]
fn gates_of_every_activation_become_one_operation() {
    for (activation, gate, field) in [
        ("Silu(%g)", "SwiGlu(%g, %u)", "silu"),
        ("Gelu(%g) { approximate = false }", "GeGlu(%g, %u)", "gelu"),
        ("Gelu(%g) { approximate = true }", "Gated(%g, %u) { activation = gelu_tanh }", "gelu_tanh"),
        ("Sigmoid(%g)", "Glu(%g, %u)", "sigmoid"),
        ("Relu(%g)", "Gated(%g, %u) { activation = relu }", "relu"),
        ("ReluSquared(%g)", "Gated(%g, %u) { activation = relu_squared }", "relu_squared"),
        ("QuickGelu(%g)", "Gated(%g, %u) { activation = quick_gelu }", "quick_gelu"),
        ("Tanh(%g)", "Gated(%g, %u) { activation = tanh }", "tanh"),
    ] {
        for product in ["Mul(%a, %u)", "Mul(%u, %a)"] {
            // Gate and up as they come.
            let given = format!(
                "input %g: f32[S, 8]
                 input %u: f32[S, 8]
                 %a: f32[S, 8] = {activation}
                 %y: f32[S, 8] = {product}
                 output y = %y"
            );
            let made = run(&given, GATED);
            assert_eq!(left(&made), [gate]);
            assert!(remarks_say(&made, "y: gate and up products: missed, `g` is no product"));
            // Products of one value.
            let given = format!(
                "{GATE}
                 %a: f32[S, 8] = {activation}
                 %y: f32[S, 8] = {product}
                 output y = %y"
            );
            let whole = format!("GatedMatmul(%x, %wg, %wu) {{ activation = {field}, norm = none, bias = false }}");
            let remarks = becomes(&given, GATED, &[&whole]);
            assert_eq!(remarks.len(), 2, "{remarks:?}");
        }
    }
}

#[test]
fn gates_bring_both_biases_or_none() {
    let both = format!(
        "{GATE}
         %gb: f32[S, 8] = Add(%g, %bg)
         %ub: f32[S, 8] = Add(%u, %bu)
         %y: f32[S, 8] = SwiGlu(%gb, %ub)
         output y = %y"
    );
    let whole = "GatedMatmul(%x, %wg, %wu, %bg, %bu) { activation = silu, norm = none, bias = true }";
    becomes(&both, GATED, &[whole]);
    for (inner, why) in [("g", "`g` is the output `inner`"), ("ub", "`ub` is the output `inner`")] {
        stays(&format!("{both}\noutput inner = %{inner}"), GATED, why);
    }
    let one = format!(
        "{GATE}
         %gb: f32[S, 8] = Add(%g, %bg)
         %y: f32[S, 8] = SwiGlu(%gb, %u)
         output y = %y"
    );
    stays(&one, GATED, "y: gate and up products: missed, `u` has no bias");
}

#[test]
fn gates_stay_apart_where_a_guard_fails() {
    let end = "%a: f32[S, 8] = Silu(%g)\n %y: f32[S, 8] = Mul(%a, %u)\n output y = %y";
    stays(&format!("{GATE} {end}\n output inner = %a"), GATED, "y: gate: missed, `a` is the output `inner`");
    let made = run(&format!("{GATE} {end}\n output inner = %u"), GATED);
    assert!(remarks_say(&made, "y: gate and up products: missed, `u` is the output `inner`"));
    assert_eq!(left(&made).last().unwrap(), "SwiGlu(%g, %u)");
    let row = "input %g: f32[S, 8]
        input %u: f32[8]
        %a: f32[S, 8] = Silu(%g)
        %y: f32[S, 8] = Mul(%a, %u)
        output y = %y";
    stays(row, GATED, "the shapes [S, 8] and [8] differ");
    let half = "input %g: f32[S, 8]
        input %u: f32[S, 8]
        %a: f32[S, 8] = Silu(%g)
        %h: f16[S, 8] = Cast(%a) { dtype = f16 }
        %y: f32[S, 8] = Mul(%h, %u)
        output y = %y";
    stays(half, GATED, "`h` rounds to f16 in between");
    let two = format!(
        "input %z: f32[S, 4] {GATE}
         %v: f32[S, 8] = Matmul(%z, %wu)
         %y: f32[S, 8] = SwiGlu(%g, %v)
         output y = %y
         output u = %u"
    );
    stays(&two, GATED, "`g` and `v` are products of two values");
    // What is left alone here is joined.
    let inner = format!("{GATE} {end}\n output inner = %g");
    let made = run(&inner, &["gated-activations", "joined-projections"]);
    assert!(left(&made)[0].starts_with("JoinedMatmul(%x, %wg, %wu)"));
}

const NORM: &str = "
    input %x: f32[S, 4]
    weight %n = \"n\": f32[4]
    weight %w = \"w\": q8[8, 4]
    weight %v = \"v\": q8[8, 4]
    weight %b = \"b\": f32[8]
    %h: f32[S, 4] = RmsNorm(%x, %n) { eps = 0.5 }
    ";

const ALL: &[&str] = &[
    "gated-activations",
    "joined-projections",
    "bias-activation",
    "norm-matmul",
    "skip-norm",
];

#[test]
fn norms_go_into_every_kind_of_product() {
    for (end, whole) in [
        ("%y: f32[S, 8] = Matmul(%h, %w)", "FusedNormMatmul(%x, %n, %w) { eps = 0.5 }"),
        (
            "%p: f32[S, 8] = Matmul(%h, %w)\n %y: f32[S, 8] = Add(%p, %b)",
            "MatmulBias(%x, %n, %w, %b) { activation = none, norm = 0.5 }",
        ),
        (
            "%p: f32[S, 8] = Matmul(%h, %w)\n %q: f32[S, 8] = Matmul(%h, %v)\n %y: f32[S, 8] = Glu(%p, %q)",
            "GatedMatmul(%x, %n, %w, %v) { activation = sigmoid, norm = 0.5, bias = false }",
        ),
        (
            "%p: f32[S, 8] = Matmul(%h, %w)\n %q: f32[S, 8] = Matmul(%h, %v)\n %y: f32[S, 8] = Add(%p, %b)\n output q = %q",
            "JoinedMatmul(%x, %n, %w, %v, %b) { parts = 2, norm = 0.5, bias = [0] }",
        ),
    ] {
        becomes(&format!("{NORM} {end}\n output y = %y"), ALL, &[whole]);
        let inner = format!("{NORM} {end}\n output y = %y\n output inner = %h");
        let made = run(&inner, ALL);
        assert!(left(&made)[0].starts_with("RmsNorm(%x"), "{:?}", left(&made));
        assert!(remarks_say(&made, "norm and product: missed, `h` is the output `inner`"));
    }
    let twice = format!("{NORM} %y: f32[S, 8] = Matmul(%h, %w)\n %z: f32[S, 4] = Exp(%h)\n output y = %y\n output z = %z");
    stays(&twice, &["norm-matmul"], "`h` has 2 readers");
    let half = format!(
        "{NORM} %r: bf16[S, 4] = Cast(%h) {{ dtype = bf16 }}
         %y: f32[S, 8] = Matmul(%r, %w)
         output y = %y"
    );
    stays(&half, &["norm-matmul"], "y: norm and product: missed, `r` rounds to bf16 in between");
    let computed = format!("{NORM} input %m: f32[8, 4]\n %y: f32[S, 8] = Matmul(%h, %m)\n output y = %y");
    stays(&computed, &["norm-matmul"], "the matrix of `y` is computed");
}

#[test]
fn a_sum_and_its_norm_are_one_step_that_gives_both() {
    let start = "
        input %x: f32[S, 4]
        input %y: f32[S, 4]
        weight %g = \"g\": f32[4]
        weight %b = \"b\": f32[4]
        ";
    for (norm, whole) in [
        ("RmsNorm(%s, %g) { eps = 0.5 }", "FusedSkipNorm(%x, %y, %g) { eps = 0.5 }"),
        ("LayerNorm(%s, %g, %b) { eps = 0.5 }", "SkipLayerNorm(%x, %y, %g, %b) { eps = 0.5 }"),
    ] {
        let end = format!("%s: f32[S, 4] = Add(%x, %y)\n %n: f32[S, 4] = {norm}\n output n = %n");
        becomes(&format!("{start} {end}"), &["skip-norm"], &[whole]);
        // Other readers of the sum do not matter.
        becomes(&format!("{start} {end}\n %e: f32[S, 4] = Exp(%s)\n output e = %e"), &["skip-norm"], &[whole, "Exp(%s)"]);
        let made = run(&format!("{start} {end}\n output s = %s"), &["skip-norm"]);
        assert_eq!(left(&made), [whole]);
    }
    let rounding = format!(
        "{start} %s: f32[S, 4] = Add(%x, %y)
         %h: f16[S, 4] = Cast(%s) {{ dtype = f16 }}
         %n: f32[S, 4] = RmsNorm(%h, %g) {{ eps = 0.5 }}
         output n = %n"
    );
    stays(&rounding, &["skip-norm"], "n: sum and norm: missed, `h` rounds to f16 in between");
    let row = format!(
        "{start} %s: f32[S, 4] = Add(%x, %b)
         %n: f32[S, 4] = RmsNorm(%s, %g) {{ eps = 0.5 }}
         output n = %n
         output y = %y"
    );
    stays(&row, &["skip-norm"], "the shapes [S, 4] and [4] of the sum differ");
    // The gain depends on the sum: one step could not have both.
    let cycle = "
        input %x: f32[1, 4]
        input %y: f32[1, 4]
        %s: f32[1, 4] = Add(%x, %y)
        %g: f32[4] = Reshape(%s) { shape = [4] }
        %n: f32[1, 4] = RmsNorm(%s, %g) { eps = 0.5 }
        output n = %n";
    stays(cycle, &["skip-norm"], "`g` is computed in every call");
    // A gain of weights alone is none of that.
    let gain = format!(
        "{start} %s: f32[S, 4] = Add(%x, %y)
         %one: f32[4] = AddScalar(%g) {{ value = 1 }}
         %n: f32[S, 4] = RmsNorm(%s, %one) {{ eps = 0.5 }}
         output n = %n"
    );
    assert!(left(&run(&gain, &["skip-norm"]))[1].starts_with("FusedSkipNorm(%x, %y, %one)"));
}

#[test]
fn a_bias_and_an_activation_go_into_their_product() {
    let start = "
        input %x: f32[S, 4]
        weight %w = \"w\": q8[8, 4]
        weight %b = \"b\": f32[8]
        %p: f32[S, 8] = Matmul(%x, %w)
        %s: f32[S, 8] = Add(%b, %p)
        ";
    let pass = &["bias-activation"];
    becomes(&format!("{start} output s = %s"), pass, &["MatmulBias(%x, %w, %b) { activation = none, norm = none }"]);
    for (end, field) in [("Gelu(%s) { approximate = false }", "gelu"), ("Relu(%s)", "relu"), ("Tanh(%s)", "tanh")] {
        let end = format!("%y: f32[S, 8] = {end}\n output y = %y");
        let whole = format!("MatmulBias(%x, %w, %b) {{ activation = {field}, norm = none }}");
        becomes(&format!("{start} {end}"), pass, &[&whole]);
        let made = run(&format!("{start} {end}\n output inner = %s"), pass);
        assert_eq!(left(&made).len(), 2);
        assert!(remarks_say(&made, "y: bias and activation: missed, `s` is the output `inner`"));
        stays(&format!("{start} {end}\n output inner = %p"), pass, "s: bias: missed, `p` is the output `inner`");
    }
    let half = format!(
        "{start} %h: f16[S, 8] = Cast(%s) {{ dtype = f16 }}
         %y: f32[S, 8] = Relu(%h)
         output y = %y"
    );
    assert!(remarks_say(&run(&half, pass), "y: bias and activation: missed, `h` rounds to f16 in between"));
    let computed = "
        input %x: f32[S, 4]
        input %c: f32[8]
        weight %w = \"w\": q8[8, 4]
        %p: f32[S, 8] = Matmul(%x, %w)
        %s: f32[S, 8] = Add(%p, %c)
        output s = %s";
    stays(computed, pass, "the bias of `s` is computed");
}
