//! Target passes: what they make of each pattern, and why they leave one alone.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use tallow_compiler::passes::PASSES;
use tallow_compiler::{Facts, Optimised, Options, Stage, optimise};
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

const ALL: &[&str] = &["gated-activations", "joined-projections", "bias-activation", "norm-matmul", "skip-norm"];

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
    let twice =
        format!("{NORM} %y: f32[S, 8] = Matmul(%h, %w)\n %z: f32[S, 4] = Exp(%h)\n output y = %y\n output z = %z");
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
        becomes(
            &format!("{start} {end}\n %e: f32[S, 4] = Exp(%s)\n output e = %e"),
            &["skip-norm"],
            &[whole, "Exp(%s)"],
        );
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

/// One layer of attention with everything that a decoder puts before it.
const ATTENTION: &str = "
    input %q: f32[S, 8]
    input %k: f32[S, 4]
    input %v: f32[S, 4]
    input %pos: i64[]
    weight %gq = \"gq\": f32[4]
    weight %gk = \"gk\": f32[4]
    %q1: f32[S, 2, 4] = Reshape(%q) { shape = [-1, 2, 4] }
    %q2: f32[S, 2, 4] = RmsNorm(%q1, %gq) { eps = 0.5 }
    %q3: f32[S, 2, 4] = Rope(%q2, %pos) { head_dim = 4, rope_dim = 4, base = 100 }
    %q4: f32[S, 8] = Reshape(%q3) { shape = [-1, 8] }
    %k1: f32[S, 1, 4] = Reshape(%k) { shape = [-1, 1, 4] }
    %k2: f32[S, 1, 4] = RmsNorm(%k1, %gk) { eps = 0.5 }
    %k3: f32[S, 1, 4] = Rope(%k2, %pos) { head_dim = 4, rope_dim = 4, base = 100 }
    %k4: f32[S, 4] = Reshape(%k3) { shape = [-1, 4] }
    %ka: f32[P + S, 4], %va: f32[P + S, 4] = KvCache(%k4, %v)
    %y: f32[S, 8] = Sdpa(%q4, %ka, %va) { heads = 2, kv_heads = 1, head_dim = 4, causal = true }
    output y = %y";

const CACHED: &[&str] = &["cached-attention"];

/// The attributes that matter of the one operation that is left.
#[track_caller]
fn cached(statements: &str) -> (String, String) {
    let made = run(statements, CACHED);
    let left = left(&made);
    let fused: Vec<_> = left.iter().filter(|l| l.starts_with("CachedAttention")).collect();
    assert_eq!(fused.len(), 1, "{left:?} {:?}", remarks(&made));
    assert_eq!(made.caches.len(), 1);
    let (operands, fields) = fused[0].split_once(" { ").unwrap();
    (operands.to_owned(), fields.to_owned())
}

#[test]
fn cache_attention_and_what_turns_heads_are_one_step() {
    let (operands, fields) = cached(ATTENTION);
    assert_eq!(operands, "CachedAttention(%q, %k, %v, %gq, %gk, %pos)");
    let wanted = "heads = 2, kv_heads = 1, head_dim = 4, causal = true, window = 0, scale = 0.5, softcap = 0, norm = 0.5, \
                  rotary = plain, rope_dim = 4, base = 100,";
    assert!(fields.starts_with(wanted), "{fields}");
    assert_eq!(left(&run(ATTENTION, CACHED)).len(), 1);
    // The number of the cache stays that of the node it was.
    let two = format!("{ATTENTION}\n %kb: f32[P + S, 4], %vb: f32[P + S, 4] = KvCache(%v, %v)\n output kb = %kb");
    let made = run(&two, CACHED);
    let caches: Vec<_> = made.graph.graph().nodes().filter_map(|id| made.caches.get(&id).copied()).collect();
    assert_eq!(caches.len(), 2);
    assert!(caches.contains(&0) && caches.contains(&1), "{caches:?}");
    // Norms that differ stay where they are.
    let norms = ATTENTION.replace("RmsNorm(%k1, %gk) { eps = 0.5 }", "RmsNorm(%k1, %gk) { eps = 0.25 }");
    let (operands, fields) = cached(&norms);
    assert!(operands.ends_with("%v, %pos)") && fields.contains("norm = none, rotary = plain"), "{operands} {fields}");
    assert!(remarks_say(&run(&norms, CACHED), "attention; the norms of queries and keys differ and stay"));
}

#[test]
fn cached_attention_takes_every_kind_of_attention_and_of_turning() {
    let kinds = [
        ("SdpaWindow(%q, %ka, %va) { heads = 1, head_dim = 4, window = 3 }", "causal = true, window = 3, scale = 0.5"),
        ("FlashAttention(%q, %ka, %va) { heads = 1, kv_heads = 1, head_dim = 4 }", "causal = true, window = 0"),
        ("Sdpa(%q, %ka, %va) { heads = 1, kv_heads = 1, head_dim = 4, causal = false }", "causal = false, window = 0"),
        (
            "Attention(%q, %ka, %va) { heads = 1, kv_heads = 1, head_dim = 4, causal = true, window = 2, scale = 3, softcap = 30 }",
            "window = 2, scale = 3, softcap = 30",
        ),
    ];
    let plain = |attention: &str| {
        format!(
            "input %q: f32[S, 4]
             input %k: f32[S, 4]
             input %v: f32[S, 4]
             %ka: f32[P + S, 4], %va: f32[P + S, 4] = KvCache(%k, %v)
             %y: f32[S, 4] = {attention}
             output y = %y"
        )
    };
    for (attention, wanted) in kinds {
        let (operands, fields) = cached(&plain(attention));
        assert_eq!(operands, "CachedAttention(%q, %k, %v)");
        assert!(fields.contains(wanted) && fields.contains("norm = none, rotary = none"), "{fields}");
    }
    let scaled = "RopeScaled(%X2, %pos) { head_dim = 4, rope_dim = 2, base = 100, interleaved = true, scaling = linear, \
                  factor = 2, original = 0, low = 0, high = 0, attention_factor = 1, short = [], long = [] }";
    let turned = ["q", "k"].iter().fold(ATTENTION.to_owned(), |text, side| {
        let rope = format!("Rope(%{side}2, %pos) {{ head_dim = 4, rope_dim = 4, base = 100 }}");
        text.replace(&rope, &scaled.replace('X', side))
    });
    let (_, fields) = cached(&turned);
    assert!(
        fields.contains("rotary = scaled, rope_dim = 2, base = 100, interleaved = true, scaling = linear"),
        "{fields}"
    );
    // Heads as rows, as graphs for one token a call have them: the result keeps its shape.
    let rows = "
        input %q: f32[1, 8]
        input %k: f32[1, 4]
        input %v: f32[1, 4]
        input %pos: i64[]
        %q1: f32[2, 4] = Reshape(%q) { shape = [-1, 4] }
        %q2: f32[2, 4] = Rope(%q1, %pos) { head_dim = 4, rope_dim = 4, base = 100 }
        %k2: f32[1, 4] = Rope(%k, %pos) { head_dim = 4, rope_dim = 4, base = 100 }
        %ka: f32[P + 1, 4], %va: f32[P + 1, 4] = KvCache(%k2, %v)
        %y: f32[2, 4] = Sdpa(%q2, %ka, %va) { heads = 2, kv_heads = 1, head_dim = 4, causal = false }
        output y = %y";
    let made = run(rows, CACHED);
    assert!(left(&made)[0].starts_with("CachedAttention(%q, %k, %v, %pos)"), "{:?}", left(&made));
    assert_eq!(left(&made)[1], "Reshape(%0) { shape = [2, 4] }");
}

#[test]
fn cached_attention_stays_apart_where_a_guard_fails() {
    for (inner, why) in [
        ("q1", "`q1` is the output `inner`"),
        ("q2", "`q2` is the output `inner`"),
        ("q3", "`q3` is the output `inner`"),
        ("q4", "`q4` is the output `inner`"),
        ("k1", "`k1` is the output `inner`"),
        ("k3", "`k3` is the output `inner`"),
        ("ka", "the keys are the output `inner`"),
        ("va", "the values are the output `inner`"),
    ] {
        stays(&format!("{ATTENTION}\n output inner = %{inner}"), CACHED, why);
    }
    let read = format!("{ATTENTION}\n %e: f32[P + S, 4] = Exp(%va)\n output e = %e");
    stays(&read, CACHED, "ka: cache and attention: missed, the values have 2 readers");
    let turn = ATTENTION
        .replace("Rope(%k2, %pos) { head_dim = 4, rope_dim = 4", "Rope(%k2, %pos) { head_dim = 4, rope_dim = 2");
    stays(&turn, CACHED, "`q4` and `k4` turn differently");
    let mask = ATTENTION.replace("Sdpa(%q4, %ka, %va)", "Sdpa(%q4, %ka, %va, %mask)");
    stays(&format!("input %mask: f32[S, P + S]\n{mask}"), CACHED, "`y` has a mask");
    // What turns are not the heads of the attention.
    let other = ATTENTION
        .replace(
            "%q1: f32[S, 2, 4] = Reshape(%q) { shape = [-1, 2, 4] }",
            "%q1: f32[2*S, 1, 4] = Reshape(%q) { shape = [-1, 1, 4] }",
        )
        .replace("%q2: f32[S, 2, 4]", "%q2: f32[2*S, 1, 4]")
        .replace("%q3: f32[S, 2, 4]", "%q3: f32[2*S, 1, 4]");
    stays(&other, CACHED, "turn differently");
    let compressed = "
        input %q: f32[S, 4]
        input %k: f32[S, 4]
        %c: u8[S, 8] = KvCompress(%k) { head_dim = 4, bits = 8 }
        %ca: u8[P + S, 8], %cb: u8[P + S, 8] = KvCache(%c, %c)
        %ka: f32[P + S, 4] = KvDecompress(%ca) { head_dim = 4, bits = 8 }
        %va: f32[P + S, 4] = KvDecompress(%cb) { head_dim = 4, bits = 8 }
        %y: f32[S, 4] = Sdpa(%q, %ka, %va) { heads = 1, kv_heads = 1, head_dim = 4, causal = true }
        output y = %y";
    stays(compressed, CACHED, "the keys are compressed");
    let batched = "
        input %q: f32[B, 2, S, 4]
        input %k: f32[B, 1, S, 4]
        %ka: f32[B, 1, P + S, 4], %va: f32[B, 1, P + S, 4] = KvCache(%k, %k)
        %y: f32[B, 2, S, 4] = Sdpa(%q, %ka, %va) { heads = 2, kv_heads = 1, head_dim = 4, causal = true }
        output y = %y";
    stays(batched, CACHED, "the keys have the shape [B, 1, S, 4], and not a row for each token");
    let rows = "
        input %q: f32[S, 8]
        input %k: f32[2*S, 4]
        input %v: f32[S, 8]
        %ka: f32[2*P + 2*S, 4], %va: f32[P + S, 8] = KvCache(%k, %v)
        %y: f32[S, 8] = Sdpa(%q, %ka, %va) { heads = 2, kv_heads = 2, head_dim = 4, causal = true }
        output y = %y";
    stays(rows, CACHED, "the keys have the shape [2*S, 4], and not [S, 8]");
    let made = optimise(&graph(ATTENTION), &Options { facts: Some(Facts::plain("elsewhere")), ..Options::default() });
    assert!(remarks_say(&made.unwrap(), "cache and attention: missed, device elsewhere"));
}

#[test]
fn what_does_not_change_the_choice_of_a_token_is_left_out() {
    let tail = &["sampling-tail"];
    let start = "input %x: f32[S, 9]
        %a: f32[S, 9] = MulScalar(%x) { value = 0.5 }
        %b: f32[S, 9] = Tanh(%a)
        %c: f32[S, 9] = MulScalar(%b) { value = 2 }
        %e: f32[S, 9] = Softmax(%c) { dim = -1 }
        ";
    let argmax = "%t: i64[S] = Argmax(%e) { dim = 1 }\n output t = %t";
    becomes(&format!("{start} {argmax}"), tail, &["Argmax(%x) { dim = 1 }"]);
    let greedy = "Sample(%e) { method = greedy, temperature = 0, p = 0, k = 0 }";
    let greedy = format!("%t: i64[S] = {greedy}\n output t = %t");
    becomes(&format!("{start} {greedy}"), tail, &["Sample(%x) { method = greedy, temperature = 0, p = 0, k = 0 }"]);
    for (inner, steps) in [("e", 5), ("c", 4), ("b", 3), ("a", 2)] {
        let made = run(&format!("{start} {argmax}\n output inner = %{inner}"), tail);
        assert_eq!(left(&made).len(), steps, "{inner}");
        assert!(remarks_say(&made, &format!("missed, `{inner}` is the output `inner`")), "{:?}", remarks(&made));
    }
    let along = "input %x: f32[S, 9]
        %e: f32[S, 9] = Softmax(%x) { dim = 0 }
        %t: i64[S] = Argmax(%e) { dim = -1 }
        output t = %t";
    stays(along, tail, "t: softmax: missed, the softmax runs along another dimension");
    let falls = "input %x: f32[S, 9]
        %e: f32[S, 9] = MulScalar(%x) { value = -1 }
        %t: i64[S] = Argmax(%e) { dim = -1 }
        output t = %t";
    stays(falls, tail, "the factor -1 is not above 0");
    for (step, why) in [
        ("Tanh(%x)", "t: tanh: missed, tanh rounds large logits to the same, and nothing scales them down before"),
        ("AddScalar(%x) { value = 1 }", "t: shift: missed, a number added may round two logits to the same"),
        ("MulScalar(%x) { value = 1e30 }", "t: scale: missed, the factor 1e30 is so far from 1"),
    ] {
        let rounds = format!(
            "input %x: f32[S, 9]
             %e: f32[S, 9] = {step}
             %t: i64[S] = Argmax(%e) {{ dim = -1 }}
             output t = %t"
        );
        let made = run(&rounds, tail);
        assert!(remarks_say(&made, why), "{:?}", remarks(&made));
    }
    // A draw keeps its distribution.
    let drawn = |steps: &str, method: &str| {
        format!(
            "input %x: f32[S, 9]
             {steps}
             %t: i64[S] = Sample(%e) {{ method = {method}, temperature = 0.5, p = 0.5, k = 3 }}
             output t = %t"
        )
    };
    for method in ["temperature", "top_k", "top_p", "min_p"] {
        let given = "%d: f32[S, 9] = AddScalar(%x) { value = 7 }\n %e: f32[S, 9] = MulScalar(%d) { value = 4 }";
        let wanted = format!("Sample(%x) {{ method = {method}, temperature = 0.125, p = 0.5, k = 3 }}");
        becomes(&drawn(given, method), tail, &[&wanted]);
        stays(&drawn("%e: f32[S, 9] = Softmax(%x) { dim = -1 }", method), tail, "drawn by the values");
        stays(&drawn("%e: f32[S, 9] = Tanh(%x)", method), tail, "t: tanh: missed, the token is drawn by the values");
        stays(
            &drawn("%e: f32[S, 9] = MulScalar(%x) { value = 1e-40 }", method),
            tail,
            "the temperature would become inf",
        );
    }
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

/// A value with so many readers, and so many layers, that work which grows with their square would show.
#[test]
fn wide_and_deep_graphs_take_time_in_proportion() {
    let count = 100_000;
    let mut wide = String::from("input %x: f32[S, 4]\n weight %g = \"g\": f32[4]\n weight %b = \"b\": f32[4]\n");
    for i in 0..count {
        let w = i % 7;
        if i < 7 {
            wide += &format!("weight %w{i} = \"w{i}\": q8[4, 4]\n");
        }
        wide += &match i % 3 {
            0 => format!("%y{i}: f32[S, 4] = Matmul(%x, %w{w})\n"),
            1 => {
                format!("%n{i}: f32[S, 4] = RmsNorm(%x, %g) {{ eps = 1 }}\n %y{i}: f32[S, 4] = Matmul(%n{i}, %w{w})\n")
            }
            _ => format!("%s{i}: f32[S, 4] = Add(%x, %x)\n %y{i}: f32[S, 4] = RmsNorm(%s{i}, %g) {{ eps = 1 }}\n"),
        };
    }
    let all: Vec<String> = (0..count).map(|i| format!("%y{i}")).collect();
    wide += &format!("%all: f32[{}*S, 4] = Concat({}) {{ axis = 0 }}\n output all = %all", count, all.join(", "));
    let graph = graph(&wide);
    // Without the pass that computes equal operations once.
    let target = PASSES.iter().filter(|p| p.stage == Stage::Target).map(|p| p.name.to_owned()).collect();
    let start = std::time::Instant::now();
    let made = optimise(&graph, &Options { passes: Some(target), ..Options::default() }).unwrap();
    let took = start.elapsed();
    // One joined product, a product with its norm, and a sum with its norm, each of the others.
    let operations: Vec<_> = left(&made);
    assert_eq!(operations.iter().filter(|o| o.starts_with("JoinedMatmul")).count(), 1);
    assert_eq!(operations.iter().filter(|o| o.starts_with("FusedNormMatmul")).count(), count / 3);
    assert_eq!(operations.iter().filter(|o| o.starts_with("FusedSkipNorm")).count(), count / 3);
    println!("{count} readers: {took:?}");
    assert!(took.as_secs() < 60, "{took:?}");
}
