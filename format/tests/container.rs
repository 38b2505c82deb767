//! Containers: what is read, what is refused and with which words, and the round trip of writing and reading.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use proptest::prelude::*;
use tallow_format::tools::{self, PackOptions};
use tallow_format::{Container, ErrorKind, ReadOptions};

fn read(bytes: impl Into<Vec<u8>>) -> Result<Container, String> {
    Container::from_vec(bytes.into(), "t.cyb", &ReadOptions::default()).map_err(|e| e.to_string())
}

fn fails(bytes: impl Into<Vec<u8>>) -> String {
    read(bytes).expect_err("should be refused")
}

const HEAD: &str = "[cyb]\ntypes = [\"x\"]\nname = \"n\"\n";

/// A frontmatter that declares `(name, size)` in order.
fn head(files: &[(&str, Option<usize>)]) -> String {
    let mut out = HEAD.to_owned();
    for (name, size) in files {
        out += &format!("\n[[files]]\nname = {name:?}\nformat = \"f\"\n");
        if let Some(size) = size {
            out += &format!("size = {size}\n");
        }
    }
    out
}

fn content<'a>(container: &'a Container, name: &str) -> &'a [u8] {
    container.content(name).unwrap()
}

#[test]
fn text_and_binary_files_are_split() {
    let mut bytes = head(&[("a", None), ("w", Some(9)), ("b", None)]).into_bytes();
    bytes.extend_from_slice(b"~~~a\nhello\n\n~~~w\n~~~b\n\xff\r\n\0\n~~~b\ntail");
    let container = read(bytes).unwrap();
    assert_eq!(content(&container, "a"), b"hello\n\n");
    assert_eq!(content(&container, "w"), b"~~~b\n\xff\r\n\0");
    assert_eq!(content(&container, "b"), b"tail");
    assert_eq!(container.name(), Some("n"));
    assert_eq!(container.types(), ["x"]);
    assert!(container.warnings().is_empty(), "{:?}", container.warnings());
    assert!(container.text("w").unwrap_err().to_string().contains("t.cyb: byte "));
    assert_eq!(container.text("a").unwrap(), Some("hello\n\n"));
    assert_eq!(container.text("nowhere").unwrap(), None);
}

#[test]
fn an_lf_between_binary_and_delimiter_may_be_left_out() {
    for lf in ["", "\n"] {
        let text = head(&[("w", Some(2)), ("b", None)]) + "~~~w\nxy" + lf + "~~~b\nz";
        let container = read(text).unwrap();
        assert_eq!((content(&container, "w"), content(&container, "b")), (&b"xy"[..], &b"z"[..]));
    }
    let error = fails(head(&[("w", Some(2)), ("b", None)]) + "~~~w\nxy\n\n~~~b\nz");
    assert!(error.contains("after the 2 bytes of `w` there should be the line `~~~b`"), "{error}");
}

#[test]
fn other_delimiters_are_content() {
    let card = "# Card\n~~~sh\nls\n~~~\n~~~c\n~~~b \n ~~~b\nx~~~b\n";
    let container = read(head(&[("a", None), ("b", None), ("c", None)]) + "~~~a\n" + card + "~~~b\n~~~c\n").unwrap();
    assert_eq!(content(&container, "a"), card.as_bytes());
    assert_eq!(content(&container, "b"), b"");
    assert_eq!(content(&container, "c"), b"");
}

#[test]
fn the_last_file_may_hold_any_bytes() {
    let mut bytes = head(&[("a", None)]).into_bytes();
    bytes.extend_from_slice(b"~~~a\n\xff~~~a\n\0\r\n");
    assert_eq!(content(&read(bytes).unwrap(), "a"), b"\xff~~~a\n\0\r\n");
}

#[test]
fn a_final_lf_is_tolerated_with_a_warning_and_more_is_not() {
    let text = head(&[("w", Some(2))]) + "~~~w\nxy";
    assert!(read(text.clone()).unwrap().warnings().is_empty());
    let container = read(text.clone() + "\n").unwrap();
    assert_eq!(content(&container, "w"), b"xy");
    assert!(container.warnings()[0].contains("one LF follows the last file `w`"));
    let error = fails(text + "\n\n");
    assert!(error.contains("2 bytes are left over after the last file `w`, whose size is 2"), "{error}");
}

#[test]
fn parts_is_an_older_spelling_of_files() {
    let text = head(&[("a", None), ("b", None)]) + "~~~a\n1\n~~~b\n2\n";
    let old = read(text.replace("[[files]]", "[[parts]]")).unwrap();
    assert_eq!(content(&old, "b"), b"2\n");
    let error = fails(text.replacen("[[files]]", "[[parts]]", 1));
    assert!(error.contains("both `[[files]]` and `[[parts]]`"), "{error}");
}

#[test]
fn unknown_keys_and_comments_are_kept() {
    let front = "# mine\n[cyb]\nname = \"n\" # x\ntypes = []\nfuture = { b = 1, a = 2 }\n\n[[files]]\nname = \"a\"\nformat = \"md\"\nlicense = \"MIT\"\n";
    let container = read(format!("{front}~~~a\n")).unwrap();
    assert_eq!(container.frontmatter_text(), front);
    assert_eq!(container.frontmatter().to_string(), front);
}

#[test]
fn frontmatter_faults_are_named() {
    let two = |a: &str, b: &str| head(&[(a, None), (b, None)]) + "~~~a\n~~~b\n";
    let cases: Vec<(String, &str)> = vec![
        ("".into(), "t.cyb: the file is empty"),
        ("~~~a\nx".into(), "there is no frontmatter before the first `~~~` line"),
        (HEAD.into(), "no line begins with `~~~`, so nothing ends the frontmatter"),
        (HEAD.to_owned() + "~~~a\n", "the frontmatter declares no files"),
        (HEAD.to_owned() + "files = []\n~~~a\n", "the frontmatter declares no files"),
        ("files = 3\n~~~a\n".into(), "`files` is integer, not an array of tables"),
        ("a = \n~~~a\n".into(), "t.cyb: line 1, column 5: invalid TOML"),
        ("\u{feff}a = 1\n~~~a\n".into(), "byte-order mark"),
        (HEAD.to_owned() + "[[files]]\nformat = \"md\"\n~~~a\n", "line 4: entry 1 of `[[files]]` has no `name`"),
        (HEAD.to_owned() + "[[files]]\nname = 3\n~~~a\n", "`name` of a file is integer, not a string"),
        (two("a", ""), "line 9: the file name \"\" is empty"),
        (two("a", "a"), "line 9: two files are named `a`: the first is at line 5"),
        (two("a", "b "), "the file name \"b \" begins or ends with white space"),
        (two("a", "\tb"), "begins or ends with white space"),
        (two("a", "b\nc"), "the file name \"b\\nc\" holds a line break"),
        (two("a", "b\rc"), "holds a line break"),
        (HEAD.to_owned() + "[[files]]\nname = \"a\"\nformat = \"x\"\nsize = -1\n~~~a\n", "`size` of `a` is -1"),
        (
            HEAD.to_owned() + "[[files]]\nname = \"a\"\nformat = \"x\"\nsize = \"1\"\n~~~a\n",
            "`size` of `a` is string, not an integer",
        ),
        ("cyb = 3\n[[files]]\nname = \"a\"\n~~~a\n".into(), "`cyb` is integer, not a table"),
        ("[cyb]\nname = 3\n[[files]]\nname = \"a\"\n~~~a\n".into(), "`name` in `[cyb]` is integer, not a string"),
        (
            "[cyb]\ntypes = \"model\"\n[[files]]\nname = \"a\"\n~~~a\n".into(),
            "`types` in `[cyb]` is string, not an array of strings",
        ),
    ];
    for (text, want) in cases {
        let error = fails(text.clone());
        assert!(error.contains(want), "{error}\n  should hold\n{want}\n  for\n{text}");
    }
    let error = fails(b"a = \"\xff\"\n~~~a\n".to_vec());
    assert!(error.contains("line 1, byte 5: the frontmatter is not UTF-8"), "{error}");
    assert!(
        fails(b"GGUF\x03\0\0\0".to_vec())
            .contains("this is a GGUF file, not a container. Turn it into a `.model` with `tallow import`")
    );
    assert!(fails(b"\x10\0\0\0\0\0\0\0{\"a\":1}".to_vec()).contains("safetensors"));
}

#[test]
fn missing_tables_are_warnings() {
    let container = read("[[files]]\nname = \"a\"\n~~~a\n").unwrap();
    let all = container.warnings().join("\n");
    for want in ["no `[cyb]` table", "file `a` has no `format`"] {
        assert!(all.contains(want), "{all}");
    }
}

#[test]
fn delimiter_faults_are_named() {
    let three = head(&[("a", None), ("b", None), ("c", None)]);
    let lines = three.lines().count();
    let cases: Vec<(String, String)> = vec![
        (
            three.clone() + "~~~b\n~~~a\n~~~c\n",
            format!(
                "line {}: the first file declared is `a`, but the line that ends the frontmatter is `~~~b`. The files are out of order",
                lines + 1
            ),
        ),
        (three.clone() + "~~~x\n~~~a\n", "is `~~~x`. Open the file with the line `~~~a`".into()),
        (
            three.clone() + "~~~a\nx\n~~~c\ny\n~~~b\nz\n",
            format!(
                "line {}: the files are out of order: `c` opens here (inside `a`), but is declared after `b`, which opens on line {}",
                lines + 3,
                lines + 5
            ),
        ),
        (
            three.clone() + "~~~a\nx\n~~~b\ny\n",
            "the file `c` is declared, but no line `~~~c` opens it after `b`".into(),
        ),
        (three.clone() + "~~~a\nx\n~~~b\ny\n~~~c", "is the last of the container and has no LF".into()),
        (three.clone() + "~~~a\n~~~b \n~~~c\n", "has white space around the name".into()),
        (three.clone() + "~~~a\r\n~~~b\r\n~~~c\r\n", format!("line {}: the line `~~~a` ends in CR LF", lines + 1)),
        (
            three.clone() + "~~~a\nx\n~~~b\r\n~~~c\n",
            format!("line {}: the line `~~~b` ends in CR LF: a tool has converted the line endings", lines + 3),
        ),
        (head(&[("w", Some(2)), ("b", None)]) + "~~~w\nxy\r\n~~~b\r\n", "the line `~~~b` ends in CR LF".into()),
        (
            head(&[("w", Some(2)), ("b", None)]) + "~~~w\nxyz\n~~~b\n",
            "after the 2 bytes of `w` there should be the line `~~~b`, but there is `z`. Correct the size of `w`"
                .into(),
        ),
        (head(&[("w", Some(9))]) + "~~~w\nxyz", "`w` should hold 9 bytes, but only 3 are left".into()),
        (
            head(&[("w", Some(i64::MAX as usize))]) + "~~~w\nxyz",
            "should hold 9223372036854775807 bytes, but only 3 are left".into(),
        ),
    ];
    for (text, want) in cases {
        let error = fails(text.clone());
        assert!(error.contains(&want), "{error}\n  should hold\n{want}\n  for\n{text}");
    }
}

#[test]
fn text_is_scanned_up_to_a_limit_that_can_be_raised() {
    let long = "x".repeat(5000);
    let text = head(&[("a", None), ("w", Some(1))]) + "~~~a\n" + &long + "\n~~~w\nz";
    let at = |max_text| Container::from_vec(text.clone().into_bytes(), "t", &ReadOptions { max_text });
    let error = at(3000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let error = error.to_string();
    assert!(
        error.contains("`a` does not end within the first 3000 bytes of text") && error.contains("`--max-text BYTES`"),
        "{error}"
    );
    assert!(at(6000).is_ok());
    assert!(at(10).unwrap_err().to_string().contains("the frontmatter does not end within the first 10 bytes"));
    // Neither binary files nor the last file count.
    let text = head(&[("w", Some(5000)), ("z", None)]) + "~~~w\n" + &long + "\n~~~z\n" + &long;
    assert!(Container::from_vec(text.into_bytes(), "t", &ReadOptions { max_text: 500 }).is_ok());
    // The default is 32 MiB.
    let huge = "y".repeat(32 << 20);
    let error = fails(head(&[("a", None), ("b", None)]) + "~~~a\n" + &huge + "\n~~~b\n");
    assert!(error.contains("first 33554432 bytes"), "{error}");
}

#[test]
fn a_missing_delimiter_before_long_weights_is_named_all_the_same() {
    let weights = "w".repeat(33 << 20);
    let text = head(&[("a", None), ("b", None), ("w", Some(weights.len()))]) + "~~~a\n~~~w\n" + &weights;
    let error = fails(text);
    assert!(error.contains("the file `b` is declared, but no line `~~~b` opens it"), "{error}");
}

#[test]
fn a_container_cut_short_is_refused_everywhere() {
    let text = head(&[("a", None), ("w", Some(400)), ("b", Some(3))])
        + "~~~a\nsome text\n~~~w\n"
        + &"w".repeat(400)
        + "\n~~~b\nxyz";
    assert!(read(text.clone()).is_ok());
    for percent in [1, 25, 50, 90, 99] {
        let cut = text.len() * percent / 100;
        let error = fails(&text.as_bytes()[..cut]);
        assert!(error.starts_with("t.cyb: ") && error.len() > 30, "{percent}: {error}");
    }
    for cut in 0..text.len() {
        assert!(read(&text.as_bytes()[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn opening_what_is_no_file_is_an_io_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = Container::open(&folder.path().join("none")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains("cannot open the file") && error.to_string().contains("Check the path"),
        "{error}"
    );
    assert!(Container::open(folder.path()).unwrap_err().to_string().contains("this is a folder"));
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    assert!(Container::open(&empty).unwrap_err().to_string().contains("the file is empty"));
}

/// Packs contents under the names `f0`, `f1`, …, each of a format `x`, text or binary as they are.
fn pack(folder: &Path, contents: &[Vec<u8>]) -> Container {
    let source = folder.join("in");
    std::fs::create_dir(&source).unwrap();
    for (i, bytes) in contents.iter().enumerate() {
        std::fs::write(source.join(format!("f{i}.x")), bytes).unwrap();
    }
    let out = folder.join("out.cyb");
    tools::pack(&[source], &out, &PackOptions::default()).unwrap();
    Container::open(&out).unwrap()
}

/// Contents that look like the things that trip a reader up.
fn tricky() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"~~~f0\n".to_vec()),
        Just(b"~~~f1\n".to_vec()),
        Just(b"~~~f2\n".to_vec()),
        Just(b"~~~".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"#pad   \n".to_vec()),
        Just("é\u{2581}".as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_packed_is_read_back_and_survives_extracting(contents in proptest::collection::vec(tricky(), 1..5)) {
        let folder = tempfile::tempdir().unwrap();
        let container = pack(folder.path(), &contents);
        for (i, bytes) in contents.iter().enumerate() {
            prop_assert_eq!(content(&container, &format!("f{i}")), &bytes[..]);
        }
        let out = folder.path().join("out");
        tools::extract(&container, &[], &out, false).unwrap();
        let again = folder.path().join("again.cyb");
        tools::pack(&[out], &again, &PackOptions::default()).unwrap();
        prop_assert_eq!(std::fs::read(&again).unwrap(), container.bytes());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in tricky(), at in 0usize..400, cut in 0usize..400) {
        let _ = read(bytes.clone());
        let mut whole = (head(&[("f0", None), ("f1", Some(5)), ("f2", None)]) + "~~~f0\na\n~~~f1\n12345\n~~~f2\nz\n").into_bytes();
        whole.truncate(whole.len().saturating_sub(cut / 4));
        let at = at.min(whole.len());
        whole.splice(at..at, bytes);
        if let Ok(container) = read(whole) {
            for entry in container.entries() {
                prop_assert!(entry.range.end <= container.bytes().len());
            }
        }
    }
}
