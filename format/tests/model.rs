//! Models: written and read back, and refused with the right words.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{CONFIG, names, parts, patch, plan, tensors, tiny, write_model};
use tallow_format::{
    ChatFormat, Container, Encoding, ErrorKind, ModelFile, ModelParts, ModelWriter, ProgramFormat, ReadOptions,
    TensorPlan, Vocab,
};

fn open(bytes: Vec<u8>) -> Result<ModelFile, String> {
    Container::from_vec(bytes, "t.model", &ReadOptions::default())
        .and_then(ModelFile::from_container)
        .map_err(|e| e.to_string())
}

fn fails(bytes: Vec<u8>) -> String {
    open(bytes).expect_err("should be refused")
}

#[test]
fn a_written_model_is_read_back_page_aligned() {
    let (folder, path) = tiny();
    let model = ModelFile::open(&path).unwrap();
    assert_eq!(model.name(), "tiny");
    assert_eq!(model.warnings(), [] as [&str; 0]);
    let order: Vec<&str> = model.container().entries().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(order, ["card", "config", "program", "chat", "tensors", "vocab", "eval", "weights"]);
    assert_eq!(model.card(), Some("# Tiny\n\n~~~sh\nls\n~~~\n"));
    assert_eq!(model.config().to_text(), CONFIG);
    assert_eq!(model.program(), Some((ProgramFormat::Rs, "fn forward() {}\n")));
    assert_eq!(model.graph(), None);
    assert_eq!(model.chat().unwrap().format, Some(ChatFormat::ChatMl));
    assert_eq!(model.eval(), Some(""));
    let vocab = model.vocab().unwrap();
    assert_eq!(vocab.token(3), Some("ab"));
    assert_eq!(model.end_ids(&vocab).unwrap(), [1, 2]);
    assert_eq!(model.container().entries().last().unwrap().range.start % 4096, 0);
    for (name, shape, values) in tensors() {
        let view = model.tensor(name).unwrap();
        let mut back = vec![0.0; values.len()];
        view.encoding.decode(view.bytes, &mut back).unwrap();
        assert_eq!(view.shape, shape);
        assert_eq!(model.tensors().get(name).unwrap().offset % 4096, 0);
        if view.encoding == Encoding::U32 {
            assert_eq!(back, values, "{name}");
        }
    }
    assert!(model.tensor("nowhere").is_none());
    model.release_pages("model.norm.weight");
    assert_eq!(names(folder.path()), ["tiny.model"]);
}

#[test]
fn writing_is_deterministic() {
    let ((_a, one), (_b, two)) = (tiny(), tiny());
    assert_eq!(std::fs::read(one).unwrap(), std::fs::read(two).unwrap());
}

#[test]
fn sections_that_hold_their_next_delimiter_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.model");
    let card = "before\n~~~config\nafter\n";
    let eval = "# ~~~\n~~~weights\n";
    // An eval that is no TOML is nobody's business until it is read.
    write_model(&path, ModelParts { card: card.into(), eval: eval.into(), ..parts() });
    let model = ModelFile::open(&path).unwrap();
    assert_eq!((model.card(), model.eval()), (Some(card), Some(eval)));
    assert_eq!(model.container().entries().last().unwrap().range.start % 4096, 0);
}

#[test]
fn a_writer_that_is_dropped_or_misused_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.model");
    let create = || ModelWriter::create(&path, parts(), plan()).unwrap();
    let first = "model.embed_tokens.weight";

    let mut writer = create();
    writer.begin(first, Encoding::U32).unwrap();
    writer.write(&[0; 100]).unwrap();
    drop(writer);
    assert_eq!(names(folder.path()), [] as [&str; 0]);

    let says = |error: tallow_format::FormatError, want: &str| {
        let error = error.to_string();
        assert!(error.contains(want) && error.contains("m.model"), "{error}\n  should hold\n{want}");
    };
    let mut writer = create();
    says(writer.write(&[0]).unwrap_err(), "before any tensor was begun");
    says(
        writer.begin("other", Encoding::U32).unwrap_err(),
        "`other` was begun, but the next tensor of the plan is `model.embed_tokens.weight`",
    );
    says(writer.begin(first, Encoding::Q8).unwrap_err(), "`q8` is none of the encodings in the plan: `u32`");
    writer.begin(first, Encoding::U32).unwrap();
    says(writer.write(&[0; 200]).unwrap_err(), "200 bytes were written, but the tensor takes 128");
    writer.write(&[0; 5]).unwrap();
    says(
        writer.begin("model.layers.0.self_attn.q_proj.weight", Encoding::U32).unwrap_err(),
        "only 5 of the tensor's 128 bytes were written",
    );
    says(writer.finish().unwrap_err(), "only 5 of the tensor's 128 bytes");
    let mut writer = create();
    writer.begin(first, Encoding::U32).unwrap();
    writer.write(&[0; 128]).unwrap();
    says(
        writer.finish().unwrap_err(),
        "tensors of the plan were not written: `model.layers.0.self_attn.q_proj.weight`",
    );
    assert_eq!(names(folder.path()), [] as [&str; 0]);

    let bad = |shape: &[u64], candidates: &[Encoding]| {
        let plan = vec![TensorPlan { name: "t".into(), shape: shape.to_vec(), candidates: candidates.to_vec() }];
        ModelWriter::create(&path, parts(), plan).err().unwrap()
    };
    says(bad(&[33], &[Encoding::Q8]), "tensor `t`: the last dimension of the shape [33] is 33");
    says(bad(&[1], &[]), "the plan names no encoding");
    says(bad(&[1 << 61], &[Encoding::U32]), "longer than 2^63 bytes");
    says(bad(&[0], &[Encoding::U32]), "dimension 0 of the shape [0] is 0");
    let twice = vec![plan().remove(0), plan().remove(0)];
    says(
        ModelWriter::create(&path, parts(), twice).err().unwrap(),
        "two tensors are named `model.embed_tokens.weight`",
    );
    assert_eq!(names(folder.path()), [] as [&str; 0]);
}

#[test]
fn an_old_model_stays_when_writing_fails() {
    let (folder, path) = tiny();
    let before = std::fs::read(&path).unwrap();
    let mut writer = ModelWriter::create(&path, parts(), plan()).unwrap();
    writer.begin("model.embed_tokens.weight", Encoding::U32).unwrap();
    assert!(writer.finish().is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(folder.path()), ["tiny.model"]);
}

#[test]
fn tensors_may_share_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.model");
    let plan = |name: &str, shape: &[u64]| TensorPlan {
        name: name.into(),
        shape: shape.to_vec(),
        candidates: vec![Encoding::U16, Encoding::U32],
    };
    let all = vec![plan("k", &[2, 4]), plan("v", &[8]), plan("z", &[1])];
    let mut writer = ModelWriter::create(&path, parts(), all).unwrap();
    writer.begin("k", Encoding::U16).unwrap();
    writer.write(&[1; 16]).unwrap();
    writer.share("v", "k").unwrap();
    assert!(writer.write(&[1]).is_err());
    assert!(
        writer
            .share("z", "k")
            .unwrap_err()
            .to_string()
            .contains("`z` takes 2 bytes, so it cannot share the 16 bytes of `k`")
    );
    writer.begin("z", Encoding::U32).unwrap();
    writer.write(&[2; 4]).unwrap();
    writer.finish().unwrap();
    let model = ModelFile::open(&path).unwrap();
    assert_eq!(model.tensor("k").unwrap().bytes, model.tensor("v").unwrap().bytes);
    assert_eq!(model.tensors().get("z").unwrap().offset, 4096);
}

#[test]
fn many_tensors_fit_the_reserved_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.model");
    let name = |i: usize| format!("layer.{i}.weight");
    let plan: Vec<TensorPlan> = (0..300)
        .map(|i| TensorPlan { name: name(i), shape: vec![4, 256], candidates: Encoding::ALL.to_vec() })
        .collect();
    let mut writer = ModelWriter::create(&path, parts(), plan).unwrap();
    for i in 0..300 {
        let encoding = Encoding::ALL[i % 10];
        writer.begin(&name(i), encoding).unwrap();
        writer.write(&vec![0; encoding.byte_len(1024).unwrap() as usize]).unwrap();
    }
    writer.finish().unwrap();
    let model = ModelFile::open(&path).unwrap();
    assert_eq!(model.tensors().len(), 300);
    assert_eq!(model.container().entries().last().unwrap().range.start % 4096, 0);
}

#[test]
fn versions_and_types_are_demanded() {
    let (_folder, path) = tiny();
    let bytes = std::fs::read(path).unwrap();
    let error = fails(patch(&bytes, "format_version = 2\n", ""));
    assert!(
        error.contains("t.model: frontmatter: `format_version` is missing")
            && error.contains("`tallow upgrade FILE`")
            && error.contains("--meanings legacy|canonical"),
        "{error}"
    );
    let error = fails(patch(&bytes, "format_version = 2", "format_version = 1"));
    assert!(error.contains("`format_version` is 1, not 2") && error.contains("tallow upgrade"), "{error}");
    let error = fails(patch(&bytes, "format_version = 2", "format_version = \"2\""));
    assert!(error.contains("`format_version` is \"2\", not 2"), "{error}");
    let newer =
        Container::from_vec(patch(&bytes, "format_version = 2", "format_version = 3"), "t", &ReadOptions::default())
            .unwrap();
    let error = ModelFile::from_container(newer).unwrap_err();
    assert!(
        error.is_unsupported()
            && error.to_string().contains("`format_version` is 3; this version of Tallow reads 2. Use a newer Tallow."),
        "{error}"
    );
    let error = fails(patch(&bytes, "[\"model\"]", "[\"notes\", \"x\"]"));
    assert!(error.contains("this is a container, but no model: its types are `notes` and `x`"), "{error}");
}

#[test]
fn required_files_are_named() {
    let (_folder, path) = tiny();
    let bytes = std::fs::read(path).unwrap();
    let without = |name: &str, rest: &str| {
        let bytes = patch(&bytes, &format!("\n[[files]]\nname = \"{name}\"\nformat = \"toml\"\n"), "");
        patch(&bytes, &format!("~~~{name}\n"), rest)
    };
    assert!(fails(without("config", "x\n")).contains("the model has no `config`"));
    assert!(fails(without("tensors", "")).contains("the model has no `tensors`"));
    let vocabless = open(without("vocab", "")).unwrap_err();
    assert!(vocabless.contains("tensors"), "{vocabless}");
    let head = "[cyb]\ntypes = [\"model\"]\nname = \"n\"\nformat_version = 2\n";
    let file =
        |name: &str, format: &str, size: &str| format!("[[files]]\nname = \"{name}\"\nformat = \"{format}\"\n{size}\n");
    let small = |weights: &str, tail: &str| {
        (head.to_owned()
            + &file("config", "toml", "")
            + &file("tensors", "toml", "")
            + weights
            + "~~~config\n~~~tensors\n{}\n~~~weights\n"
            + tail)
            .into_bytes()
    };
    let model = open(small(&file("weights", "tensors", "size = 0"), "")).unwrap();
    for want in ["no `card`", "no `program`", "no `vocab`", "`model_type` is missing"] {
        assert!(model.warnings().iter().any(|w| w.contains(want)), "{want}: {:?}", model.warnings());
    }
    assert!(model.vocab().unwrap().is_empty() && model.tensors().is_empty());
    assert!(fails(small(&file("weights", "tensors", ""), "abc")).contains("`weights` has no `size`"));
    assert!(
        fails(small(&file("weights", "safetensors", "size = 0"), ""))
            .contains("`weights` has the format `safetensors`, which is not read")
    );
    let later = file("weights", "tensors", "size = 0") + &file("z", "md", "");
    assert!(fails(small(&later, "~~~z\n")).contains("`weights` must be the last file, but `z` follows it"));
}

#[test]
fn sections_that_are_not_read_are_unsupported_and_not_corrupt() {
    let (_folder, path) = tiny();
    let bytes = std::fs::read(path).unwrap();
    let nox = patch(&bytes, "name = \"program\"\nformat = \"rs\"", "name = \"program\"\nformat = \"nox\"");
    let error = Container::from_vec(nox, "t", &ReadOptions::default()).and_then(ModelFile::from_container).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("`program` has the format `nox`, which is not read. It should be `rs` and `tri`"),
        "{error}"
    );
    let error = fails(patch(&bytes, "name = \"config\"\nformat = \"toml\"", "name = \"config\"\nformat = \"json\""));
    assert!(error.contains("`config` has the format `json`"), "{error}");
}

#[test]
fn faults_in_sections_name_section_and_line() {
    let (_folder, path) = tiny();
    let bytes = std::fs::read(path).unwrap();
    let line = String::from_utf8_lossy(&bytes).lines().position(|l| l.starts_with("hidden_size")).unwrap() + 1;
    let error = fails(patch(&bytes, "hidden_size = 8", "hidden_size = ="));
    assert!(
        error.contains(&format!("t.model: config, line 4, column 15 (line {line} of the file): invalid TOML")),
        "{error}"
    );
    let error = fails(patch(&bytes, "shape = [8]", "shape = [9]"));
    assert!(
        error.contains(
            "t.model: tensors, tensor \"model.norm.weight\": `size` is 32, but the shape [9] in `u32` takes 36 bytes"
        ),
        "{error}"
    );
    let error = fails(patch(&bytes, "top_p = 0.9", "top_p = 900"));
    assert!(error.contains("t.model: config: `sampling.top_p` is 900"), "{error}");
    let error = fails(patch(&bytes, "vocab_size = 4", "vocab_size = 5"));
    assert!(error.contains("`model.embed_tokens.weight` has 4 rows, but `architecture.vocab_size` is 5"), "{error}");
    let error = fails(patch(&bytes, "\"chatml\"", "\"mirc\""));
    assert!(error.contains("chat: the chat format `mirc` is not known"), "{error}");
    let model = open(patch(&bytes, "3 = \"ab\"", "3 =  5  ")).unwrap();
    let error = model.vocab().unwrap_err().to_string();
    assert!(error.contains("t.model: vocab, line 5 (line ") && error.contains("the token 3 is integer"), "{error}");
    let model = open(patch(&bytes, "\"</s>\"\n\n[sampling]", "\"<e>\" \n\n[sampling]")).unwrap();
    let error = model.end_ids(&Vocab::default()).unwrap_err().to_string();
    assert!(error.contains("config: `tokenizer.eos_token` is \"<e>\", which the vocabulary does not hold"), "{error}");
    let model = open(patch(&bytes, "temperature = 0.7", "typical_p   = 0.7")).unwrap();
    assert!(model.warnings().contains(&"`sampling.typical_p` has no effect".to_owned()));
}

#[test]
fn a_model_cut_short_is_refused() {
    let (_folder, path) = tiny();
    let bytes = std::fs::read(path).unwrap();
    for percent in [1, 25, 50, 90, 99] {
        assert!(open(bytes[..bytes.len() * percent / 100].to_vec()).is_err(), "{percent}");
    }
    assert!(fails(bytes[..bytes.len() - 1].to_vec()).contains("are left in the container. The file was cut short"));
}

#[test]
fn a_crlf_conversion_is_recognised() {
    let (_folder, path) = tiny();
    let bytes = std::fs::read(path).unwrap();
    let mut converted = Vec::new();
    for &b in &bytes {
        if b == b'\n' {
            converted.push(b'\r');
        }
        converted.push(b);
    }
    let error = fails(converted);
    assert!(error.contains("ends in CR LF: a tool has converted the line endings"), "{error}");
}

/// 262,144 tokens and 500,000 merges, the size of the largest vocabularies in use. The limit is far above the
/// target of 300 ms in a release build, so that a busy machine does not fail the test.
#[test]
fn a_large_vocabulary_loads_fast() {
    let tokens = (0..262_144u32).map(|i| Some(format!("\u{2581}tok\"{i:x}"))).collect();
    let merges = (0..500_000u32).map(|i| (format!("\u{2581}l{i:x}"), format!("r{}", i % 977))).collect();
    let vocab = Vocab { tokens, merges, ..Vocab::default() };
    let text = vocab.to_text();
    let parse = || {
        let start = std::time::Instant::now();
        let back = Vocab::parse(&text).unwrap();
        (start.elapsed(), back)
    };
    let (first, back) = parse();
    assert_eq!(back, vocab);
    let took = (0..2).map(|_| parse().0).fold(first, Ord::min);
    println!("{} bytes in {took:?}", text.len());
    assert!(took.as_millis() < 5000, "{took:?}");
}
