//! The bodies of the fuzz targets: each reads hostile bytes as one spelling of a graph, and holds what is read
//! against every other spelling; or as a program in one of the languages, and holds the tree against the source. A
//! broken promise is a panic.
//!
//! `frontends/tests/fuzz.rs` runs them too, on mutations of the seeds that follow from a fixed number.

use tallow_format::GraphFormat;
use tallow_frontends::graph_section::{parse as section, to_text};
use tallow_frontends::program::{self, Diagnostics, Language, Span};
use tallow_ir::binary::HintForm;
use tallow_ir::text::{parse, print};
use tallow_ir::verify::Rule;
use tallow_ir::{DType, Graph, RawGraph, Shape, TensorType, graphs_equal, hex as hexadecimal, verify};

/// The longest input that is looked at: longer ones only take longer.
const MAX_INPUT: usize = 64 << 10;

/// The binary form.
pub fn binary(data: &[u8]) {
    if data.len() > MAX_INPUT {
        return;
    }
    if let Ok(raw) = RawGraph::read(data) {
        assert_eq!(raw.write(), data, "what was read is written back");
        raw_graph(&raw);
    }
}

/// The binary form in hexadecimal digits.
pub fn hex(data: &[u8]) {
    let Some(text) = as_text(data) else { return };
    let Ok(bytes) = hexadecimal::decode(text) else {
        let digits = text.chars().filter(|c| !c.is_ascii_whitespace());
        let count = digits.clone().count();
        assert!(count % 2 == 1 || digits.into_iter().any(|c| !c.is_ascii_hexdigit()), "sound digits are refused");
        assert!(section(GraphFormat::Hex, text).is_err());
        return;
    };
    let digits: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    assert_eq!(hexadecimal::encode(&bytes), digits.to_ascii_lowercase(), "what was read is written back");
    match (RawGraph::read(&bytes), section(GraphFormat::Hex, text)) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(_), Err(_)) => {}
        _ => panic!("the section and the bytes are read differently"),
    }
    binary(&bytes);
}

/// The text form.
pub fn text(data: &[u8]) {
    let Some(text) = as_text(data) else { return };
    match parse(text) {
        Ok(graph) => {
            spellings(&graph);
            // A graph of sound types has a binary form too.
            if verify(graph.clone()).is_ok()
                && let Ok(raw) = RawGraph::from_graph(&graph)
            {
                written(&graph, &raw);
                raw_graph(&raw);
            }
        }
        Err(errors) => assert!(!errors.errors.is_empty() && !errors.to_string().is_empty()),
    }
}

/// The tables of a graph section.
pub fn toml(data: &[u8]) {
    let Some(text) = as_text(data) else { return };
    match section(GraphFormat::Toml, text) {
        Ok(raw) => raw_graph(&raw),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Programs in Rust syntax.
pub fn rs(data: &[u8]) {
    read_program(data, Language::Rs);
}

/// Programs in Trident.
pub fn tri(data: &[u8]) {
    read_program(data, Language::Tri);
}

/// Programs in Rust syntax, compiled beside a small config with a low limit of steps; host code that comes of it runs.
pub fn programs(data: &[u8]) {
    const CONFIG: &str = "model_type = \"llama\"\n[architecture]\nhidden_size = 8\nnum_hidden_layers = 2\n\
        num_attention_heads = 2\nvocab_size = 32\nlayer_types = [\"full\", \"window\"]\n";
    const STEPS: u64 = 20_000;
    let Some(text) = as_text(data) else { return };
    let Ok(config) = tallow_format::Config::parse(CONFIG) else { panic!("the config is sound") };
    let options = program::Options { steps: STEPS };
    match program::compile(text, Language::Rs, "program.rs", &config, None, options) {
        Ok(module) => {
            module.graphs.values().for_each(|graph| drop(verify(graph.clone())));
            let program::Outcome::Value(value) = &module.outcome else { return };
            let leaf = |leaf: &program::host::Leaf| match leaf {
                program::host::Leaf::Text(_) => Some(program::value::Value::str("héllo wörld 42")),
                program::host::Leaf::Numbers(_) => None,
            };
            if let Err(error) = module.host.run(value, &leaf, &|_| None, STEPS) {
                assert!(!error.message.is_empty());
            }
        }
        Err(errors) => assert!(!errors.list.is_empty() && !errors.to_string().is_empty()),
    }
}

/// Every place of a tree or of a mistake is one of the source, and the same is read every time.
fn read_program(data: &[u8], language: Language) {
    let Some(text) = as_text(data) else { return };
    let place = |span: Span| {
        let (start, end) = (span.start as usize, span.end as usize);
        assert!(start <= end && text.is_char_boundary(start) && text.is_char_boundary(end), "{span:?} is no place");
    };
    let read = program::parse(text, language);
    assert_eq!(program::parse(text, language), read, "it is read the same way again");
    match read {
        Ok(tree) => {
            tree.exprs.iter().for_each(|e| place(e.span));
            tree.functions.iter().for_each(|f| {
                place(f.span);
                place(f.name.span);
                assert!((f.body.0 as usize) < tree.exprs.len());
                f.params.iter().for_each(|p| place(p.span));
            });
        }
        Err(list) => {
            assert!(!list.is_empty());
            for found in &list {
                place(found.span);
                found.related.iter().for_each(|(span, _)| place(*span));
                assert!(!found.message.is_empty() && !found.message.ends_with('.'));
            }
            let shown = Diagnostics { name: "x".into(), source: text.into(), list }.to_string();
            assert!(shown.starts_with("error[E"));
        }
    }
}

fn as_text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok().filter(|text| text.len() <= MAX_INPUT)
}

/// Every spelling of a graph with unbound names, and the graph that it is with [`weight`]s.
pub fn raw_graph(raw: &RawGraph) {
    let tables = to_text(GraphFormat::Toml, raw);
    let again = section(GraphFormat::Toml, &tables).unwrap_or_else(|e| panic!("{e}\n{tables}"));
    assert_eq!(again, *raw, "tables are read back\n{tables}");
    assert_eq!(to_text(GraphFormat::Toml, &again), tables);

    let bytes = raw.write();
    let again = RawGraph::read(&bytes).unwrap_or_else(|e| panic!("{e}\n{tables}"));
    assert_eq!(again.write(), bytes, "bytes are written back");
    if raw.hints == HintForm::Flagged {
        // The form with lone hints may read as the other.
        assert_eq!(again, *raw, "bytes are read back\n{tables}");
    }
    let digits = to_text(GraphFormat::Hex, raw);
    assert_eq!(section(GraphFormat::Hex, &digits).map(|g| g.write()).ok(), Some(bytes));

    match raw.to_graph(&weight, true) {
        Ok(graph) => {
            spellings(&graph);
            match verify(graph.clone()) {
                Ok(_) => {}
                // Types follow from the operations here, so that nothing but a lack of outputs can be wrong.
                Err(error) => assert!(error.violations.iter().all(|v| v.rule == Rule::Outputs), "{error}"),
            }
            if let Ok(raw) = RawGraph::from_graph(&graph) {
                written(&graph, &raw);
            }
        }
        Err(errors) => assert!(!errors.errors.is_empty() && !errors.to_string().is_empty()),
    }
}

/// The binary form of a sound graph gives it back, where the form can hold it.
fn written(graph: &Graph, raw: &RawGraph) {
    assert_eq!(RawGraph::read(&raw.write()).as_ref(), Ok(raw), "bytes are read back");
    // Symbols become -1 there, and `pos` has a type of its own.
    let fixed = |(_, v)| graph.ty(v).shape.dims().iter().all(|d| d.as_const().is_some());
    let holds = graph.inputs().all(fixed) && graph.weights().all(fixed);
    if !holds || graph.input_named(tallow_ir::POS).is_some() {
        return;
    }
    let weight = |name: &str| graph.weight_named(name).map(|v| graph.ty(v).clone());
    let again = raw.to_graph(&weight, false).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    if again.len() == graph.len() {
        assert!(graphs_equal(graph, &again), "the graph is bound again\n{graph}\n{again}");
    }
}

/// The text form of a graph, sound or not, gives the graph back.
pub fn spellings(graph: &Graph) {
    let text = print(graph);
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert!(print(&again) == text, "the text is printed again\n{text}\n{}", print(&again));
    let cyclic = graph.topological().is_none();
    assert!(cyclic || graphs_equal(graph, &again), "the text is read back\n{text}");
    match (verify(graph.clone()), verify(again)) {
        (Ok(_), Ok(_)) => {}
        (Err(a), Err(b)) => {
            assert_eq!(a.violations.len(), b.violations.len(), "{a}\n{b}");
            assert!(!a.to_string().is_empty());
        }
        (a, b) => panic!("{:?} and {:?} of\n{text}", a.err(), b.err()),
    }
}

/// The weights that graphs here may read: the name ends with the shape, as in `q8:up[64, 32]`, and may begin
/// with an element type.
pub fn weight(name: &str) -> Option<TensorType> {
    let (name, dims) = name.strip_suffix(']')?.split_once('[')?;
    let dims: Option<Vec<i64>> = match dims.trim() {
        "" => Some(Vec::new()),
        dims => dims.split(',').map(|n| n.trim().parse().ok().filter(|n| (0..1 << 40).contains(n))).collect(),
    };
    let dims = dims.filter(|dims| dims.len() <= tallow_ir::ops::MAX_RANK)?;
    let dtype = name.split_once(':').and_then(|(dtype, _)| DType::from_name(dtype)).unwrap_or(DType::F32);
    Some(TensorType::new(dtype, Shape::fixed(&dims)))
}
