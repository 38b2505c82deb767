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
const FOLDERS: [&str; 3] = ["decoder", "picture", "phi"];

/// What the programs of a folder are compiled beside.
const BESIDE: [&str; 2] = ["config.toml", "tensors.toml"];

/// The programs that `docs/errors.md` shows, one for each code.
const EXAMPLES: &[&str] = &[
    "e0101-missing-comma.rs",
    "e0102-brackets.rs",
    "e0103-unsafe.rs",
    "e0104-number.rs",
    "e0105-parameter.rs",
    "e0201-function.rs",
    "e0202-misspelt-key.rs",
    "e0203-tensor-method.rs",
    "e0204-struct-field.rs",
    "e0205-builtin.rs",
    "e0206-main.rs",
    "e0207-number.rs",
    "e0301-tensor-for-name.rs",
    "e0302-overflow.rs",
    "e0303-wrapping.rs",
    "e0304-list.rs",
    "e0305-match.rs",
    "e0306-assert.rs",
    "e0307-constant.rs",
    "e0308-tensor-name.rs",
    "e0401-near.rs",
    "e0402-linear.rs",
    "e0501-concat.rs",
    "e0502-rank.rs",
    "e0503-softmax.rs",
    "e0504-unknown.rs",
    "e0505-loop.rs",
    "e0601-endless.rs",
    "e0602-recursion.rs",
    "e0603-bounded.tri",
    "e0604-break.rs",
    "e0605-text.rs",
    "e0701-return-tensor.rs",
    "e0702-while-tensor.rs",
    "e0703-carries-tensor.rs",
    "e0704-name.rs",
    "e0705-nothing.rs",
    "e0801-third-norm.tri",
    "e0802-two-roles.tri",
    "e0803-layers.tri",
    "e0805-head-dim.tri",
];

/// The most lines of a program that is shown as an example.
const EXAMPLE: usize = 12;

/// One program and what is said about it.
struct Faulty {
    path: PathBuf,
    source: String,
    found: Diagnostics,
}

impl Faulty {
    fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    /// The code that its name begins with.
    fn code(&self) -> String {
        self.name().split('-').next().unwrap().to_uppercase()
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

/// `docs/errors.md` is what the table of codes says, with a short program for each code.
#[test]
fn the_page_of_errors_is_current() {
    let all = all();
    let example = |code: Code| {
        let shown = |p: &&Faulty| EXAMPLES.contains(&p.name()) && p.code() == code.name();
        all.iter().find(shown).map(|p| (p.source.clone(), p.found.to_string()))
    };
    for code in Code::ALL {
        assert!(example(*code).is_some(), "no program of `EXAMPLES` shows {}", code.name());
    }
    for program in all.iter().filter(|p| EXAMPLES.contains(&p.name())) {
        let short = program.source.lines().count() <= EXAMPLE && program.found.list.len() == 1;
        assert!(short, "{} is no short example of one mistake", program.name());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let page = errors(&example);
    if bless() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/errors.md is stale; run `TALLOW_BLESS=1 cargo test -p tallow-frontends --test programs`"
    );
}
