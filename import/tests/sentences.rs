//! Folders of sentence-transformers, and vocabularies of one token a line.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use common::{imported, refused};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tallow_format::{ModelFile, TokenizerKind};
use tallow_import::{EncodingChoice, ImportReport, tokenizer};

/// A file of the repository's tests.
fn shared(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(path)
}

/// A folder that gives normalised means of token vectors.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    let from = shared("text/vectors");
    for file in
        ["config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"]
    {
        std::fs::copy(from.join(file), folder.path().join(file)).unwrap();
    }
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(shared("tokenizers/wordpiece-uncased").join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn write(folder: &tempfile::TempDir, file: &str, value: &Value) {
    std::fs::write(folder.path().join(file), value.to_string()).unwrap();
}

fn read(folder: &tempfile::TempDir) -> (ImportReport, ModelFile) {
    imported(folder.path(), EncodingChoice::Auto)
}

#[test]
fn pooling_length_and_case_are_taken_over() {
    let source = folder();
    let (report, model) = read(&source);
    assert!(report.warnings.iter().all(|w| !w.contains("tokenizer")), "{:?}", report.warnings);
    let architecture = model.config().architecture();
    assert_eq!(architecture.str("pooling").unwrap(), Some("mean"));
    assert_eq!(architecture.bool("normalize_embeddings").unwrap(), Some(true));
    let tokenizer = model.config().tokenizer().unwrap();
    assert_eq!(tokenizer.kind, Some(TokenizerKind::WordPiece));
    assert_eq!(tokenizer.max_length, Some(24), "the length of the folder wins over the tokenizer's 64");
    assert_eq!(tokenizer.normalizer.as_deref(), Some("clean_text,chinese_chars,strip_accents,lowercase"));
    assert_eq!(tokenizer.template, Some(["[CLS]", "$A", "[SEP]"].map(str::to_owned).to_vec()));
    let pair = ["[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1"].map(str::to_owned).to_vec();
    assert_eq!((tokenizer.pair_template, tokenizer.mask_token.as_deref()), (Some(pair), Some("[MASK]")));

    write(&source, "sentence_bert_config.json", &json!({"max_seq_length": 9, "do_lower_case": true}));
    write(
        &source,
        "1_Pooling/config.json",
        &json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}),
    );
    write(
        &source,
        "config_sentence_transformers.json",
        &json!({"prompts": {"q": "query: "}, "default_prompt_name": "q"}),
    );
    let (report, model) = read(&source);
    assert_eq!(model.config().architecture().str("pooling").unwrap(), Some("cls"));
    let tokenizer = model.config().tokenizer().unwrap();
    assert_eq!(tokenizer.max_length, Some(9));
    assert!(tokenizer.normalizer.unwrap().starts_with("lowercase,clean_text"));
    assert!(report.warnings.iter().any(|w| w.contains("prompt `q`")), "{:?}", report.warnings);

    std::fs::remove_file(source.path().join("modules.json")).unwrap();
    let (_, model) = read(&source);
    assert_eq!(model.config().architecture().str("pooling").unwrap(), None);
    assert_eq!(model.config().tokenizer().unwrap().max_length, Some(64));
}

#[test]
fn modules_that_are_not_read_are_refused_by_name() {
    let module =
        |of_type: &str, path: &str| json!({"type": format!("sentence_transformers.models.{of_type}"), "path": path});
    for (file, value, part) in [
        ("modules.json", json!([module("Transformer", ""), module("Dense", "2_Dense")]), "models.Dense"),
        ("modules.json", json!([module("Transformer", "0_Transformer")]), "0_Transformer"),
        ("1_Pooling/config.json", json!({"pooling_mode_weightedmean_tokens": true}), "weightedmean"),
        ("1_Pooling/config.json", json!({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true}), "max"),
        ("1_Pooling/config.json", json!({}), "none"),
    ] {
        let source = folder();
        write(&source, file, &value);
        let error = refused(source.path());
        assert!(error.is_unsupported() && error.to_string().contains(part), "{part}: {error}");
    }
}

/// The tokenizer of a folder with these lines and this config.
fn of_lines(lines: &str, config: &Value) -> Result<tokenizer::TokenizerText, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vocab.txt"), lines).unwrap();
    write(&folder, "tokenizer_config.json", config);
    write(&folder, "config.json", &json!({"model_type": "bert"}));
    tokenizer::json::read(folder.path()).map(Option::unwrap).map_err(|e| e.to_string())
}

#[test]
fn a_token_a_line_makes_a_word_piece_tokenizer() {
    const LINES: &str = "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\na\n##b\n";
    let setting = |text: &tokenizer::TokenizerText, key: &str| {
        text.settings.iter().find(|(k, _)| k == key).map_or(Value::Null, |(_, v)| v.clone())
    };
    let text = of_lines(LINES, &json!({})).unwrap();
    assert_eq!(text.vocab.tokens.len(), 6);
    assert_eq!(text.vocab.token(1), Some("[UNK]"));
    assert_eq!(setting(&text, "normalizer"), "clean_text,chinese_chars,strip_accents,lowercase");
    assert_eq!(setting(&text, "template"), json!(["[CLS]", "$A", "[SEP]"]));
    assert_eq!(setting(&text, "mask_token"), Value::Null, "there is none");
    let cased = json!({"do_lower_case": false, "tokenize_chinese_chars": false});
    assert_eq!(setting(&of_lines(LINES, &cased).unwrap(), "normalizer"), "clean_text");
    let other = json!({"cls_token": "a", "mask_token": {"content": "##b"}});
    let text = of_lines(LINES, &other).unwrap();
    assert_eq!((setting(&text, "template")[0].clone(), setting(&text, "mask_token")), (json!("a"), json!("##b")));
    for (lines, config, part) in [
        ("a\n[CLS]\n[SEP]\n", json!({}), "`[UNK]`"),
        (LINES, json!({"sep_token": "</s>"}), "`</s>`"),
        (LINES, json!({"do_lower_case": 1}), "`do_lower_case`"),
        (LINES, json!({"do_basic_tokenize": false}), "`do_basic_tokenize`"),
        (LINES, json!({"never_split": ["a"]}), "`never_split`"),
    ] {
        let error = of_lines(lines, &config).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
}
