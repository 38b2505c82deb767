//! Encoders as a user runs them: a folder and texts in, vectors, labels, tags and words out.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use std::path::{Path, PathBuf};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(path)
}

/// A folder with the folder `m` in it: a case of `tests/text/` with its tokenizer.
fn folder(case: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("m");
    let copy = |from: &Path, into: &Path| {
        std::fs::create_dir_all(into).unwrap();
        for file in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
            if file.is_file() {
                std::fs::copy(&file, into.join(file.file_name().unwrap())).unwrap();
            }
        }
    };
    copy(&repository("tokenizers/wordpiece-uncased"), &into);
    copy(&repository(&format!("text/{case}")), &into);
    let pooling = repository(&format!("text/{case}/1_Pooling"));
    if pooling.exists() {
        copy(&pooling, &into.join("1_Pooling"));
    }
    dir
}

/// The last field of a line.
fn last(line: &str) -> &str {
    line.split_whitespace().last().unwrap()
}

#[test]
fn vectors_come_as_a_table_or_whole() {
    let folder = folder("vectors");
    let run = |more: &[&str]| tallow(folder.path(), &[&["run", "m", "--text"], more].concat());
    let text = run(&["the fox", "the dog", "the  fox"]).fine();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4 + 1 + 4, "{text}");
    assert!(lines[0].contains("size") && lines[0].contains("norm") && lines[0].contains("first values"), "{text}");
    assert!(lines[1].contains("the fox") && lines[1].contains("32") && lines[1].contains("1.0000"), "{text}");
    assert!(lines[5].starts_with("cosine"), "{text}");
    assert_eq!((last(lines[6]), last(lines[8])), ("1.0000", "1.0000"), "white space changes nothing: {text}");
    assert_ne!(last(lines[7]), "1.0000", "{text}");
    let widths: Vec<usize> = lines[5..].iter().map(|line| line.chars().count()).collect();
    assert!(widths.windows(2).all(|w| w[0] == w[1]), "columns line up: {text}");

    let json = run(&["the fox", "--json"]).json();
    assert_eq!((json["task"].as_str(), json["results"][0]["text"].as_str()), (Some("embed"), Some("the fox")));
    let vector: Vec<f64> =
        json["results"][0]["embedding"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert_eq!(vector.len(), 32);
    assert!((vector.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-5);
    // A text alone, as a prompt and from stdin.
    for ran in [
        tallow(folder.path(), &["run", "m", "the fox", "--json"]),
        tallow_with(folder.path(), &["run", "m", "--json"], b"the fox\n"),
        tallow_with(folder.path(), &["run", "m", "--text", "-", "--json"], b"the fox\n"),
    ] {
        assert_eq!(ran.json()["results"], json["results"]);
    }
    let two = tallow_with(folder.path(), &["run", "m", "--text", "-", "--json"], b"a dog\nthe fox");
    assert_eq!(two.json()["results"][1], json["results"][0]);
}

#[test]
fn long_texts_are_cut_with_a_warning() {
    let folder = folder("vectors");
    let ran = tallow(folder.path(), &["run", "m", "--text", "a", &"dog ".repeat(30)]);
    assert!(ran.stderr.contains("text 2 is longer than 24 tokens; 8 were left out"), "{}", ran.stderr);
    ran.fine();
}

#[test]
fn labels_tags_and_words_come_with_probabilities() {
    let labels = folder("labels");
    let text = tallow(labels.path(), &["run", "m", "--text", "the fox", "a dog"]).fine();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[4]), (8, "the fox", "a dog"), "{text}");
    let scores: Vec<f64> = lines[1..4].iter().map(|line| last(line).parse().unwrap()).collect();
    assert!((scores.iter().sum::<f64>() - 1.0).abs() < 1e-3 && scores.is_sorted_by(|a, b| a >= b), "{text}");
    for name in ["joy", "anger", "fear"] {
        assert!(text.contains(&format!("  {name} ")), "{text}");
    }
    let pairs = tallow(labels.path(), &["run", "m", "--pairs", "--json", "--text", "the fox\ta dog"]).json();
    let alone = tallow(labels.path(), &["run", "m", "--json", "--text", "the fox a dog"]).json();
    assert_eq!(pairs["tokens"].as_u64().unwrap(), alone["tokens"].as_u64().unwrap() + 1, "one more [SEP]");
    assert!(tallow(labels.path(), &["run", "m", "--pairs", "--text", "the fox"]).fails(2).contains("no two parts"));

    let tags = folder("tags");
    let text = tallow(tags.path(), &["run", "m", "--text", "the fox!"]).fine();
    assert_eq!(text.lines().map(|line| line.split_whitespace().next().unwrap()).collect::<Vec<_>>()[0], "the");
    assert!(text.contains("\n  !"), "{text}");
    let json = tallow(tags.path(), &["run", "m", "--json", "--text", "the fox!"]).json();
    assert_eq!(json["results"][0]["tokens"][0]["token"], "the");

    let masks = folder("masks");
    let text = tallow(masks.path(), &["run", "m", "--text", "the [MASK] and the [MASK]"]).fine();
    assert_eq!(text.lines().count(), 2 * (1 + 5), "{text}");
    assert!(tallow(masks.path(), &["run", "m", "--text", "the"]).fails(2).contains("no `[MASK]`"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = folder("vectors");
    for (arguments, part) in [
        (&["run", "m", "a", "--text", "b"][..], "PROMPT or --text"),
        (&["chat", "m"], "gives vectors of texts"),
        (&["run", "--text", "b"], "takes no whole texts"),
        (&["run", "m", "--pairs", "--text", "a\tb"], "gives no labels of texts"),
        (&["run", "m", "--text", "-", "b"], "give `-` alone"),
    ] {
        let ran = tallow_with(folder.path(), arguments, b"");
        assert!(ran.code == 2 && ran.stderr.contains(part), "{arguments:?}: {} {}", ran.code, ran.stderr);
    }
    assert!(tallow_with(folder.path(), &["run", "m", "--text", "-"], b"").stderr.contains("no text on stdin"));
}

#[test]
fn blank_lines_keep_their_numbers() {
    let vectors = folder("vectors");
    let run = |lines: &[u8], more: &[&str]| {
        tallow_with(vectors.path(), &[&["run", "m", "--text", "-"], more].concat(), lines)
    };
    let json = run(b"the fox\r\n\n  \na dog\n\n", &["--json"]).json();
    let results = json["results"].as_array().unwrap();
    let texts: Vec<&str> = results.iter().map(|r| r["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["the fox", "", "  ", "a dog", ""]);
    // An empty text is the tokens around it.
    assert_eq!(
        (&results[1]["embedding"], &results[2]["embedding"]),
        (&results[4]["embedding"], &results[4]["embedding"])
    );
    assert_eq!(results[1]["embedding"].as_array().unwrap().len(), 32);
    let table = run(b"the fox\n\na dog", &[]).fine();
    assert!(table.lines().nth(3).unwrap().contains("3  a dog"), "{table}");

    let labels = folder("labels");
    let json = tallow_with(labels.path(), &["run", "m", "--text", "-", "--json"], b"\nthe fox\n").json();
    assert_eq!((json["results"][0]["text"].as_str(), json["results"][1]["text"].as_str()), (Some(""), Some("the fox")));
    // A blank text shows its number, a long one is cut.
    let long = "the fox ".repeat(20);
    let shown = tallow_with(labels.path(), &["run", "m", "--text", "-"], format!("\n{long}\n").as_bytes()).fine();
    let heads: Vec<&str> = shown.lines().filter(|line| !line.starts_with("  ")).collect();
    assert_eq!((heads.len(), heads[0], heads[1].chars().count()), (2, "(blank text 1)", 40), "{shown}");
    assert!(heads[1].ends_with('…'), "{shown}");
    let masks = folder("masks");
    tallow_with(masks.path(), &["run", "m", "--text", "-"], b"a [MASK]\n").fine();
    // A line without a mask has an empty result, and that is said.
    let ran = tallow_with(masks.path(), &["run", "m", "--text", "-", "--json"], b"a [MASK]\n\nthe fox\n[MASK]\n");
    for n in [2, 3] {
        assert!(ran.stderr.contains(&format!("text {n} has no `[MASK]` to be filled")), "{}", ran.stderr);
    }
    let json = ran.json();
    let counts: Vec<usize> = (0..4).map(|n| json["results"][n]["masks"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [1, 0, 0, 1]);
    let error = tallow_with(masks.path(), &["run", "m", "--text", "-"], b"a\n\n").fails(2);
    assert!(error.contains("none of the texts has a `[MASK]`"), "{error}");
}

#[test]
fn json_tells_times_and_logits() {
    let labels = folder("labels");
    let json = tallow(labels.path(), &["run", "m", "--json", "--text", "the fox"]).json();
    for key in ["load_seconds", "seconds", "threads", "peak_memory_bytes", "tokens"] {
        assert!(json[key].as_f64().unwrap() > 0.0, "{key}: {json}");
    }
    let of = |key: &str| -> Vec<f64> {
        let labels = json["results"][0]["labels"].as_array().unwrap();
        labels.iter().map(|label| label[key].as_f64().unwrap()).collect()
    };
    let powers: Vec<f64> = of("logit").into_iter().map(f64::exp).collect();
    let sum: f64 = powers.iter().sum();
    assert!(powers.iter().zip(of("score")).all(|(power, score)| (power / sum - score).abs() < 1e-6), "{json}");
}

#[test]
fn one_label_has_the_score_that_its_cross_encoder_gives() {
    let folder = folder("labels-one");
    let config = folder.path().join("m/config.json");
    let settings: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    let run = |more: serde_json::Value| {
        let mut settings = settings.clone();
        more.as_object().unwrap().iter().for_each(|(key, value)| settings[key] = value.clone());
        std::fs::write(&config, settings.to_string()).unwrap();
        let ran = tallow(folder.path(), &["run", "m", "--json", "--pairs", "--text", "the fox\ta dog"]);
        if ran.code != 0 {
            return Err(ran.stderr);
        }
        let label = ran.json()["results"][0]["labels"][0].clone();
        Ok((label["score"].as_f64().unwrap(), label["logit"].as_f64().unwrap()))
    };
    let (score, logit) = run(serde_json::json!({})).unwrap();
    assert!((1.0 / (1.0 + (-logit).exp()) - score).abs() < 1e-6 && score != logit, "{score} {logit}");
    let new = |class: &str| serde_json::json!({"sentence_transformers": {"activation_fn": class, "version": "4.0.1"}});
    let old = |class: &str| serde_json::json!({"sbert_ce_default_activation_function": class});
    assert_eq!(run(new("torch.nn.modules.activation.Sigmoid")).unwrap(), (score, logit));
    // As the pipeline of transformers has it, where one label among itself would always be certain.
    assert_eq!(run(serde_json::json!({"problem_type": "single_label_classification"})).unwrap(), (score, logit));
    for more in [new("torch.nn.modules.linear.Identity"), old("torch.nn.modules.linear.Identity")] {
        assert_eq!(run(more).unwrap(), (logit, logit));
    }
    assert_eq!(run(serde_json::json!({"problem_type": "regression"})).unwrap(), (logit, logit));
    for more in [new("torch.nn.modules.activation.Tanh"), old("mine.Activation")] {
        let error = run(more).unwrap_err();
        assert!(error.contains("activation_fn") && error.contains("only Sigmoid and Identity"), "{error}");
    }
}

#[test]
fn messages_call_a_model_as_the_user_does() {
    let folder = folder("vectors");
    tallow(folder.path(), &["run", "m", "--text", "a"]).fine();
    for (arguments, part) in [
        (&["run", "m", "--pairs", "--text", "a\tb"][..], "error: m: gives no labels of texts"),
        (&["chat", "m"], "error: m: gives vectors of texts"),
        (&["dump", "m", "--graph", "nothing"], "m: has no graph `nothing`"),
    ] {
        let error = tallow(folder.path(), arguments).fails(2);
        assert!(error.contains(part) && !error.contains(".model: "), "{error}");
    }
}

/// A folder with the folder `m` in it: a model with rules for its texts, and a tokenizer as large as its vocabulary.
fn summary() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("m");
    std::fs::create_dir(&into).unwrap();
    for file in ["config.json", "generation_config.json", "model.safetensors"] {
        std::fs::copy(repository("goldens-seq2seq/bart-summary").join(file), into.join(file)).unwrap();
    }
    let tokenizer = std::fs::read(repository("tokenizers/unigram-t5/tokenizer.json")).unwrap();
    let mut tokenizer: serde_json::Value = serde_json::from_slice(&tokenizer).unwrap();
    tokenizer["model"]["vocab"].as_array_mut().unwrap().truncate(96);
    tokenizer["added_tokens"].as_array_mut().unwrap().retain(|token| token["id"].as_u64().unwrap() < 96);
    std::fs::write(into.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    dir
}

#[test]
fn texts_are_searched_for_by_the_rules_of_the_model() {
    let folder = summary();
    let run = |more: &[&str]| tallow(folder.path(), &[&["run", "m", "a fox", "--json"], more].concat()).json();
    let ids = |json: &serde_json::Value| -> Vec<u64> {
        json["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
    };
    let searched = run(&[]);
    assert_eq!(searched["beams"], 3);
    assert!(run(&["--beams", "2"])["beams"] == 2 && searched["text"].is_string());
    for json in [&searched, &run(&["--beams", "1"]), &run(&["--temperature", "0"])] {
        let ids = ids(json);
        // With the token that it begins with, at least 11 and at most 17; the first is forced, and no pair comes twice.
        assert!((10..=16).contains(&ids.len()) && ids[0] == 0, "{ids:?}");
        let pairs: std::collections::HashSet<&[u64]> = ids.windows(2).collect();
        assert_eq!(pairs.len(), ids.len() - 1, "{ids:?}");
    }
    for how in [&["--beams", "1"][..], &[]] {
        let short = ids(&run(&[&["--max-tokens", "4"], how].concat()));
        assert_eq!((short.len(), short[3]), (4, 2), "the last token is forced: {short:?}");
    }
    let plain = tallow(folder.path(), &["run", "m", "a fox"]);
    assert!(plain.stderr.contains("3 beams"), "{}", plain.stderr);
}

#[test]
fn a_text_for_a_search_comes_from_stdin_and_idle_options_are_refused() {
    let folder = summary();
    let given = tallow_with(folder.path(), &["run", "m", "--json"], b"a fox\n").json();
    assert_eq!(given["ids"], tallow(folder.path(), &["run", "m", "a fox", "--json"]).json()["ids"]);
    assert_eq!(given["ids"], tallow_with(folder.path(), &["run", "m", "-", "--json"], b"a fox").json()["ids"]);
    let refused = |more: &[&str]| tallow(folder.path(), &[&["run", "m", "a fox"], more].concat()).fails(2);
    assert!(refused(&["--beams", "1000000000"]).contains("1 to 256 beams"));
    assert!(refused(&["--beams", "0"]).contains("0 beams"));
    assert!(refused(&["--beams", "4", "--temperature", "0.5"]).contains("takes no samples"));
    // Keys that published files have, though nothing reads them.
    let config = folder.path().join("m/config.json");
    let mut settings: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    for key in ["num_hidden_layers", "_num_labels", "save_step", "n_positions"] {
        settings[key] = 3.into();
    }
    for key in ["normalize_embedding", "output_past", "extra_pos_embeddings", "static_position_embeddings"] {
        settings[key] = true.into();
    }
    std::fs::write(&config, settings.to_string()).unwrap();
    assert_eq!(given["ids"], tallow(folder.path(), &["run", "m", "a fox", "--json"]).json()["ids"]);
    settings["forced_bos_token_id"] = 4096.into();
    std::fs::write(&config, settings.to_string()).unwrap();
    std::fs::remove_file(folder.path().join("m/generation_config.json")).unwrap();
    let error = tallow(folder.path(), &["import", "m", "-o", "m.model"]).fails(3);
    assert!(error.contains("forced_bos_token_id") && error.contains("0 to 95"), "{error}");
    settings["forced_bos_token_id"] = 0.into();
    settings["layer_norm_eps"] = 2.into();
    std::fs::write(&config, settings.to_string()).unwrap();
    let error = tallow(folder.path(), &["import", "m", "-o", "m.model"]).fails(4);
    assert!(error.contains("layer_norm_eps") && error.contains("config.json"), "{error}");
}

#[test]
fn options_without_effect_on_vectors_are_refused() {
    let folder = folder("vectors");
    tallow(folder.path(), &["run", "m", "--text", "the fox"]).fine();
    for (option, value) in [("--beams", "2"), ("--temperature", "1"), ("--max-tokens", "3")] {
        let error = tallow(folder.path(), &["run", "m", "--text", "the fox", option, value]).fails(2);
        assert!(error.contains("has no effect beside texts") && error.contains(option), "{error}");
    }
}

#[test]
fn where_no_length_fits_the_longest_is_measured() {
    let folder = folder("vectors");
    let run =
        |command: &str, more: &[&str]| tallow(folder.path(), &[&[command, "m", "--context", "20"], more].concat());
    let text = run("bench", &["--repetitions", "1"]).fine();
    assert!(text.contains("texts of 20, "), "{text}");
    assert!(text.contains("texts of 32: the model takes 20 tokens at most, which are measured instead"), "{text}");
    let text = run("bench", &["--repetitions", "1", "--length", "8,32"]).fine();
    assert!(text.contains("texts of 8, ") && !text.contains("texts of 20"), "{text}");
    let json = run("profile", &["--json"]).json();
    assert!(json["phases"][0]["input"].as_str().unwrap().starts_with("texts of 20, "), "{json}");
    assert!(run("profile", &["--tokens", "32"]).fails(2).contains("ask for fewer (--tokens)"));
}
