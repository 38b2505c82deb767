//! Every kind of change in a decoder of four layers: exactly one entry each.

use crate::decoder::{Edit, Names, Weights, decoder};
use crate::edits::Plan;
use tallow_ir::diff::{Kind, diff};

const ALL: &[usize] = &[0, 1, 2, 3];

/// The entries for an edit at some layers, from a graph whose nodes stand in another order and whose values have other
/// names.
fn found(edit: Edit, at: &[usize], weights: Weights) -> Vec<(Kind, usize, String)> {
    let left = decoder(4, &[], Names::Layers, weights);
    let right = Plan::of(&decoder(4, &[(edit, at)], Names::Odd, weights));
    let mut state = 7usize;
    let right = right.build(
        |n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        },
        true,
    );
    diff(&left, &right).unwrap().entries.into_iter().map(|e| (e.kind, e.count(), e.text)).collect()
}

/// The lines for one layer, for three, and for all.
fn assert_lines(edit: Edit, weights: Weights, kind: Kind, lines: [&[&str]; 3]) {
    for (at, lines) in [&[2][..], &[0, 1, 3], ALL].into_iter().zip(lines) {
        let entries = found(edit, at, weights);
        let texts: Vec<&str> = entries.iter().map(|e| e.2.as_str()).collect();
        assert_eq!(texts, lines, "{edit:?} {at:?} {weights:?}");
        assert!(entries.iter().all(|e| e.0 == kind), "{entries:?}");
        // Layer 0 reads the start anyway.
        let places = at.iter().filter(|&&layer| edit != Edit::SkipFromStart || layer > 0).count();
        assert!(entries.iter().all(|e| e.1 == places), "{entries:?}");
    }
}

macro_rules! kinds {
    ($($test:ident: $edit:ident $kind:ident, [$one:expr] [$three:expr] [$all:expr];)*) => {$(
        #[test]
        fn $test() {
            assert_lines(Edit::$edit, Weights::Layers, Kind::$kind, [&$one, &$three, &$all]);
        }
    )*};
}

kinds! {
    an_epsilon: Epsilon Changed,
        [["in layer 2: RmsNorm: eps 1e-6 becomes 1e-5 (input_layernorm)"]]
        [["in layers 0, 1, 3 of 4: RmsNorm: eps 1e-6 becomes 1e-5 (input_layernorm)"]]
        [["in layers 0-3: RmsNorm: eps 1e-6 becomes 1e-5 (input_layernorm)"]];
    operands_of_a_subtraction: Swapped Operands,
        [["in layer 2: Sub: operands a and b are swapped (mlp.centred)"]]
        [["in layers 0, 1, 3 of 4: Sub: operands a and b are swapped (mlp.centred)"]]
        [["in layers 0-3: Sub: operands a and b are swapped (mlp.centred)"]];
    a_bias: NoBias Removed,
        [["in layer 2: removed Add(…, self_attn.q_proj.bias)"]]
        [["in layers 0, 1, 3 of 4: removed Add(…, self_attn.q_proj.bias)"]]
        [["in layers 0-3: removed Add(…, self_attn.q_proj.bias)"]];
    a_window: Window Changed,
        [["in layer 2: SdpaWindow: window 8 becomes 16 (attn)"]]
        [["in layers 0, 1, 3 of 4: SdpaWindow: window 8 becomes 16 (attn)"]]
        [["in layers 0-3: SdpaWindow: window 8 becomes 16 (attn)"]];
    an_activation: Activation Replaced,
        [["in layer 2: Silu becomes Gelu { approximate = true } (mlp.act)"]]
        [["in layers 0, 1, 3 of 4: Silu becomes Gelu { approximate = true } (mlp.act)"]]
        [["in layers 0-3: Silu becomes Gelu { approximate = true } (mlp.act)"]];
    an_operation_between_two: Scaled Added,
        [["in layer 2: added MulScalar { value = 0.5 } (t488)"]]
        [["in layers 0, 1, 3 of 4: added MulScalar { value = 0.5 } (self_attn.o_proj)"]]
        [["in layers 0-3: added MulScalar { value = 0.5 } (self_attn.o_proj)"]];
    two_operations_between_two: TwoExtra Added,
        [["in layer 2: added Tanh, MulScalar (t273)"]]
        [["in layers 0, 1, 3 of 4: added Tanh, MulScalar (mlp.down_proj)"]]
        [["in layers 0-3: added Tanh, MulScalar (mlp.down_proj)"]];
    two_operations_as_one: Fused Replaced,
        [["in layer 2: Silu, Mul become SwiGlu (mlp.gated)"]]
        [["in layers 0, 1, 3 of 4: Silu, Mul become SwiGlu (mlp.gated)"]]
        [["in layers 0-3: Silu, Mul become SwiGlu (mlp.gated)"]];
    an_encoding: Encoding Weight,
        [["weight model.layers.2.self_attn.o_proj.weight: q8 becomes q4k"]]
        [["in layers 0, 1, 3 of 4: weight model.layers.*.self_attn.o_proj.weight: q8 becomes q4k"]]
        [["in layers 0-3: weight model.layers.*.self_attn.o_proj.weight: q8 becomes q4k"]];
    shapes_of_three_weights: WiderMlp Weight,
        [[
            "weight model.layers.2.mlp.gate_proj.weight: [64, 32] becomes [96, 32]",
            "weight model.layers.2.mlp.up_proj.weight: [64, 32] becomes [96, 32]",
            "weight model.layers.2.mlp.down_proj.weight: [32, 64] becomes [32, 96]",
        ]]
        [[
            "in layers 0, 1, 3 of 4: weight model.layers.*.mlp.gate_proj.weight: [64, 32] becomes [96, 32]",
            "in layers 0, 1, 3 of 4: weight model.layers.*.mlp.up_proj.weight: [64, 32] becomes [96, 32]",
            "in layers 0, 1, 3 of 4: weight model.layers.*.mlp.down_proj.weight: [32, 64] becomes [32, 96]",
        ]]
        [[
            "in layers 0-3: weight model.layers.*.mlp.gate_proj.weight: [64, 32] becomes [96, 32]",
            "in layers 0-3: weight model.layers.*.mlp.up_proj.weight: [64, 32] becomes [96, 32]",
            "in layers 0-3: weight model.layers.*.mlp.down_proj.weight: [32, 64] becomes [32, 96]",
        ]];
    a_name_of_a_weight: Renamed Weight,
        [["weight model.layers.2.mlp.gate_proj.weight is now called model.layers.2.mlp.w1.weight"]]
        [["in layers 0, 1, 3 of 4: weight model.layers.*.mlp.gate_proj.weight is now called model.layers.*.mlp.w1.weight"]]
        [["in layers 0-3: weight model.layers.*.mlp.gate_proj.weight is now called model.layers.*.mlp.w1.weight"]];
    a_norm: NoNorm Removed,
        [["in layer 2: removed RmsNorm(…, post_attention_layernorm.weight) { eps = 1e-6 }"]]
        [["in layers 0, 1, 3 of 4: removed RmsNorm(…, post_attention_layernorm.weight) { eps = 1e-6 }"]]
        [["in layers 0-3: removed RmsNorm(…, post_attention_layernorm.weight) { eps = 1e-6 }"]];
    bases_of_two_rotations: RotatedByLayer Changed,
        [["in layer 2: Rope: base 10000 becomes 500000 (q_rot)", "in layer 2: Rope: base 10000 becomes 500000 (k_rot)"]]
        [[
            "in layers 0, 1, 3 of 4: Rope: base 10000 becomes 500000 (q_rot)",
            "in layers 0, 1, 3 of 4: Rope: base 10000 becomes 500000 (k_rot)",
        ]]
        [["in layers 0-3: Rope: base 10000 becomes 500000 (q_rot)", "in layers 0-3: Rope: base 10000 becomes 500000 (k_rot)"]];
    one_binary_operation_for_another: MulForAdd Replaced,
        [["in layer 2: Add becomes Mul (attn_out)"]]
        [["in layers 0, 1, 3 of 4: Add becomes Mul (attn_out)"]]
        [["in layers 0-3: Add becomes Mul (attn_out)"]];
    an_operand_from_elsewhere: SkipFromStart Operands,
        [["in layer 2: Add: operand a is the result of TokenEmbed and not %layer1.out (attn_out)"]]
        [["in layers 1, 3 of 4: Add: operand a is the result of TokenEmbed and not the result of Add (attn_out)"]]
        [["in layers 1-3 of 4: Add: operand a is the result of TokenEmbed and not the result of Add (attn_out)"]];
}

/// Layers that read the same weights, or none, so that their hashes tell little: still one entry, in the right layers.
#[test]
fn layers_without_weights_of_their_own() {
    let edits = [
        (Edit::Swapped, "Sub: operands a and b are swapped"),
        (Edit::Window, "SdpaWindow: window 8 becomes 16"),
        (Edit::Activation, "Silu becomes Gelu { approximate = true }"),
        (Edit::Scaled, "added MulScalar { value = 0.5 }"),
        (Edit::TwoExtra, "added Tanh, MulScalar"),
        (Edit::Fused, "Silu, Mul become SwiGlu"),
        (Edit::MulForAdd, "Add becomes Mul"),
        (Edit::Epsilon, "becomes 1e-5"),
        (Edit::NoBias, "removed Add"),
        (Edit::NoNorm, "removed "),
    ];
    for weights in [Weights::Shared, Weights::None] {
        for (edit, text) in edits {
            for (at, place) in [(&[2][..], "layer 2:"), (&[0, 1, 3], "layers 0, 1, 3 of 4:"), (ALL, "layers 0-3:")] {
                let entries = found(edit, at, weights);
                assert_eq!(entries.len(), 1, "{edit:?} {at:?} {weights:?}: {entries:?}");
                let line = &entries[0].2;
                assert!(line.contains(text) && line.contains(place), "{edit:?} {at:?} {weights:?}: {line}");
                assert_eq!(entries[0].1, at.len());
            }
        }
    }
}

#[test]
fn several_edits_are_several_entries_in_order_of_the_graph() {
    let edits: &[(Edit, &[usize])] =
        &[(Edit::Activation, ALL), (Edit::Window, &[1]), (Edit::NoBias, &[3]), (Edit::Encoding, ALL)];
    let (a, b) = (decoder(4, &[], Names::None, Weights::Layers), decoder(4, edits, Names::None, Weights::Layers));
    let texts: Vec<String> = diff(&a, &b).unwrap().entries.into_iter().map(|e| e.text).collect();
    assert_eq!(
        texts,
        [
            "in layers 0-3: weight model.layers.*.self_attn.o_proj.weight: q8 becomes q4k",
            "in layers 0-3: Silu becomes Gelu { approximate = true } (mlp.gate_proj)",
            "in layer 1: SdpaWindow: window 8 becomes 16 (self_attn.v_proj.bias)",
            "in layer 3: removed Add(…, self_attn.q_proj.bias)",
        ]
    );
}

#[test]
fn what_comes_after_the_layers_is_in_none() {
    let mut b = decoder(4, &[], Names::Layers, Weights::Layers);
    let a = b.clone();
    let gain = b.weight_named("model.norm.weight").unwrap();
    let (norm, number) = b.readers(gain)[0];
    let other = b.weight("model.other.weight", b.ty(gain).clone()).unwrap();
    b.set_operand(norm, number, other).unwrap();
    let texts = |a, b| diff(a, b).unwrap().entries.into_iter().map(|e| e.text).collect::<Vec<_>>();
    assert_eq!(texts(&a, &b), ["RmsNorm: operand g is model.other.weight and not model.norm.weight"]);
}

#[test]
fn layers_more_and_less() {
    let build = |layers| decoder(layers, &[], Names::Layers, Weights::Layers);
    let texts = |a, b| diff(&build(a), &build(b)).unwrap().entries.into_iter().map(|e| e.text).collect::<Vec<_>>();
    assert_eq!(
        texts(4, 6),
        [
            "in layers 4, 5 of 6: added RmsNorm ×2, Matmul ×7, Add ×5, Reshape ×4, Rope ×2, KvCache, SdpaWindow, Softmax, 3 other operations with input_layernorm.weight, self_attn.q_proj.weight, self_attn.q_proj.bias and more"
        ]
    );
    assert_eq!(texts(6, 4).len(), 1);
    assert!(texts(6, 4)[0].starts_with("in layers 4, 5 of 6: removed RmsNorm"));
    assert_eq!(texts(5, 5), [""; 0]);
}

#[test]
fn the_text_shows_the_statements_and_what_differs_in_them() {
    let edits: &[(Edit, &[usize])] = &[(Edit::Window, &[1]), (Edit::NoBias, &[3])];
    let (a, b) = (decoder(4, &[], Names::Layers, Weights::Layers), decoder(4, edits, Names::Layers, Weights::Layers));
    let found = diff(&a, &b).unwrap();
    let want = r#"2 differences (changed, removed); 157 nodes match, 2 only in the first

in layer 1: SdpaWindow: window 8 becomes 16 (attn)
  - %layer1.attn: f32[S, 32] = SdpaWindow(%layer1.joined, %3, %4) { heads = 4, head_dim = 8, window = 8 }
                                                                                             ^^^^^^^^^^
  + %layer1.attn: f32[S, 32] = SdpaWindow(%layer1.joined, %3, %4) { heads = 4, head_dim = 8, window = 16 }
                                                                                             ^^^^^^^^^^^

in layer 3: removed Add(…, self_attn.q_proj.bias)
  - weight %model.layers.3.self_attn.q_proj.bias = "model.layers.3.self_attn.q_proj.bias": f32[32]
  - %layer3.biased: f32[S, 32] = Add(%layer3.q, %model.layers.3.self_attn.q_proj.bias)
"#;
    assert_eq!(found.text(), want);
    let json = found.json(&a, &b);
    assert_eq!((json["equal"].as_bool(), json["version"].as_u64()), (Some(false), Some(1)));
    assert_eq!(json["removed"], serde_json::json!(["%model.layers.3.self_attn.q_proj.bias", "%layer3.biased"]));
    let entry = &json["entries"][1];
    assert_eq!((entry["kind"].as_str(), entry["count"].as_u64()), (Some("removed"), Some(1)));
    assert_eq!(entry["layers"], serde_json::json!({"prefix": "model.layers.", "numbers": [3], "of": 4}));
    assert_eq!(entry["text"], "in layer 3: removed Add(…, self_attn.q_proj.bias)");
    assert_eq!(entry["places"][0]["left"].as_array().unwrap().len(), 2);
    assert_eq!(diff(&a, &a).unwrap().text(), "the graphs are equal: 159 nodes\n");
}
