//! The n-grams of `programs/fasttext.rs`, computed by the evaluator, against those of fasttext itself.

use crate::config;
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::path::Path;
use tallow_frontends::program::host::{HostId, Leaf};
use tallow_frontends::program::value::Value;
use tallow_frontends::program::{Language, Options, compile};
use tallow_ir::{NodeKind, Op};

#[test]
fn ids_are_those_of_fasttext() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let source = read("programs/fasttext.rs");
    let config = config(&read("tests/programs/fasttext/config.toml"));
    let vocabulary: toml_edit::DocumentMut = read("tests/programs/fasttext/vocab.toml").parse().unwrap();
    let tokens = vocabulary["tokens"].as_table().unwrap();
    let ids: HashMap<&str, u32> =
        tokens.iter().map(|(id, text)| (text.as_str().unwrap(), id.parse().unwrap())).collect();
    // Shapes from the head of the tensor file.
    let bytes = std::fs::read(root.join("tests/programs/fasttext/model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let head: IndexMap<String, Json> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let shape = |entry: &Json| entry["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let index: IndexMap<String, Vec<u64>> = head.iter().map(|(name, entry)| (name.clone(), shape(entry))).collect();

    let module = compile(&source, Language::Rs, "fasttext.rs", &config, Some(&index), Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let graph = module.main().unwrap();
    let call = graph.nodes().find_map(|id| match &graph.node(id).kind {
        NodeKind::Op(Op::HostCall { function, .. }) => Some(function.as_str().to_owned()),
        _ => None,
    });
    let number = call.unwrap().strip_prefix("host").unwrap().parse().unwrap();
    let strings: Json = serde_json::from_str(&read("tests/programs/fasttext/strings.json")).unwrap();
    let strings = strings["strings"].as_array().unwrap();
    assert!(strings.len() >= 1000);
    for pair in strings {
        let text = pair[0].as_str().unwrap();
        let wanted: Vec<i128> = pair[1].as_array().unwrap().iter().map(|n| n.as_i64().unwrap().into()).collect();
        let leaf = |_: &Leaf| Some(Value::str(text));
        let found = module.host.run(&Value::Host(HostId(number)), &leaf, &|token| ids.get(token).copied(), 1 << 20);
        let Value::List(items) = found.unwrap() else { panic!("no list") };
        let found: Vec<i128> = items
            .iter()
            .map(|item| match item {
                Value::Int(n) => n.value,
                other => panic!("{}", other.kind()),
            })
            .collect();
        assert_eq!(found, wanted, "{text:?}");
    }
}
