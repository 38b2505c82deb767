//! The container tools and `inspect` as a user runs them: exit codes, messages, and what is left on disk.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::*;
use sha2::{Digest as _, Sha256};
use std::path::Path;

fn section(file: &Path, name: &str) -> Vec<u8> {
    tallow::format::Container::open(file).unwrap().content(name).unwrap().to_vec()
}

#[test]
fn cat_gives_sections_byte_for_byte() {
    let (folder, path) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    assert_eq!(run(&["cat", "tiny.model", "config"]).fine(), CONFIG);
    assert_eq!(run(&["cat", "tiny.model", "weights"]).stdout, section(&path, "weights"));
    assert!(run(&["cat", "tiny.model", "frontmatter"]).fine().contains("format_version = 2"));
    let error = run(&["cat", "tiny.model", "wieghts"]).fails(3);
    assert!(error.contains("tiny.model") && error.contains("`wieghts`") && error.contains("`weights`"), "{error}");
    let error = run(&["cat", "no.model", "config"]).fails(3);
    assert!(error.contains("no.model") && error.contains("cannot open the file"), "{error}");
    assert_eq!(run(&["cat", "tiny.model"]).code, 2);
}

#[test]
fn cat_into_a_closed_pipe_is_fine() {
    let folder = tempfile::tempdir().unwrap();
    let big = bare_model("format_version = 2", "u16", &[1 << 20], &vec![7; 2 << 20]);
    std::fs::write(folder.path().join("big.model"), big).unwrap();
    let mut child = command(folder.path(), &["cat", "big.model", "weights"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn pack_makes_again_what_extract_took_apart() {
    let (folder, path) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    run(&["extract", "tiny.model", "-o", "out"]).fine();
    let files = listing(&folder.path().join("out"));
    assert!(
        ["card.md", "config.toml", "frontmatter.toml", "weights.tensors"]
            .iter()
            .all(|f| files.contains(&f.to_string())),
        "{files:?}"
    );
    run(&["pack", "out", "-o", "again.model"]).fine();
    assert_eq!(std::fs::read(folder.path().join("again.model")).unwrap(), std::fs::read(&path).unwrap());

    // Nothing is overwritten unless asked for.
    let error = run(&["extract", "tiny.model", "-o", "out"]).fails(2);
    assert!(error.contains("card.md") && error.contains("--force"), "{error}");
    run(&["extract", "tiny.model", "card", "-o", "out", "--force"]).fine();
    let error = run(&["pack", "out", "-o", "again.model"]).fails(2);
    assert!(error.contains("again.model exists") && error.contains("--force"), "{error}");
    run(&["pack", "out", "-o", "again.model", "--force"]).fine();

    // One section, and one that is not there.
    run(&["extract", "tiny.model", "chat", "-o", "one"]).fine();
    assert_eq!(listing(&folder.path().join("one")), ["chat.toml"]);
    run(&["extract", "tiny.model", "chat", "chats", "-o", "two"]).fails(3);
    assert!(!folder.path().join("two").exists());
}

#[test]
fn pack_makes_containers_from_loose_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    std::fs::write(folder.path().join("a.md"), "# A\n").unwrap();
    std::fs::write(folder.path().join("b.bin"), b"\x00~~~a\n").unwrap();
    run(&["pack", "a.md", "b.bin", "-o", "c.cyb", "--name", "pair", "--type", "notes"]).fine();
    let facts = run(&["inspect", "c.cyb", "--json"]).json();
    assert_eq!((facts["name"].as_str(), facts["types"][0].as_str()), (Some("pair"), Some("notes")));
    assert_eq!(run(&["cat", "c.cyb", "b"]).stdout, b"\x00~~~a\n");

    // A model that could not be opened is not written.
    let error = run(&["pack", "a.md", "b.bin", "-o", "m.model"]).fails(3);
    assert!(error.contains("m.model"), "{error}");
    assert_eq!(run(&["pack", "-o", "d.cyb"]).code, 2);
    let error = run(&["pack", "missing.md", "-o", "d.cyb"]).fails(3);
    assert!(error.contains("missing.md"), "{error}");
    assert_eq!(listing(folder.path()), ["a.md", "b.bin", "c.cyb"]);
}

#[test]
fn names_that_leave_the_folder_are_not_extracted() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = "[cyb]\n[[files]]\nname = \"../evil\"\nformat = \"txt\"\n\n~~~../evil\nx\n";
    std::fs::write(folder.path().join("e.cyb"), bytes).unwrap();
    let error = tallow(folder.path(), &["extract", "e.cyb", "-o", "deep/er"]).fails(3);
    assert!(error.contains("e.cyb") && error.contains("`../evil`"), "{error}");
    assert_eq!(listing(folder.path()), ["e.cyb"]);
}

#[test]
fn edit_changes_text_and_no_binary_byte() {
    let (folder, path) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let weights = section(&path, "weights");
    std::fs::write(folder.path().join("long.md"), "# Longer\n".repeat(2000)).unwrap();
    run(&["edit", "tiny.model", "--card", "long.md", "--remove", "program", "-o", "new.model"]).fine();
    let new = folder.path().join("new.model");
    assert_eq!(section(&new, "weights"), weights);
    assert_eq!(section(&new, "card"), "# Longer\n".repeat(2000).into_bytes());
    assert!(tallow::format::Container::open(&new).unwrap().entry("program").is_none());
    assert_eq!(section(&path, "card"), parts().card.into_bytes(), "the source stays");

    let error = run(&["edit", "tiny.model", "--card", "long.md", "-o", "new.model"]).fails(2);
    assert!(error.contains("new.model exists"), "{error}");

    // In place, from stdin, and a section that was not there.
    let chat = b"format = \"plain\"\n";
    assert_eq!(tallow_with(folder.path(), &["edit", "new.model", "--set", "chat=-", "--in-place"], chat).code, 0);
    assert_eq!(section(&new, "chat"), chat);
    run(&["edit", "new.model", "--set", "notes=long.md", "--in-place"]).fine();
    assert_eq!(tallow::format::Container::open(&new).unwrap().entry("notes").unwrap().format, "md");
    assert_eq!(section(&new, "weights"), weights);
    assert_eq!(listing(folder.path()), ["long.md", "new.model", "tiny.model"]);
}

#[test]
fn edits_that_cannot_be_made_leave_everything_as_it_was() {
    let (folder, path) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let before = std::fs::read(&path).unwrap();
    let bad = CONFIG.replace("num_key_value_heads = 1", "num_key_value_heads = 7");
    std::fs::write(folder.path().join("bad.toml"), bad).unwrap();
    std::fs::write(folder.path().join("raw.bin"), b"\xff\xfe").unwrap();
    std::fs::write(folder.path().join("bad.hex"), "00zz").unwrap();
    std::fs::write(folder.path().join("bad.txt"), "no graph").unwrap();
    let cases: [(&[&str], i32, &str); 13] = [
        (&["--set", "chat=-", "--card", "-", "--in-place"], 2, "stdin"),
        (&["--set", "config=bad.toml", "--in-place"], 3, "num_key_value_heads"),
        (&["--set", "weights=bad.toml", "--in-place"], 2, "binary"),
        (&["--set", "card=raw.bin", "--in-place"], 2, "byte 0 is not UTF-8"),
        (&["--set", "card=none.md", "--in-place"], 3, "none.md"),
        (&["--set", "card", "--in-place"], 2, "SECTION=FILE"),
        (&["--remove", "graph", "--in-place"], 3, "`graph`"),
        (&["--remove", "card", "--card", "bad.toml", "--in-place"], 2, "changed twice"),
        (&["--remove", "config", "--in-place"], 3, "config"),
        (&["--graph", "bad.hex", "--in-place"], 3, "bad.hex"),
        (&["--graph", "bad.txt", "--in-place"], 3, "bad.txt"),
        (&["--graph", "raw.bin", "--in-place"], 2, ".hex"),
        (&["--in-place"], 2, "nothing to change"),
    ];
    for (arguments, code, want) in cases {
        let all: Vec<&str> = ["edit", "tiny.model"].iter().chain(arguments).copied().collect();
        let error = run(&all).fails(code);
        assert!(error.contains(want), "{arguments:?}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{arguments:?}");
    }
    assert_eq!(run(&["edit", "tiny.model", "--card", "bad.toml"]).code, 2);
    assert_eq!(listing(folder.path()), ["bad.hex", "bad.toml", "bad.txt", "raw.bin", "tiny.model"]);
}

#[test]
fn a_graph_goes_in_as_text_and_comes_out_again() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    run(&["compile", "tiny.model", "-o", "g.txt"]).fine();
    run(&["edit", "tiny.model", "--graph", "g.txt", "-o", "with.model"]).fine();
    let facts = run(&["inspect", "with.model", "--json"]).json();
    assert_eq!(facts["model"]["paths"]["graph"]["runs"], true, "{facts:#}");
    run(&["compile", "with.model", "--path", "graph", "-o", "h.txt"]).fine();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("g.txt"), read("h.txt"));
    run(&["edit", "with.model", "--graph", "none", "--in-place"]).fine();
    assert!(run(&["inspect", "with.model", "--json"]).json()["model"]["paths"]["graph"].is_null());
}

#[test]
fn hashes_are_those_of_all_bytes() {
    let (folder, path) = tiny();
    std::fs::write(folder.path().join("n.cyb"), NOTES).unwrap();
    let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let own = hex(&std::fs::read(&path).unwrap());
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let text = run(&["hash", "tiny.model", "n.cyb"]).fine();
    assert!(text.contains(&format!("sha256  {own}  tiny.model\n")), "{text}");
    assert!(text.contains(&format!("sha256  {}  n.cyb\n", hex(NOTES))), "{text}");
    assert_eq!(run(&["hash", "--sha256", "tiny.model"]).fine(), format!("sha256  {own}  tiny.model\n"));
    let json = run(&["hash", "--json", "n.cyb"]).json();
    assert_eq!(json[0]["sha256"], hex(NOTES));
    assert_eq!(json[0]["bytes"], NOTES.len());
    if tallow::format::hash::HAS_HEMERA {
        assert!(json[0]["hemera"].as_str().unwrap().len() == 64, "{json}");
    }
    let facts = run(&["inspect", "tiny.model", "--hash", "--json"]).json();
    assert_eq!(facts["sha256"], own);

    // One file that cannot be read does not keep the others from being hashed.
    let ran = run(&["hash", "--sha256", "none", "n.cyb"]);
    assert_eq!((ran.code, ran.text()), (3, format!("sha256  {}  n.cyb\n", hex(NOTES)).as_str()));
    assert!(ran.fails(3).contains("none: cannot read the file"));
    assert!(run(&["hash", "."]).fails(2).contains("folder"));
}

#[test]
fn old_models_are_upgraded_by_the_meanings_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let floats: Vec<u8> = [1.0f32, -2.0, 0.5, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let path = folder.path().join("old.model");
    std::fs::write(&path, bare_model("", "u32", &[4], &floats)).unwrap();

    let error = run(&["inspect", "old.model"]).fails(3);
    assert!(error.contains("old.model") && error.contains("tallow upgrade"), "{error}");
    let error = run(&["upgrade", "old.model", "-o", "new.model"]).fails(3);
    assert!(error.contains("--meanings legacy"), "{error}");
    assert_eq!(run(&["upgrade", "old.model", "--meanings", "modern", "-o", "new.model"]).code, 2);
    assert_eq!(run(&["upgrade", "old.model", "--meanings", "legacy"]).code, 2);
    assert_eq!(listing(folder.path()), ["old.model"]);

    let ran = run(&["upgrade", "old.model", "--meanings", "legacy", "-o", "new.model"]);
    assert!(ran.stderr.contains("meanings: legacy") && ran.stderr.contains("F32"), "{}", ran.stderr);
    ran.fine();
    let fixed: Vec<u8> = [65536i32, -131072, 32768, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(section(&folder.path().join("new.model"), "weights"), fixed);
    run(&["verify", "new.model"]).fine();
    assert!(run(&["upgrade", "new.model", "-o", "newer.model"]).fails(2).contains("already"));

    run(&["upgrade", "old.model", "--meanings", "canonical", "--in-place"]).fine();
    assert_eq!(section(&path, "weights"), floats);
}

#[test]
fn the_limit_on_text_can_be_raised_wherever_a_model_is_read() {
    let (folder, _) = tiny();
    for command in [
        &["run", "tiny.model", "--input", "input_ids=0,1"][..],
        &["chat", "tiny.model"],
        &["compile", "tiny.model"],
        &["inspect", "tiny.model"],
    ] {
        let with = |limit: &str| tallow(folder.path(), &[command, &["--max-text", limit]].concat());
        let error = with("100").fails(3);
        assert!(error.contains("--max-text BYTES"), "{command:?}: {error}");
        let ran = with("1000000");
        assert_eq!(ran.code, 0, "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn verify_answers_with_its_exit_code() {
    let (folder, _) = tiny();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    assert!(run(&["verify", "tiny.model"]).fine().contains("tiny.model: sound"));
    write("n.cyb", NOTES);
    assert!(run(&["verify", "n.cyb"]).fine().contains("sound"));

    // A ternary code that stands for nothing.
    write("wrong.model", &bare_model("format_version = 2", "ternary", &[8], &[0b11, 0]));
    let ran = run(&["verify", "wrong.model"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{}", ran.text());
    assert!(ran.text().contains("wrong: wrong.model: tensor `w`") && ran.text().contains("1 fault"), "{}", ran.text());
    let ran = run(&["verify", "wrong.model", "--json"]);
    let json = ran.json();
    assert_eq!((ran.code, &json["sound"], json["problems"].as_array().unwrap().len()), (1, &false.into(), 1));

    write("cut.cyb", &NOTES[..NOTES.len() - 1]);
    assert_eq!(run(&["verify", "cut.cyb"]).code, 1);
    assert!(run(&["verify", "none.cyb"]).fails(3).contains("none.cyb"));
    write("newer.model", &bare_model("format_version = 3", "u16", &[1], &[0, 0]));
    let error = run(&["verify", "newer.model"]).fails(4);
    assert!(error.contains("`format_version` is 3") && !error.contains("corrupt"), "{error}");
    let ran = run(&["verify", "newer.model", "--json"]);
    assert_eq!((ran.code, ran.json()["sound"].is_null()), (4, true));
}

#[test]
fn hostile_files_fail_with_one_message_that_names_file_and_cause() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tallow(folder.path(), arguments);
    let model = bare_model("format_version = 2", "u16", &[4], &[0; 8]);
    let replace = |from: &str, to: &str| -> Vec<u8> {
        let text = String::from_utf8(model.clone()).unwrap();
        assert!(text.contains(from), "{from}");
        text.replace(from, to).into_bytes()
    };
    let mut deep = b"[cyb]\nname = \"x\"\n[[files]]\nname = \"config\"\nformat = \"toml\"\nx = ".to_vec();
    deep.extend(std::iter::repeat_n(b'[', 100_000));
    deep.extend(b"\n~~~config\n");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("zeros", vec![0; 4096]),
        ("noise", (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()),
        ("no files", b"[cyb]\nname = \"x\"\n~~~config\n".to_vec()),
        ("cut", model[..model.len() - 3].to_vec()),
        ("left over", [&model[..], b"more"].concat()),
        ("huge size", replace("size = 8\n\n~~~config", "size = 9223372036854775807\n\n~~~config")),
        ("negative size", replace("size = 8\n\n~~~config", "size = -8\n\n~~~config")),
        ("huge shape", replace("[4]", "[4294967296, 4294967296, 4294967296]")),
        ("zero shape", replace("[4]", "[0]")),
        ("offset", replace("offset = 0", "offset = 18446744073709551614")),
        ("line ends", replace("\n", "\r\n")),
        ("unknown encoding", replace("\"u16\"", "\"u17\"")),
        ("deep", deep),
    ];
    for (what, bytes) in &cases {
        let name = "h.model";
        std::fs::write(folder.path().join(name), bytes).unwrap();
        for arguments in [
            &["inspect", name][..],
            &["inspect", name, "--json", "--hash", "--tensors"],
            &["cat", name, "nothing"],
            &["extract", name, "nothing", "-o", "out"],
            &["edit", name, "--remove", "nothing", "-o", "out.model"],
            &["upgrade", name, "-o", "out.model"],
        ] {
            let ran = run(arguments);
            // An encoding of another name may come from a newer version; `upgrade` has nothing to do for a sound version.
            let code = ran.code;
            assert!([2, 3, 4].contains(&code), "{what}: {arguments:?}: {code} {}", ran.stderr);
            if arguments[0] != "upgrade" && *what != "unknown encoding" {
                assert_eq!(code, 3, "{what}: {arguments:?}: {}", ran.stderr);
            }
            let error = ran.fails(code);
            assert!(error.starts_with("error: h.model: "), "{what}: {arguments:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{what}: {arguments:?}: {error}");
            assert!(error.len() < 2000, "{what}: {error}");
        }
        let ran = run(&["verify", name]);
        assert!([1, 4].contains(&ran.code), "{what}: {} {}", ran.code, ran.stderr);
        assert_eq!(listing(folder.path()), [name], "{what}");
    }
}
