//! The container tools on files.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{CONFIG, names, parts, patch, tiny, write_model};
use tallow_format::encoding::gguf::GgmlType;
use tallow_format::tools::{self, Destination, Edit, Meanings, PackOptions, edit, extract, pack, upgrade, verify};
use tallow_format::{Container, Encoding, ErrorKind, FormatError, ModelFile, ReadOptions};

fn options() -> ReadOptions {
    ReadOptions::default()
}

fn replace(name: &str, content: &str) -> Edit {
    Edit::Replace { name: name.into(), content: content.into() }
}

fn add(name: &str, format: &str, content: &str) -> Edit {
    Edit::Add { name: name.into(), format: format.into(), content: content.into() }
}

fn remove(name: &str) -> Edit {
    Edit::Remove { name: name.into() }
}

fn says(error: FormatError, want: &str) {
    let error = error.to_string();
    assert!(error.contains(want), "{error}\n  should hold\n{want}");
}

fn weights(path: &Path) -> Vec<u8> {
    Container::open(path).unwrap().content("weights").unwrap().to_vec()
}

#[test]
fn editing_a_model_keeps_its_weights_and_their_alignment() {
    let (folder, path) = tiny();
    let before = weights(&path);
    let card = "# A longer card\n".repeat(500);
    let edits = [replace("card", &card), add("graph", "hex", "00ff\n"), remove("program")];
    let other = folder.path().join("other.model");
    let original = std::fs::read(&path).unwrap();
    edit(&path, &edits, &Destination::File(other.clone()), &options()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), original);
    let model = ModelFile::open(&other).unwrap();
    let order: Vec<&str> = model.container().entries().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(order, ["card", "config", "graph", "chat", "tensors", "vocab", "eval", "weights"]);
    assert_eq!((model.card(), model.graph().map(|g| g.1)), (Some(card.as_str()), Some("00ff\n")));
    assert_eq!(weights(&other), before);
    assert_eq!(model.container().entries().last().unwrap().range.start % 4096, 0);

    edit(&path, &edits, &Destination::InPlace, &options()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap());
    // Undoing an edit gives the same bytes again but for what was taken out.
    edit(&path, &[replace("card", "x\n")], &Destination::InPlace, &options()).unwrap();
    edit(&path, &[replace("card", &card)], &Destination::InPlace, &options()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap());
    assert_eq!(names(folder.path()), ["other.model", "tiny.model"]);
}

#[test]
fn editing_keeps_unknown_keys_comments_and_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cyb");
    let front = "# head\nzeta = 1\n\n[cyb] # c\nname = \"n\"\ntypes = [\"t\"]\nalpha = { y = 1, x = 2 }\n\n# the notes\n[[files]]\nformat = \"md\" # f\nname = \"notes\"\n\n[[files]]\nname = \"pic\"\nformat = \"png\"\nsize = 6 # bytes\nauthor = \"me\"\n\n# tail\n[extra]\nk = 0x10\n";
    let pic = b"\xff~~~\n\0";
    let bytes = [front.as_bytes(), b"~~~notes\nold\n~~~pic\n", pic].concat();
    std::fs::write(&path, &bytes).unwrap();
    edit(&path, &[replace("notes", "new\nlines\n")], &Destination::InPlace, &options()).unwrap();
    let want = [front.as_bytes(), b"~~~notes\nnew\nlines\n~~~pic\n", pic].concat();
    assert_eq!(std::fs::read(&path).unwrap(), want);

    // Text that a reader would end early, or that lacks its LF, gets a size.
    for content in ["a\n~~~pic\nb\n", "no end"] {
        edit(&path, &[replace("notes", content)], &Destination::InPlace, &options()).unwrap();
        let container = Container::open(&path).unwrap();
        assert_eq!(container.text("notes").unwrap(), Some(content));
        assert_eq!(container.content("pic").unwrap(), pic);
        assert_eq!(container.entry("notes").unwrap().size, Some(content.len() as u64));
    }
    edit(&path, &[add("more", "md", "m\n")], &Destination::InPlace, &options()).unwrap();
    let container = Container::open(&path).unwrap();
    assert_eq!(container.entries().iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["more", "notes", "pic"]);
    assert_eq!(container.content("pic").unwrap(), pic);
    let text = container.frontmatter_text();
    for kept in [
        "# head\nzeta = 1\n",
        "alpha = { y = 1, x = 2 }",
        "# the notes\n[[files]]",
        "size = 6 # bytes\nauthor = \"me\"",
        "# tail\n[extra]\nk = 0x10\n",
    ] {
        assert!(text.contains(kept), "{text}\n  should hold\n{kept}");
    }
}

#[test]
fn edits_that_make_no_sense_are_refused_and_change_nothing() {
    let (folder, path) = tiny();
    let before = std::fs::read(&path).unwrap();
    let run = |one: Edit| edit(&path, &[one], &Destination::InPlace, &options()).unwrap_err();
    says(run(replace("crad", "")), "there is no file `crad` inside. Choose one of `card`, `config`");
    says(run(replace("weights", "")), "`weights` is binary, and only text files can be edited");
    says(run(remove("weights")), "`weights` is binary");
    says(run(add("card", "md", "")), "there is already a file `card`. Replace its content instead");
    says(run(add(" x", "md", "")), "begins or ends with white space");
    says(run(remove("config")), "tiny.model as edited: frontmatter: the model has no `config`");
    says(run(replace("config", "a = \n")), "tiny.model as edited: config, line 1, column 5");
    says(
        run(replace("config", &CONFIG.replace("vocab_size = 4", "vocab_size = 7"))),
        "has 4 rows, but `architecture.vocab_size` is 7",
    );
    says(run(replace("vocab", "[tokens]\n0 = 1\n")), "vocab, line 2");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(folder.path()), ["tiny.model"]);

    // A model that is broken already may be mended step by step.
    let broken = patch(&before, "vocab_size = 4", "vocab_size = 5");
    std::fs::write(&path, broken).unwrap();
    let warnings = edit(&path, &[replace("card", "c\n")], &Destination::InPlace, &options()).unwrap();
    assert!(warnings[0].contains("still cannot: `model.embed_tokens.weight` has 4 rows"), "{warnings:?}");
    edit(&path, &[replace("config", CONFIG)], &Destination::InPlace, &options()).unwrap();
    assert!(ModelFile::open(&path).is_ok());
}

#[test]
fn the_last_file_of_a_container_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cyb");
    std::fs::write(&path, "[cyb]\nname = \"n\"\ntypes = []\n[[parts]]\nname = \"a\"\nformat = \"md\"\n~~~a\nx")
        .unwrap();
    says(edit(&path, &[remove("a")], &Destination::InPlace, &options()).unwrap_err(), "`a` is the only file");
    edit(&path, &[add("b", "md", "y")], &Destination::InPlace, &options()).unwrap();
    let container = Container::open(&path).unwrap();
    assert_eq!((container.content("a").unwrap(), container.content("b").unwrap()), (&b"x"[..], &b"y"[..]));
    assert!(!container.frontmatter_text().contains("parts"), "{}", container.frontmatter_text());
}

#[test]
fn extracting_and_packing_a_model_gives_the_same_file() {
    let (folder, path) = tiny();
    let out = folder.path().join("out");
    let container = Container::open(&path).unwrap();
    let written = extract(&container, &[], &out, false).unwrap();
    assert_eq!(written.len(), 9);
    assert_eq!(
        names(&out),
        [
            "card.md",
            "chat.toml",
            "config.toml",
            "eval.toml",
            "frontmatter.toml",
            "program.rs",
            "tensors.toml",
            "vocab.toml",
            "weights.tensors"
        ]
    );
    says(extract(&container, &[], &out, false).unwrap_err(), "the file is already there");
    extract(&container, &["card".into()], &out, true).unwrap();
    let again = folder.path().join("again.model");
    let packed = pack(std::slice::from_ref(&out), &again, &PackOptions::default()).unwrap();
    assert_eq!(packed.files.last().map(|f| (f.name.as_str(), f.sized)), Some(("weights", true)));
    let model = ModelFile::open(&again).unwrap();
    assert_eq!(model.container().entries().last().unwrap().range.start % 4096, 0);
    assert_eq!(weights(&again), weights(&path));

    // Without its frontmatter the folder still makes a model, in the usual order.
    std::fs::remove_file(out.join("frontmatter.toml")).unwrap();
    let model_options = PackOptions { name: Some("mine".into()), types: vec!["model".into()] };
    pack(std::slice::from_ref(&out), &again, &model_options).unwrap();
    let model = ModelFile::open(&again).unwrap();
    assert_eq!(model.name(), "mine");
    assert_eq!(model.container().entries()[0].name, "card");
    std::fs::write(out.join("config.toml"), "x = =").unwrap();
    says(pack(&[out], &again, &model_options).unwrap_err(), "again.model: config, line 1");
    assert_eq!(ModelFile::open(&again).unwrap().name(), "mine");
}

#[test]
fn packing_faults_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let out = at("out.cyb");
    let run = |inputs: &[std::path::PathBuf]| pack(inputs, &out, &PackOptions::default());
    says(run(&[]).unwrap_err(), "there are no files to pack");
    says(run(&[at("none.md")]).unwrap_err(), "none.md: cannot read the file");
    std::fs::create_dir(at("in")).unwrap();
    std::fs::create_dir(at("in/sub")).unwrap();
    says(run(&[at("in")]).unwrap_err(), "a folder inside the folder");
    std::fs::remove_dir(at("in/sub")).unwrap();
    std::fs::write(at("in/a.md"), "1").unwrap();
    says(run(&[at("in"), at("in/a.md")]).unwrap_err(), "this is a folder among other inputs");
    std::fs::create_dir(at("other")).unwrap();
    std::fs::write(at("other/a.md"), "2").unwrap();
    says(run(&[at("in/a.md"), at("other/a.md")]).unwrap_err(), "two files would be named `a.md`");
    let frontmatter = "[cyb]\nname = \"n\"\ntypes = []\n[[files]]\nname = \"b\"\nformat = \"md\"\n";
    std::fs::write(at("in/frontmatter.toml"), frontmatter).unwrap();
    says(run(&[at("in")]).unwrap_err(), "`b` is declared, but there is no file `b.md`");
    std::fs::write(at("in/b.md"), "3").unwrap();
    says(run(&[at("in")]).unwrap_err(), "files that are not declared");
    std::fs::remove_file(at("in/a.md")).unwrap();
    run(&[at("in")]).unwrap();
    // The output inside the folder is not packed into itself.
    let inside = at("in/self.cyb");
    std::fs::remove_file(at("in/frontmatter.toml")).unwrap();
    for _ in 0..2 {
        pack(&[at("in")], &inside, &PackOptions::default()).unwrap();
        assert_eq!(Container::open(&inside).unwrap().entries().len(), 1);
    }
}

#[test]
fn names_that_would_leave_the_folder_are_not_extracted() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["../evil", "/etc/evil", "a/../../evil", "c:evil", "a\\evil"] {
        let text = format!("[[files]]\nname = '{name}'\nformat = \"md\"\n~~~{name}\nx");
        let container = Container::from_vec(text.into_bytes(), "t", &options()).unwrap();
        says(extract(&container, &[], &folder.path().join("out"), false).unwrap_err(), "is no safe file name");
        assert_eq!(tools::cat(&container, name).unwrap(), b"x");
        says(tools::cat(&container, "y").unwrap_err(), "there is no file `y` inside");
    }
    assert_eq!(names(folder.path()), [] as [&str; 0]);
    let text = "[[files]]\nname = 'sub/a'\nformat = '../x'\n~~~sub/a\nx";
    let container = Container::from_vec(text.into(), "t", &options()).unwrap();
    extract(&container, &[], folder.path(), false).unwrap();
    assert_eq!(std::fs::read(folder.path().join("sub/a")).unwrap(), b"x");
}

#[test]
fn verify_finds_what_opening_leaves_for_later() {
    let (folder, path) = tiny();
    let run = |path: &Path| verify(path, &options(), &mut |_, _| true).unwrap();
    let report = run(&path);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!((report.tensors, report.files), (5, 8));
    let stopped = verify(&path, &options(), &mut |_, _| false).unwrap_err();
    says(stopped, "the work was stopped");

    let bytes = std::fs::read(&path).unwrap();
    let bad = folder.path().join("bad.model");
    let text = patch(
        &bytes,
        "shape = [8]\nencoding = \"u32\"\noffset = 16384\nsize = 32",
        "shape = [128]\nencoding = \"ternary\"\noffset = 16384\nsize = 32",
    );
    std::fs::write(&bad, text).unwrap();
    let mut text = std::fs::read(&bad).unwrap();
    let len = text.len();
    text[len - 32..].fill(0);
    text[len - 1] = 0b1100_0000;
    let text = patch(&text, "3 = \"ab\"", "7 = \"ab\"");
    std::fs::write(&bad, patch(&text, "format = \"chatml\"", "format = \"plain\" ")).unwrap();
    let report = run(&bad);
    let all: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(report.tensors, 5);
    assert!(
        all.iter()
            .any(|p| p.contains("bad.model: tensor `model.norm.weight`: value 127 has the invalid ternary code 11")),
        "{all:?}"
    );
    // Real models have tokens without a row; that is odd and not wrong.
    let odd = "the greatest token id is 7, but `architecture.vocab_size` is 4";
    assert!(report.warnings.iter().any(|w| w.contains(odd)), "{:?}", report.warnings);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(report.warnings.iter().any(|w| w.contains("4 ids below 8 have no token")), "{:?}", report.warnings);
    let report = run(&folder.path().join("none"));
    assert!(report.problems[0].to_string().contains("cannot open the file"));
}

/// The tiny model as an older importer would have left it: no version, IEEE and GGUF bytes under the same names.
fn legacy(path: &Path, config: &str) -> Vec<(String, Vec<f32>)> {
    let wide: Vec<f32> = (0..64 * 256).map(|i| ((i * 31 % 255) as f32 - 127.0) / 160.0).collect();
    let norm = [1.0f32, -0.5, 2.25, 0.0];
    let f32_bytes: Vec<u8> = norm.iter().flat_map(|v| v.to_le_bytes()).collect();
    let f16_bytes: Vec<u8> = wide.iter().flat_map(|v| half_bits(*v).to_le_bytes()).collect();
    // Q8_0: one scale of 1/128 in f16, then the codes.
    let q8_bytes: Vec<u8> = (0..64 * 8)
        .flat_map(|b| {
            half_bits(1.0 / 128.0).to_le_bytes().into_iter().chain((0..32).map(move |i| ((b * 5 + i * 7) % 200) as u8))
        })
        .collect();
    // Q4_0 with a negative scale, as llama.cpp writes many.
    let q4_bytes: Vec<u8> = (0..64 * 8)
        .flat_map(|b| {
            half_bits(-0.5).to_le_bytes().into_iter().chain((0..16).map(move |i| ((b * 11 + i * 29) % 256) as u8))
        })
        .collect();
    let mut text = String::new();
    let mut bytes: Vec<u8> = Vec::new();
    let mut all = Vec::new();
    let sources = [
        ("norm", vec![4u64], "u32", &f32_bytes, GgmlType::F32),
        ("a", vec![64, 256], "u16", &f16_bytes, GgmlType::F16),
        ("b", vec![64, 256], "q8", &q8_bytes, GgmlType::Q8_0),
        ("c", vec![64, 256], "q4", &q4_bytes, GgmlType::Q4_0),
    ];
    for (name, shape, encoding, data, source) in sources {
        let mut values = vec![0.0; shape.iter().product::<u64>() as usize];
        source.decode(data, &mut values).unwrap();
        text += &format!(
            "[\"{name}\"]\nshape = {shape:?}\nencoding = \"{encoding}\"\noffset = {}\nsize = {}\n",
            bytes.len(),
            data.len()
        );
        bytes.extend_from_slice(data);
        all.push((name.to_owned(), values));
    }
    // Two names for the same bytes.
    text += "[\"a2\"]\nshape = [64, 256]\nencoding = \"u16\"\noffset = 16\nsize = 32768\n";
    all.push(("a2".into(), all[1].1.clone()));
    let head = format!(
        "[cyb]\ntypes = [\"model\"]\nname = \"old\"\nmine = 1 # kept\n\n[[parts]]\nname = \"config\"\nformat = \"toml\"\n[[parts]]\nname = \"tensors\"\nformat = \"toml\"\n[[parts]]\nname = \"weights\"\nformat = \"tensors\"\nsize = {}\n~~~config\n{config}~~~tensors\n{text}~~~weights\n",
        bytes.len()
    );
    std::fs::write(path, [head.as_bytes(), &bytes].concat()).unwrap();
    all
}

/// The bits of a number that f16 holds exactly or nearly; normal numbers only.
fn half_bits(value: f32) -> u16 {
    if value == 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let exponent = ((bits >> 23) & 0xff) as i32 - 127 + 15;
    ((bits >> 16) & 0x8000) as u16 | ((exponent as u16) << 10) | ((bits >> 13) & 0x3ff) as u16
}

#[test]
fn a_legacy_model_is_encoded_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.model");
    let sources = legacy(&path, "model_type = \"x\"\n");
    says(ModelFile::open(&path).unwrap_err(), "`format_version` is missing");
    let quiet = &mut |_, _| true;
    let error = upgrade(&path, None, &Destination::InPlace, &options(), quiet).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Version);
    says(error, "Say `--meanings legacy`");
    let new = folder.path().join("new.model");
    let report = upgrade(&path, Some(Meanings::Legacy), &Destination::File(new.clone()), &options(), quiet).unwrap();
    let model = ModelFile::open(&new).unwrap();
    let to: Vec<(&str, Option<&str>, Encoding)> =
        report.tensors.iter().map(|t| (t.name.as_str(), t.from, t.to)).collect();
    assert_eq!(
        to,
        [
            ("norm", Some("F32"), Encoding::U32),
            ("a", Some("F16"), Encoding::Q8),
            ("b", Some("Q8_0"), Encoding::Q8),
            ("c", Some("Q4_0"), Encoding::Q4K),
            ("a2", Some("F16"), Encoding::Q8),
        ]
        .map(|(n, f, e)| if n == "c" { (n, f, model.tensors().get("c").unwrap().encoding) } else { (n, f, e) })
    );
    for (name, values) in sources {
        let view = model.tensor(&name).unwrap();
        let mut back = vec![0.0; values.len()];
        view.encoding.decode(view.bytes, &mut back).unwrap();
        let error = tallow_format::encoding::relative_rms_error(&values, &back);
        assert!(error < 0.06, "{name}: {error}");
        let said = report.tensors.iter().find(|t| t.name == name).unwrap().error;
        assert!((error - said).abs() < 1e-9, "{name}: {error} and {said}");
    }
    assert_eq!(model.tensor("a").unwrap().bytes, model.tensor("a2").unwrap().bytes);
    assert_eq!(model.tensors().get("a").unwrap().offset, model.tensors().get("a2").unwrap().offset);
    assert_eq!(model.container().entries().last().unwrap().range.start % 4096, 0);
    let text = model.container().frontmatter_text();
    assert!(
        text.contains("mine = 1 # kept\n") && text.contains("format_version = 2") && !text.contains("parts"),
        "{text}"
    );
    says(
        upgrade(&new, None, &Destination::InPlace, &options(), quiet).unwrap_err(),
        "already has `format_version = 2`",
    );
    let stopped =
        upgrade(&path, Some(Meanings::Legacy), &Destination::InPlace, &options(), &mut |_, _| false).unwrap_err();
    says(stopped, "Nothing was written");
    assert_eq!(names(folder.path()), ["new.model", "old.model"]);
}

#[test]
fn a_canonical_model_gets_its_version_and_keeps_its_bytes() {
    let (folder, path) = tiny();
    let before = weights(&path);
    let bytes = patch(&std::fs::read(&path).unwrap(), "format_version = 2\n", "");
    let bytes = patch(&bytes, "rms_norm_eps = 1e-6", "rms_norm_eps = 1000000");
    std::fs::write(&path, bytes).unwrap();
    let report = upgrade(&path, None, &Destination::InPlace, &options(), &mut |_, _| true).unwrap();
    assert_eq!((report.meanings, report.tensors.len()), (Meanings::Canonical, 0));
    assert!(report.because.contains("integer conventions"));
    let model = ModelFile::open(&path).unwrap();
    assert_eq!(model.config().architecture().epsilon("rms_norm_eps").unwrap(), Some(1e-6));
    assert_eq!(weights(&path), before);
    assert_eq!(model.container().entries().last().unwrap().range.start % 4096, 0);

    // Asking for legacy wins over what the file seems to say.
    let old = folder.path().join("old.model");
    legacy(&old, "model_type = \"x\"\n[sampling]\nscale = 1000\n");
    let to = Destination::File(folder.path().join("new.model"));
    assert_eq!(upgrade(&old, None, &to, &options(), &mut |_, _| true).unwrap().meanings, Meanings::Canonical);
    assert_eq!(
        upgrade(&old, Some(Meanings::Legacy), &to, &options(), &mut |_, _| true).unwrap().meanings,
        Meanings::Legacy
    );
}

#[test]
fn only_models_of_known_versions_are_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.model");
    write_model(&path, parts());
    let bytes = std::fs::read(&path).unwrap();
    let run = |bytes: Vec<u8>| {
        std::fs::write(&path, bytes).unwrap();
        upgrade(&path, Some(Meanings::Legacy), &Destination::InPlace, &options(), &mut |_, _| true).unwrap_err()
    };
    let error = run(patch(&bytes, "format_version = 2", "format_version = 9"));
    assert!(error.is_unsupported());
    says(error, "`format_version` is 9; this version of Tallow writes 2");
    says(run(patch(&bytes, "[\"model\"]", "[\"notes\"]")), "this is no model, so there is nothing to upgrade");
}
