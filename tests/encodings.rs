//! Models of each block encoding: the CPU engine on packed matrices against the reference on the same stored weights.
//! Rows of 256, so that K-quants fit, and a vocabulary that is no whole number of panels.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::{Numbers, child, import, open, values};
use serde_json::json;
use std::path::Path;
use tallow::executor::{Device, Session, save_safetensors};
use tallow::format::ModelFile;
use tallow::{Engine, Model, Rows, Tensor};

const HIDDEN: usize = 256;
const INTERMEDIATE: usize = 512;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const LAYERS: usize = 2;
const VOCABULARY: usize = 500;
const TOKENS: usize = 288;

/// A Hugging Face folder of a llama with random weights.
fn saved(into: &Path) {
    let config = json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
        "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HIDDEN / HEADS,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": VOCABULARY,
        "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
    });
    std::fs::write(into.join("config.json"), config.to_string()).unwrap();
    let mut numbers = Numbers::new(6);
    let mut tensors = Vec::new();
    // Products keep the size of what goes in: the numbers have a variance of 4/3.
    let mut matrix = |name: String, rows: usize, columns: usize, size: f32| {
        let factor = size * (0.75 / columns as f32).sqrt();
        let values: Vec<f32> = numbers.values(rows * columns).into_iter().map(|x| x * factor).collect();
        tensors.push((name, Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()));
    };
    let kv = HIDDEN / HEADS * KV_HEADS;
    matrix("model.embed_tokens.weight".into(), VOCABULARY, HIDDEN, 16.0);
    for layer in 0..LAYERS {
        let mut part = |name: &str, rows, columns, size| {
            matrix(format!("model.layers.{layer}.{name}_proj.weight"), rows, columns, size);
        };
        part("self_attn.q", HIDDEN, HIDDEN, 2.0);
        part("self_attn.k", kv, HIDDEN, 2.0);
        part("self_attn.v", kv, HIDDEN, 1.0);
        part("self_attn.o", HIDDEN, HIDDEN, 1.0);
        part("mlp.gate", INTERMEDIATE, HIDDEN, 1.0);
        part("mlp.up", INTERMEDIATE, HIDDEN, 1.0);
        part("mlp.down", HIDDEN, INTERMEDIATE, 1.0);
    }
    matrix("lm_head.weight".into(), VOCABULARY, HIDDEN, 1.0);
    let norms = (0..LAYERS).flat_map(|layer| {
        ["input_layernorm", "post_attention_layernorm"].map(|name| format!("model.layers.{layer}.{name}.weight"))
    });
    for name in norms.chain(["model.norm.weight".to_owned()]) {
        let values: Vec<f32> = numbers.values(HIDDEN).into_iter().map(|x| 1.0 + x / 8.0).collect();
        tensors.push((name, Tensor::new(values, &Device::Cpu).unwrap()));
    }
    std::fs::write(into.join("model.safetensors"), save_safetensors(&tensors).unwrap()).unwrap();
}

/// Ids without order.
fn random_ids() -> Vec<u32> {
    let place = |x: f32| ((x + 2.0) / 4.0 * VOCABULARY as f32) as u32;
    Numbers::new(7).values(TOKENS).into_iter().map(|x| place(x).min(VOCABULARY as u32 - 1)).collect()
}

fn rows(model: &Model, ids: &[u32]) -> Vec<Vec<f32>> {
    model.session().unwrap().logits(ids, Rows::All).unwrap().to_vec2().unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn best(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&i, &j| row[i].total_cmp(&row[j])).unwrap()
}

fn check(encoding: &str) {
    let temporary = tempfile::tempdir().unwrap();
    saved(temporary.path());
    let path = import(temporary.path(), temporary.path(), encoding);
    let ids = random_ids();

    // Each matrix has the encoding, and is packed.
    let file = ModelFile::open(&path).unwrap();
    let matrices = file.tensors().iter().filter(|t| t.shape.len() == 2).count();
    assert!(file.tensors().iter().all(|t| t.shape.len() != 2 || t.encoding.name() == encoding));
    let model = open(&path, Engine::Cpu, 2, 512);
    let fast = rows(&model, &ids);
    let report = model.program().packed().report();
    // The table of embeddings is read by rows.
    assert_eq!((matrices, report.packed, report.matrices), (7 * LAYERS + 2, 7 * LAYERS + 1, 7 * LAYERS + 1));

    // The reference, on the same file.
    let slow = rows(&open(&path, Engine::Reference, 2, 512), &ids);
    let worst = fast.iter().zip(&slow).map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
    let equal = fast.iter().zip(&slow).filter(|(a, b)| best(a) == best(b)).count();
    println!("{encoding}: worst cosine {worst:.6}, {equal} of {TOKENS} first choices agree");
    assert!(worst >= 0.999, "{encoding}: worst cosine {worst}");
    assert!(equal * 100 >= TOKENS * 98, "{encoding}: {equal} of {TOKENS} first choices agree");

    // Other cuts of the same text: the same bits.
    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let mut session = Session::new(model.program().clone());
    for (at, &id) in ids.iter().enumerate() {
        let row = match at % 2 {
            0 => values(&session.forward(&[id], Rows::Last).unwrap()),
            _ => session.decode(id).unwrap().to_vec(),
        };
        assert!(bits(&row) == bits(&fast[at]), "{encoding}: token {at} on its own");
    }
    for (threads, chunk) in [(1, 512), (1, 7), (2, 64)] {
        let other = rows(&open(&path, Engine::Cpu, threads, chunk), &ids);
        let same = other.iter().zip(&fast).all(|(a, b)| bits(a) == bits(b));
        assert!(same && other.len() == fast.len(), "{encoding}: {threads} threads, chunks of {chunk}");
    }
    let wanted = digest(&model, &ids);
    for isa in child::sets() {
        assert_eq!(child::ask(isa, &[path.to_str().unwrap()]), wanted, "{encoding}: {}", isa.name());
    }
}

/// The bits of all logits of a text, at once and one token after another.
fn digest(model: &Model, ids: &[u32]) -> String {
    let mut session = Session::new(model.program().clone());
    let mut all = rows(model, ids).concat();
    ids[..32].iter().for_each(|&id| all.extend(session.decode(id).unwrap()));
    format!("{:016x}", child::digest(&all))
}

/// What another process does for [`check`].
#[test]
fn child() {
    child::answer(|[path]| digest(&open(Path::new(path), Engine::Cpu, 2, 512), &random_ids()));
}

macro_rules! encodings {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*
    };
}

encodings! {
    q8_is_close_to_the_reference "q8"
    q4_is_close_to_the_reference "q4"
    q2k_is_close_to_the_reference "q2k"
    q3k_is_close_to_the_reference "q3k"
    q4k_is_close_to_the_reference "q4k"
    q5k_is_close_to_the_reference "q5k"
    q6k_is_close_to_the_reference "q6k"
}
