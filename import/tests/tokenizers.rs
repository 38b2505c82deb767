//! Tokenizers of both kinds of source.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use common::{Gguf, data, imported, refused, tiny_folder, tiny_llama, tiny_tensors};
use serde_json::{Value, json};
use tallow_format::TokenizerKind;
use tallow_import::{EncodingChoice, ImportError, tokenizer};

fn folder_with(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    tiny_folder(folder.path(), &tiny_tensors());
    for file in files {
        std::fs::copy(data(file), folder.path().join(file)).unwrap();
    }
    folder
}

#[test]
fn a_byte_level_folder_imports_whole() {
    let folder =
        folder_with(&["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"]);
    let (report, model) = imported(folder.path(), EncodingChoice::Auto);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let tokenizer = model.config().tokenizer().unwrap();
    assert_eq!(tokenizer.kind, Some(TokenizerKind::ByteLevelBpe));
    assert_eq!(tokenizer.pre.as_deref(), Some("qwen2"));
    assert_eq!((tokenizer.add_bos, tokenizer.add_prefix_space), (Some(false), Some(false)));
    assert_eq!(model.config().end_ids().unwrap(), [883]);
    assert_eq!(model.config().bos_id().unwrap(), Some(881));
    assert_eq!(model.config().pad_id().unwrap(), Some(881));
    let sampling = model.config().sampling().unwrap();
    assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k), (0.7, 0.9, 0));
    let vocab = model.vocab().unwrap();
    assert_eq!((vocab.len(), vocab.merges.len()), (884, 625));
    assert_eq!(vocab.token(883), Some("<|im_end|>"));
    assert_eq!(vocab.added.len(), 3);
    assert!(vocab.added.iter().all(|t| t.special));
    let chat = model.chat().unwrap();
    assert_eq!(chat.format, Some(tallow_format::ChatFormat::ChatMl));
    assert_eq!(chat.eos_sequences, ["<|im_end|>"]);
    let template = std::fs::read_to_string(data("chat_template.jinja")).unwrap();
    assert_eq!(chat.template.as_deref(), Some(template.as_str()));
    assert!(model.card().unwrap().contains("tallow chat"));
    assert!(model.program().is_some());
}

#[test]
fn a_template_may_stand_in_the_tokenizer_config() {
    for (config, expected) in [
        (json!({"chat_template": "A <start_of_turn>"}), Some("A <start_of_turn>")),
        (json!({"chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]}), Some("D")),
        (json!({"chat_template": ""}), None),
        (json!({}), None),
    ] {
        let folder = folder_with(&["tokenizer.json"]);
        std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        let (_, model) = imported(folder.path(), EncodingChoice::Auto);
        assert_eq!(model.chat().and_then(|c| c.template.as_deref()), expected);
    }
}

#[test]
fn other_tokenizer_files_alone_are_refused() {
    let folder = folder_with(&[]);
    std::fs::write(folder.path().join("tekken.json"), "x").unwrap();
    let error = refused(folder.path());
    assert!(error.is_unsupported() && error.to_string().contains("tekken.json"), "{error}");
    std::fs::write(folder.path().join("tokenizer.model"), "x").unwrap();
    let error = refused(folder.path());
    let part = "no class that reads `tokenizer.model` is known for type `qwen3`";
    assert!(error.is_unsupported() && error.to_string().contains(part), "{error}");
    let class = "{\"tokenizer_class\": \"LlamaTokenizer\"}";
    std::fs::write(folder.path().join("tokenizer_config.json"), class).unwrap();
    let error = refused(folder.path());
    assert!(error.to_string().contains("tokenizer.model: byte 1: a number is cut short"), "{error}");
}

/// A SentencePiece-type tokenizer as gemma has it.
fn gemma_like() -> Value {
    json!({
        "added_tokens": [
            {"id": 0, "content": "<pad>", "special": true}, {"id": 1, "content": "<eos>", "special": true},
            {"id": 2, "content": "<bos>", "special": true}, {"id": 3, "content": "<unk>", "special": true},
            {"id": 4, "content": "\n\n", "special": false, "normalized": false}
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "\n\n": 4, "a": 5, "b": 6, "▁": 7, "ab": 8, "▁ab": 9},
            "merges": ["a b", ["▁", "ab"]]}
    })
}

fn read(value: &Value) -> Result<tokenizer::TokenizerText, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), value.to_string()).unwrap();
    std::fs::write(
        folder.path().join("tokenizer_config.json"),
        r#"{"eos_token": {"content": "<eos>"}, "pad_token": "<pad>"}"#,
    )
    .unwrap();
    tokenizer::json::read(folder.path()).map(|t| t.unwrap())
}

fn setting(text: &tokenizer::TokenizerText, key: &str) -> Value {
    text.settings.iter().find(|(k, _)| k == key).map_or(Value::Null, |(_, v)| v.clone())
}

#[test]
fn sentence_piece_types_are_recognised_by_their_parts() {
    let text = read(&gemma_like()).unwrap();
    assert_eq!(setting(&text, "type"), "sentencepiece_bpe");
    assert_eq!(setting(&text, "add_bos"), true);
    assert_eq!(setting(&text, "add_eos"), false);
    assert_eq!(setting(&text, "add_prefix_space"), false);
    assert_eq!(setting(&text, "byte_fallback"), true);
    assert_eq!((text.ids.bos, text.ids.eos.clone(), text.ids.pad, text.ids.unk), (Some(2), vec![1], Some(0), Some(3)));
    assert_eq!(text.vocab.merges.iter().collect::<Vec<_>>(), [("a", "b"), ("▁", "ab")]);
    assert!(!text.vocab.added[4].special);

    // Llama 2: a space in front, by the normalizer or by the pre-tokenizer.
    let mut llama = gemma_like();
    llama["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
    llama["pre_tokenizer"] = Value::Null;
    llama["decoder"]["decoders"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    assert_eq!(setting(&read(&llama).unwrap(), "add_prefix_space"), true);
    llama["normalizer"] = Value::Null;
    llama["pre_tokenizer"] =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
    assert_eq!(setting(&read(&llama).unwrap(), "add_prefix_space"), true);
    assert_eq!(setting(&read(&llama).unwrap(), "prefix_space"), "first");
    llama["pre_tokenizer"]["prepend_scheme"] = "never".into();
    assert_eq!(setting(&read(&llama).unwrap(), "add_prefix_space"), false);
}

#[test]
fn parts_that_are_not_recognised_are_named() {
    let cases: [(&str, Value, &[&str]); 17] = [
        ("/model/type", json!("WordLevel"), &["`model`", "WordLevel"]),
        ("/model/type", json!("WordPiece"), &["`normalizer`", "Replace"]),
        ("/model/dropout", json!(0.1), &["`model`", "dropout"]),
        ("/model/vocab", json!([]), &["`model.vocab`"]),
        ("/model/vocab/a", json!(4_000_000_000u64), &["`model.vocab`", "4000000000"]),
        ("/model/vocab/a", json!(6), &["`model.vocab`", "both have id 6"]),
        ("/model/merges/0", json!("ab"), &["`model.merges`", "entry 0"]),
        ("/model/merges/0", json!(["a", "▁"]), &["`model.merges`", "has no `a▁`"]),
        ("/normalizer/type", json!("Precompiled"), &["`normalizer`", "Precompiled"]),
        ("/normalizer", Value::Null, &["`pre_tokenizer`", "Split"]),
        ("/pre_tokenizer", json!({"type": "Whitespace"}), &["`pre_tokenizer`", "Whitespace"]),
        ("/pre_tokenizer", json!({"type": "Metaspace", "replacement": "▁"}), &["`pre_tokenizer`", "Metaspace"]),
        ("/decoder", json!({"type": "WordPiece"}), &["`decoder`", "WordPiece"]),
        ("/post_processor/type", json!("BertProcessing"), &["`post_processor`", "no token id"]),
        ("/post_processor/type", json!("Other"), &["`post_processor`", "Other"]),
        ("/added_tokens/0/single_word", json!(true), &["`added_tokens`", "single_word"]),
        ("/added_tokens/0/id", json!(-1), &["`added_tokens`", "-1"]),
    ];
    for (place, value, parts) in cases {
        let mut json = gemma_like();
        let (parent, key) = place.rsplit_once('/').unwrap();
        match json.pointer_mut(parent).unwrap() {
            Value::Object(map) => {
                map.insert(key.into(), value);
            }
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
            _ => unreachable!(),
        }
        let text = read(&json).expect_err(place).to_string();
        for part in parts {
            assert!(text.contains(part), "{place}: `{part}` is not in: {text}");
        }
    }
    let mut json = gemma_like();
    let mut nested = json!({"type": "NFC"});
    for _ in 0..50 {
        nested = json!({"type": "Sequence", "normalizers": [nested]});
    }
    json["normalizer"] = nested;
    assert!(read(&json).unwrap_err().to_string().contains("nested"));
}

#[test]
fn byte_level_patterns_become_names_or_patterns() {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
    let gpt2 = json!({"type": "ByteLevel", "add_prefix_space": true});
    let split =
        |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    let sequence = |parts: Vec<Value>| json!({"type": "Sequence", "pretokenizers": parts});
    let with = |pre: Value, whole: bool| {
        let mut json = gemma_like();
        json["normalizer"] = json!({"type": "NFC"});
        json["pre_tokenizer"] = pre;
        json["decoder"] = json!({"type": "ByteLevel"});
        json["model"]["ignore_merges"] = whole.into();
        read(&json)
    };
    let text = with(gpt2.clone(), false).unwrap();
    assert_eq!(setting(&text, "pre"), "gpt2");
    assert_eq!(setting(&text, "add_prefix_space"), true);
    assert_eq!(setting(&text, "normalizer"), "nfc");
    let digits = json!({"type": "Digits", "individual_digits": true});
    let text = with(sequence(vec![digits, gpt2.clone()]), false).unwrap();
    assert_eq!(setting(&text, "pre"), "smollm");
    let text = with(sequence(vec![split("a+|b"), byte_level.clone()]), false).unwrap();
    assert_eq!(setting(&text, "pattern"), "a+|b");
    let llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let text = with(sequence(vec![split(llama3), byte_level.clone()]), true).unwrap();
    assert_eq!(setting(&text, "pre"), "llama3");
    let two = with(sequence(vec![split("a+"), split("b+"), byte_level.clone()]), false);
    assert!(two.unwrap_err().to_string().contains("a+"));
    let mut removed = split("a+");
    removed["behavior"] = "Removed".into();
    assert!(with(sequence(vec![removed, byte_level]), false).is_err());
}

fn gguf_bpe() -> Gguf {
    tiny_llama()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "llama-bpe")
        .texts("tokenizer.ggml.tokens", &["a", "b", "Ġ", "ab", "Ġab", "<|begin|>", "<|eot_id|>", "[PAD7]"])
        .i32s("tokenizer.ggml.token_type", &[1, 1, 1, 1, 1, 3, 3, 5])
        .texts("tokenizer.ggml.merges", &["a b", "Ġ ab"])
        .u32("tokenizer.ggml.bos_token_id", 5)
        .text("tokenizer.chat_template", "{{ x }}<|start_header_id|><|eot_id|>")
}

fn from_gguf(gguf: &Gguf) -> (tallow_import::ImportReport, tallow_format::ModelFile) {
    let folder = tempfile::tempdir().unwrap();
    imported(&gguf.write(&folder.path().join("m.gguf")), EncodingChoice::Auto)
}

#[test]
fn a_gguf_byte_level_tokenizer() {
    let (report, model) = from_gguf(&gguf_bpe());
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let tokenizer = model.config().tokenizer().unwrap();
    assert_eq!(tokenizer.pre.as_deref(), Some("llama3"));
    // Its reader puts the begin token first unless told otherwise.
    assert_eq!(tokenizer.add_bos, Some(true));
    assert_eq!(model.config().end_ids().unwrap(), [6]);
    let vocab = model.vocab().unwrap();
    assert_eq!(vocab.len(), 7, "fillers are no tokens");
    assert_eq!(vocab.merges.iter().collect::<Vec<_>>(), [("a", "b"), ("Ġ", "ab")]);
    assert_eq!(model.chat().unwrap().format, Some(tallow_format::ChatFormat::Llama3));
    assert_eq!(model.chat().unwrap().eos_sequences, ["<|eot_id|>"]);
    let (_, model) =
        from_gguf(&gguf_bpe().bool("tokenizer.ggml.add_bos_token", false).u32("tokenizer.ggml.eos_token_id", 3));
    assert_eq!(model.config().tokenizer().unwrap().add_bos, Some(false));
    assert_eq!(model.config().end_ids().unwrap(), [3, 6]);
}

#[test]
fn a_gguf_sentence_piece_tokenizer_gets_its_merges_from_scores() {
    let gguf = tiny_llama()
        .text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &["<unk>", "<s>", "</s>", "<0x0A>", "a", "b", "▁", "ab", "▁ab", "  ", "\u{7f}"])
        .i32s("tokenizer.ggml.token_type", &[2, 3, 3, 6, 1, 1, 1, 1, 1, 4, 1])
        .f32s("tokenizer.ggml.scores", &[0.0, 0.0, 0.0, 0.0, -9.0, -9.0, -9.0, -2.0, -1.0, 0.0, -9.0])
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .u32("tokenizer.ggml.unknown_token_id", 0)
        .u32("tokenizer.ggml.padding_token_id", u32::MAX);
    let (report, model) = from_gguf(&gguf);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let tokenizer = model.config().tokenizer().unwrap();
    assert_eq!(tokenizer.kind, Some(TokenizerKind::SentencePieceBpe));
    assert_eq!((tokenizer.add_bos, tokenizer.add_eos), (Some(true), Some(false)));
    assert_eq!(tokenizer.add_prefix_space, Some(true));
    assert_eq!(tokenizer.byte_fallback, Some(false), "one byte of 256 is not enough");
    let vocab = model.vocab().unwrap();
    assert_eq!(vocab.merges.iter().collect::<Vec<_>>(), [("▁", "ab"), ("a", "b")]);
    let special: Vec<(u32, bool)> = vocab.added.iter().map(|t| (t.id, t.special)).collect();
    assert_eq!(special, [(0, true), (1, true), (2, true), (9, false)]);
    assert_eq!(vocab.token(10), Some("\u{7f}"));
    assert_eq!(model.config().pad_id().unwrap(), None);
}

#[test]
fn broken_gguf_tokenizers_are_refused() {
    for (gguf, part) in [
        (gguf_bpe().texts("x", &[]).text("tokenizer.ggml.added", "y"), ""),
        (tiny_llama().text("tokenizer.ggml.model", "gpt2"), "tokenizer.ggml.tokens"),
        (tiny_llama().text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", &["a"]), "scores"),
        (
            tiny_llama()
                .text("tokenizer.ggml.model", "llama")
                .texts("tokenizer.ggml.tokens", &["a"])
                .f32s("tokenizer.ggml.scores", &[f32::NAN]),
            "no number for token 0",
        ),
        (
            tiny_llama()
                .text("tokenizer.ggml.model", "llama")
                .texts("tokenizer.ggml.tokens", &["a"])
                .f32s("tokenizer.ggml.scores", &[0.0]),
            "bos_token_id",
        ),
        (
            tiny_llama()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "own-brew")
                .texts("tokenizer.ggml.tokens", &["a"]),
            "`own-brew`",
        ),
        (
            tiny_llama()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "gpt-2")
                .texts("tokenizer.ggml.tokens", &["a", "b"])
                .texts("tokenizer.ggml.merges", &["a b"]),
            "whose result is no token",
        ),
        (
            tiny_llama()
                .text("tokenizer.ggml.model", "gpt2")
                .texts("tokenizer.ggml.tokens", &["a", "b"])
                .i32s("tokenizer.ggml.token_type", &[1]),
            "a list of 2, one entry per token",
        ),
    ] {
        if part.is_empty() {
            from_gguf(&gguf);
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let text = refused(&gguf.write(&folder.path().join("m.gguf"))).to_string();
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    // A pre-tokeniser that is not named is written as such, with a warning.
    let gguf = tiny_llama().text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", &["a"]);
    let (report, _) = from_gguf(&gguf);
    assert!(report.warnings.iter().any(|w| w.contains("pre-tokeniser")), "{:?}", report.warnings);
}
