//! Encoder-decoders: what settings do to the graphs, and what is refused.

use crate::tiny::ops;
use indexmap::IndexMap;
use tallow_format::Config;
use tallow_frontends::families::{self, Family, FamilyError};
use tallow_frontends::program::module::Start;
use tallow_frontends::program::rules::{BeamOptions, EarlyStopping, Rules};
use tallow_ir::Op;

fn config(model_type: &str, settings: &str) -> Config {
    Config::parse(&format!("model_type = \"{model_type}\"\n[architecture]\n{settings}")).unwrap()
}

/// Every tensor that a config asks for, and some more.
fn shapes(config: &Config, more: &[&str]) -> IndexMap<String, Vec<u64>> {
    let mut found: IndexMap<String, Vec<u64>> = IndexMap::new();
    if let Err(FamilyError::Tensors(faults)) = families::build(config, &found) {
        found.extend(faults.missing);
    }
    found.extend(more.iter().map(|name| ((*name).to_owned(), vec![2, 2])));
    found
}

fn built(config: &Config) -> Family {
    families::build(config, &shapes(config, &[])).unwrap()
}

fn refused(model_type: &str, settings: &str) -> String {
    let config = config(model_type, settings);
    families::build(&config, &shapes(&config, &[])).unwrap_err().to_string()
}

fn count(family: &Family, of: impl Fn(&Op) -> bool) -> usize {
    ops(&family.graph).into_iter().filter(|op| of(op)).count()
}

const T5: &str =
    "d_model = 8\nd_kv = 4\nd_ff = 12\nnum_layers = 1\nnum_heads = 2\nvocab_size = 10\ndecoder_start_token_id = 0\n";
const BART: &str = "d_model = 8\nencoder_layers = 1\ndecoder_layers = 2\nencoder_attention_heads = 2\ndecoder_attention_heads = 2\nencoder_ffn_dim = 12\ndecoder_ffn_dim = 12\nvocab_size = 10\nmax_position_embeddings = 6\n";

#[test]
fn t5_has_two_graphs_that_share_keys_and_values() {
    let family = built(&config("t5", &format!("{T5}num_decoder_layers = 2")));
    let once = family.once.as_ref().unwrap();
    let given: Vec<&str> = once.outputs().map(|(name, _)| name).collect();
    assert_eq!(given, ["cross_k.0", "cross_v.0", "cross_k.1", "cross_v.1"]);
    let takes: Vec<&str> = family.graph.inputs().map(|(name, _)| name).collect();
    assert!(given.iter().all(|name| takes.contains(name)) && takes.contains(&"input_ids"), "{takes:?}");
    assert_eq!(family.driver.unwrap().start, Start::Ids(vec![0]));
    assert!(family.unread_tensors.is_empty());
}

#[test]
fn t5_scales_before_a_tied_head_alone() {
    let scales = |settings: &str| {
        count(&built(&config("t5", &format!("{T5}{settings}"))), |op| matches!(op, Op::MulScalar { .. }))
    };
    assert_eq!(scales(""), 1);
    assert_eq!(scales("tie_word_embeddings = false"), 0);
    assert_eq!(scales("tie_word_embeddings = true\nscale_decoder_outputs = false"), 0);
    let mt5 = built(&config("mt5", T5));
    assert_eq!(count(&mt5, |op| matches!(op, Op::MulScalar { .. })), 0);
    // Gated by default, with the tanh form of gelu.
    assert_eq!(count(&mt5, |op| *op == Op::Gelu { approximate: true }), 1);
}

#[test]
fn tensors_that_say_nothing_are_passed_over_and_others_are_told() {
    let config = config("t5", T5);
    let copy = "decoder.embed_tokens.weight";
    let family = families::build(&config, &shapes(&config, &[copy, "decoder.extra"])).unwrap();
    assert_eq!(family.unread_tensors, ["decoder.extra"]);
    let missing = families::build(&config, &IndexMap::<String, Vec<u64>>::new()).unwrap_err().to_string();
    assert!(missing.contains("shared.weight") && missing.contains("SelfAttention.q"), "{missing}");
}

#[test]
fn bart_begins_with_the_tokens_that_are_forced() {
    let start = |settings: &str| built(&config("bart", &format!("{BART}{settings}"))).driver.unwrap().start;
    assert_eq!(start(""), Start::Ids(vec![2]));
    assert_eq!(start("decoder_start_token_id = 5\nforced_bos_token_id = 0"), Start::Ids(vec![5]));
    let driver = |settings: &str| built(&config("bart", &format!("{BART}{settings}"))).driver.unwrap();
    let plain = driver("");
    assert_eq!((plain.rules, plain.beams, plain.length, plain.total), (Rules::default(), None, None, Some(6)));
    let ruled = driver(
        "forced_bos_token_id = 0\nforced_eos_token_id = 2\nno_repeat_ngram_size = 3\nmin_length = 4\nmax_length = 5\nbad_words_ids = [[7], [8, 9]]\nnum_beams = 2\nlength_penalty = 0.5\nearly_stopping = true\nsuppress_tokens = [3]\n",
    );
    let rules = Rules {
        first: Some(0),
        last: Some(2),
        no_repeat: 3,
        least: 4,
        banned: vec![vec![7], vec![8, 9]],
        suppress: vec![3],
        ..Rules::default()
    };
    assert_eq!((ruled.rules, ruled.length), (rules, Some(5)));
    let early = |settings: &str| driver(&format!("num_beams = 2\n{settings}")).beams.unwrap().early_stopping;
    assert_eq!(ruled.beams, Some(BeamOptions { beams: 2, length_penalty: 0.5, early_stopping: EarlyStopping::Full }));
    assert_eq!(early(""), EarlyStopping::Likely);
    assert_eq!(early("early_stopping = \"never\""), EarlyStopping::Never);
    let positions = |t: &str, settings: &str| {
        let config = config(t, &format!("{BART}{settings}"));
        let found = shapes(&config, &[]);
        found.keys().filter(|name| name.contains("embed_positions")).count()
    };
    assert_eq!((positions("bart", ""), positions("marian", ""), positions("m2m_100", "")), (2, 0, 0));
}

#[test]
fn what_is_wrong_or_not_read_is_named() {
    for (model_type, settings, parts) in [
        ("t5", T5.replace("decoder_start_token_id = 0\n", ""), ["decoder_start_token_id", "nothing"]),
        ("t5", format!("{T5}feed_forward_proj = \"gated-foo\""), ["feed_forward_proj", "gated-foo"]),
        ("t5", format!("{T5}relative_attention_max_distance = 8"), ["relative_attention_num_buckets", "max_distance"]),
        ("t5", format!("{T5}position_skew = 3"), ["position_skew", "t5"]),
        (
            "bart",
            BART.replace("decoder_attention_heads = 2", "decoder_attention_heads = 3"),
            ["decoder_attention_heads", "d_model"],
        ),
        ("bart", format!("{BART}activation_function = \"mish\""), ["activation_function", "mish"]),
        ("mbart", BART.to_owned(), ["decoder_start_token_id", "nothing"]),
        ("marian", format!("{BART}share_encoder_decoder_embeddings = false"), ["share_encoder_decoder", "not built"]),
        ("m2m_100", BART.replace("d_model = 8", "d_model = 7").replace("heads = 2", "heads = 1"), ["d_model", "even"]),
        ("bart", format!("{BART}early_stopping = \"soon\""), ["early_stopping", "soon"]),
        ("bart", format!("{BART}early_stopping = 3"), ["early_stopping", "3"]),
        ("bart", format!("{BART}num_beams = 1000"), ["num_beams", "256"]),
        ("bart", format!("{BART}bad_words_ids = [3]"), ["bad_words_ids", "lists of integers"]),
        ("bart", format!("{BART}decoder_start_token_id = -1"), ["decoder_start_token_id", "-1"]),
    ] {
        let error = refused(model_type, &settings);
        assert!(parts.iter().all(|part| error.contains(part)), "{model_type} {parts:?}: {error}");
    }
}

const WHISPER: &str = "d_model = 8\nencoder_layers = 1\ndecoder_layers = 1\nencoder_attention_heads = 2\ndecoder_attention_heads = 2\nencoder_ffn_dim = 12\ndecoder_ffn_dim = 12\nvocab_size = 40\nnum_mel_bins = 4\nmax_source_positions = 6\nmax_target_positions = 7\ndecoder_start_token_id = 31\neos_token_id = 30\n";

#[test]
fn whisper_tells_how_it_hears() {
    let settings = "forced_decoder_ids = [[1, -1], [2, 35]]\nis_multilingual = true\nno_timestamps_token_id = 37\nmax_initial_timestamp_index = 1\ntask = \"transcribe\"\n[architecture.lang_to_id]\n\"<|en|>\" = 32\n\"<|de|>\" = 33\n[architecture.task_to_id]\ntranscribe = 35\n";
    let family = built(&config("whisper", &format!("{WHISPER}{settings}")));
    let once = family.once.as_ref().unwrap();
    assert_eq!(once.inputs().map(|(name, _)| name).collect::<Vec<_>>(), ["input_features"]);
    let speech = family.speech.unwrap();
    assert_eq!((speech.mels, speech.frames, speech.start, speech.end), (4, 12, 31, 30));
    assert_eq!(speech.forced, [None, Some(35)]);
    assert_eq!(speech.languages, [("<|en|>".to_owned(), 32), ("<|de|>".to_owned(), 33)]);
    assert_eq!((speech.first_timestamp(), speech.latest_start), (Some(38), Some(1)));
    assert_eq!(
        (speech.task.as_deref(), speech.language.as_ref(), speech.multilingual),
        (Some("transcribe"), None, true)
    );
    assert!(speech.front_end().unwrap().output_named("input_features").is_some());
    // A language that is to be found out is no token.
    let driver = family.driver.unwrap();
    assert_eq!((driver.start, driver.total), (Start::Ids(vec![31, 35]), Some(7)));
    for (settings, part) in [
        ("condition_on_prev_tokens = true", "condition_on_prev_tokens"),
        ("no_speech_threshold = 0.6", "no_speech_threshold"),
        ("forced_decoder_ids = [[1, 3], [3, 4]]", "position 2 is the next"),
        ("forced_decoder_ids = [[1, -2]]", "-2"),
        ("forced_decoder_ids = [[1]]", "pairs"),
        ("max_source_positions_x = 3", "max_source_positions_x"),
    ] {
        let error = refused("whisper", &format!("{WHISPER}{settings}"));
        assert!(error.contains(part), "{settings}: {error}");
    }
}
