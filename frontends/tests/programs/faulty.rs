//! Programs with mistakes: the whole message of each stands beside it. A folder has a config and a tensor index that
//! its programs share, and a name begins with the code that its message has.

use crate::{beside, bless, config, folder, golden};
use indexmap::IndexMap;
use std::path::{Path, PathBuf};
use tallow_format::Config;
use tallow_frontends::program::codes::Code;
use tallow_frontends::program::reference::errors;
use tallow_frontends::program::{Diagnostics, Language, Options, compile};

/// The folders, in the order in which the page of errors takes its examples.
const FOLDERS: [&str; 2] = ["decoder", "picture"];

/// What the programs of a folder are compiled beside.
const BESIDE: [&str; 2] = ["config.toml", "tensors.toml"];

/// The most lines of a program that is shown as an example.
const EXAMPLE: usize = 12;

/// One program and what is said about it.
struct Faulty {
    path: PathBuf,
    source: String,
    found: Diagnostics,
}

impl Faulty {
    /// The code that its name begins with.
    fn code(&self) -> String {
        let name = self.path.file_name().unwrap().to_str().unwrap();
        name.split('-').next().unwrap().to_uppercase()
    }
}

/// The sizes of the tensors of a folder.
fn index(folder: &Path) -> IndexMap<String, Vec<u64>> {
    let tensors: toml_edit::DocumentMut =
        std::fs::read_to_string(folder.join("tensors.toml")).unwrap().parse().unwrap();
    let sizes = |item: &toml_edit::Item| -> Vec<u64> {
        item.as_array().unwrap().iter().map(|n| n.as_integer().unwrap() as u64).collect()
    };
    tensors.iter().map(|(name, item)| (name.to_owned(), sizes(item))).collect()
}

/// The programs of a folder with their messages; every other file must belong to one.
fn programs(name: &str) -> Vec<Faulty> {
    let folder = folder("faulty").join(name);
    let config: Config = config(&std::fs::read_to_string(folder.join("config.toml")).unwrap());
    let index = index(&folder);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let (mut out, mut sound) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let language = match name.rsplit_once('.') {
            Some((_, "rs")) => Language::Rs,
            Some((_, "tri")) => Language::Tri,
            Some((program, "txt")) if path.with_file_name(program).exists() => continue,
            _ if BESIDE.contains(&name) => continue,
            _ => panic!("no test reads {}", path.display()),
        };
        let source = std::fs::read_to_string(&path).unwrap();
        match compile(&source, language, name, &config, Some(&index), Options::default()) {
            Ok(_) => sound.push(name.to_owned()),
            Err(found) => out.push(Faulty { path, source, found }),
        }
    }
    assert!(sound.is_empty(), "these compile: {sound:?}");
    out
}

fn all() -> Vec<Faulty> {
    FOLDERS.iter().flat_map(|name| programs(name)).collect()
}

#[test]
fn mistakes_are_shown() {
    for entry in std::fs::read_dir(folder("faulty")).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(FOLDERS.iter().any(|f| name == *f), "no test reads {name:?}");
    }
    let mut failures = Vec::new();
    for program in all() {
        let message = program.found.to_string();
        let code = format!("error[{}]", program.code());
        if !message.contains(&code) {
            failures.push(format!("{} gives no {code}:\n{message}", program.path.display()));
            continue;
        }
        golden(&beside(&program.path), &format!("{message}\n"));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// `docs/errors.md` is what the table of codes says, with the first short program for each code.
#[test]
fn the_page_of_errors_is_current() {
    let all = all();
    let example = |code: Code| {
        let fits = |p: &&Faulty| p.found.list.len() == 1 && p.source.lines().count() <= EXAMPLE && p.code() == code.name();
        all.iter().find(fits).map(|p| (p.source.clone(), p.found.to_string()))
    };
    for code in Code::ALL {
        assert!(example(*code).is_some(), "no program of at most {EXAMPLE} lines shows {} alone", code.name());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let page = errors(&example);
    if bless() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/errors.md is stale; run `TALLOW_BLESS=1 cargo test -p tallow-frontends --test programs`");
}
