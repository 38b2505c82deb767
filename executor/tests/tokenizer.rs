//! The tokenizer against the `tokenizers` library, on texts chosen to be awkward.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tallow_executor::stream::TextStream;
use tallow_executor::tokenizer::{EncodeOptions, SpecialIds, Tokenizer, TokenizerError};
use tallow_format::{AddedToken, TokenizerConfig, TokenizerKind, Vocab};

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: true };

/// A byte-level tokenizer with 881 tokens and three special ones.
fn storyteller() -> Json {
    serde_json::from_str(include_str!("data/storyteller-tokenizer.json")).unwrap()
}

/// The vocabulary of a `tokenizer.json`.
fn vocab_of(file: &Json) -> Vocab {
    let mut tokens: Vec<Option<String>> = Vec::new();
    let mut put = |id: usize, text: &str| {
        if tokens.len() <= id {
            tokens.resize(id + 1, None);
        }
        tokens[id] = Some(text.to_owned());
    };
    for (text, id) in file["model"]["vocab"].as_object().unwrap() {
        put(id.as_u64().unwrap() as usize, text);
    }
    let added: Vec<AddedToken> = file["added_tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| AddedToken {
            id: token["id"].as_u64().unwrap() as u32,
            text: token["content"].as_str().unwrap().to_owned(),
            special: token["special"] == true,
            lstrip: token["lstrip"] == true,
            rstrip: token["rstrip"] == true,
            normalized: token["normalized"] == true,
        })
        .collect();
    for token in &added {
        put(token.id as usize, &token.text);
    }
    let merges = file["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|pair| match pair {
        Json::String(pair) => pair.split_once(' ').unwrap(),
        pair => (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
    });
    Vocab { tokens, merges: merges.collect(), added, ..Vocab::default() }
}

fn theirs(file: &Json) -> tokenizers::Tokenizer {
    tokenizers::Tokenizer::from_bytes(file.to_string()).unwrap()
}

fn byte_level(pre: &str) -> TokenizerConfig {
    TokenizerConfig { kind: Some(TokenizerKind::ByteLevelBpe), pre: Some(pre.to_owned()), ..TokenizerConfig::default() }
}

/// Texts that break tokenizers: every kind of space, script, joiner, control and markup, alone and in pairs.
fn awkward() -> Vec<String> {
    let atoms = [
        "",
        " ",
        "  ",
        "   ",
        "\t",
        "\n",
        "\r\n",
        "\n\n\n",
        " \n \n",
        "\u{a0}",
        "\u{3000}",
        "\u{200b}",
        "a",
        "Hello",
        " world",
        "It's",
        "we'LL",
        "o'ſ",
        "DON'T",
        "camelCaseHTTPServer",
        "snake_case",
        "12345678",
        "3.14",
        "٣٤",
        "Ⅷ½",
        "naïve",
        "e\u{301}te\u{301}",
        "\u{301}x",
        "ǅungla",
        "Straße",
        "日本語のテキスト",
        "한국어",
        "\u{1112}\u{1161}\u{11ab}",
        "нет",
        "שָׁלוֹם",
        "ไทย",
        "हिन्दी",
        "😀",
        "👩‍👩‍👧‍👦",
        "🇫🇷",
        "\u{0}",
        "\u{7f}\u{85}",
        "\u{fffd}",
        "\u{10ffff}",
        "<|im_start|>",
        "<|im_end|>",
        "<|im_end",
        "<|endoftext|>x",
        "x<|im_start|>user\n",
        "  <|im_end|>  ",
        "<|im_end|><|im_end|>",
        "!?...",
        "--->",
        "http://a.b/c?d=e&f",
        "//\n/",
        "`code` $x^2$",
        "\"quoted\"",
        "Once upon a time, there was a little girl named Lily.",
        "▁▁ ▁a",
        "<0x0A>",
        "ĠtheĊ",
    ];
    let mut texts: Vec<String> = atoms.iter().map(|atom| (*atom).to_owned()).collect();
    for (i, first) in atoms.iter().enumerate() {
        for step in [1, 7, 19] {
            texts.push(format!("{first}{}", atoms[(i + step) % atoms.len()]));
        }
        texts.push(format!(" {first} {first}\n"));
    }
    texts.push("supercalifragilistic".repeat(40));
    texts.push("ab".repeat(3000));
    texts.push(" ".repeat(1000));
    texts
}

/// Encodes and decodes every awkward text both ways.
fn assert_same(file: &Json, config: &TokenizerConfig) {
    let theirs = theirs(file);
    let ours = Tokenizer::new(&vocab_of(file), config).unwrap();
    for text in awkward() {
        let expected = theirs.encode(text.as_str(), false).unwrap();
        let ids = ours.encode(&text, PLAIN).unwrap();
        assert_eq!(ids, expected.get_ids(), "{text:?} is {:?}", expected.get_tokens());
        for skip in [true, false] {
            assert_eq!(ours.decode(&ids, skip), theirs.decode(&ids, skip).unwrap(), "{text:?}");
        }
    }
}

#[test]
fn storyteller_agrees() {
    assert_same(&storyteller(), &byte_level("qwen2"));
}

#[test]
fn the_pattern_of_a_file_agrees_with_its_name() {
    let file = storyteller();
    let pattern = &file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
    let config = TokenizerConfig { pattern: Some(pattern.as_str().unwrap().to_owned()), pre: None, ..byte_level("") };
    assert_same(&file, &config);
}

#[test]
fn other_pre_tokenisers_agree() {
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let bytes = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
    let digits = |individual: bool| json!({"type": "Digits", "individual_digits": individual});
    let llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let cases = [
        ("gpt2", vec![bytes(true)], false),
        ("smollm", vec![digits(true), bytes(true)], false),
        ("llama3", vec![split(llama3), bytes(false)], true),
    ];
    for (name, stages, ignore_merges) in cases {
        let mut file = storyteller();
        file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": stages});
        file["model"]["ignore_merges"] = json!(ignore_merges);
        // A word that its merges would not make.
        file["model"]["vocab"]["Hello"] = json!(881);
        for (id, token) in (882..).zip(file["added_tokens"].as_array_mut().unwrap()) {
            token["id"] = json!(id);
        }
        assert_same(&file, &byte_level(name));
    }
}

#[test]
fn normalisation_and_prefix_space_agree() {
    let mut file = storyteller();
    file["normalizer"] = json!({"type": "NFC"});
    file["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = json!(false);
    let config = TokenizerConfig { normalizer: Some("nfc".to_owned()), ..byte_level("qwen2") };
    assert_same(&file, &config);

    let mut file = storyteller();
    file["pre_tokenizer"] =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let config = TokenizerConfig { add_prefix_space: Some(true), ..byte_level("gpt2") };
    assert_same(&file, &config);
}

#[test]
fn added_tokens_of_every_kind_agree() {
    let mut file = storyteller();
    file["normalizer"] = json!({"type": "NFC"});
    let added = file["added_tokens"].as_array_mut().unwrap();
    let mut add = |id: u32, text: &str, special: bool, strip: (bool, bool), normalized: bool| {
        added.push(json!({"id": id, "content": text, "single_word": false, "lstrip": strip.0,
            "rstrip": strip.1, "normalized": normalized, "special": special}));
    };
    add(884, "<mask>", true, (true, false), false);
    add(885, "world", false, (false, true), false);
    // Found in the decomposed spelling too. (Letters of Latin-1 would not do: the library decodes them as bytes.)
    add(886, "한", false, (false, false), true);
    add(887, "   ", false, (false, false), false);
    add(888, "日本", false, (false, false), false);
    add(889, "日本語", false, (true, true), true);
    let config = TokenizerConfig { normalizer: Some("nfc".to_owned()), ..byte_level("qwen2") };
    assert_same(&file, &config);
    let (theirs, ours) = (theirs(&file), Tokenizer::new(&vocab_of(&file), &config).unwrap());
    for text in
        ["a  <mask> b", "<mask><mask>", "world  world\n<mask>", "한국 \u{1112}\u{1161}\u{11ab}", " 日本語  日本x"]
    {
        let expected = theirs.encode(text, false).unwrap();
        assert_eq!(ours.encode(text, PLAIN).unwrap(), expected.get_ids(), "{text:?}");
    }
    assert!(ours.is_special(884) && !ours.is_special(885));
}

#[test]
fn special_tokens_are_plain_text_when_not_asked_for() {
    let file = storyteller();
    let ours = Tokenizer::new(&vocab_of(&file), &byte_level("qwen2")).unwrap();
    let mut theirs = theirs(&file);
    theirs.set_encode_special_tokens(true);
    for text in ["<|im_end|>", "a<|im_start|>b", "<|im_end|"] {
        let options = EncodeOptions { add_special: false, parse_special: false };
        let ids = ours.encode(text, options).unwrap();
        assert_eq!(ids, theirs.encode(text, false).unwrap().get_ids());
        assert!(ids.iter().all(|&id| !ours.is_special(id)));
        assert_eq!(ours.decode(&ids, true), text);
    }
}

/// A small SentencePiece-type vocabulary: marks, byte tokens, characters, and merges.
fn sentencepiece(byte_fallback: bool, prefix: bool) -> Json {
    let mut vocab = serde_json::Map::new();
    let mut merges = Vec::new();
    let mut put = |text: &str| {
        let next = vocab.len();
        vocab.entry(text).or_insert(json!(next));
    };
    for mark in ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "\n\n"] {
        put(mark);
    }
    if byte_fallback {
        (0..256).for_each(|byte| put(&format!("<0x{byte:02X}>")));
    }
    "▁abcdefghilmnoprstuvwyzHIT.,'\né日本".chars().for_each(|c| put(&c.to_string()));
    for (left, right) in [
        ("▁", "▁"),
        ("▁", "t"),
        ("h", "e"),
        ("▁t", "he"),
        ("i", "n"),
        ("▁▁", "▁▁"),
        ("l", "l"),
        ("o", "r"),
        ("▁", "a"),
        ("e", "r"),
        ("H", "e"),
        ("He", "ll"),
        ("\n", "\n"),
        ("日", "本"),
        ("▁", "w"),
        ("▁w", "or"),
        ("▁wor", "l"),
        ("▁worl", "d"),
        ("Hell", "o"),
        ("▁", "Hello"),
        ("a", "b"),
        ("ab", "ab"),
        ("abab", "abab"),
    ] {
        put(&format!("{left}{right}"));
        merges.push(json!([left, right]));
    }
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    let normalizer = match prefix {
        true => json!({"type": "Sequence", "normalizers": [prepend, replace]}),
        false => replace,
    };
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let added: Vec<Json> = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "\n\n"]
        .iter()
        .enumerate()
        .map(|(id, text)| {
            json!({"id": id, "content": text, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": *text != "\n\n"})
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": byte_fallback, "ignore_merges": false,
            "vocab": vocab, "merges": merges},
    })
}

fn sentencepiece_config(prefix: bool) -> TokenizerConfig {
    TokenizerConfig {
        kind: Some(TokenizerKind::SentencePieceBpe),
        add_prefix_space: Some(prefix),
        ..TokenizerConfig::default()
    }
}

#[test]
fn sentencepiece_agrees() {
    for byte_fallback in [true, false] {
        for prefix in [true, false] {
            let file = sentencepiece(byte_fallback, prefix);
            assert_same(&file, &sentencepiece_config(prefix));
        }
    }
    let file = sentencepiece(true, false);
    let ours = Tokenizer::new(&vocab_of(&file), &sentencepiece_config(false)).unwrap();
    let theirs = theirs(&file);
    for text in
        ["Hello world the  then", "<bos>Hello<eos> world", "<start_of_turn>\n\nthe\n", "ababababababab", "日本x😀"]
    {
        let ids = ours.encode(text, PLAIN).unwrap();
        assert_eq!(ids, theirs.encode(text, false).unwrap().get_ids(), "{text:?}");
        assert_eq!(ours.decode(&ids, false), text);
    }
}

#[test]
fn the_kind_is_told_from_the_vocabulary() {
    let file = sentencepiece(true, false);
    let config = TokenizerConfig { kind: Some(TokenizerKind::Bpe), ..sentencepiece_config(false) };
    assert_same(&file, &config);
    let config = TokenizerConfig { kind: None, ..byte_level("qwen2") };
    assert_same(&storyteller(), &config);
}

#[test]
fn begin_and_end_tokens_are_added_as_configured() {
    let vocab = vocab_of(&sentencepiece(true, true));
    let config = TokenizerConfig {
        add_bos: Some(true),
        add_eos: Some(true),
        bos_token: Some("<bos>".to_owned()),
        ..sentencepiece_config(true)
    };
    assert_eq!(Tokenizer::new(&vocab, &config).unwrap_err(), TokenizerError::NoSpecialId { which: "eos" });
    let ids = SpecialIds { bos: None, eos: Some(1) };
    let ours = Tokenizer::with_ids(&vocab, &config, ids).unwrap();
    let the = ours.id_of("▁the").unwrap();
    assert_eq!(ours.encode("the", EncodeOptions::default()), Ok(vec![2, the, 1]));
    assert_eq!(ours.encode("the", PLAIN), Ok(vec![the]));
    assert_eq!(ours.decode(&[2, the, 1], true), "the");
    assert_eq!((ours.bos(), ours.eos()), (Some(2), Some(1)));
    let ids = SpecialIds { bos: Some(90_000), eos: Some(1) };
    assert!(matches!(Tokenizer::with_ids(&vocab, &config, ids), Err(TokenizerError::SpecialId { id: 90_000, .. })));
}

#[test]
fn markup_is_special_even_when_it_is_not_declared() {
    let mut vocab = vocab_of(&storyteller());
    vocab.added.clear();
    let ours = Tokenizer::new(&vocab, &byte_level("qwen2")).unwrap();
    assert_eq!(ours.encode("<|im_end|>", PLAIN), Ok(vec![883]));
    assert!(ours.is_special(883));
}

#[test]
fn padded_rows_are_no_tokens() {
    let mut vocab = vocab_of(&storyteller());
    vocab.tokens.resize(1024, None);
    let ours = Tokenizer::new(&vocab, &byte_level("qwen2")).unwrap();
    assert!(ours.has_token(883) && !ours.has_token(884) && !ours.has_token(5000));
    assert_eq!(ours.token_text(884), None);
    assert_eq!(ours.decode(&[884, 5000], false), "");
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let vocab = vocab_of(&storyteller());
    let refusal = |config: TokenizerConfig| {
        let error = Tokenizer::new(&vocab, &config).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        error.to_string()
    };
    assert!(refusal(byte_level("klingon")).contains("klingon"));
    let normalizer = Some("stemming".to_owned());
    assert!(refusal(TokenizerConfig { normalizer, ..byte_level("qwen2") }).contains("stemming"));
    let prefix_space = Some("last".to_owned());
    let config = TokenizerConfig { prefix_space, add_prefix_space: Some(true), ..byte_level("qwen2") };
    assert!(refusal(config).contains("last"));
    let nothing = Tokenizer::new(&Vocab::default(), &byte_level("qwen2"));
    assert_eq!(nothing.unwrap_err(), TokenizerError::NoVocabulary);
}

#[test]
fn hostile_vocabularies_are_errors() {
    let added = |id: u32, text: &str| Vocab {
        tokens: vec![Some("a".to_owned())],
        added: vec![AddedToken { id, text: text.to_owned(), ..AddedToken::default() }],
        ..Vocab::default()
    };
    let refusal = |vocab: &Vocab| Tokenizer::new(vocab, &byte_level("gpt2")).unwrap_err();
    assert!(matches!(refusal(&added(u32::MAX, "x")), TokenizerError::IdTooLarge { .. }));
    assert!(matches!(refusal(&added(1, &"x".repeat(5000))), TokenizerError::TooLong { .. }));
    let mut vocab = added(1, "x");
    vocab.merges = [("a", "a"), ("b", "a")].into_iter().collect();
    let broken = Tokenizer::new(&vocab, &byte_level("gpt2")).unwrap();
    assert_eq!(broken.encode("a", PLAIN), Ok(vec![0]));
    assert!(matches!(broken.encode("aa", PLAIN), Err(TokenizerError::MergeToken { rank: 0, .. })));
    let few = Tokenizer::new(&added(1, "x"), &byte_level("gpt2")).unwrap();
    assert!(matches!(few.encode("b", PLAIN), Err(TokenizerError::Unencodable { .. })));
}

#[test]
fn long_texts_take_little_time() {
    let bytes = Tokenizer::new(&vocab_of(&storyteller()), &byte_level("qwen2")).unwrap();
    let pieces = Tokenizer::new(&vocab_of(&sentencepiece(true, true)), &sentencepiece_config(true)).unwrap();
    for unit in ["a", " ", "ab ", "<", "\u{301}", "<|im_end|>", "ab"] {
        let text = unit.repeat((1 << 20) / unit.len());
        for tokenizer in [&bytes, &pieces] {
            let ids = tokenizer.encode(&text, PLAIN).unwrap();
            assert_eq!(tokenizer.decode(&ids, false), text, "{unit:?}");
        }
    }
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32], skip: bool) -> String {
    let mut stream = TextStream::from_start(skip);
    let mut text: String = ids.iter().map(|&id| stream.push(tokenizer, id)).collect();
    text += &stream.finish();
    text
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(text in any::<String>(), spaced in "[ \\t\\na-c'é日😀▁<>|]{0,40}") {
        let bytes = Tokenizer::new(&vocab_of(&storyteller()), &byte_level("qwen2")).unwrap();
        let pieces = Tokenizer::new(&vocab_of(&sentencepiece(true, false)), &sentencepiece_config(false)).unwrap();
        for text in [&text, &spaced] {
            let ids = bytes.encode(text, PLAIN).unwrap();
            prop_assert_eq!(&bytes.decode(&ids, false), text);
            prop_assert_eq!(&streamed(&bytes, &ids, false), text);
            if !text.contains('▁') {
                let ids = pieces.encode(text, PLAIN).unwrap();
                prop_assert_eq!(&pieces.decode(&ids, false), text);
                prop_assert_eq!(&streamed(&pieces, &ids, false), text);
            }
        }
    }

    #[test]
    fn streams_of_any_ids_join_to_the_decoded_text(ids in prop::collection::vec(0_u32..900, 0..60), skip: bool) {
        let bytes = Tokenizer::new(&vocab_of(&storyteller()), &byte_level("qwen2")).unwrap();
        prop_assert_eq!(streamed(&bytes, &ids, skip), bytes.decode(&ids, skip));
        let pieces = Tokenizer::new(&vocab_of(&sentencepiece(true, true)), &sentencepiece_config(true)).unwrap();
        prop_assert_eq!(streamed(&pieces, &ids, skip), pieces.decode(&ids, skip));
    }
}

/// A vocabulary of these tokens, the first of which is special.
fn pieces(tokens: &[&str], scores: Option<&[i64]>) -> Vocab {
    Vocab {
        tokens: tokens.iter().map(|text| Some((*text).to_owned())).collect(),
        added: vec![AddedToken { text: tokens[0].to_owned(), special: true, ..AddedToken::default() }],
        scores: scores.map(<[i64]>::to_vec),
        ..Vocab::default()
    }
}

fn of_kind(kind: TokenizerKind) -> TokenizerConfig {
    TokenizerConfig { kind: Some(kind), ..TokenizerConfig::default() }
}

#[test]
fn word_piece_takes_the_longest_match() {
    let vocab = pieces(&["[UNK]", "un", "##able", "##a", "able", "!"], None);
    let config = TokenizerConfig { max_word_chars: Some(8), ..of_kind(TokenizerKind::WordPiece) };
    let ours = Tokenizer::new(&vocab, &config).unwrap();
    assert_eq!(ours.encode("unable able! una unb", PLAIN), Ok(vec![1, 2, 4, 5, 1, 3, 0]));
    assert_eq!(ours.encode("unableaa unableaaa", PLAIN), Ok(vec![1, 2, 3, 3, 0]), "a word of nine characters");
    assert_eq!(ours.decode(&[1, 2, 5, 4], false), "unable ! able");
    let tidy = Tokenizer::new(&vocab, &TokenizerConfig { cleanup: Some(true), ..config.clone() }).unwrap();
    assert_eq!(tidy.decode(&[1, 2, 5, 4], false), "unable! able");
    let prefix = TokenizerConfig { subword_prefix: Some("@@".to_owned()), ..config };
    assert_eq!(Tokenizer::new(&vocab, &prefix).unwrap().encode("unable", PLAIN), Ok(vec![0]));
    assert_eq!(streamed(&ours, &[1, 2, 5, 4], false), "unable ! able");
}

#[test]
fn unigram_takes_the_likeliest_tokens() {
    let tokens = ["<unk>", "▁", "a", "b", "ab", "▁ab", "<0x61>", ""];
    let scores = [0, -3, -3, -3, -5, -10, 0, 9].map(|s| s << 16);
    let config = of_kind(TokenizerKind::Unigram);
    let ours = Tokenizer::new(&pieces(&tokens, Some(&scores)), &config).unwrap();
    assert_eq!(ours.encode("ab", PLAIN), Ok(vec![1, 4]), "8 is less than 9 and 10");
    assert_eq!(ours.encode("abcd", PLAIN), Ok(vec![1, 4, 0]), "unknown ones become one");
    let fine = TokenizerConfig { score_scale: Some(1 << 17), ..config.clone() };
    assert_eq!(Tokenizer::new(&pieces(&tokens, Some(&scores)), &fine).unwrap().encode("ab", PLAIN), Ok(vec![1, 4]));
    assert_eq!(ours.decode(&[1, 4, 5], false), "ab ab");
    let bare = EncodeOptions { add_special: false, parse_special: false };
    assert_eq!(ours.encode("<unk>", PLAIN), Ok(vec![0]));
    assert_eq!(ours.encode("<unk>", bare), Ok(vec![1, 0]), "its text is the unknown token, after a space");
    let no_prefix = TokenizerConfig { add_prefix_space: Some(false), ..config };
    assert_eq!(Tokenizer::new(&pieces(&tokens, Some(&scores)), &no_prefix).unwrap().encode("ab", PLAIN), Ok(vec![4]));
}

#[test]
fn pieces_that_lack_something_are_errors() {
    let unigram = of_kind(TokenizerKind::Unigram);
    let error = |vocab: &Vocab, config: &TokenizerConfig| Tokenizer::new(vocab, config).unwrap_err();
    assert_eq!(error(&pieces(&["<unk>", "a"], None), &unigram), TokenizerError::NoScores);
    let text = error(&pieces(&["<s>", "a"], Some(&[0, 0])), &unigram).to_string();
    assert!(text.contains("no token \"<unk>\""), "{text}");
    let text = error(&pieces(&["<unk>", "a"], None), &of_kind(TokenizerKind::WordPiece)).to_string();
    assert!(text.contains("no token \"[UNK]\""), "{text}");
    let wild = TokenizerConfig { pre: Some("gpt2".to_owned()), ..unigram };
    assert!(error(&pieces(&["<unk>"], Some(&[0])), &wild).is_unsupported());
    let template = TokenizerConfig { template: Some(vec!["[CLS]".to_owned()]), ..of_kind(TokenizerKind::WordPiece) };
    assert!(error(&pieces(&["[UNK]"], None), &template).to_string().contains("template has \"[CLS]\""));
}
