//! GGUF files of text encoders and of t5: the tensors and settings of the same model in a folder, and what is refused; and
//! what is refused of gemma 4 and deepseek.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use common::{Gguf, Numbers, force, golden, imported, refused, values};
use std::path::PathBuf;
use tallow_format::{Encoding, ModelFile};

/// Folders of the goldens that hold a `model.gguf` too.
fn folders() -> Vec<PathBuf> {
    let kinds = ["../goldens-encoder", "../goldens-seq2seq"];
    let all = kinds.iter().flat_map(|kind| std::fs::read_dir(golden(kind)).unwrap());
    let mut found: Vec<PathBuf> = all.map(|e| e.unwrap().path()).filter(|p| p.join("model.gguf").is_file()).collect();
    found.sort();
    assert!(found.len() >= 8, "the goldens are missing");
    found
}

fn names(model: &ModelFile) -> Vec<String> {
    let mut all: Vec<String> = model.tensors().iter().map(|t| t.name.clone()).collect();
    all.sort();
    all
}

#[test]
fn a_gguf_file_gives_the_tensors_and_settings_of_its_folder() {
    for path in folders() {
        let case = path.display();
        let (_, folder) = imported(&path, force(Encoding::U32));
        let (report, gguf) = imported(&path.join("model.gguf"), force(Encoding::U32));
        // Such files come under bert's name, without the positions that stand before the first word's.
        let like_bert = folder.config().model_type() == "xlm-roberta";
        assert_eq!(names(&folder), names(&gguf), "{case}");
        for name in names(&folder) {
            let (mut own, found) = (values(&folder, &name), values(&gguf, &name));
            if like_bert && name.ends_with("position_embeddings.weight") {
                own.drain(..own.len() - found.len());
            } else {
                let shape = |m: &ModelFile| m.tensor(&name).unwrap().shape.to_vec();
                assert_eq!(shape(&folder), shape(&gguf), "{case}: {name}");
            }
            assert_eq!(own, found, "{case}: {name}");
        }
        assert!(report.left_out.is_empty(), "{case}: {:?}", report.left_out);
        assert!(report.warnings.iter().all(|w| w.contains("length 1")), "{case}: {:?}", report.warnings);
        let table = |m: &ModelFile| m.config().to_text().split_once("[architecture]\n").unwrap().1.to_owned();
        let (own, found) = (table(&folder), table(&gguf));
        let lines = |text: &str| -> Vec<(String, String)> {
            let table = text.split("\n\n").next().unwrap().to_owned();
            table.lines().filter_map(|l| l.split_once(" = ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
        };
        let own = lines(&own);
        for (key, value) in lines(&found) {
            let wanted = own.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
            match (key.as_str(), wanted) {
                // Newer files say it in a table.
                ("rope_theta", None) => assert_eq!(value, "50"),
                ("max_position_embeddings", _) if like_bert => assert_eq!(value, "38"),
                // Both say that the head is its own: mt5 by its tensor alone.
                ("tie_word_embeddings", Some("true")) if folder.tensor("lm_head.weight").is_some() => {}
                // No key of mt5, which never scales.
                ("scale_decoder_outputs", None) => assert_eq!(value, "false"),
                _ => assert_eq!(Some(value.as_str()), wanted, "{case}: {key}"),
            }
        }
    }
}

/// A sound encoder of one layer, without a tokenizer.
fn tiny_bert() -> Gguf {
    let mut n = Numbers(5);
    let mut file = Gguf::new()
        .text("general.architecture", "bert")
        .u32("bert.embedding_length", 8)
        .u32("bert.block_count", 1)
        .u32("bert.context_length", 16)
        .u32("bert.feed_forward_length", 12)
        .u32("bert.attention.head_count", 2)
        .f32("bert.attention.layer_norm_epsilon", 1e-12)
        .bool("bert.attention.causal", false)
        .tensor("token_embd.weight", &[8, 20], &n.take(160))
        .tensor("position_embd.weight", &[8, 16], &n.take(128))
        .tensor("token_types.weight", &[8, 2], &n.take(16))
        .tensor("token_embd_norm.weight", &[8], &n.take(8))
        .tensor("token_embd_norm.bias", &[8], &n.take(8));
    for (name, dims) in [
        ("attn_q", [8, 8]),
        ("attn_k", [8, 8]),
        ("attn_v", [8, 8]),
        ("attn_output", [8, 8]),
        ("ffn_up", [8, 12]),
        ("ffn_down", [12, 8]),
    ] {
        file = file.tensor(&format!("blk.0.{name}.weight"), &dims, &n.take((dims[0] * dims[1]) as usize)).tensor(
            &format!("blk.0.{name}.bias"),
            &dims[1..],
            &n.take(dims[1] as usize),
        );
    }
    for name in ["attn_output_norm", "layer_output_norm"] {
        file = file.tensor(&format!("blk.0.{name}.weight"), &[8], &n.take(8)).tensor(
            &format!("blk.0.{name}.bias"),
            &[8],
            &n.take(8),
        );
    }
    file
}

/// Writes a file and reads it.
fn written(file: &Gguf) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = file.write(&folder.path().join("model.gguf"));
    (folder, path)
}

#[track_caller]
fn fails(file: &Gguf, parts: &[&str]) {
    let (_folder, path) = written(file);
    let text = refused(&path).to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn pooling_is_that_of_the_file() {
    for (number, name) in [(0, None), (1, Some("mean")), (2, Some("cls"))] {
        let (_folder, path) = written(&tiny_bert().u32("bert.pooling_type", number));
        let (report, model) = imported(&path, force(Encoding::U32));
        assert_eq!(model.config().architecture().str("pooling").unwrap(), name);
        assert_eq!(report.warnings.iter().any(|w| w.contains("length 1")), name.is_some());
    }
    fails(&tiny_bert().u32("bert.pooling_type", 3), &["bert.pooling_type", "last token", "safetensors"]);
    fails(&tiny_bert().u32("bert.pooling_type", 4), &["bert.pooling_type", "ranks", "safetensors"]);
    fails(&tiny_bert().u32("bert.pooling_type", 9), &["bert.pooling_type", "9 is no way of pooling"]);
}

#[test]
fn what_changes_the_result_and_is_not_read_is_refused_by_name() {
    fails(&tiny_bert().f32("bert.attention.new_trick", 0.5), &["bert.attention.new_trick = 0.5", "--ignore-setting"]);
    fails(&tiny_bert().u32("bert.attention.head_count_kv", 1), &["bert.attention.head_count_kv", "2 heads"]);
    fails(&tiny_bert().u32("bert.attention.key_length", 8), &["bert.attention.key_length", "2 heads of 8"]);
    fails(&tiny_bert().u32("tokenizer.ggml.token_type_count", 3), &["token_type_count", "it is 3", "must be 2"]);
    fails(&tiny_bert().tensor("cls.weight", &[8, 8], &[0.0; 64]), &["cls.weight", "bert", "--ignore-setting"]);
    let mut causal = tiny_bert();
    let at = causal.entries.len() - 1;
    causal.entries[at] = 1;
    fails(&causal, &["bert.attention.causal", "earlier tokens alone"]);
    for (tensor, parts) in [
        ("token_embd.weight", ["`token_embd.weight`", "missing"]),
        ("blk.0.attn_q.bias", ["needs 1 tensor", "`encoder.layer.0.attention.self.query.bias`"]),
    ] {
        let mut file = tiny_bert();
        file.tensors.retain(|t| t.name != tensor);
        fails(&file, &parts);
    }
    let only_name =
        |name: &str| Gguf::new().text("general.architecture", name).tensor("token_embd.weight", &[8, 4], &[0.0; 32]);
    // Without token types it is taken for distilbert, which has one ε.
    let mut file = tiny_bert();
    file.tensors.retain(|t| t.name != "token_types.weight");
    let (_folder, path) = written(&file);
    assert_eq!(imported(&path, force(Encoding::U32)).1.config().model_type(), "distilbert");
    let place = file.entries.windows(4).position(|w| w == 1e-12f32.to_le_bytes()).unwrap();
    file.entries[place..place + 4].copy_from_slice(&1e-5f32.to_le_bytes());
    fails(&file, &["bert.attention.layer_norm_epsilon", "0.00001", "distilbert"]);
    for key in ["embedding_length", "block_count", "feed_forward_length", "attention.head_count"] {
        let mut file = only_name("bert");
        for other in
            ["embedding_length", "attention.head_count", "block_count", "feed_forward_length", "context_length"]
        {
            if other != key {
                file = file.u32(&format!("bert.{other}"), 2);
            }
        }
        fails(&file, &[&format!("`bert.{key}`"), "missing"]);
    }
    fails(&only_name("t5"), &["`t5.block_count`", "missing"]);
    fails(&only_name("t5encoder"), &["`t5encoder` is not read", "nomic-bert, t5"]);
}

#[test]
fn tokenizers_are_whole_or_refused() {
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁the", "▁fo", "x", "▁É"];
    let with = |model: &str| {
        tiny_bert()
            .text("tokenizer.ggml.model", model)
            .texts("tokenizer.ggml.tokens", &words)
            .i32s("tokenizer.ggml.token_type", &[3, 3, 3, 3, 3, 1, 1, 1, 1])
    };
    let special = |file: Gguf| {
        let ids = [("padding", 0), ("unknown", 1), ("bos", 2), ("seperator", 3), ("mask", 4)];
        ids.into_iter().fold(file, |file, (name, id)| file.u32(&format!("tokenizer.ggml.{name}_token_id"), id))
    };
    let (_folder, path) = written(&special(with("bert")));
    let (_, model) = imported(&path, force(Encoding::U32));
    let tokenizer = model.config().tokenizer().unwrap();
    // A file that does not say it: no ASCII capitals, so that texts are lowered.
    assert_eq!(tokenizer.normalizer.as_deref(), Some("clean_text,chinese_chars,strip_accents,lowercase"));
    assert_eq!(tokenizer.mask_token.as_deref(), Some("[MASK]"));
    let vocab = model.vocab().unwrap();
    assert_eq!([5, 6, 7].map(|id| vocab.token(id)), [Some("the"), Some("fo"), Some("##x")]);
    let kept = special(with("bert")).bool("tokenizer.ggml.normalizer.lowercase", false);
    let (_folder, path) = written(&kept.bool("tokenizer.ggml.normalizer.strip_accents", true));
    let (_, model) = imported(&path, force(Encoding::U32));
    let steps = model.config().tokenizer().unwrap().normalizer;
    assert_eq!(steps.as_deref(), Some("clean_text,chinese_chars,strip_accents"));

    // The reader's usual ids are beyond so small a vocabulary.
    fails(&with("bert"), &["tokenizer.ggml.unknown_token_id", "no token"]);
    fails(&special(with("t5")), &["tokenizer.ggml.scores", "missing"]);
    let scored = special(with("t5")).f32s("tokenizer.ggml.scores", &[-1.0; 9]);
    let wide = scored.clone().i32s("tokenizer.ggml.precompiled_charsmap", &[1, 300]);
    fails(&wide, &["precompiled_charsmap", "a list of bytes"]);
    fails(
        &scored.bool("tokenizer.ggml.add_eos_token", true).u32("tokenizer.ggml.eos_token_id", 99),
        &["tokenizer.ggml.eos_token_id", "no token"],
    );
    let (_folder, path) =
        written(&with("gpt2").texts("tokenizer.ggml.merges", &[]).text("tokenizer.ggml.pre", "gpt-2"));
    let text = refused(&path).to_string();
    assert!(text.contains("kind `gpt2` is not read for architecture `bert`"), "{text}");
    fails(&with("plamo2"), &["plamo2", "bert (WordPiece)", "t5 (Unigram)"]);
}

#[test]
fn sizes_of_gemma_4_that_are_not_read_are_refused_by_name() {
    let flags = |file: Gguf, values: &[u8]| {
        let mut bytes = 7u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values);
        file.raw("gemma4.attention.sliding_window_pattern", 9, &bytes)
    };
    let plain = || {
        let sizes = [
            ("block_count", 2),
            ("embedding_length", 8),
            ("context_length", 16),
            ("attention.head_count", 2),
            ("attention.sliding_window", 4),
            ("attention.key_length", 8),
            ("attention.key_length_swa", 4),
        ];
        let file =
            Gguf::new().text("general.architecture", "gemma4").f32("gemma4.attention.layer_norm_rms_epsilon", 1e-6);
        let file = file.tensor("token_embd.weight", &[8, 4], &[0.5; 32]);
        sizes.iter().fold(file, |file, (key, value)| file.u32(&format!("gemma4.{key}"), *value))
    };
    fails(&plain(), &["gemma4.attention.sliding_window_pattern", "one entry per layer"]);
    fails(&flags(plain(), &[1, 0, 1]), &["sliding_window_pattern", "a list of 2"]);
    let layers = flags(plain(), &[1, 0]);
    fails(&layers, &["`gemma4.attention.head_count_kv`", "missing"]);
    let wide = layers.clone().i32s("gemma4.attention.head_count_kv", &[2, 1, 1]);
    fails(&wide, &["gemma4.attention.head_count_kv", "a list of 2 integers"]);
    let heads = layers.i32s("gemma4.attention.head_count_kv", &[2, 1]);
    fails(&heads, &["`rope_freqs.weight`", "missing"]);
    fails(&heads.clone().u32("gemma4.attention.value_length", 4), &["value_length", "`attention.key_length` is 8"]);
    let rotated = |divisors: &[f32]| {
        let file = heads.clone().f32("gemma4.rope.freq_base", 1e6).f32("gemma4.rope.freq_base_swa", 1e4);
        file.tensor("rope_freqs.weight", &[divisors.len() as u64], divisors)
    };
    fails(&rotated(&[1.0, 1e30]), &["`rope_freqs.weight`", "each two lanes"]);
    fails(&rotated(&[1.0, 2.0, 1e30, 1e30]), &["`rope_freqs.weight`", "other numbers than 1"]);
    let widths = rotated(&[1.0, 1e30, 1e30, 1e30]).i32s("gemma4.feed_forward_length", &[8, 16]);
    fails(&widths, &["gemma4.feed_forward_length", "twice that"]);
    let shared = widths.u32("gemma4.attention.shared_kv_layers", 1);
    fails(&shared.clone().f32("gemma4.new_trick", 2.0), &["gemma4.new_trick = 2"]);
    fails(&shared, &["num_kv_shared_layers", "no layer before 1 has keys"]);
}

/// A small model of latent attention: a layer with heads of 4 lanes, 2 of which turn, and values of 3.
fn latent() -> Gguf {
    let sizes = [
        ("block_count", 1),
        ("embedding_length", 8),
        ("context_length", 16),
        ("feed_forward_length", 8),
        ("vocab_size", 4),
        ("leading_dense_block_count", 1),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("attention.kv_lora_rank", 5),
        ("attention.key_length", 7),
        ("attention.value_length", 5),
        ("attention.key_length_mla", 34),
        ("attention.value_length_mla", 3),
        ("rope.dimension_count", 2),
        ("expert_count", 4),
        ("expert_used_count", 2),
        ("expert_shared_count", 1),
        ("expert_feed_forward_length", 8),
    ];
    let file = Gguf::new().text("general.architecture", "deepseek2");
    let file = file.f32("deepseek2.attention.layer_norm_rms_epsilon", 1e-6);
    let file = sizes.iter().fold(file, |file, (key, value)| file.u32(&format!("deepseek2.{key}"), *value));
    [
        ("token_embd.weight", vec![8, 4]),
        ("output_norm.weight", vec![8]),
        ("blk.0.attn_norm.weight", vec![8]),
        ("blk.0.attn_q.weight", vec![8, 68]),
        ("blk.0.attn_kv_a_mqa.weight", vec![8, 7]),
        ("blk.0.attn_kv_a_norm.weight", vec![5]),
        ("blk.0.attn_k_b.weight", vec![32, 5, 2]),
        ("blk.0.attn_v_b.weight", vec![5, 3, 2]),
        ("blk.0.attn_output.weight", vec![6, 8]),
        ("blk.0.ffn_norm.weight", vec![8]),
        ("blk.0.ffn_gate.weight", vec![8, 8]),
        ("blk.0.ffn_up.weight", vec![8, 8]),
        ("blk.0.ffn_down.weight", vec![8, 8]),
    ]
    .into_iter()
    .enumerate()
    .fold(file, |file, (n, (name, dims))| {
        let count = dims.iter().product::<u64>() as usize;
        file.tensor(name, &dims, &Numbers(n as u64).take(count))
    })
}

#[test]
fn keys_of_latent_attention_are_turned_head_by_head_in_any_type() {
    let plain = latent();
    let stored = Numbers(6).take(2 * 5 * 32);
    let mut blocks = latent();
    let at = blocks.tensors.iter().position(|t| t.name == "blk.0.attn_k_b.weight").unwrap();
    let mut bytes = Vec::new();
    for block in stored.as_chunks::<32>().0 {
        bytes.extend(0x2000_u16.to_le_bytes()); // 2⁻⁷
        bytes.extend(block.iter().map(|x| (x * 100.0) as i8 as u8));
    }
    (blocks.tensors[at].tag, blocks.tensors[at].data) = (8, bytes);
    for (file, round) in [(plain, false), (blocks, true)] {
        let (_folder, path) = written(&file);
        let (_, model) = imported(&path, force(Encoding::U32));
        let name = "model.layers.0.self_attn.k_b_proj.weight";
        assert_eq!(model.tensor(name).unwrap().shape, [64, 5]);
        assert_eq!(model.tensor("model.layers.0.self_attn.v_b_proj.weight").unwrap().shape, [6, 5]);
        let found = values(&model, name);
        for (head, lane, rank) in (0..2).flat_map(|h| (0..32).flat_map(move |l| (0..5).map(move |r| (h, l, r)))) {
            let x = stored[(head * 5 + rank) * 32 + lane];
            let x = if round { (x * 100.0).trunc() / 128.0 } else { x };
            let found = found[(head * 32 + lane) * 5 + rank];
            assert!((found - x).abs() < 2e-5, "head {head}, lane {lane}, rank {rank}: {found}, not {x}");
        }
    }
}

#[test]
fn what_is_not_read_of_deepseek_is_refused_by_name() {
    let key = |name: &str, value: u32| latent().u32(&format!("deepseek2.{name}"), value);
    fails(&key("expert_gating_func", 4), &["deepseek2.expert_gating_func", "softmax"]);
    fails(&latent().bool("deepseek2.expert_weights_norm", true), &["deepseek2.expert_weights_norm", "softmax"]);
    fails(&key("attention.new_trick", 1), &["deepseek2.attention.new_trick"]);
    let without = |name: &str| {
        let mut file = latent();
        file.tensors.retain(|t| t.name != name);
        file
    };
    fails(&without("blk.0.attn_v_b.weight"), &["v_b_proj.weight"]);
    let mut odd = without("blk.0.attn_k_b.weight");
    odd = odd.tensor("blk.0.attn_k_b.weight", &[32, 5, 3], &[0.5; 480]);
    fails(&odd, &["k_b_proj", "[96, 5]"]);
    let flat = without("blk.0.attn_k_b.weight").tensor("blk.0.attn_k_b.weight", &[33], &[0.5; 33]);
    fails(&flat, &["attn_k_b.weight", "no matrix of 2 heads"]);
}
