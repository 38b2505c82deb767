//! Fused operations against the plain ones that they stand for: every fusion, on both engines, at sizes of one and odd
//! sizes, with operands that lie in another order or are spread, in single and in half precision. And every value
//! inside a pattern as an output, which must keep the pattern apart and say so.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{Numbers, values};
use std::collections::HashMap;
use std::sync::Arc;
use tallow::compiler::{Outcome, Stage};
use tallow::executor::{
    CacheType, DType as Element, Device, Program, ProgramOptions, Session, WeightSource, WeightView,
};
use tallow::format::Encoding;
use tallow::ir::verify::{Verified, verify};
use tallow::ir::{DType, NodeKind, text};
use tallow::{Engine, Rows, Tensor};

/// What results may differ by, relative to the largest, where halves are read: some steps then run on kernels in one
/// form and on the interpreter in the other.
const TOLERANCE: f32 = 1e-5;

/// Weights of a graph, with values of their own.
struct Weights(HashMap<String, (Vec<u64>, Encoding, Vec<u8>)>);

impl WeightSource for Weights {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let (shape, encoding, bytes) = self.0.get(name)?;
        Some(WeightView { shape, encoding: *encoding, bytes })
    }
}

fn weights(graph: &Verified) -> Arc<Weights> {
    let mut all = HashMap::new();
    for (at, (name, value)) in graph.graph().weights().enumerate() {
        let ty = graph.graph().ty(value);
        let shape: Vec<u64> = ty.shape.dims().iter().map(|d| d.as_const().unwrap() as u64).collect();
        let encoding = match ty.dtype {
            DType::Q8 => Encoding::Q8,
            DType::Q4 => Encoding::Q4,
            _ => Encoding::U32,
        };
        let count = shape.iter().product::<u64>() as usize;
        let mut bytes = Vec::new();
        encoding.encode(&Numbers::new(at as u64 + 1).values(count), &mut bytes).unwrap();
        all.insert(name.to_owned(), (shape, encoding, bytes));
    }
    Arc::new(Weights(all))
}

/// A graph, compiled so far for this engine.
fn program(graph: &Verified, engine: Engine, stage: Stage, cache: CacheType) -> Arc<Program> {
    // Results do not depend on the number of threads.
    let threads = if stage == Stage::Raw { 1 } else { 2 };
    let options = ProgramOptions { engine, threads, cache, stage: Some(stage), ..ProgramOptions::default() };
    Arc::new(Program::new(graph, weights(graph), options).unwrap())
}

/// Values for the inputs of a call of so many tokens.
fn inputs(graph: &Verified, tokens: usize, seed: u64) -> Vec<(String, Tensor)> {
    let mut numbers = Numbers::new(seed);
    let bindings = [("S".to_owned(), tokens as i64)].into_iter().collect();
    let inputs = graph.graph().inputs().filter(|(name, _)| *name != "pos");
    let one = |(name, value): (&str, tallow::ir::Value)| {
        let ty = graph.graph().ty(value);
        let dims = ty.shape.evaluate(&bindings).unwrap();
        let tensor = Tensor::from_vec(numbers.values(dims.iter().product()), dims, &Device::Cpu).unwrap();
        let element = if ty.dtype == DType::F16 { Element::F16 } else { Element::F32 };
        (name.to_owned(), tensor.to_dtype(element).unwrap())
    };
    inputs.map(one).collect()
}

/// The outputs of calls of so many tokens, one after another in a session.
fn outputs(program: &Arc<Program>, graph: &Verified, calls: &[usize]) -> Vec<(String, Vec<f32>)> {
    let mut session = Session::new(program.clone());
    let mut all = Vec::new();
    for (at, &tokens) in calls.iter().enumerate() {
        for (name, tensor) in session.run(&inputs(graph, tokens, 77 + at as u64), Rows::All).unwrap() {
            all.push((format!("{name} of call {at}"), values(&tensor.to_dtype(Element::F32).unwrap())));
        }
    }
    all
}

fn operations(program: &Program) -> Vec<&'static str> {
    let graph = program.compiled().graph.graph();
    let name = |id| match &graph.node(id).kind {
        NodeKind::Op(op) => Some(op.name()),
        NodeKind::Input(_) | NodeKind::Weight(_) => None,
    };
    graph.nodes().filter_map(name).collect()
}

/// Runs a graph as it is and compiled for a device, on both engines; the compiled one.
#[track_caller]
fn same(statements: &str, what: &str) -> Arc<Program> {
    let text = format!("graph {{\n{statements}\n}}");
    let graph = verify(text::parse(&text).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"))).unwrap();
    let halves = statements.contains("f16");
    let mut compiled = None;
    for (engine, cache) in
        [(Engine::Reference, CacheType::Auto), (Engine::Cpu, CacheType::F32), (Engine::Cpu, CacheType::F16)]
    {
        if cache == CacheType::F16 && !statements.contains("KvCache") {
            continue;
        }
        let plain = program(&graph, engine, Stage::Raw, cache);
        let fused = program(&graph, engine, Stage::Target, cache);
        for calls in [&[1, 1][..], &[3], &[7, 1, 2]] {
            let (plain, fused) = (outputs(&plain, &graph, calls), outputs(&fused, &graph, calls));
            for ((name, plain), (_, fused)) in plain.iter().zip(&fused) {
                if halves && fused != plain {
                    let off = common::error(fused, plain);
                    assert!(off <= TOLERANCE, "{what}, {engine:?}, {calls:?}: {name} is off by {off}");
                } else {
                    assert!(fused == plain, "{what}, {engine:?}, {calls:?}: {name} is {fused:?}, expected {plain:?}");
                }
            }
        }
        compiled = Some(fused);
    }
    compiled.unwrap()
}

/// A pattern with its one output `y`, or with several.
struct Pattern {
    name: &'static str,
    /// Reads the value `%x` of `[S, K]`, which is declared before it.
    text: String,
    /// What it becomes.
    into: &'static str,
    /// Values inside, and how the remark on each goes on after its name.
    inner: &'static [&'static str],
}

/// Every pattern over rows of `k` values and matrices of the type `w`.
fn patterns(k: usize, w: &str) -> Vec<Pattern> {
    let n = if k == 1 { 1 } else { k + 2 };
    let projections = format!(
        "weight %a = \"a\": {w}[{n}, {k}]
         weight %b = \"b\": {w}[{n}, {k}]
         weight %c = \"c\": u32[3, {k}]
         weight %va = \"va\": u32[{n}]
         weight %vb = \"vb\": u32[{n}]
         weight %g = \"g\": u32[{k}]
         weight %s = \"s\": u32[{k}]
         "
    );
    let norm = format!("%h: f32[S, {k}] = RmsNorm(%x, %g) {{ eps = 1e-5 }}\n");
    let product = |from: &str, name: &str, matrix: &str| format!("%{name}: f32[S, {n}] = Matmul(%{from}, %{matrix})\n");
    let row = |name: &str, right: &str| format!("%{name}: f32[S, {n}] = {right}\n");
    let mut all = Vec::new();
    let mut add = |name, parts: &[String], into, inner| {
        all.push(Pattern { name, text: format!("{projections}{}", parts.concat()), into, inner });
    };
    let joined = [
        product("x", "p", "a"),
        row("y", "Add(%p, %va)"),
        product("x", "q", "b"),
        "%r: f32[S, 3] = Matmul(%x, %c)\n output y = %y\n output q = %q\n output r = %r\n".to_owned(),
    ];
    add("joined", &joined, "JoinedMatmul", &["p"]);
    let mut normed = joined.map(|part| part.replace("(%x,", "(%h,"));
    normed[0].insert_str(0, &norm);
    add("joined after a norm", &normed, "JoinedMatmul", &["h", "p"]);
    for (name, activation) in [
        ("silu gate", "Silu(%p)"),
        ("gelu gate", "Gelu(%p) { approximate = false }"),
        ("tanh gelu gate", "Gelu(%p) { approximate = true }"),
        ("sigmoid gate", "Sigmoid(%p)"),
        ("relu gate", "Relu(%p)"),
        ("quick gelu gate", "QuickGelu(%p)"),
        ("squared relu gate", "ReluSquared(%p)"),
        ("tanh gate", "Tanh(%p)"),
    ] {
        let gate = [product("x", "p", "a"), product("x", "q", "b"), row("t", activation), row("y", "Mul(%t, %q)")];
        add(name, &[&gate[..], &["output y = %y\n".into()]].concat(), "GatedMatmul", &["p", "q", "t"]);
    }
    let gate = [
        norm.clone(),
        product("h", "p", "a"),
        row("p2", "Add(%p, %va)"),
        product("h", "q", "b"),
        row("q2", "Add(%vb, %q)"),
        row("y", "SwiGlu(%p2, %q2)"),
        "output y = %y\n".to_owned(),
    ];
    add("gate with norm and biases", &gate, "GatedMatmul", &["h", "p", "p2", "q", "q2"]);
    let plain = [norm.clone(), product("h", "y", "a"), "output y = %y\n".to_owned()];
    add("norm and product", &plain, "FusedNormMatmul", &["h"]);
    for (name, activation) in [
        ("bias and relu", "Relu(%b1)"),
        ("bias and gelu", "Gelu(%b1) { approximate = false }"),
        ("bias and tanh gelu", "Gelu(%b1) { approximate = true }"),
        ("bias and silu", "Silu(%b1)"),
        ("bias and quick gelu", "QuickGelu(%b1)"),
        ("bias and sigmoid", "Sigmoid(%b1)"),
        ("bias and tanh", "Tanh(%b1)"),
        ("bias and squared relu", "ReluSquared(%b1)"),
    ] {
        let bias = [norm.clone(), product("h", "p", "a"), row("b1", "Add(%p, %va)"), row("y", activation)];
        add(name, &[&bias[..], &["output y = %y\n".into()]].concat(), "MatmulBias", &["h", "p", "b1"]);
    }
    let sum = format!("%z: f32[S, {k}] = AddScalar(%x) {{ value = 0.5 }}\n %t: f32[S, {k}] = Add(%x, %z)\n");
    let end = "output y = %y\n output t = %t\n".to_owned();
    let rms = format!("%y: f32[S, {k}] = RmsNorm(%t, %g) {{ eps = 1e-5 }}\n");
    add("sum and norm", &[sum.clone(), rms, end.clone()], "FusedSkipNorm", &[]);
    let layer = format!("%y: f32[S, {k}] = LayerNorm(%t, %g, %s) {{ eps = 1e-5 }}\n");
    add("sum and layer norm", &[sum, layer, end], "SkipLayerNorm", &[]);
    all
}

/// Ways in which the operand of a pattern comes.
fn operands(k: usize) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for half in ["f32", "f16"] {
        all.push(("as it is", format!("input %x: {half}[S, {k}]\n")));
        let permuted = format!("input %x0: {half}[{k}, S]\n %x: f32[S, {k}] = Permute(%x0) {{ dims = [1, 0] }}\n");
        all.push(("permuted", permuted));
        let spread = format!("input %x0: {half}[S, 1]\n input %x1: {half}[{k}]\n %x: f32[S, {k}] = Add(%x0, %x1)\n");
        all.push(("spread", spread));
    }
    all
}

#[test]
fn products_gates_and_norms_are_what_their_parts_are() {
    for (k, w) in [(1, "u32"), (7, "u32"), (32, "q8"), (96, "q4")] {
        for pattern in patterns(k, w) {
            for (how, operand) in operands(k) {
                let what = format!("{} of {k} values, {how}", pattern.name);
                let program = same(&format!("{operand}{}", pattern.text), &what);
                let found = operations(&program);
                assert!(found.contains(&pattern.into), "{what}: {found:?}");
            }
        }
    }
}

#[test]
fn a_value_that_is_an_output_keeps_a_pattern_apart() {
    for pattern in patterns(32, "q8") {
        for inner in pattern.inner {
            let what = format!("{} with `{inner}` shown", pattern.name);
            let text = format!("input %x: f32[S, 32]\n{}\n output inner = %{inner}", pattern.text);
            let program = same(&text, &what);
            let why = format!("`{inner}` is the output `inner`");
            let said = |o: &Outcome| matches!(o, Outcome::Missed(cause) if *cause == why);
            assert!(
                program.compiled().remarks.iter().any(|r| said(&r.outcome)),
                "{what}: {:?}",
                program.compiled().remarks
            );
        }
    }
}

/// Feed-forwards of five experts, two for each of the rows `%x` `[S, 32]`: how, the graph behind its input, and values
/// inside.
fn experts() -> Vec<(String, String, &'static [&'static str])> {
    let mut all = Vec::new();
    // Matrices of gate and up, and of the way back; widths that fill panels, and one that does not.
    for (w, down, width) in
        [("q8", "q4", 32), ("q4", "q8", 96), ("u32", "u32", 5), ("q8", "u32", 40), ("u32", "q8", 32)]
    {
        for (joined, gate) in
            [(false, "SwiGlu(%p, %q)"), (true, "SwiGlu(%p, %q)"), (false, "GeGlu(%p, %q)"), (true, "Mul(%t, %q)")]
        {
            let rows = format!("f32[S, 2, {width}]");
            let mut text = "weight %router = \"router\": u32[5, 32]
                 %scores: f32[S, 5] = Matmul(%x, %router)
                 %weights: f32[S, 2], %index: i64[S, 2] = TopK(%scores) { axis = -1, k = 2 }\n"
                .to_owned();
            text += &match joined {
                true => format!(
                    "weight %a = \"a\": {w}[5, {}, 32]
                     %both: f32[S, 2, {0}] = ExpertMatmul(%x, %a, %index)
                     %p: {rows}, %q: {rows} = Split(%both) {{ axis = 2, sizes = [{width}, {width}] }}\n",
                    2 * width
                ),
                false => format!(
                    "weight %a = \"a\": {w}[5, {width}, 32]
                     weight %b = \"b\": {w}[5, {width}, 32]
                     %p: {rows} = ExpertMatmul(%x, %a, %index)
                     %q: {rows} = ExpertMatmul(%x, %b, %index)\n"
                ),
            };
            if gate.contains("%t") {
                text += &format!("%t: {rows} = Gelu(%p) {{ approximate = true }}\n");
            }
            text += &format!(
                "%h: {rows} = {gate}
                 weight %c = \"c\": {down}[5, 32, {width}]
                 %d: f32[S, 2, 32] = ExpertMatmul(%h, %c, %index)
                 %column: f32[S, 2, 1] = Unsqueeze(%weights) {{ axes = [2] }}
                 %e: f32[S, 2, 32] = Mul(%d, %column)
                 %y: f32[S, 32] = Reduce(%e) {{ how = sum, axes = [1], keep = false }}
                 output y = %y\n"
            );
            let inner: &[&str] = if joined { &["both", "q", "h", "d", "e"] } else { &["p", "q", "h", "d", "e"] };
            all.push((format!("experts of {w} and {down}, {width} wide, joined: {joined}, {gate}"), text, inner));
        }
    }
    all
}

#[test]
fn feed_forwards_of_experts_are_what_their_parts_are() {
    for (what, text, _) in experts() {
        for (how, operand) in operands(32) {
            let what = format!("{what}, {how}");
            let found = operations(&same(&format!("{operand}{text}"), &what));
            assert!(found.contains(&"ExpertFeedForward") && !found.contains(&"ExpertMatmul"), "{what}: {found:?}");
        }
    }
}

#[test]
fn a_value_that_is_an_output_keeps_experts_apart() {
    for (what, text, inner) in experts().into_iter().take(2) {
        for inner in inner {
            let what = format!("{what} with `{inner}` shown");
            let program = same(&format!("input %x: f32[S, 32]\n{text}\n output inner = %{inner}"), &what);
            assert!(!operations(&program).contains(&"ExpertFeedForward"), "{what}");
        }
    }
}

/// One kind of attention over a cache.
struct Attended {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    norm: bool,
    rope: Option<String>,
    attention: String,
}

impl Attended {
    fn text(&self, half: &str, rows: bool) -> String {
        let Attended { heads, kv_heads, head_dim: d, .. } = self;
        let (wide, kv) = (heads * d, kv_heads * d);
        let mut text = format!(
            "input %q: {half}[S, {wide}]
             input %k: {half}[S, {kv}]
             input %v: {half}[S, {kv}]
             input %pos: i64[]
             weight %gq = \"gq\": u32[{d}]
             weight %gk = \"gk\": u32[{d}]\n"
        );
        for (side, heads, width) in [("q", heads, wide), ("k", kv_heads, kv)] {
            // Heads as a dimension of their own, or as rows.
            let (apart, shape) = match rows {
                true => (format!("f32[{heads}*S, {d}]"), format!("[-1, {d}]")),
                false => (format!("f32[S, {heads}, {d}]"), format!("[-1, {heads}, {d}]")),
            };
            let apart = if rows && *heads == 1 { format!("f32[S, {d}]") } else { apart };
            text += &format!("%{side}1: {apart} = Reshape(%{side}) {{ shape = {shape} }}\n");
            let mut last = format!("{side}1");
            if self.norm {
                text += &format!("%{side}2: {apart} = RmsNorm(%{last}, %g{side}) {{ eps = 1e-5 }}\n");
                last = format!("{side}2");
            }
            if let Some(rope) = &self.rope {
                text += &format!("%{side}3: {apart} = {}\n", rope.replace("%X", &format!("%{last}")));
                last = format!("{side}3");
            }
            text += &format!("%{side}4: f32[S, {width}] = Reshape(%{last}) {{ shape = [-1, {width}] }}\n");
        }
        text += &format!(
            "%ka: f32[P + S, {kv}], %va: f32[P + S, {kv}] = KvCache(%k4, %v)
             %y: f32[S, {wide}] = {}
             output y = %y",
            self.attention
        );
        text
    }
}

fn attended() -> Vec<Attended> {
    let rope =
        |d: usize, turning: usize| format!("Rope(%X, %pos) {{ head_dim = {d}, rope_dim = {turning}, base = 100 }}");
    let scaled = |d: usize, fields: &str| {
        format!("RopeScaled(%X, %pos) {{ head_dim = {d}, rope_dim = 4, base = 100, {fields} }}")
    };
    let linear = "interleaved = true, scaling = linear, factor = 2, original = 0, low = 0, high = 0, \
                  attention_factor = 1.25, short = [], long = []";
    let dynamic = "interleaved = false, scaling = dynamic, factor = 2, original = 4, low = 0, high = 0, \
                   attention_factor = 1, short = [], long = []";
    let numbers =
        |heads: usize, kv_heads: usize, d: usize| format!("heads = {heads}, kv_heads = {kv_heads}, head_dim = {d}");
    let mut all = Vec::new();
    for (heads, kv_heads, head_dim) in [(1, 1, 2), (6, 2, 6), (3, 1, 32)] {
        let d = head_dim;
        let numbers = numbers(heads, kv_heads, d);
        let attentions = [
            format!("Sdpa(%q4, %ka, %va) {{ {numbers}, causal = true }}"),
            format!("Sdpa(%q4, %ka, %va) {{ {numbers}, causal = false }}"),
            format!("FlashAttention(%q4, %ka, %va) {{ {numbers} }}"),
            format!("Attention(%q4, %ka, %va) {{ {numbers}, causal = true, window = 2, scale = 0.7, softcap = 3 }}"),
        ];
        let mut ropes = vec![None, Some(rope(d, d)), Some(rope(d, 2))];
        if d > 4 {
            ropes.extend([Some(scaled(d, linear)), Some(scaled(d, dynamic))]);
        }
        for (at, rope) in ropes.into_iter().enumerate() {
            for norm in [false, true] {
                let attention = attentions[(at + usize::from(norm)) % attentions.len()].clone();
                all.push(Attended { heads, kv_heads, head_dim, norm, rope: rope.clone(), attention });
            }
        }
    }
    let attention = "SdpaWindow(%q4, %ka, %va) { heads = 3, head_dim = 6, window = 3 }".to_owned();
    all.push(Attended { heads: 3, kv_heads: 3, head_dim: 6, norm: true, rope: Some(rope(6, 6)), attention });
    all
}

#[test]
fn attention_over_a_cache_is_what_its_parts_are() {
    for kind in attended() {
        for half in ["f32", "f16"] {
            for rows in [false, true] {
                let text = kind.text(half, rows);
                let program = same(&text, &text);
                assert_eq!(operations(&program), ["CachedAttention"], "{text}");
            }
        }
    }
}

#[test]
fn cached_rows_do_not_depend_on_how_a_text_is_cut() {
    // Frequencies that follow the length of a text, and keys that come after a query, make it another computation.
    let cut = |kind: &Attended| {
        !kind.rope.as_ref().is_some_and(|r| r.contains("dynamic")) && !kind.attention.contains("causal = false")
    };
    for kind in attended().into_iter().filter(cut) {
        let text = kind.text("f32", false);
        let graph = verify(text::parse(&format!("graph {{\n{text}\n}}")).unwrap()).unwrap();
        let program = program(&graph, Engine::Cpu, Stage::Target, CacheType::Auto);
        let whole = inputs(&graph, 9, 5);
        let at_once = Session::new(program.clone()).run(&whole, Rows::All).unwrap();
        let mut session = Session::new(program);
        let mut rows = Vec::new();
        for (start, count) in [(0, 4), (4, 1), (5, 3), (8, 1)] {
            let part: Vec<_> = whole.iter().map(|(n, t)| (n.clone(), t.narrow(0, start, count).unwrap())).collect();
            rows.extend(values(&session.run(&part, Rows::All).unwrap()[0].1));
        }
        assert_eq!(rows, values(&at_once[0].1), "{text}");
    }
}

#[test]
fn values_on_the_way_to_attention_keep_it_apart_where_they_are_shown() {
    let rope = Some("Rope(%X, %pos) { head_dim = 6, rope_dim = 6, base = 100 }".to_owned());
    let attention = "Sdpa(%q4, %ka, %va) { heads = 6, kv_heads = 2, head_dim = 6, causal = true }".to_owned();
    let kind = Attended { heads: 6, kv_heads: 2, head_dim: 6, norm: true, rope, attention };
    for inner in ["q1", "q2", "q3", "q4", "k1", "k2", "k3", "k4", "ka", "va"] {
        let program = same(&format!("{}\n output inner = %{inner}", kind.text("f32", false)), inner);
        assert!(!operations(&program).contains(&"CachedAttention"), "{inner}");
        let said = |o: &Outcome| matches!(o, Outcome::Missed(cause) if cause.contains("the output `inner`"));
        assert!(
            program.compiled().remarks.iter().any(|r| said(&r.outcome)),
            "{inner}: {:?}",
            program.compiled().remarks
        );
    }
}

#[test]
fn tokens_are_chosen_as_before() {
    // Each with whether it goes before the largest is taken, and before a token is drawn.
    let steps = [
        ("%e: f32[S, N] = Softmax(%x) { dim = -1 }", true, false),
        ("%e: f32[S, N] = MulScalar(%x) { value = 0.125 }", true, true),
        (
            "%d: f32[S, N] = MulScalar(%x) { value = 0.2 }\n %c: f32[S, N] = Tanh(%d)\n %e: f32[S, N] = MulScalar(%c) { value = 5 }",
            true,
            false,
        ),
        ("%e: f32[S, N] = AddScalar(%x) { value = -4 }", false, true),
    ];
    for n in [1, 5, 31] {
        for half in ["f32", "f16"] {
            for (step, before_largest, before_draw) in steps {
                for choice in [
                    "Argmax(%e) { dim = -1 }",
                    "Sample(%e) { method = greedy, temperature = 0, p = 0, k = 0 }",
                    "Sample(%e) { method = temperature, temperature = 0.5, p = 1, k = 0 }",
                    "Sample(%e) { method = top_k, temperature = 0.25, p = 1, k = 3 }",
                    "Sample(%e) { method = top_p, temperature = 2, p = 0.5, k = 0 }",
                    "Sample(%e) { method = min_p, temperature = 1, p = 0.25, k = 0 }",
                ] {
                    let text = format!("input %x: {half}[S, N]\n {step}\n %t: i64[S] = {choice}\n output t = %t");
                    let text = text.replace('N', &n.to_string());
                    let program = same(&text, &text);
                    let left = operations(&program).len();
                    let greedy = choice.starts_with("Argmax") || choice.contains("greedy");
                    let goes = if greedy { before_largest } else { before_draw };
                    assert_eq!(left == 1, goes, "{text}: {left} left");
                    let shown = same(&format!("{text}\n output e = %e"), &text);
                    assert!(operations(&shown).len() > 1);
                }
            }
        }
    }
}
