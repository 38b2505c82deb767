//! Errors: what they name, and that nothing hostile gets past them.

use crate::tiny::*;
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, FamilyError, TensorShapes};
use tallow_ir::DType;

#[test]
fn unknown_types_list_the_known_ones() {
    let error = Tiny::new("lama").try_build().map(|_| ()).unwrap_err();
    assert!(error.is_unsupported());
    assert_eq!(
        error.to_string(),
        format!(
            "config: no family is known for `model_type` = \"lama\". Did you mean `llama`? Known types: {}.",
            families::known_types().join(", ")
        )
    );
    let error = Tiny::new("segformer").error();
    assert!(!error.contains("Did you mean"), "{error}");
    assert!(Tiny::new("").error().contains("`model_type` is missing"));
}

#[test]
fn settings_without_a_reader_are_errors() {
    let tiny = Tiny::with(
        "llama",
        "sliding_window = 4096\nqk_layernorm = true\nuse_cache = true\nmystery = 0\nlogit_scale = 1.0\nnothing = \"\"",
    );
    let error = tiny.try_build().map(|_| ()).unwrap_err();
    assert!(error.is_unsupported());
    assert_eq!(
        error.to_string(),
        "config: `architecture.sliding_window`, `architecture.qk_layernorm` are set but not read by the family of `llama`, so the result could differ from the model's own. Remove them if they do not change the result."
    );
    let one = Tiny::with("qwen2", "attention_bias = true");
    let one = Tiny { qkv_bias: true, ..one }.error();
    assert!(one.contains("`architecture.attention_bias` is set but not read by the family of `qwen2`"), "{one}");
    // Keys that the type is known not to read are no error.
    Tiny::with("llama", "pretraining_tp = 2\nrope_interleaved = true\ninitializer_range = 0.02").build();
}

#[test]
fn tables_of_other_towers_are_noted() {
    let family = Tiny::with("llama", "[architecture.vision]\nhidden_size = 4").build();
    assert!(family.notes[0].contains("`architecture.vision`"), "{:?}", family.notes);
    let error = Tiny::with("llama", "[architecture.router]\nexperts = 4").error();
    assert!(error.contains("`architecture.router`"), "{error}");
}

#[test]
fn all_missing_and_misshapen_tensors_come_in_one_error() {
    let tiny = Tiny::new("llama");
    let mut shapes = tiny.shapes();
    shapes.shift_remove("lm_head.weight");
    shapes.shift_remove("model.layers.1.mlp.up_proj.weight");
    shapes.insert("model.norm.weight".into(), vec![9]);
    let error = families::build(&tiny.config(), &shapes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`llama` needs 2 tensors that the model lacks: `model.layers.1.mlp.up_proj.weight` [16, 8], `lm_head.weight` [12, 8]; 1 tensor does not fit the config: `model.norm.weight` has shape [9], expected [8]. Check the sizes in [architecture], or add the tensors."
    );
    shapes.retain(|name, _| !name.contains("layers"));
    let error = families::build(&tiny.config(), &shapes).unwrap_err();
    assert!(error.to_string().contains("and 9 more"), "{error}");
    let FamilyError::Tensors(faults) = error else { panic!() };
    assert_eq!((faults.missing.len(), faults.misshapen.len()), (19, 1));
}

#[test]
fn a_head_size_that_contradicts_the_projection_names_the_one_that_fits() {
    let error = Tiny::with("llama", "head_dim = 8").error();
    assert_eq!(
        error,
        "config: `architecture.head_dim` = 8: with 2 heads the query projection of layer 0 needs 16 rows and has 8. `head_dim` = 4 would fit."
    );
}

#[test]
fn sizes_that_took_a_default_are_told_with_the_shapes() {
    let text = "model_type = \"llama\"\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_key_value_heads = 1\nnum_hidden_layers = 2\nvocab_size = 12\n";
    let error = families::build(&Config::parse(text).unwrap(), &Tiny::new("llama").shapes()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`model.layers.0.mlp.gate_proj.weight` has shape [16, 8], expected [11008, 8]"), "{text}");
    assert!(text.contains("`intermediate_size` is not set, so it is 11008"), "{text}");
}

#[test]
fn tensors_that_nothing_reads_are_listed() {
    let tiny = Tiny::new("llama");
    let mut shapes = tiny.shapes();
    shapes.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), vec![2]);
    shapes.insert("model.layers.0.self_attn.q_proj.bias".into(), vec![8]);
    shapes.insert("extra.weight".into(), vec![1]);
    let family = families::build(&tiny.config(), &shapes).unwrap();
    assert_eq!(family.unread_tensors, ["model.layers.0.self_attn.q_proj.bias", "extra.weight"]);
    assert_eq!(
        family.notes,
        [
            "the config of this `llama` says that there are no such biases: `model.layers.0.self_attn.q_proj.bias`",
            "2 tensors are not read: `model.layers.0.self_attn.q_proj.bias`, `extra.weight`"
        ]
    );
}

/// Shapes of which some tensors are ternary.
struct Signs(IndexMap<String, Vec<u64>>, &'static [&'static str]);

impl TensorShapes for Signs {
    fn shape(&self, name: &str) -> Option<Vec<u64>> {
        self.0.shape(name)
    }

    fn dtype(&self, name: &str) -> Option<DType> {
        if self.1.contains(&name) { Some(DType::Ternary) } else { self.0.dtype(name) }
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

#[test]
fn the_scale_of_a_ternary_tensor_is_read_with_it() {
    let tiny = Tiny::new("llama");
    let mut shapes = tiny.shapes();
    let ternary = &["model.layers.0.mlp.up_proj.weight", "extra.weight"];
    for name in [ternary[0], ternary[1], "model.layers.1.mlp.up_proj.weight"] {
        shapes.insert(format!("{name}.scale"), vec![16]);
    }
    shapes.insert(ternary[1].into(), vec![16, 8]);
    let family = families::build(&tiny.config(), &Signs(shapes, ternary)).unwrap();
    // Neither the scale of a tensor without a reader nor that of a tensor in another encoding is read.
    let unread = ["extra.weight.scale", "model.layers.1.mlp.up_proj.weight.scale", "extra.weight"];
    assert_eq!(family.unread_tensors, unread);
}

#[test]
fn wrong_values_name_their_key() {
    let text = |kind: &str, keys: &str| {
        let text = format!("model_type = \"{kind}\"\n[architecture]\n{keys}\n");
        families::build(&Config::parse(&text).unwrap(), &Tiny::new("llama").shapes())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let sizes =
        "hidden_size = 8\nnum_attention_heads = 2\nnum_hidden_layers = 2\nintermediate_size = 16\nvocab_size = 12\n";
    for (keys, expected) in [
        ("hidden_size = 0", "`architecture.hidden_size` = 0"),
        ("hidden_size = 99999999999", "`architecture.hidden_size` = 99999999999"),
        ("hidden_size = -1", "architecture.hidden_size"),
        ("hidden_size = \"8\"", "architecture.hidden_size"),
        ("num_hidden_layers = 1000000", "at most 4096 layers"),
    ] {
        let error = text("llama", keys);
        assert!(error.contains(expected), "{keys}: {error}");
    }
    for (keys, expected) in [
        ("num_key_value_heads = 3", "it must divide `num_attention_heads` = 2"),
        ("hidden_act = \"sine\"", "known activations are silu"),
        ("rms_norm_eps = -1", "architecture.rms_norm_eps"),
        ("rope_theta = 0", "architecture.rope_theta"),
        ("tie_word_embeddings = 1", "architecture.tie_word_embeddings"),
    ] {
        let error = text("llama", &format!("{sizes}{keys}"));
        assert!(error.contains(expected), "{keys}: {error}");
    }
    let error = text("granite", &format!("{sizes}num_key_value_heads = 1\nlogits_scaling = 0"));
    assert!(error.contains("architecture.logits_scaling"), "{error}");
}
