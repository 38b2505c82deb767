//! Folded texts and pictures of graphs, as committed under `ir/tests/dump/`; `TALLOW_BLESS=1` writes them.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;

use common::{chain, decoder, f};
use std::collections::HashSet;
use std::path::Path;
use tallow_ir::dump::{Detail, dot, folded, json, mermaid};
use tallow_ir::ops::{MAX_RANK, Text};
use tallow_ir::{DType, Graph, NodeKind, Op, TensorType, Value, text};

/// Compares with the committed file, or writes it.
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump").join(name);
    if std::env::var_os("TALLOW_BLESS").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(want == found, "{name} differs; `TALLOW_BLESS=1 cargo test -p tallow-ir --test dump` writes it:\n{found}");
}

/// One layer as gemma3 has it, in short: a window on most, another rotary base on the others.
fn gemma_layer(g: &mut Graph, i: usize, h: Value, full: bool, wide: DType) -> Value {
    let says = |what: &str| format!("layer{i}.{what}");
    let pos = g.pos().unwrap();
    let mut weight = |part: &str, ty: TensorType| g.weight(&format!("model.layers.{i}.{part}.weight"), ty).unwrap();
    let q8 = |dims: &str| TensorType::new(DType::Q8, common::shape(dims));
    let gain = weight("input_layernorm", f("32"));
    let (wq, wk, wv) = (
        weight("self_attn.q_proj", q8("32, 32")),
        weight("self_attn.k_proj", q8("32, 32")),
        weight("self_attn.v_proj", q8("32, 32")),
    );
    let wo = weight("self_attn.o_proj", q8("32, 32"));
    let up = weight("mlp.up_proj", q8("64, 32"));
    let down = weight("mlp.down_proj", TensorType::new(wide, common::shape("32, 64")));
    let mut op = |op: Op, operands: &[Value], what: &str| {
        let v = g.op(op, operands).unwrap();
        g.name(v, says(what));
        v
    };
    let x = op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain], "norm");
    let rope = || Op::Rope { head_dim: 8, rope_dim: 8, base: if full { 1e6 } else { 1e4 }.into() };
    let mut turned = [(wq, "q"), (wk, "k")].map(|(w, what)| {
        let y = op(Op::Matmul, &[x, w], what);
        let y = op(Op::Reshape { shape: vec![-1, 4, 8] }, &[y], &format!("{what}_heads"));
        let y = op(rope(), &[y, pos], &format!("{what}_rope"));
        op(Op::Reshape { shape: vec![-1, 32] }, &[y], &format!("{what}_rows"))
    });
    let v = op(Op::Matmul, &[x, wv], "v");
    let kv = g.op_many(Op::KvCache, &[turned[1], v]).unwrap();
    turned[1] = kv[0];
    let mix = match full {
        true => Op::Sdpa { heads: 4, kv_heads: 4, head_dim: 8, causal: true },
        false => Op::SdpaWindow { heads: 4, head_dim: 8, window: 16 },
    };
    let mut op = |op: Op, operands: &[Value], what: &str| {
        let v = g.op(op, operands).unwrap();
        g.name(v, says(what));
        v
    };
    let a = op(mix, &[turned[0], kv[0], kv[1]], "attn");
    let a = op(Op::Matmul, &[a, wo], "attn_out");
    let h = op(Op::Add, &[h, a], "attn_residual");
    let y = op(Op::Matmul, &[h, up], "up");
    let y = op(Op::Gelu { approximate: true }, &[y], "act");
    let y = op(Op::Matmul, &[y, down], "ffn_out");
    op(Op::Add, &[h, y], "out")
}

/// Layers between an embedding and a head, each made by `layer`.
fn model(layers: usize, mut layer: impl FnMut(&mut Graph, usize, Value) -> Value) -> Graph {
    let mut g = Graph::new();
    let ids = g.input("input_ids", TensorType::i64(common::shape("S"))).unwrap();
    let table = g.weight("model.embed_tokens.weight", f("64, 32")).unwrap();
    let mut h = g.op(Op::TokenEmbed, &[ids, table]).unwrap();
    g.name(h, "embed");
    for i in 0..layers {
        h = layer(&mut g, i, h);
    }
    let gain = g.weight("model.norm.weight", f("32")).unwrap();
    let x = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain]).unwrap();
    let logits = g.op(Op::Matmul, &[x, table]).unwrap();
    g.output("logits", logits).unwrap();
    g
}

/// The lines of a text that contain `what`.
fn lines<'a>(text: &'a str, what: &str) -> Vec<&'a str> {
    text.lines().map(str::trim).filter(|line| line.contains(what)).collect()
}

#[test]
fn equal_layers_are_one_and_say_what_passes_between_them() {
    let text = folded(&decoder(28));
    golden("decoder.txt", &text);
    assert!(text.starts_with("// 28 layers folded; --full prints every node\n"));
    assert_eq!(lines(&text, "for "), ["for layer in 0..28 {"]);
    assert_eq!(lines(&text, "from the layer before"), ["// from the layer before: %layer.{layer-1} (layer 0: %0)"]);
    assert_eq!(folded(&decoder(28)), text);
    // As many lines however many layers there are.
    assert_eq!(folded(&decoder(300)).lines().count(), text.lines().count());
}

#[test]
fn layers_that_take_turns_are_printed_once_each() {
    let text = folded(&model(26, |g, i, h| gemma_layer(g, i, h, i % 6 == 5, DType::Q8)));
    golden("alternating.txt", &text);
    assert_eq!(
        lines(&text, "for "),
        ["for layer in [0..5, 6..11, 12..17, 18..23, 24..26] {", "for layer in 5..24 step 6 {"]
    );
    assert_eq!(
        lines(&text, "differs"),
        ["// differs from the loop above: Rope base 10000 → 1000000, SdpaWindow → Sdpa"]
    );
}

#[test]
fn what_sets_kinds_apart_is_said() {
    // One operation more in every third layer, another shape of weight in the last two.
    let text = folded(&model(9, |g, i, h| {
        let width = if i < 7 { "64, 32" } else { "96, 32" };
        let up = g.weight(&format!("layers.{i}.mlp.up.weight"), f(width)).unwrap();
        let down = g.weight(&format!("layers.{i}.mlp.down.weight"), f("32, 64")).unwrap();
        let y = g.op(Op::Tanh, &[h]).unwrap();
        let y = g.op(Op::Matmul, &[y, up]).unwrap();
        let mut y = g.op(Op::Silu, &[y]).unwrap();
        if i % 3 == 2 && i < 7 {
            y = g.op(Op::Exp, &[y]).unwrap();
        }
        if i >= 7 {
            y = g.op(Op::Slice { axis: 1, start: 0, end: 64 }, &[y]).unwrap();
        }
        let y = g.op(Op::Matmul, &[y, down]).unwrap();
        g.op(Op::Add, &[h, y]).unwrap()
    }));
    assert_eq!(
        lines(&text, "differs"),
        [
            "// differs from the loop above: operations (1 Exp more)",
            "// differs from the loop above: up.weight [64, 32] → [96, 32], Exp → Slice",
            // Blocks begin behind the first operation that has no name.
            "// differs from the loop above: operations (1 Tanh less)",
        ],
        "{text}"
    );
}

#[test]
fn layers_fold_whatever_encodings_their_weights_have() {
    let wide = |i: usize| if i < 3 || i % 3 == 2 { DType::Q6K } else { DType::Q4K };
    let text = folded(&model(14, |g, i, h| gemma_layer(g, i, h, i % 6 == 5, wide(i))));
    golden("encodings.txt", &text);
    assert_eq!(lines(&text, "for "), ["for layer in [0..5, 6..11, 12..14] {", "for layer in 5..12 step 6 {"]);
    // The others of the second loop are all alike.
    assert_eq!(lines(&text, "// down_proj"), ["// down_proj.weight: q6k in layers 0..3, 8; q4k in the others"]);
    assert_eq!(lines(&text, "down_proj.weight\": q6k|q4k[32, 64]").len(), 1, "{text}");
    assert_eq!(lines(&text, "down_proj.weight\": q6k[32, 64]").len(), 1, "{text}");
    let drawn = dot(&model(6, |g, i, h| gemma_layer(g, i, h, false, wide(i))), Detail::Folded);
    assert!(drawn.contains("down_proj.weight\\nq6k|q4k[32, 64]"), "{drawn}");
    // Weights of one spread share a line; of two blocks one is the other.
    let mixed = |wide: [DType; 2]| {
        folded(&model(2, |g, i, h| {
            let weights = ["q", "v"].map(|part| {
                let ty = TensorType::new(wide[i], common::shape("32, 32"));
                g.weight(&format!("layers.{i}.{part}_proj.weight"), ty).unwrap()
            });
            let y = g.op(Op::Matmul, &[h, weights[0]]).unwrap();
            let y = g.op(Op::Silu, &[y]).unwrap();
            let y = g.op(Op::Matmul, &[y, weights[1]]).unwrap();
            let y = g.op(Op::Tanh, &[y]).unwrap();
            g.op(Op::Add, &[h, y]).unwrap()
        }))
    };
    let text = mixed([DType::F16, DType::Q8]);
    assert_eq!(
        lines(&text, " in layer "),
        ["// q_proj.weight, v_proj.weight: f16 in layer 0; q8 in the other"],
        "{text}"
    );
    assert!(!mixed([DType::Q8; 2]).contains("in the other"));
}

#[test]
fn encodings_of_loops_in_loops_are_said_where_they_differ() {
    let experts = |dtype: fn(usize, usize) -> DType| {
        folded(&model(4, |g, i, h| {
            let mut all = Vec::new();
            for e in 0..8 {
                let ty = TensorType::new(dtype(i, e), common::shape("32, 32"));
                let up = g.weight(&format!("model.layers.{i}.mlp.experts.{e}.up.weight"), ty).unwrap();
                let y = g.op(Op::Matmul, &[h, up]).unwrap();
                let y = g.op(Op::Silu, &[y]).unwrap();
                g.name(y, format!("layer{i}.expert{e}"));
                all.push(y);
            }
            let y = g.op(Op::Concat { axis: 0 }, &all).unwrap();
            let y = g.op(Op::Slice { axis: 0, start: 0, end: 1 }, &[y]).unwrap();
            g.op(Op::Add, &[h, y]).unwrap()
        }))
    };
    let of_layers = experts(|i, _| if i == 2 { DType::Q8 } else { DType::F32 });
    assert_eq!(lines(&of_layers, "// up."), ["// up.weight: q8 in layer 2; f32 in the others"], "{of_layers}");
    let of_experts = experts(|_, e| if e < 3 { DType::Q8 } else { DType::F32 });
    assert_eq!(lines(&of_experts, "// up."), ["// up.weight: q8 in experts 0..3; f32 in the others"], "{of_experts}");
    let of_both = experts(|i, e| if i == 1 && e == 4 { DType::Q8 } else { DType::F32 });
    assert_eq!(
        lines(&of_both, "// up."),
        ["// up.weight: f32|q8 in layer 1; f32 in the others", "// up.weight: f32|q8 in expert 4; f32 in the others",],
        "{of_both}"
    );
    for text in [of_layers, of_experts, of_both] {
        assert_eq!(lines(&text, "for "), ["for layer in 0..4 {", "for expert in 0..8 {"]);
        assert!(text.contains("f32|q8[32, 32]") || text.contains("q8|f32[32, 32]"), "{text}");
    }
}

#[test]
fn experts_are_loops_in_layers() {
    let text = folded(&model(4, |g, i, h| {
        let router = g.weight(&format!("model.layers.{i}.mlp.gate.weight"), f("8, 32")).unwrap();
        let scores = g.op(Op::Matmul, &[h, router]).unwrap();
        let scores = g.op(Op::Softmax { dim: -1 }, &[scores]).unwrap();
        let mut sum = g.op(Op::MulScalar { value: 0.0.into() }, &[h]).unwrap();
        for e in 0..8 {
            let name = |w: &str| format!("model.layers.{i}.mlp.experts.{e}.{w}.weight");
            let (up, down) =
                (g.weight(&name("up"), f("16, 32")).unwrap(), g.weight(&name("down"), f("32, 16")).unwrap());
            let y = g.op(Op::Matmul, &[h, up]).unwrap();
            let y = g.op(Op::Silu, &[y]).unwrap();
            let y = g.op(Op::Matmul, &[y, down]).unwrap();
            let by = g.op(Op::Slice { axis: 1, start: e, end: e + 1 }, &[scores]).unwrap();
            let y = g.op(Op::Mul, &[y, by]).unwrap();
            sum = g.op(Op::Add, &[sum, y]).unwrap();
        }
        g.op(Op::Add, &[h, sum]).unwrap()
    }));
    // `Slice` takes another expert each time, so the experts differ in an attribute: only the layers fold.
    assert_eq!(lines(&text, "for "), ["for layer in 0..4 {"]);
    let text = folded(&model(4, |g, i, h| {
        let mut all = Vec::new();
        for e in 0..8 {
            let name = |w: &str| format!("model.layers.{i}.mlp.experts.{e}.{w}.weight");
            let (up, down) =
                (g.weight(&name("up"), f("16, 32")).unwrap(), g.weight(&name("down"), f("32, 16")).unwrap());
            let y = g.op(Op::Matmul, &[h, up]).unwrap();
            let y = g.op(Op::Silu, &[y]).unwrap();
            let y = g.op(Op::Matmul, &[y, down]).unwrap();
            g.name(y, format!("layer{i}.expert{e}"));
            all.push(y);
        }
        let y = g.op(Op::Concat { axis: 0 }, &all).unwrap();
        let y = g.op(Op::Slice { axis: 0, start: 0, end: 1 }, &[y]).unwrap();
        g.op(Op::Add, &[h, y]).unwrap()
    }));
    golden("experts.txt", &text);
    assert_eq!(lines(&text, "for "), ["for layer in 0..4 {", "for expert in 0..8 {"]);
    assert_eq!(lines(&text, "up.weight").len(), 1);
}

/// A chain of operations by letters, without any name; capitals read the mask as well.
fn letters(word: &str) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", f("S, 8")).unwrap();
    let mask = g.input("mask", f("8")).unwrap();
    let mut last = x;
    for c in word.chars() {
        last = match c {
            'a' => g.op(Op::Silu, &[last]),
            'b' => g.op(Op::Neg, &[last]),
            'c' => g.op(Op::Tanh, &[last]),
            'd' => g.op(Op::AddScalar { value: 1.0.into() }, &[last]),
            'M' => g.op(Op::Mul, &[last, mask]),
            _ => g.op(Op::Exp, &[last]),
        }
        .unwrap();
    }
    g.output("y", last).unwrap();
    g
}

#[test]
fn without_names_structure_tells() {
    let text = folded(&letters(&format!("e{}e", "abMc".repeat(7))));
    golden("nameless.txt", &text);
    assert!(text.starts_with("// 7 repeats folded;"));
    assert!(text.contains("// from the turn before: prev %8 (turn 0: %0)"), "{text}");
}

#[test]
fn periods_inside_periods() {
    let text = folded(&letters(&format!("e{}", "aaaaaaaab".repeat(5))));
    golden("nested.txt", &text);
    assert_eq!(lines(&text, "for "), ["for i in 0..5 {", "for j in 0..8 {"]);
    let text = folded(&letters(&"abababcabababcd".repeat(6)));
    assert_eq!(lines(&text, "for ")[0], "for i in 0..6 {");
    // One period throughout is one loop, not a loop of loops.
    assert_eq!(lines(&folded(&letters(&"ab".repeat(64))), "for "), ["for i in 0..64 {"]);
    assert!(lines(&folded(&letters("abcdeMab")), "for ").is_empty());
}

#[test]
fn single_layers_may_read_or_name_something_else() {
    // The first reads an input, the fifth another mask, and the last gives the output its name.
    let mut g = Graph::new();
    let mut h = g.input("x", f("S, 8")).unwrap();
    let masks = [g.input("mask", f("8")).unwrap(), g.input("other", f("8")).unwrap()];
    for i in 0..8 {
        let w = g.weight(&format!("blocks.{i}.w"), f("8, 8")).unwrap();
        let y = g.op(Op::Matmul, &[h, w]).unwrap();
        let y = g.op(Op::Mul, &[y, masks[usize::from(i == 5)]]).unwrap();
        h = g.op(Op::Add, &[h, y]).unwrap();
        g.name(h, if i == 7 { "last_hidden_state".into() } else { format!("block{i}") });
        g.output(&format!("hidden.{i}"), h).unwrap();
    }
    g.output("y", h).unwrap();
    let text = folded(&g);
    golden("odd.txt", &text);
    assert_eq!(lines(&text, "for "), ["for block in 0..8 {"]);
    assert!(text.contains("(block 0: %x)") && text.contains("// block 5: %other in place of %mask"), "{text}");
    assert!(text.contains("%last_hidden_state is %block{block}"), "{text}");
}

#[test]
fn outputs_of_all_layers_stand_in_the_loop() {
    let mut g = Graph::new();
    let mut h = g.input("x", f("S, 8")).unwrap();
    for i in 0..6 {
        let w = g.weight(&format!("blocks.{i}.w"), f("8, 8")).unwrap();
        let y = g.op(Op::Matmul, &[h, w]).unwrap();
        h = g.op(Op::Silu, &[y]).unwrap();
        g.name(h, format!("block{i}"));
        g.output(&format!("hidden.{i}"), h).unwrap();
    }
    let text = folded(&g);
    assert_eq!(
        lines(&text, "output"),
        ["// 19 nodes: 12 operations, 6 weights, 1 input; 6 outputs", "output hidden.{block} = %block{block}"]
    );
}

#[test]
fn numbers_that_count_weights_and_not_layers_do_not_mislead() {
    // Nine weights a layer, numbered throughout.
    let mut g = Graph::new();
    let mut h = g.input("x", f("S, 8")).unwrap();
    for i in 0..12 {
        for j in 0..9 {
            let w = g.weight(&format!("w{}", 9 * i + j), f("8, 8")).unwrap();
            h = g.op(Op::Matmul, &[h, w]).unwrap();
            h = g.op([Op::Silu, Op::Neg, Op::Tanh][j % 3].clone(), &[h]).unwrap();
        }
        h = g.op(Op::Exp, &[h]).unwrap();
    }
    g.output("y", h).unwrap();
    let text = folded(&g);
    assert_eq!(lines(&text, "for "), ["for i in 0..12 {", "for j in 0..3 {"], "{text}");
    assert!(text.contains("\"w{9*i+3*j+2}\""), "{text}");
}

#[test]
fn a_hundred_thousand_layers_fold_by_name_and_by_structure() {
    let mut g = Graph::new();
    let mut h = g.input("x", f("S, 8")).unwrap();
    for i in 0..100_000 {
        let dtype = if matches!(i % 7, 1 | 3) { DType::F16 } else { DType::F32 };
        let w = g.weight(&format!("layers.{i}.w"), TensorType::new(dtype, common::shape("8, 8"))).unwrap();
        h = g.op(Op::Matmul, &[h, w]).unwrap();
        h = g.op(Op::Silu, &[h]).unwrap();
    }
    g.output("y", h).unwrap();
    let text = folded(&g);
    assert!(text.starts_with("// 100000 layers folded;") && text.lines().count() < 20, "{text}");
    assert!(
        text.contains("// w: f16 in layers 1..4 step 2, 8..11 step 2,") && text.contains("; f32 in the others\n"),
        "{text}"
    );
    assert!(dot(&g, Detail::Folded).len() < 4000);
    let text = folded(&letters(&"abMcd".repeat(100_000)));
    assert!(text.starts_with("// 100000 repeats folded;") && text.lines().count() < 20, "{text}");
    // Nothing equal anywhere, and as long.
    let text = folded(&chain(100_000));
    assert!(text.starts_with("// nothing repeats"));
}

/// Graphs made to be slow: many short loops, many kinds, words that repeat at every length.
#[test]
fn hostile_repetition_ends() {
    let mut fibonacci = (String::from("a"), String::from("ab"));
    while fibonacci.1.len() < 30_000 {
        fibonacci = (fibonacci.1.clone(), fibonacci.1 + &fibonacci.0);
    }
    folded(&letters(&fibonacci.1));
    let squares: String =
        (0..5_000u32).flat_map(|i| ["aaaaaa", "bbbbbb", "ababab"][(i * i % 7 % 3) as usize].chars()).collect();
    folded(&letters(&squares));
    // Every block looks the same and reads something else.
    let mut g = Graph::new();
    let mut values = vec![g.input("x", f("8, 8")).unwrap()];
    for i in 0..20_000usize {
        let w = g.weight(&format!("l.{i}.w"), f("8, 8")).unwrap();
        let y = g.op(Op::Matmul, &[values[i * 7919 % values.len()], w]).unwrap();
        let y = g.op(Op::Add, &[y, values[i * 104_729 % values.len()]]).unwrap();
        values.push(g.op(Op::Mul, &[y, values[i / 2]]).unwrap());
    }
    let last = values[values.len() - 1];
    g.output("y", last).unwrap();
    assert!(folded(&g).lines().count() > 20_000);
}

/// Names that would end a text, a label or a comment, in every place where a name can be.
fn hostile() -> Graph {
    let evil = "\"];\n}\\ <b>&amp;</b> %%{init: {}}%% `x` -->|\u{1b}[2J end {layer} */";
    let mut g = Graph::new();
    let mut h = g.input(evil, f("S, 8")).unwrap();
    for i in 0..4 {
        let dtype = if i == 2 { DType::F16 } else { DType::F32 };
        let w = g.weight(&format!("{evil}.{i}.{evil}"), TensorType::new(dtype, common::shape("8, 8"))).unwrap();
        let y = g.op(Op::Matmul, &[h, w]).unwrap();
        h = g.op(Op::Silu, &[y]).unwrap();
        g.name(h, format!("{evil}{i}"));
    }
    g.output(evil, h).unwrap();
    g
}

#[test]
fn hostile_names_stay_names() {
    let g = hostile();
    let text = folded(&g);
    assert!(!text.contains('\u{1b}') && text.contains("{{layer}}"), "{text}");
    assert_eq!(lines(&text, "for ").len(), 1, "{text}");
    let notes = lines(&text, "; f32 in the others");
    assert!(notes.len() == 1 && notes[0].starts_with("// \"\\\"];\\n}"), "{text}");
    for detail in [Detail::Folded, Detail::Full] {
        let drawn = dot(&g, detail);
        assert!(!drawn.contains('\u{1b}'));
        // Outside quotes there is nothing but our own words.
        for line in drawn.lines() {
            let mut outside = String::new();
            let (mut quoted, mut escaped) = (false, false);
            for c in line.chars() {
                match c {
                    '"' if !escaped => quoted = !quoted,
                    c if !quoted => outside.push(c),
                    _ => {}
                }
                escaped = c == '\\' && !escaped;
            }
            assert!(!quoted && !outside.contains("init") && !outside.contains("<b>"), "{line}");
        }
        let drawn = mermaid(&g, detail);
        for line in drawn.lines() {
            assert!(!line.contains("%%{") && !line.contains('`') && !line.contains("<b>"), "{line}");
            assert_eq!(line.matches('"').count() % 2, 0, "{line}");
            assert!(line.matches('"').count() <= 2, "{line}");
        }
    }
    assert!(json(&g)["nodes"].as_array().unwrap().len() == 8);
}

#[test]
fn json_has_everything_with_its_type() {
    let mut g = decoder(1);
    let x =
        g.op(Op::Clamp { min: None, max: Some(f32::INFINITY.into()) }, &[g.output_named("logits").unwrap()]).unwrap();
    let y = g.op(Op::Slice { axis: 0, start: -1, end: i64::MAX }, &[x]).unwrap();
    g.name(y, "odd name");
    g.set_hint(y.node, 9);
    g.output("last", y).unwrap();
    let all = json(&g);
    golden("decoder.json", &format!("{all:#}\n"));
    // Everything that is read is there, and each value once.
    let values: Vec<&str> = ["inputs", "weights"]
        .iter()
        .flat_map(|part| all[part].as_array().unwrap())
        .chain(all["nodes"].as_array().unwrap().iter().flat_map(|n| n["results"].as_array().unwrap()))
        .map(|v| v["value"].as_str().unwrap())
        .collect();
    let known: HashSet<&str> = values.iter().copied().collect();
    assert_eq!(known.len(), values.len());
    let nodes = all["nodes"].as_array().unwrap();
    assert!(nodes.iter().flat_map(|n| n["operands"].as_array().unwrap()).all(|v| known.contains(v.as_str().unwrap())));
    assert_eq!(nodes.len(), g.nodes().filter(|&id| matches!(g.node(id).kind, NodeKind::Op(_))).count());
    let clamp = &nodes[nodes.len() - 2]["attributes"];
    assert!(clamp["min"].is_null() && clamp["max"] == "inf");
    assert_eq!(nodes[nodes.len() - 1]["attributes"]["end"], i64::MAX);
    assert_eq!(nodes[nodes.len() - 1]["hint"], 9);
    assert_eq!(all["inputs"][1]["injected"], true);
}

#[test]
fn json_says_its_version_and_which_nodes_do_more_than_compute() {
    let mut g = decoder(1);
    let x = g.output_named("logits").unwrap();
    let noise = g.op(Op::RandomNormal { seed: 1 }, &[x]).unwrap();
    let call = Op::HostCall { function: Text::new("own").unwrap(), dtype: DType::F32, shape: vec![-1] };
    let y = g.op(call, &[noise]).unwrap();
    g.output("y", y).unwrap();
    let all = json(&g);
    assert_eq!(all.as_object().unwrap().iter().next().unwrap(), (&"version".to_owned(), &1.into()));
    let effects: Vec<(&str, &str)> = all["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|n| Some((n["op"].as_str()?, n.get("effect")?.as_str()?)))
        .collect();
    assert_eq!(effects, [("KvCache", "state"), ("RandomNormal", "random"), ("HostCall", "host")]);
}

#[test]
fn boxes_have_all_attributes() {
    let mut g = Graph::new();
    let x = g.input("x", f("1, 8, 9, 9")).unwrap();
    let w = g.weight("w", f("8, 2, 3, 3")).unwrap();
    let conv = Op::Conv2d { kernel: [3, 3], stride: [1, 1], padding: [1, 1], dilation: [1, 1], groups: 4 };
    let y = g.op(conv, &[x, w]).unwrap();
    g.output("y", y).unwrap();
    for detail in [Detail::Folded, Detail::Full] {
        let drawn = dot(&g, detail);
        let lines = "kernel = [3, 3], stride = [1, 1],\\npadding = [1, 1], dilation = [1, 1],\\ngroups = 4\"";
        assert!(drawn.contains(lines) && !drawn.contains('…') && !drawn.contains("tooltip"), "{drawn}");
        let drawn = mermaid(&g, detail);
        assert!(drawn.contains("dilation = [1, 1],<br/>groups = 4\""), "{drawn}");
    }
    // Where even the lines are too few, the tooltip has the rest.
    let mut g = Graph::new();
    let x = g.input("x", f("2")).unwrap();
    let name = "\"n\\".repeat(80);
    let y =
        g.op(Op::HostCall { function: Text::new(&name).unwrap(), dtype: DType::F32, shape: vec![7] }, &[x]).unwrap();
    g.output("y", y).unwrap();
    let drawn = dot(&g, Detail::Full);
    let drawn = lines(&drawn, "HostCall\\n")[0];
    assert!(drawn.contains(" …\", tooltip=\"function = ") && drawn.ends_with("shape = [7]\"];"), "{drawn}");
}

#[test]
fn pictures_are_as_committed() {
    let g = decoder(3);
    golden("decoder.dot", &dot(&g, Detail::Folded));
    golden("decoder.mmd", &mermaid(&g, Detail::Folded));
    let full = dot(&g, Detail::Full);
    assert!(["layer 0", "layer 1", "layer 2"].iter().all(|l| full.contains(&format!("label=\"{l}\";"))), "{full}");
    assert_eq!(full.matches("label=\"self_attn\";").count(), 3);
    let operations = g.nodes().filter(|&id| matches!(g.node(id).kind, NodeKind::Op(_))).count();
    assert_eq!(
        full.lines().filter(|l| l.contains("[label=\"") && !l.contains("shape=") && !l.contains("->")).count(),
        operations
    );
}

#[test]
fn a_full_text_reads_back_where_a_folded_one_says_that_it_does_not() {
    let g = decoder(3);
    assert!(text::parse(&text::print(&g)).is_ok());
    assert!(text::parse(&folded(&g)).is_err());
    let mut deep = Graph::new();
    let x = deep.input("x", f(&vec!["1"; MAX_RANK].join(", "))).unwrap();
    deep.output("y", x).unwrap();
    assert!(folded(&deep).contains("output y = %x"));
}
