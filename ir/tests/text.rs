//! The text form: round trips, errors with places, hostile texts.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;

use common::{chain, decoder, random};
use proptest::prelude::*;
use tallow_ir::text::{parse, print};
use tallow_ir::verify::Rule;
use tallow_ir::{Graph, NodeId, graphs_equal, verify};

/// Prints, parses, compares, prints again.
fn round_trip(g: &Graph) -> Graph {
    let text = print(g);
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert!(graphs_equal(g, &again), "{text}");
    assert!(graphs_equal(&again, g));
    assert_eq!(print(&again), text);
    again
}

#[test]
fn a_decoder_survives_and_is_sound() {
    let g = decoder(2);
    let again = round_trip(&g);
    let hints = |g: &Graph| g.nodes().filter_map(|n: NodeId| g.hint(n)).collect::<Vec<_>>();
    assert_eq!(hints(&again), hints(&g));
    verify(again).unwrap();
    let text = print(&g);
    assert!(text.starts_with("graph {\n  input %input_ids: i64[S]\n  input %pos: i64[]\n"));
    assert!(text.contains("\n  weight %model.norm.weight = \"model.norm.weight\": f32[32]\n"));
    assert!(text.contains("%layer.1: f32[S, 32] = Add(%"));
    assert!(text.contains(" f32[P + S, 16] = KvCache("));
    assert!(text.contains(" @cpu\n  output logits = %"));
}

#[test]
fn sizes_up_to_a_hundred_thousand() {
    for n in [0, 1000, 10_000, 100_000] {
        let g = chain(n);
        let again = round_trip(&g);
        verify(again).unwrap();
        verify(g).unwrap();
    }
}

#[test]
fn statements_may_wrap_refer_forward_and_carry_comments() {
    let g = parse(
        "// a comment\ngraph { input %x: f32[ S ,8 ] // more\n  output y = %1\n\
         %1: f32[S, 8] = Add(%0,\n    %\"0\")\n  input %\"0\": f32[S,8]\n  %0:f32[S, 8]=Neg(%x)@7 }\n",
    )
    .unwrap();
    assert_eq!(
        print(&g),
        "graph {
  input %x: f32[S, 8]
  input %\"0\": f32[S, 8]
  %0: f32[S, 8] = Neg(%x) @7
  %1: f32[S, 8] = Add(%0, %\"0\")
  output y = %1
}
"
    );
    verify(g).unwrap();
}

#[test]
fn dimensions_that_are_quotients_survive() {
    let text = "graph {
  input %image: f32[B, 3, H, 2*W]
  weight %w = \"w\": f32[8, 3, 3, 3]
  %0: f32[B, 8, floor((H + 1)/2), W] = Conv2d(%image, %w) { kernel = [3, 3], stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1 }
  %1: f32[B, 8, floor((H + 3)/4), floor(W/2)] = Pool(%0) { mode = max, kernel = [3, 2], stride = [2, 2], padding = [1, 0] }
  %2: f32[8*B*floor(W/2)*floor((H + 3)/4)] = Reshape(%1) { shape = [-1] }
  output y = %2
}
";
    let g = parse(text).unwrap();
    assert_eq!(print(&g), text);
    verify(round_trip(&g)).unwrap();
    let bytes = tallow_ir::RawGraph::from_graph(&g).unwrap().write();
    let w = |name: &str| (name == "w").then(|| common::f("8, 3, 3, 3"));
    let again = tallow_ir::RawGraph::read(&bytes).unwrap().to_graph(&w, false).unwrap();
    let y = again.output_named("y").unwrap();
    assert_eq!(again.ty(y).to_string(), "f32[8*S*floor((d1 + 3)/4)*floor((d2 + 1)/4)]");
    let other = text.replace("floor((H + 1)/2), W] =", "floor((1 + H)/2), // floor(W/2)\n W] =");
    assert!(graphs_equal(&g, &parse(&other).unwrap()));
    let wrong = text.replace("floor((H + 3)/4), floor(W/2)] =", "floor((H + 2)/4), floor(W/2)] =");
    let error = verify(parse(&wrong).unwrap()).unwrap_err();
    assert_eq!(error.violations.len(), 2);
    for dim in ["floor(H/0)", "floor(H)", "floor((H + 1)/2", "H/2", "floor(floor(floor(H/W)/2)/2)"] {
        let error = parse(&text.replace("2*W]", &format!("{dim}]"))).unwrap_err();
        assert!(error.errors[0].message.contains("is not a dimension"), "{error}");
    }
    let deep = format!("{}H{}", "floor(H*".repeat(60), "/2)".repeat(60));
    assert!(parse(&text.replace("2*W]", &format!("{deep}]"))).is_err());
}

#[test]
fn texts_as_attributes_may_hold_anything() {
    use tallow_ir::ops::Text;
    use tallow_ir::{DType, Op};
    for name in ["f", "a, dtype = f32 }", "say \"\\n\"", "line\nbreak // no comment", "é ]"] {
        let mut g = Graph::new();
        let op = Op::HostCall { function: Text::new(name).unwrap(), dtype: DType::I64, shape: vec![-1, 2] };
        let y = g.op(op, &[]).unwrap();
        g.output("y", y).unwrap();
        verify(round_trip(&g)).unwrap();
        let wrong = print(&g).replace("[-1, 2]", "[-1, 3]");
        let line = verify(parse(&wrong).unwrap()).unwrap_err();
        assert!(line.to_string().contains("the recorded type is"), "{line}");
    }
}

#[test]
fn the_largest_dimensions_survive() {
    use tallow_ir::dim::MAX_SYMBOL;
    use tallow_ir::{Dim, Op, Shape, TensorType};
    let mut g = Graph::new();
    let mut sums = Vec::new();
    for i in 0..64 {
        // Sixteen factors with a coefficient, each symbol as long as it may be.
        let dims = (0..15)
            .map(|j| Dim::symbol(&format!("{i:02}{j:02}{}", "s".repeat(MAX_SYMBOL)).replace('0', "z")[..MAX_SYMBOL]));
        let mut dims: Vec<Dim> = dims.collect();
        dims.iter_mut().for_each(|d| *d = Dim::symbol(&format!("n{d}")[..MAX_SYMBOL]));
        dims.push(Dim::constant(99_999_999));
        let x = g.input(&format!("x{i}"), TensorType::f32(Shape::new(dims))).unwrap();
        sums.push(g.op(Op::Reshape { shape: vec![-1] }, &[x]).unwrap());
    }
    let all = g.op(Op::Concat { axis: 0 }, &sums).unwrap();
    g.output("all", all).unwrap();
    assert!(g.ty(all).to_string().len() > 60_000);
    verify(round_trip(&g)).unwrap();
}

#[test]
fn types_in_the_text_are_left_to_the_verifier() {
    let g = parse("graph { input %x: f32[4]\n %y: f32[5] = Neg(%x)\n output y = %y }").unwrap();
    let error = verify(g).unwrap_err();
    assert_eq!(error.violations.len(), 1);
    assert_eq!(error.violations[0].rule, Rule::Types);
    let g = parse("graph { %a: f32[4] = Neg(%b)\n %b: f32[4] = Neg(%a)\n output y = %b }").unwrap();
    assert_eq!(verify(g).unwrap_err().violations[0].rule, Rule::Acyclic);
}

#[test]
fn errors_are_many_and_each_has_a_place() {
    let text = "graph {
  input %x: f32[S, 8]
  input %x: f32[S]
  weight %w = \"w\": f33[8, 8]
  %a: f32[S, 8] = Matmull(%x, %w)
  %b: f32[S, 8] = Split(%a) { axis = 1, size = [4] }
  %c: f32[S, 8] = Split(%b) { axis = q, sizes = [4] }
  %d: f32[S, 8] = Clamp(%c) { min = 1 }
  %e: f32[S, 8 = Neg(%d)
  %f: f32[S + , 8] = Neg(%e)
  %g: f32[S] = Neg(%x, %gg, %f)
  outputs y = %g
  output y = %x
  output y = %x
}
x";
    let errors = parse(text).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "line 3, column 9: the name `x` is already an input; give one of them another name
    input %x: f32[S]
          ^^
line 4, column 20: `f33` is no element type; did you mean `f32`?
    weight %w = \"w\": f33[8, 8]
                     ^^^
line 5, column 19: there is no operation `Matmull`; did you mean `Matmul`?
    %a: f32[S, 8] = Matmull(%x, %w)
                    ^^^^^^^
line 6, column 41: Split has no attribute `size`, only `axis`, `sizes`
    %b: f32[S, 8] = Split(%a) { axis = 1, size = [4] }
                                          ^^^^
line 7, column 38: `axis`: `q` is not a value of type u32
    %c: f32[S, 8] = Split(%b) { axis = q, sizes = [4] }
                                       ^
line 8, column 19: the attribute `max` is missing
    %d: f32[S, 8] = Clamp(%c) { min = 1 }
                    ^^^^^
line 9, column 16: expected `,` or `]`
    %e: f32[S, 8 = Neg(%d)
                 ^
line 10, column 11: `S +` is not a dimension; write for example `7`, `S` or `2*S + 1`
    %f: f32[S + , 8] = Neg(%e)
            ^^^
line 11, column 24: nothing defines `%gg`; did you mean `%g`?
    %g: f32[S] = Neg(%x, %gg, %f)
                         ^^^
line 12, column 3: expected `input`, `weight`, `output`, a value such as `%x`, or `}`; did you mean `output`?
    outputs y = %g
    ^^^^^^^
line 14, column 10: the name `y` is already an output; give one of them another name
    output y = %x
           ^
line 16, column 1: expected nothing after the closing `}`
  x
  ^"
    );
}

#[test]
fn broken_texts_are_errors() {
    for (text, what) in [
        ("", "line 1, column 1: expected `graph {`"),
        ("graph", "expected `{` after `graph`"),
        ("graph {", "expected `}` that closes the graph"),
        ("graph { input %5: f32[1] }", "an input needs a name"),
        ("graph { input %\"a: f32[1]\n}", "does not close on its line"),
        ("graph { input %\"\\q\": f32[1]\n}", "unknown escape"),
        ("graph { input %\"\\u{110000}\": f32[1]\n}", "unknown escape"),
        ("graph { input %é: f32[1]\n}", "expected a name after `%`"),
        ("graph { %x: f32[1] = Neg(%x) { a = 1 } }", "Neg has no attributes"),
        ("graph { %x: f32[1] = Neg(%x) @abacus }", "`abacus` is no device"),
        ("graph { %x: f32[1] = Neg(%x) @256 }", "`256` is no device"),
        ("graph { %x: f32[1] = }", "expected the name of an operation"),
        ("graph { %x: f32[1] = Neg(%y }", "expected `,` and another operand"),
        ("graph { %x: f32[1] = Neg(%x) { a = ", "expected the value of the attribute"),
        ("graph { %x: f32[1] = AddScalar(%x) { value = \"", "expected `,` and another"),
        ("graph { %x: f32[1] = Neg(%x)\n %x: f32[1] = Neg(%x) }", "defined twice"),
        ("graph { weight %a = \"w\": f32[1]\n weight %b = \"w\": f32[1] }", "stands twice"),
        ("graph { input %x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] }", "at most 16 dimensions"),
    ] {
        let errors = parse(text).unwrap_err().to_string();
        assert!(errors.contains(what), "{text:?} gave\n{errors}");
    }
}

#[test]
fn hostile_texts_end_quickly() {
    let deep = format!("graph {{ input %x: f32[{}", "[".repeat(1 << 20));
    assert!(parse(&deep).is_err());
    let lines = format!("graph {{\n{}", "rubbish here\n".repeat(1 << 18));
    assert_eq!(parse(&lines).unwrap_err().errors.len(), 100);
    let one_line = format!("graph {{ {}", "%x: f32[1] = Nag(%y) ".repeat(1 << 16));
    assert!(!parse(&one_line).unwrap_err().errors.is_empty());
    let sum = format!("graph {{ input %x: f32[{}] }}", "S + ".repeat(1 << 18));
    assert!(parse(&sum).is_err());
    let value = format!("graph {{ %x: f32[1] = AddScalar(%x) {{ value = {} }} }}", "9".repeat(1 << 20));
    let errors = parse(&value);
    assert!(errors.is_ok() || errors.unwrap_err().to_string().len() < 5000);
    let close = "graph {".to_owned() + &"}".repeat(1 << 20);
    assert_eq!(parse(&close).unwrap_err().errors.len(), 1);
}

#[test]
fn every_prefix_and_every_changed_byte_is_read_or_refused() {
    let text = print(&decoder(1));
    for end in 0..text.len() {
        if text.is_char_boundary(end) {
            let _ = parse(&text[..end]);
        }
    }
    for at in (0..text.len()).step_by(3) {
        for new in [b'%', b'}', b'"', b'9', b' '] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = new;
            if let Ok(changed) = String::from_utf8(bytes)
                && let Ok(g) = parse(&changed)
            {
                let _ = verify(g);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_graphs_survive(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let g = random(&bytes);
        let again = round_trip(&g);
        prop_assert!(verify(again).is_ok());
    }

    #[test]
    fn random_texts_never_panic(text in "[ -~é\n]{0,200}", inside in any::<bool>()) {
        let text = if inside { format!("graph {{\n  input %x: f32[S]\n  {text}\n}}") } else { text };
        if let Err(errors) = parse(&text) {
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
