//! Time from the source of a program to its graph: the decoder of the library in both languages, 28 and 1,000 layers.
//!
//! `cargo bench -p tallow-frontends --bench programs`

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench fails by panicking")]

use indexmap::IndexMap;
use std::time::Instant;
use tallow_format::Config;
use tallow_frontends::program::{Language, Options, compile};

/// A qwen3 of so many layers: its config and the shapes of its tensors.
fn model(layers: u32) -> (Config, IndexMap<String, Vec<u64>>) {
    let config = format!(
        "model_type = \"qwen3\"\n[architecture]\nhidden_size = 1024\nnum_attention_heads = 16\nnum_key_value_heads = 8\n\
         head_dim = 128\nnum_hidden_layers = {layers}\nintermediate_size = 3072\nvocab_size = 151936\n\
         rms_norm_eps = 1000000\nrope_theta = 1000000\ntie_word_embeddings = true\nmax_position_embeddings = 40960\n\
         [sampling]\ntemperature = 600\ntop_p = 950\nscale = 1000\n[tokenizer]\neos_token_ids = [1]\nbos_token_id = 2\n"
    );
    let mut tensors = IndexMap::new();
    tensors.insert("model.embed_tokens.weight".to_owned(), vec![151_936, 1024]);
    for layer in 0..layers {
        let mut add = |name: &str, shape: &[u64]| {
            tensors.insert(format!("model.layers.{layer}.{name}.weight"), shape.to_vec());
        };
        add("input_layernorm", &[1024]);
        add("self_attn.q_proj", &[2048, 1024]);
        add("self_attn.k_proj", &[1024, 1024]);
        add("self_attn.v_proj", &[1024, 1024]);
        add("self_attn.q_norm", &[128]);
        add("self_attn.k_norm", &[128]);
        add("self_attn.o_proj", &[1024, 2048]);
        add("post_attention_layernorm", &[1024]);
        add("mlp.gate_proj", &[3072, 1024]);
        add("mlp.up_proj", &[3072, 1024]);
        add("mlp.down_proj", &[1024, 3072]);
    }
    tensors.insert("model.norm.weight".to_owned(), vec![1024]);
    (Config::parse(&config).unwrap(), tensors)
}

fn main() {
    let programs = [
        ("decoder.rs", Language::Rs, include_str!("../../programs/decoder.rs")),
        ("decoder.tri", Language::Tri, include_str!("../../programs/decoder.tri")),
    ];
    for layers in [28, 250, 500, 1000] {
        let (config, tensors) = model(layers);
        for (name, language, source) in programs {
            let mut times = Vec::new();
            let mut nodes = 0;
            for _ in 0..if layers == 28 { 20 } else { 5 } {
                let start = Instant::now();
                let module = compile(source, language, name, &config, Some(&tensors), Options::default()).unwrap();
                times.push(start.elapsed().as_secs_f64() * 1e3);
                nodes = module.main().unwrap().len();
            }
            times.sort_by(f64::total_cmp);
            println!(
                "{name:12} {layers:5} layers {nodes:6} nodes  least {:8.2} ms  median {:8.2} ms",
                times[0],
                times[times.len() / 2]
            );
        }
    }
}
