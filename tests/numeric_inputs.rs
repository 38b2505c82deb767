//! Comparison by numbers: what both sides run on, what they have in common, and what is wrong with what is given.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{folder, values};
use std::path::Path;
use std::sync::Arc;
use tallow::compiler::Stage;
use tallow::executor::{Device, ProgramOptions, WeightSource, WeightView, save_safetensors};
use tallow::import::{GivenGraph, ImportOptions, import_with_graph};
use tallow::ir::text;
use tallow::ir::verify::verify;
use tallow::numeric::{self, Given, References, Report, Side, Verdict};
use tallow::{Engine, Model, ModelOptions, Result, Tensor, tensor_file};

/// No weights.
struct Nothing;

impl WeightSource for Nothing {
    fn weight(&self, _name: &str) -> Option<WeightView<'_>> {
        None
    }
}

/// A graph without weights.
fn side(label: &str, body: &str) -> Side {
    let graph = verify(text::parse(&format!("graph {{\n{body}\n}}")).unwrap()).unwrap();
    Side::of_graph(label, &graph, Arc::new(Nothing), ProgramOptions::default()).unwrap()
}

fn given(inputs: &[(&str, &[f32])]) -> Given {
    let tensor = |v: &[f32]| Tensor::from_slice(v, v.len(), &Device::Cpu).unwrap();
    let inputs = inputs.iter().map(|(name, v)| ((*name).to_owned(), tensor(v))).collect();
    Given { inputs, ..Given::default() }
}

fn compare(left: &Side, right: &Side, given: &Given) -> Result<Report> {
    let inputs = numeric::inputs(&[left, right], given)?;
    numeric::compare(left, right, &numeric::pairs(left, right)?, &inputs, None)
}

fn message<T>(result: Result<T>) -> String {
    let Err(error) = result else { panic!("an error is expected") };
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

const SUM: &str = "input %x: f32[S]\n input %y: f32[S]\n %z: f32[S] = Add(%x, %y)\n output z = %z";

#[test]
fn nan_on_one_side_alone_is_out_of_tolerance() {
    let left = side("left", "input %x: f32[S]\n %y: f32[S] = Log(%x)\n output y = %y");
    let right = side("right", "input %x: f32[S]\n %0: f32[S] = Abs(%x)\n %y: f32[S] = Log(%0)\n output y = %y");
    let report = compare(&left, &right, &given(&[("x", &[1.0, -1.0])])).unwrap();
    assert_eq!(report.values[0].verdict, Verdict::NotFinite);
    assert_eq!(report.values[0].measure.unwrap().nan, 1);
    // What the right value is made by beside its own operation, which was compared with nothing.
    assert_eq!(report.suspects[0].between, ["%0: f32[S] = Abs(%x)"]);
    assert_eq!(report.unmatched.right, ["%0"]);
    let shown = report.text(false);
    assert!(shown.contains("NAN OR INF") && shown.contains("Abs(%x)"), "{shown}");
    // NaN on both sides is equal.
    assert!(compare(&left, &left, &given(&[("x", &[1.0, -1.0, 0.0])])).unwrap().is_within());
}

#[test]
fn fused_graphs_are_compared_on_what_both_have() {
    let body = "input %x: f32[S, 32]\n input %skip: f32[S, 32]\n input %g: f32[32]\n input %w: f32[8, 32]";
    let plain = format!(
        "{body}\n %sum: f32[S, 32] = Add(%x, %skip)\n %norm: f32[S, 32] = RmsNorm(%sum, %g) {{ eps = 1e-6 }}\n \
         %y: f32[S, 8] = Matmul(%norm, %w)\n output y = %y\n output sum = %sum"
    );
    let fused = |eps: &str| {
        format!(
            "{body}\n %norm: f32[S, 32], %sum: f32[S, 32] = FusedSkipNorm(%x, %skip, %g) {{ eps = {eps} }}\n \
             %y: f32[S, 8] = Matmul(%norm, %w)\n output y = %y\n output sum = %sum"
        )
    };
    let left = side("plain", &plain);
    let report = compare(&left, &side("fused", &fused("1e-6")), &Given::default()).unwrap();
    assert!(report.is_within(), "{}", report.text(true));
    assert_eq!(report.values.len(), 3, "{}", report.text(true));
    // Without names, what the fused operation gives is not told apart, and the product after it is to blame.
    let bare = |text: &str| text.replace("%norm", "%0").replace("%sum", "%1");
    let (p, q) = (side("plain", &bare(&plain)), side("fused", &bare(&fused("0.01"))));
    let report = compare(&p, &q, &Given::default()).unwrap();
    assert_eq!(report.values[report.first.unwrap()].right, "%y", "{}", report.text(true));
    assert!(report.suspects[0].between[0].contains("FusedSkipNorm"), "{}", report.text(true));
    let report = compare(&left, &side("fused", &fused("0.01")), &Given::default()).unwrap();
    assert_eq!(report.values[report.first.unwrap()].right, "%norm", "{}", report.text(true));
    assert_eq!(report.values.iter().filter(|v| !v.verdict.is_within()).count(), 1);
}

#[test]
fn inputs_are_generated_by_type_size_and_seed() {
    let body = "input %ids: i64[S]\n input %mask: bool[S]\n input %x: f32[S, N]\n input %table: f32[3, 2]\n \
         %rows: f32[S, 2] = TokenEmbed(%ids, %table)\n %sum: f32[S] = Reduce(%x) { how = sum, axes = [1], keep = false }\n \
         %not: bool[S] = Not(%mask)\n output rows = %rows\n output sum = %sum\n output not = %not";
    let side = side("several", body);
    let made = |given: &Given| numeric::inputs(&[&side], given).unwrap();
    let first = made(&Given::default());
    assert_eq!(
        first.iter().map(|(n, t)| (n.as_str(), t.dims().to_vec())).collect::<Vec<_>>(),
        [("ids", vec![7]), ("mask", vec![7]), ("x", vec![7, 3]), ("table", vec![3, 2])]
    );
    let ids: Vec<i64> = first[0].1.to_vec1().unwrap();
    assert!(ids.iter().all(|i| (0..3).contains(i)) && ids.contains(&2), "{ids:?}");
    assert!(values(&first[2].1).iter().all(|v| (-1.0..1.0).contains(v)));
    assert_eq!(values(&first[2].1), values(&made(&Given::default())[2].1));
    assert_ne!(values(&first[2].1), values(&made(&Given { seed: 1, ..Given::default() })[2].1));
    let mut sized = Given::default();
    sized.add_size("N=11").unwrap();
    sized.add_input("ids=1,2", &[&side]).unwrap();
    let made = made(&sized);
    assert_eq!((made[0].1.dims(), made[1].1.dims(), made[2].1.dims()), (&[2][..], &[2][..], &[2, 11][..]));
    assert!(compare(&side, &side, &sized).unwrap().is_within());
}

#[test]
fn a_size_that_one_side_fixes_is_that_of_both() {
    let fixed = SUM.replace('S', "5");
    let report = compare(&side("any", SUM), &side("five", &fixed), &Given::default()).unwrap();
    assert_eq!(report.inputs[0].1, [5]);
    let other = SUM.replace('S', "6");
    let error = message(compare(&side("five", &fixed), &side("six", &other), &Given::default()));
    for part in ["`x`", "five takes f32[5]", "six takes f32[6]", "no input fits both"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn renamed_inputs_are_the_same_numbers() {
    let left = side("left", SUM);
    let right = side("right", &SUM.replace("%x", "%first").replace("%y", "%second"));
    let report = compare(&left, &right, &Given::default()).unwrap();
    assert!(report.is_within() && report.worst(1).is_empty(), "{}", report.text(true));
    let report = compare(&left, &right, &given(&[("x", &[1.0, 2.0]), ("second", &[3.0, 4.0])])).unwrap();
    assert!(report.is_within() && report.inputs.iter().all(|(_, shape)| shape == &[2]), "{}", report.text(true));
    // Inputs that stand for nothing of the other side.
    let other = side("other", "input %q: f32[S]\n %r: f32[S] = Exp(%q)\n %z: f32[S] = Neg(%r)\n output z = %z");
    let error = message(compare(&left, &other, &Given::default()));
    assert!(error.contains("give both the same numbers"), "{error}");
}

#[test]
fn what_is_wrong_with_inputs_is_told() {
    let left = side("left", SUM);
    let faults = |given: Given| message(compare(&left, &left, &given));
    let error = faults(given(&[("x", &[1.0]), ("x", &[1.0])]));
    assert!(error.contains("`x`: is given twice"), "{error}");
    let error = faults(given(&[("q", &[1.0])]));
    assert!(error.contains("`q`: is no input here") && error.contains("left takes x: f32[S], y: f32[S]"), "{error}");
    let error = faults(given(&[("x", &[1.0]), ("y", &[1.0, 2.0])]));
    assert!(error.contains("left: input `y`") && error.contains("where"), "{error}");
    let error = faults(Given { text: Some("A".into()), ..Given::default() });
    assert!(error.contains("a text becomes `input_ids`"), "{error}");
    let error = faults(Given { sizes: vec![("T".into(), 3)], ..Given::default() });
    assert!(error.contains("--size T=3") && error.contains("they have S"), "{error}");
    let error = faults(Given { sizes: vec![("S".into(), 1 << 40)], ..Given::default() });
    assert!(error.contains("no tensor of f32[S] is made where") && error.contains("--size"), "{error}");
    assert!(message(Given::default().add_size("S")).contains("SYMBOL=NUMBER"));
    assert!(message(Given::default().add_size("S=-1")).contains("SYMBOL=NUMBER"));
    assert!(message(Given::default().add_input("x", &[&left])).contains("NAME=FILE.npy"));
    assert!(message(Given::default().add_input("q=1", &[&left])).contains("`q`: is no input here"));

    let other = side("other", "input %x: f32[S]\n %b: f32[S] = Neg(%x)\n %c: f32[S] = Exp(%b)\n output c = %c");
    let error = message(compare(&left, &other, &Given::default()));
    assert!(error.contains("left and other have no value in common"), "{error}");
}

/// References of `SUM` on these inputs, in a folder of `.npy` files.
fn references(into: &Path, extra: &[(&str, Tensor)]) -> Result<References> {
    let tensor = |v: &[f32]| Tensor::from_slice(v, v.len(), &Device::Cpu).unwrap();
    let mut all = vec![("x".to_owned(), tensor(&[1.0, 2.0])), ("y".to_owned(), tensor(&[3.0, 4.0]))];
    all.extend(extra.iter().map(|(name, t)| ((*name).to_owned(), t.clone())));
    tensor_file::write(into, &all)?;
    References::read(into)
}

#[test]
fn what_is_wrong_with_references_is_told() {
    let left = side("left", SUM);
    let dir = tempfile::tempdir().unwrap();
    let tensor = |v: &[f32]| Tensor::from_slice(v, v.len(), &Device::Cpu).unwrap();
    let check = |references: &References| {
        let inputs = references.inputs(&left, &Given::default())?;
        numeric::against(&left, references, &inputs, None)
    };
    let none = dir.path().join("none");
    std::fs::create_dir(&none).unwrap();
    std::fs::write(none.join("notes.txt"), "nothing").unwrap();
    let error = message(References::read(&none));
    assert!(error.contains("holds no values") && error.contains("dump-intermediates.py"), "{error}");
    let error = References::read(&dir.path().join("absent")).err().unwrap().to_string();
    assert!(error.contains("absent"), "{error}");

    let only = dir.path().join("only");
    let error = message(check(&references(&only, &[]).unwrap()));
    assert!(error.contains("none of its names") && error.contains("module path"), "{error}");

    let good = dir.path().join("good");
    let report = check(&references(&good, &[("z", tensor(&[4.0, 6.0])), ("model.odd", tensor(&[1.0]))]).unwrap());
    let report = report.unwrap();
    assert!(report.is_within());
    assert_eq!(report.unknown.len(), 1);
    assert!(report.text(false).contains("model.odd"), "{}", report.text(false));

    let shape = dir.path().join("shape");
    let report = check(&references(&shape, &[("z", tensor(&[4.0, 6.0, 7.0]))]).unwrap()).unwrap();
    assert_eq!(report.values[0].verdict, Verdict::Shape(vec![3]));
    assert!(report.text(false).contains("SHAPE [3]"), "{}", report.text(false));

    let wrong = dir.path().join("wrong");
    let report = check(&references(&wrong, &[("z", tensor(&[4.0, 6.5]))]).unwrap()).unwrap();
    assert!(!report.is_within() && report.json()["within"] == false);
    assert_eq!(report.json()["values"][0]["verdict"], "beyond");

    // One without its inputs, one that is no array, one name twice.
    let lone = dir.path().join("lone");
    tensor_file::write(&lone, &[("z".into(), tensor(&[4.0, 6.0]))]).unwrap();
    let error = message(check(&References::read(&lone).unwrap()));
    assert!(error.contains("holds no `x`") && error.contains("--input"), "{error}");
    std::fs::write(good.join("broken.npy"), "not an array").unwrap();
    let error = message(References::read(&good));
    assert!(error.contains("broken.npy: is no .npy file"), "{error}");
    let twice = save_safetensors(&[("z".into(), tensor(&[1.0]))]).unwrap();
    std::fs::write(lone.join("all.safetensors"), twice).unwrap();
    let error = message(References::read(&lone));
    assert!(error.contains("two files hold the value `z`"), "{error}");

    let whole = side("whole", "input %x: f32[S]\n %at: i64[] = Argmax(%x) { dim = 0 }\n output at = %at");
    let references = References { label: "given".into(), tensors: vec![("at".into(), tensor(&[1.0]))] };
    let inputs = numeric::inputs(&[&whole], &Given::default()).unwrap();
    let error = message(numeric::against(&whole, &references, &inputs, None));
    assert!(error.contains("`at` holds real numbers") && error.contains("whole numbers"), "{error}");
}

/// Graphs with several inputs, operations of all kinds and no text: every stage on the CPU path against the interpreter,
/// on generated inputs.
#[test]
fn the_engines_and_stages_agree_on_graphs_with_several_inputs() {
    let temporary = tempfile::tempdir().unwrap();
    for name in ["classifier", "diffusion", "translator"] {
        let source = folder("tests/graphs").join(name);
        let graph = text::parse(&std::fs::read_to_string(source.join("graph.txt")).unwrap()).unwrap();
        let graph = verify(graph).unwrap();
        let format = tallow::format::GraphFormat::Hex;
        let given = GivenGraph {
            format,
            text: tallow::frontends::graph_section::of_graph(format, graph.graph()).unwrap(),
            label: "graph.txt".into(),
            weights: graph.graph().weights().map(|(n, v)| (n.to_owned(), graph.graph().ty(v).clone())).collect(),
            model_type: format!("tiny_{name}"),
        };
        let path = temporary.path().join(format!("{name}.model"));
        import_with_graph(&source.join("weights.safetensors"), &given, &path, &ImportOptions::default(), &mut ())
            .unwrap();
        let open = |engine, stage| {
            let mut options = ModelOptions::default();
            (options.program.engine, options.program.stage) = (engine, Some(stage));
            Side::of_model(&Model::open_with(&path, &options).unwrap())
        };
        let oracle = open(Engine::Reference, Stage::Raw);
        for stage in [Stage::Raw, Stage::Portable, Stage::Target] {
            let report = compare(&oracle, &open(Engine::Cpu, stage), &Given::default());
            let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(report.is_within(), "{name}\n{}", report.text(false));
            assert!(report.values.len() > 12, "{name}\n{}", report.text(true));
        }
    }
}
