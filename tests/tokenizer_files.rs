//! Tokenizers from other files than `tokenizer.json`: SentencePiece models, `vocab.json` with `merges.txt`, against what
//! `transformers` makes of them (`expected.json`); and such files that are damaged.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

mod common;

use common::folder;
use common::tokenizers::{ids, of_model};
use serde_json::Value as Json;
use std::path::PathBuf;
use tallow::executor::stream::TextStream;
use tallow::executor::tokenizer::{EncodeOptions, Tokenizer};
use tallow::import::tokenizer::json::read;

const CASES: [&str; 24] = [
    "bart-merges",
    "clip-merges",
    "deberta-v2-spm",
    "electra-words",
    "gemma-spm",
    "gpt2-merges",
    "gpt_neox-merges",
    "llama-legacy-spm",
    "llama-spm",
    "m2m_100",
    "m2m_100-bpe",
    "marian",
    "marian-bpe",
    "mbart-spm",
    "mbart50-spm",
    "mistral-spm",
    "mpnet-words",
    "mpnet-words-flags",
    "nllb",
    "qwen2-merges",
    "roberta-merges",
    "t5-spm",
    "whisper-merges",
    "xlm-roberta-spm",
];

fn at(case: &str) -> PathBuf {
    folder("tests/tokenizer-files").join(case)
}

fn ours(case: &str) -> Tokenizer {
    of_model(&read(&at(case)).unwrap().unwrap(), &at(case))
}

fn expected(case: &str) -> Json {
    serde_json::from_str(&std::fs::read_to_string(at(case).join("expected.json")).unwrap()).unwrap()
}

#[test]
fn every_folder_is_a_case() {
    let entries = std::fs::read_dir(folder("tests/tokenizer-files")).unwrap();
    let mut found: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, CASES);
}

#[test]
fn awkward_texts_have_the_ids_of_the_reference() {
    let mut faults = Vec::new();
    for case in CASES {
        let (tokenizer, expected) = (ours(case), expected(case));
        let mut judge = |what: String, found: Vec<u32>, wanted: Vec<u32>| {
            if found != wanted {
                faults.push(format!("{case}: {what}: {found:?}, expected {wanted:?}"));
            }
        };
        for entry in expected["texts"].as_array().unwrap() {
            let text = entry[0].as_str().unwrap();
            judge(format!("{text:?}"), tokenizer.encode(text, EncodeOptions::default()).unwrap(), ids(&entry[1]));
        }
        for entry in expected["languages"].as_array().into_iter().flatten() {
            let (code, text) = (entry[0].as_str().unwrap(), entry[1].as_str().unwrap());
            let language = tokenizer.id_of(&format!("__{code}__")).unwrap();
            judge(format!("{text:?} in {code}"), tokenizer.encode_from(text, language).unwrap(), ids(&entry[2]));
        }
        // Text goes on behind a prompt, so that such a tokenizer has no word on pairs.
        let pairs = tokenizer.encode_pair("a", "b", None).is_ok();
        for entry in expected["pairs"].as_array().into_iter().flatten().filter(|_| pairs) {
            let (a, b) = (entry[0].as_str().unwrap(), entry[1].as_str().unwrap());
            judge(format!("{a:?} {b:?}"), tokenizer.encode_pair(a, b, None).unwrap().ids, ids(&entry[2]));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn ids_decode_to_the_text_of_the_reference() {
    let mut faults = Vec::new();
    for case in CASES {
        let (tokenizer, expected) = (ours(case), expected(case));
        let texts = expected["texts"].as_array().unwrap().iter().zip(expected["decoded"].as_array().unwrap());
        for (entry, wanted) in texts {
            let (ids, wanted) = (ids(&entry[1]), wanted.as_str().unwrap());
            let found = tokenizer.decode(&ids, true);
            if found != wanted {
                faults.push(format!("{case}: {:?} gives {found:?}, expected {wanted:?}", entry[0]));
            }
            if !tokenizer.trims() {
                continue;
            }
            let mut stream = TextStream::from_start(true);
            let mut streamed: String = ids.iter().map(|id| stream.push(&tokenizer, *id)).collect();
            streamed += &stream.finish();
            assert_eq!(streamed, found, "{case}: piece by piece");
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn languages_are_those_of_the_files() {
    for (case, count, source) in [
        ("m2m_100", 100, None),
        ("marian", 0, None),
        ("mbart-spm", 25, Some("en_XX")),
        ("mbart50-spm", 52, Some("ro_RO")),
        ("nllb", 4, Some("eng_Latn")),
        ("t5-spm", 0, None),
    ] {
        let tokenizer = ours(case);
        let languages = tokenizer.languages();
        assert_eq!(languages.tokens.len(), count, "{case}");
        assert_eq!(languages.source.and_then(|id| tokenizer.token_text(id)), source, "{case}");
        assert_eq!((languages.target, tokenizer.adds_bos()), (None, false), "{case}");
    }
}

/// A folder with these files.
fn folder_of(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let made = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(made.path().join(name), bytes).unwrap();
    }
    made
}

fn refused(files: &[(&str, &[u8])]) -> String {
    let folder = folder_of(files);
    read(folder.path()).map(|_| ()).unwrap_err().to_string()
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(number < 16 && bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn piece(text: &[u8], score: f32, kind: u8) -> Vec<u8> {
    field(1, &[field(1, text), vec![2 << 3 | 5], score.to_le_bytes().to_vec(), vec![3 << 3, kind]].concat())
}

/// A model that is read.
fn sound() -> Vec<u8> {
    [piece(b"<unk>", 0.0, 2), piece(b"<s>", 0.0, 3), piece(b"</s>", 0.0, 3), piece("▁a".as_bytes(), -1.0, 1)].concat()
}

const CLASS: (&str, &[u8]) = ("tokenizer_config.json", b"{\"tokenizer_class\": \"XLMRobertaTokenizer\"}");

#[test]
fn damaged_models_are_refused_with_the_place() {
    let model = |bytes: Vec<u8>| {
        let error = refused(&[CLASS, ("sentencepiece.bpe.model", &bytes)]);
        assert!(error.contains("sentencepiece.bpe.model: "), "{error}");
        error
    };
    let with = |more: &[u8]| [sound(), more.to_vec()].concat();
    let long = [&[0x0A, 0xD3, 0x0F, 0x0A, 0xD0, 0x0F][..], &[b'a'; 2000]].concat();
    assert!(read(folder_of(&[CLASS, ("sentencepiece.bpe.model", &sound())]).path()).is_ok());
    for (bytes, part) in [
        (with(&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 1]), "claims 2147483647 bytes, and its message has 1 left"),
        (with(&[&[0x0A][..], &[0xFF; 10], &[1]].concat()), "more than ten bytes"),
        (with(&[0x0A, 0x80]), "cut short"),
        (with(&[0x03]), "byte 60: a field has the kind 3"),
        (with(&[0x02, 0x00]), "the number 0"),
        (with(&piece(b"<s>", 0.0, 3)), "piece 4: `<s>` stands there twice"),
        (with(&piece("▁a".as_bytes(), -3.0, 1)), "stands there twice"),
        (with(&piece(b"<other>", 0.0, 2)), "piece 4: it is a second piece for what is unknown"),
        (piece(b"a", 0.0, 1), "no piece stands for what is unknown"),
        (Vec::new(), "no piece stands for what is unknown"),
        (with(&piece(b"", 0.0, 1)), "piece 4 has no text"),
        (with(&piece(b"a", f32::NAN, 1)), "has the score NaN"),
        (with(&piece(b"a", 1e9, 1)), "has the score 1000000000"),
        (with(&piece(b"a", 0.0, 9)), "has the kind 9"),
        (with(&long), "piece 4 has 2000 bytes; at most 1024 are read"),
        (with(&piece(b"a\xFFb", 0.0, 1)), "byte 65: the text of piece 4 is no UTF-8"),
        (with(&piece(b"<0x1>", 0.0, 6)), "`<0x1>` is no byte"),
        (with(&field(2, &[3 << 3, 3])), "a model of type `word` is not read"),
        (with(&field(2, &[3 << 3, 4])), "a model of type `char` is not read"),
        (with(&field(2, &[3 << 3, 2])), "a model of type `bpe` is not read for class `XLMRobertaTokenizer`"),
        (with(&field(2, &[0xC0, 0x01, 1])), "treat_whitespace_as_suffix"),
        (with(&field(2, &[0x98, 0x02, 1])), "0 of 256"),
        (with(&field(3, &[5 << 3, 0])), "escape_whitespaces"),
        (with(&field(5, &field(2, b"map"))), "denormalizer_spec"),
        (b"\x7fELF\x02\x01\x01".to_vec(), "SentencePiece model"),
    ] {
        let error = model(bytes);
        assert!(error.contains(part), "{error}\n should hold\n{part}");
    }
}

#[test]
fn models_that_are_cut_short_never_panic() {
    for (case, name) in [("marian", "source.spm"), ("t5-spm", "spiece.model"), ("llama-spm", "tokenizer.model")] {
        let whole = std::fs::read(at(case).join(name)).unwrap();
        let config = std::fs::read(at(case).join("tokenizer_config.json")).unwrap();
        let vocab = std::fs::read(at("marian").join("vocab.json")).unwrap();
        let mut read_whole = 0;
        for cut in (0..whole.len()).step_by(7) {
            let files = [("tokenizer_config.json", &config[..]), ("vocab.json", &vocab), (name, &whole[..cut])];
            read_whole += usize::from(read(folder_of(&files).path()).is_ok());
        }
        // Between two pieces a cut leaves a smaller model.
        assert!(read_whole < whole.len() / 7 / 2, "{case}: {read_whole} of {}", whole.len() / 7);
        let mut wild = whole.clone();
        for at in 0..wild.len().min(250) {
            let own = std::mem::replace(&mut wild[at], 0xFF);
            let files = [("tokenizer_config.json", &config[..]), ("vocab.json", &vocab), (name, &wild)];
            let _ = read(folder_of(&files).path());
            wild[at] = own;
        }
    }
}

#[test]
fn other_broken_files_are_refused_with_the_place() {
    let spm = sound();
    let marian: &[u8] = br#"{"</s>": 0, "<unk>": 1, "<pad>": 2}"#;
    let with_vocab = |vocab: &[u8], config: &[u8]| {
        refused(&[("source.spm", &spm), ("vocab.json", vocab), ("tokenizer_config.json", config)])
    };
    for (vocab, part) in [
        (&b"[1, 2]"[..], "vocab.json: the file: it is no object"),
        (b"{\"a\": -1}", "vocab.json: token `a`: -1 is no token id"),
        (b"{\"a\": 99999999999}", "token `a`: 99999999999 is no token id; ids go up to 4194303"),
        (b"{\"a\": 1, \"b\": 1}", "token `b`: its id 1 is that of `a` too"),
        (b"{\"a\": \"1\"}", "is no token id"),
        (b"{\"a\": 1", "vocab.json: line 1, column 7: invalid JSON"),
        (b"{\"a\xFF\": 1}", "invalid JSON"),
        (b"{}", "vocab.json: token `<unk>`: it is missing"),
        (b"{\"a\": 0, \"</s>\": 1}", "vocab.json: token `<unk>`: it is missing"),
    ] {
        let error = with_vocab(vocab, b"{}");
        assert!(error.contains(part), "{error}\n should hold\n{part}");
    }
    for (config, part) in [
        (&b"{\"separate_vocabs\": true}"[..], "`separate_vocabs`"),
        (b"{\"sp_model_kwargs\": {\"enable_sampling\": true}}", "`sp_model_kwargs`"),
        (b"{\"eos_token\": 3}", "`eos_token`: 3 is no token"),
        (b"{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}", "has no token id up to 4194303"),
        (
            b"{\"added_tokens_decoder\": {\"0\": {\"content\": \"a\"}}}",
            "token `a` has the id 0, which is that of `</s>`",
        ),
        (b"[]", "it is no object"),
    ] {
        let error = with_vocab(marian, config);
        assert!(error.contains(part), "{error}\n should hold\n{part}");
    }
    // Special tokens that the vocabulary lacks have ids behind it, as in the reference.
    let files: [(&str, &[u8]); 2] = [("source.spm", &spm), ("vocab.json", br#"{"a": 0, "<unk>": 1}"#)];
    assert_eq!(read(folder_of(&files).path()).unwrap().unwrap().vocab.find("<pad>"), Some(3));
    let m2m = |config: &[u8]| {
        let vocab: &[u8] = br#"{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}"#;
        let class = ("sentencepiece.bpe.model", &spm[..]);
        refused(&[class, ("vocab.json", vocab), ("tokenizer_config.json", config)])
    };
    assert!(m2m(b"{\"src_lang\": \"tlh\"}").contains("`src_lang`: the model knows no language `tlh`"));
    assert!(m2m(b"{\"src_lang\": 5}").contains("`src_lang`: it is 5, and must be a text"));
    assert!(m2m(b"{\"language_codes\": \"all\"}").contains("`all` is not known; known are m2m100 and wmt21"));
    // A hole is an id without a token.
    let files: [(&str, &[u8]); 2] = [("source.spm", &spm), ("vocab.json", br#"{"</s>": 0, "<unk>": 1, "<pad>": 7}"#)];
    assert_eq!(read(folder_of(&files).path()).unwrap().unwrap().vocab.gaps(), 5);
    let merges = |merges: &[u8], class: &str| {
        let config = format!("{{\"tokenizer_class\": \"{class}\"}}");
        let vocab: &[u8] = br#"{"a": 0, "b": 1, "ab": 2}"#;
        refused(&[("vocab.json", vocab), ("merges.txt", merges), ("tokenizer_config.json", config.as_bytes())])
    };
    for (lines, part) in [
        (
            &b"#version: 0.2\na b\na c\n"[..],
            "merges.txt: `model.merges`: entry 1 joins `a` and `c`, and the vocabulary has no `c`",
        ),
        (b"a b\nb a\n", "the vocabulary has no `ba`"),
        (b"a b\nab\n", "merges.txt: line 2: `ab` is no pair of tokens"),
        (b"a b c\n", "line 1: `a b c` is no pair"),
        (b"a \xFF\n", "merges.txt: byte 2: it is no UTF-8"),
        (b"", "merges.txt: the file: it is empty"),
    ] {
        let error = merges(lines, "GPT2Tokenizer");
        assert!(error.contains(part), "{error}\n should hold\n{part}");
    }
    let error = merges(b"a b\n", "BlenderbotTokenizer");
    assert!(error.contains("class `BlenderbotTokenizer` is not read from `merges.txt`"), "{error}");
    assert!(error.contains("save_pretrained"), "{error}");
    let error = refused(&[("spiece.model", &spm)]);
    assert!(error.contains("`tokenizer_class`: it is missing"), "{error}");
    let words = |class: &str| {
        let config = format!("{{\"tokenizer_class\": \"{class}\"}}");
        refused(&[("vocab.txt", b"[UNK]\n[CLS]\n[SEP]\n"), ("tokenizer_config.json", config.as_bytes())])
    };
    for class in ["RobertaTokenizer", "BertJapaneseTokenizer", "NoSuchTokenizer"] {
        let error = words(class);
        assert!(error.contains(&format!("class `{class}` is not read from `vocab.txt`")), "{error}");
        assert!(error.contains("save_pretrained"), "{error}");
    }
    assert!(
        words("MPNetTokenizerFast").contains("token `<s>`: it is not among the lines, and MPNetTokenizer needs it")
    );
    let error = refused(&[("vocab.txt", b"[UNK]\n[CLS]\n[SEP]\n")]);
    assert!(
        error.contains("`tokenizer_class`: it is missing, and no class that reads `vocab.txt` is known"),
        "{error}"
    );
    let config: (&str, &[u8]) = ("tokenizer_config.json", b"{\"tokenizer_class\": \"AlbertTokenizer\"}");
    assert!(
        refused(&[("spiece.model", &spm), config]).contains("class `AlbertTokenizer` is not read from `spiece.model`")
    );
    assert!(refused(&[("tekken.json", b"{}")]).contains("there is a `tekken.json` and no `tokenizer.json`"));
    assert!(refused(&[("source.spm", &spm)]).contains("there is a `source.spm` and no `tokenizer.json`"));
    let config = |text: &'static str| ("tokenizer_config.json", text.as_bytes());
    let of_type = |text: &'static str| ("config.json", text.as_bytes());
    let vocab: (&str, &[u8]) = ("vocab.json", b"{}");
    let pieces = ("sentencepiece.bpe.model", &spm[..]);
    for (files, missing) in [
        (vec![("target.spm", &spm[..]), vocab], "marian's other file `source.spm` is missing"),
        (
            vec![vocab, config("{\"tokenizer_class\": \"MarianTokenizer\"}")],
            "marian's other file `source.spm` is missing",
        ),
        (vec![vocab, of_type("{\"model_type\": \"marian\"}")], "marian's other file `source.spm` is missing"),
        (vec![("source.spm", &spm[..])], "marian's other file `vocab.json` is missing"),
        (
            vec![vocab, of_type("{\"model_type\": \"m2m_100\"}")],
            "m2m_100's other file `sentencepiece.bpe.model` is missing",
        ),
        (
            vec![pieces, config("{\"tokenizer_class\": \"M2M100Tokenizer\"}")],
            "m2m_100's other file `vocab.json` is missing",
        ),
    ] {
        let error = refused(&files);
        assert!(error.contains(missing) && error.contains("Put the model's"), "{error}");
    }
    assert!(refused(&[vocab]).contains("there is a `vocab.json` and no `tokenizer.json`"));
}
