//! Payloads of the operations from tag 213 on in bytes and text: the bytes of each choice are fixed,
//! and a graph of all survives both forms.

use tallow_ir::binary::RawGraph;
use tallow_ir::ops::Reader;
use tallow_ir::text::{parse, print};
use tallow_ir::{Graph, NodeId, NodeKind, Op, OpInfo, verify};

/// The operation of a name and the text of its only field.
fn with(name: &str, text: &str) -> Result<Op, String> {
    Op::from_fields(name, |_| Ok(text.into()))
}

#[test]
fn each_choice_has_one_byte_and_one_word() {
    let fixed: [(&str, &[&str]); 2] =
        [("Compare", &["eq", "ne", "lt", "le", "gt", "ge"]), ("Logical", &["and", "or", "xor"])];
    for (name, words) in fixed {
        for (byte, word) in words.iter().enumerate() {
            let op = with(name, word).unwrap();
            let mut bytes = Vec::new();
            op.write_payload(&mut bytes);
            assert_eq!(bytes, [byte as u8], "{name} {word}");
            assert_eq!(op.attributes(), format!("how = {word}"));
            assert_eq!(Op::read_payload(op.tag(), &mut Reader::new(&bytes)).unwrap(), op);
        }
        let past = [words.len() as u8];
        let tag = OpInfo::by_name(name).unwrap().tag;
        assert!(Op::read_payload(tag, &mut Reader::new(&past)).unwrap_err().contains("is unknown; known are"));
        assert!(with(name, "maybe").unwrap_err().contains("`maybe` is unknown"));
    }
    let first_byte = |name: &str, field: &str, word: &str| {
        let get = |f: &str| match f {
            f if f == field => word.to_owned(),
            "pads" | "axes" => "[]".into(),
            "keep" => "true".into(),
            _ => "0".into(),
        };
        let mut bytes = Vec::new();
        Op::from_fields(name, |f| Ok(get(f))).unwrap().write_payload(&mut bytes);
        bytes[0]
    };
    let modes = ["constant", "reflect", "replicate"].map(|word| first_byte("Pad", "mode", word));
    assert_eq!(modes, [0, 1, 2]);
    let ways = ["sum", "mean", "max", "min", "prod"].map(|word| first_byte("Reduce", "how", word));
    assert_eq!(ways, [0, 1, 2, 3, 4]);
}

#[test]
fn a_graph_of_all_survives_both_forms() {
    let text = "graph {
  input %x: f32[S, 4]
  %n: i64[S, 4] = Cast(%x) { dtype = i64 }
  %y: f32[S, 4] = Rsqrt(%x)
  %0: f32[S, 4] = Floor(%y)
  %1: f32[S, 4] = Round(%0)
  %2: f32[S, 4] = Sign(%1)
  %3: f32[S, 4] = Reciprocal(%2)
  %4: f32[S, 4] = Pow(%3, %x)
  %5: f32[S, 4] = Maximum(%4, %x)
  %6: f32[S, 4] = Minimum(%5, %x)
  %7: f32[S, 4] = Remainder(%6, %x)
  %8: bool[S, 4] = Compare(%7, %x) { how = le }
  %9: bool[S, 4] = Not(%8)
  %10: bool[S, 4] = Logical(%8, %9) { how = xor }
  %11: f32[S, 4] = Select(%10, %7, %x)
  %12: f32[S, 4] = GatherElements(%11, %n) { axis = -1 }
  %13: f32[S + 3, 5] = Pad(%12) { mode = replicate, pads = [1, 2, 0, 1], value = -0.5 }
  %14: f32[S + 3, 5] = Flip(%13) { axes = [-1] }
  %15: f32[S + 3, 5] = CumSum(%14) { axis = 0 }
  %16: f32[2, S + 3, 5] = Expand(%15) { shape = [2, -1, 5] }
  %17: f32[2*S + 6, 5] = Flatten(%16) { start = 0, end = -2 }
  %18: f32[2, S + 3, 5] = Unflatten(%17) { axis = 0, sizes = [2, -1] }
  %19: f32[2, S + 3, 1] = Reduce(%18) { how = mean, axes = [2], keep = true }
  %20: f32[2, S + 3] = Squeeze(%19) { axes = [-1] }
  %21: f32[1, 2, S + 3] = Unsqueeze(%20) { axes = [0] }
  %22: f32[1, 4, S + 3] = Tile(%21) { repeats = [1, 2, 1] }
  %23: f32[1, 4, 3*S + 9] = RepeatEach(%22) { axis = 2, times = 3 }
  %24: f32[1, 4, 4] = BatchMatmul(%23, %23) { transpose_b = true }
  %25: f16[1, 4, 4] = Cast(%24) { dtype = f16 }
  %values: f32[1, 4, 2], %index: i64[1, 4, 2] = TopK(%25) { axis = -1, k = 2 }
  %26: f32[S, 1, 4, 2] = Gather(%x, %index) { axis = 1 }
  %size: i64[] = Size(%26) { axis = 0 }
  %iota: i64[S] = Iota(%26) { axis = 0 }
  output values = %values
  output size = %size
  output iota = %iota
}
";
    let g = parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(print(&g), text);
    let verified = verify(g).unwrap_or_else(|e| panic!("{e}"));
    let used: Vec<&str> = verified.graph().nodes().filter_map(|n| name(verified.graph(), n)).collect();
    for info in OpInfo::all().iter().filter(|i| (213..=250).contains(&i.tag) && i.name != "Slice") {
        assert!(used.contains(&info.name), "the text above lacks {}", info.name);
    }
    let raw = RawGraph::from_graph(verified.graph()).unwrap();
    let read = RawGraph::read(&raw.write()).unwrap();
    assert_eq!(read, raw);
    let again = read.to_graph(&|_| None, false).unwrap_or_else(|e| panic!("{e}"));
    // Names of inner values are made up anew; what the operations say is the same.
    let shown = print(&again);
    for line in text.lines().filter_map(|l| l.split_once(" = ")).filter(|(_, r)| r.contains('{')) {
        let attributes = line.1.split_once('{').unwrap().1;
        assert!(shown.contains(attributes), "{attributes} is not in\n{shown}");
    }
}

fn name(g: &Graph, id: NodeId) -> Option<&'static str> {
    match &g.node(id).kind {
        NodeKind::Op(op) => Some(op.name()),
        NodeKind::Input(_) | NodeKind::Weight(_) => None,
    }
}
