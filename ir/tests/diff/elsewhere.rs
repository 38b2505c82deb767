//! Operands from elsewhere: from another layer, or called as before and made of something else.

use crate::decoder::{Edit, Names, Weights, decoder};
use tallow_ir::diff::{Kind, diff};
use tallow_ir::{Graph, Value};

fn plain(names: Names) -> Graph {
    decoder(4, &[(Edit::Fused, &[0, 1, 2, 3])], names, Weights::Layers)
}

fn weight(layer: usize, name: &str) -> String {
    format!("model.layers.{layer}.{name}.weight")
}

fn texts(a: &Graph, b: &Graph) -> Vec<String> {
    diff(a, b).unwrap().entries.into_iter().map(|e| e.text).collect()
}

fn value(g: &Graph, name: &str) -> Value {
    g.weight_named(name)
        .unwrap_or_else(|| g.nodes().flat_map(|n| g.results(n)).find(|&v| g.name_of(v) == Some(name)).unwrap())
}

/// What reads a weight reads another.
fn redirect(g: &mut Graph, from: &str, to: &str) {
    let (from, to) = (value(g, from), value(g, to));
    for (node, number) in g.readers(from) {
        g.set_operand(node, number, to).unwrap();
    }
}

fn exchange(g: &mut Graph, one: &str, other: &str) {
    let (one, other) = (value(g, one), value(g, other));
    let (of_one, of_other) = (g.readers(one), g.readers(other));
    of_one.into_iter().for_each(|(node, number)| g.set_operand(node, number, other).unwrap());
    of_other.into_iter().for_each(|(node, number)| g.set_operand(node, number, one).unwrap());
}

#[test]
fn a_weight_of_another_layer_is_in_the_layer_that_reads_it() {
    for names in [Names::Layers, Names::Odd, Names::None] {
        let a = plain(names);
        for part in [
            "input_layernorm",
            "self_attn.q_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "post_attention_layernorm",
            "mlp.gate_proj",
            "mlp.down_proj",
        ] {
            for (layer, other) in [(1, 2), (2, 1), (1, 0), (0, 3), (3, 0)] {
                let mut b = a.clone();
                let (own, new) = (weight(layer, part), weight(other, part));
                redirect(&mut b, &own, &new);
                for (l, r, is, not) in [(&a, &b, &new, &own), (&b, &a, &own, &new)] {
                    let found = texts(l, r);
                    assert_eq!(found.len(), 1, "{found:?}");
                    assert!(found[0].starts_with(&format!("in layer {layer}: ")), "{found:?}");
                    assert!(found[0].contains(&format!("is {is} and not {not}")), "{found:?}");
                }
            }
        }
    }
}

#[test]
fn a_whole_layer_with_the_weights_of_another_is_in_its_own() {
    let a = plain(Names::None);
    let mut b = a.clone();
    let of_two: Vec<String> =
        a.weights().map(|(name, _)| name.to_owned()).filter(|name| name.starts_with("model.layers.2.")).collect();
    of_two.iter().for_each(|name| redirect(&mut b, name, &name.replace("layers.2.", "layers.1.")));
    for found in [texts(&a, &b), texts(&b, &a)] {
        assert_eq!(found.len(), of_two.len());
        assert!(found.iter().all(|line| line.starts_with("in layer 2: ")), "{found:#?}");
    }
}

#[test]
fn a_value_of_another_layer_is_in_the_layer_that_reads_it() {
    let a = plain(Names::Layers);
    let mut b = a.clone();
    let (own, other) = (value(&a, "layer2.mlp.gated"), value(&a, "layer1.mlp.gated"));
    b.readers(own).into_iter().for_each(|(node, number)| b.set_operand(node, number, other).unwrap());
    let found = diff(&a, &b).unwrap();
    let lines: Vec<&str> = found.entries.iter().map(|e| e.text.as_str()).collect();
    assert!(lines.iter().all(|line| line.starts_with("in layer 2: ")), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("operand x is %layer1.mlp.gated and not %layer2.mlp.gated")),
        "{lines:?}"
    );
}

#[test]
fn weights_of_each_layer_from_the_next() {
    let a = plain(Names::Layers);
    let mut b = a.clone();
    let readers: Vec<_> = (0..4).map(|layer| b.readers(value(&b, &weight(layer, "mlp.up_proj")))[0]).collect();
    for (layer, (node, number)) in readers.into_iter().enumerate() {
        let next = value(&b, &weight((layer + 1) % 4, "mlp.up_proj"));
        b.set_operand(node, number, next).unwrap();
    }
    assert_eq!(
        texts(&a, &b),
        [
            "in layers 0-3: Matmul: operand W is model.layers.{1,2,3,…}.mlp.up_proj.weight and not model.layers.*.mlp.up_proj.weight"
        ]
    );
}

#[test]
fn values_called_as_before_are_told_apart_by_what_they_are() {
    for names in [Names::Layers, Names::None] {
        let a = plain(names);
        let mut b = a.clone();
        exchange(&mut b, &weight(1, "mlp.gate_proj"), &weight(1, "mlp.up_proj"));
        let found = diff(&a, &b).unwrap();
        let [entry] = &found.entries[..] else { panic!("{}", found.text()) };
        assert_eq!(entry.kind, Kind::Operands);
        let (gate, up) = (weight(1, "mlp.gate_proj"), weight(1, "mlp.up_proj"));
        let want = format!(
            "in layer 1: SwiGlu: operand gate is Matmul of {up} and not Matmul of {gate}, operand up is Matmul of {gate} and not Matmul of {up}"
        );
        assert!(entry.text.starts_with(&want), "{}", entry.text);
        assert_eq!((entry.left.len(), entry.right.len()), (3, 3));
        // The marks are about the weights.
        let marked: Vec<&str> = entry.right.iter().map(|p| &p.text[p.marks[0].clone()]).collect();
        assert_eq!(marked[..2], [format!("%{up}"), format!("%{gate}")]);
        let texts = |places: &[tallow_ir::diff::Place]| places.iter().map(|p| p.text.clone()).collect::<Vec<_>>();
        assert_ne!(texts(&entry.left), texts(&entry.right));
    }
}

#[test]
fn values_called_as_before_are_followed_further_up() {
    // An activation stands between the product that is another and what reads it.
    let a = decoder(4, &[], Names::Layers, Weights::Layers);
    let mut b = a.clone();
    for layer in 0..4 {
        exchange(&mut b, &weight(layer, "self_attn.q_proj"), &weight(layer, "self_attn.k_proj"));
    }
    let found = diff(&a, &b).unwrap();
    for entry in &found.entries {
        assert!(!entry.text.contains("another") && !entry.text.contains("swapped"), "{}", found.text());
        let texts = |places: &[tallow_ir::diff::Place]| places.iter().map(|p| p.text.clone()).collect::<Vec<_>>();
        assert_ne!(texts(&entry.left), texts(&entry.right), "{}", found.text());
    }
}

/// Three products of one value in two layers, or in layer `joined` one operation with three results.
fn projections(joined: &[usize]) -> Graph {
    let mut text = String::from("graph {\n  input %x0: f32[S, 32]\n");
    let weight = |layer: usize, part: &str| format!("%model.layers.{layer}.{part}_proj.weight");
    for layer in 0..3 {
        for part in ["q", "k", "v"] {
            let name = weight(layer, part);
            text.push_str(&format!("  weight {name} = \"{}\": q8[32, 32]\n", &name[1..]));
        }
    }
    for layer in 0..3 {
        let [q, k, v] = ["q", "k", "v"].map(|part| weight(layer, part));
        let x = format!("%x{layer}");
        if joined.contains(&layer) {
            let results = ["q", "k", "v"].map(|part| format!("%{part}{layer}: f32[S, 32]")).join(", ");
            text.push_str(&format!(
                "  {results} = JoinedMatmul({x}, {q}, {k}, {v}) {{ parts = 3, norm = none, bias = [] }}\n"
            ));
        } else {
            for (part, w) in [("q", q), ("k", k), ("v", v)] {
                text.push_str(&format!("  %{part}{layer}: f32[S, 32] = Matmul({x}, {w})\n"));
            }
        }
        text.push_str(&format!("  %s{layer}: f32[S, 32] = Silu(%q{layer})\n"));
        text.push_str(&format!("  %t{layer}: f32[S, 32] = Tanh(%k{layer})\n"));
        text.push_str(&format!("  %a{layer}: f32[S, 32] = Mul(%s{layer}, %t{layer})\n"));
        text.push_str(&format!("  %x{}: f32[S, 32] = Mul(%a{layer}, %v{layer})\n", layer + 1));
    }
    text.push_str("  output \"y\" = %x3\n}\n");
    tallow_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn products_that_become_one_operation_are_one_entry() {
    let (a, one, all) = (projections(&[]), projections(&[1]), projections(&[0, 1, 2]));
    let joined = "JoinedMatmul { parts = 3, norm = none, bias = [] }";
    let line = |a, b| {
        let found = texts(a, b);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].rsplit_once(" (").map_or(found[0].clone(), |(line, _)| line.to_owned())
    };
    assert_eq!(line(&a, &one), format!("in layer 1: Matmul ×3 become {joined}"));
    assert_eq!(line(&one, &a), format!("in layer 1: {joined} becomes Matmul ×3"));
    assert_eq!(line(&a, &all), format!("in layers 0-2: Matmul ×3 become {joined}"));
}

#[test]
fn numbers_that_differ_from_layer_to_layer_are_shown() {
    let edited = |encodings: [&str; 4]| {
        let mut text = tallow_ir::text::print(&plain(Names::Layers));
        for (layer, encoding) in encodings.iter().enumerate() {
            let name = format!("\"{}\": ", weight(layer, "self_attn.o_proj"));
            text = text.replace(&format!("{name}q8["), &format!("{name}{encoding}["));
        }
        tallow_ir::text::parse(&text).unwrap()
    };
    let a = plain(Names::Layers);
    let line = |encodings| texts(&a, &edited(encodings));
    let weight = "weight model.layers.*.self_attn.o_proj.weight: q8 becomes";
    assert_eq!(line(["q4k", "q6k", "q4k", "q6k"]), [format!("in layers 0-3: {weight} q{{4,6}}k")]);
    assert_eq!(line(["q4k", "q6k", "q8", "q5k"]), [format!("in layers 0, 1, 3 of 4: {weight} q{{4,6,5}}k")]);
    assert_eq!(line(["q3k", "q4k", "q5k", "q6k"]), [format!("in layers 0-3: {weight} q{{3,4,5,…}}k")]);
}

#[test]
fn a_value_that_what_is_gone_never_read_is_an_entry() {
    let graph = |made: &str, read: &str| {
        let text = format!(
            "graph {{\n  input %x: f32[S, 32]\n  weight %a = \"a\": f32[32]\n  weight %b = \"b\": f32[32]\n{made}  %u: f32[S, 32] = Add(%x, %b)\n  %y: f32[S, 32] = RmsNorm(%u, {read}) {{ eps = 1e-6 }}\n  output \"y\" = %y\n}}\n"
        );
        tallow_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
    };
    let with = graph("  %gain: f32[32] = AddScalar(%a) { value = 1 }\n", "%gain");
    // The operation is passed over, and nothing else.
    assert_eq!(texts(&with, &graph("", "%a")), ["removed AddScalar { value = 1 } (gain)"]);
    assert_eq!(texts(&graph("", "%a"), &with), ["added AddScalar { value = 1 } (gain)"]);
    // Another weight is read.
    let found = texts(&with, &graph("", "%b"));
    assert!(found.iter().any(|line| line.starts_with("RmsNorm: operand g is b and not %gain")), "{found:?}");
    let found = texts(&graph("", "%b"), &with);
    assert!(found.iter().any(|line| line.starts_with("RmsNorm: operand g is %gain and not b")), "{found:?}");
}
