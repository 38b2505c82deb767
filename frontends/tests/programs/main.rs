//! Programs as other people write them, and every part of the language that works on ordinary values.
//!
//! | folder | holds |
//! |---|---|
//! | `language` | programs that check themselves by `assert!`, on a text that is known and on one that is known only when running |
//! | `styles` | programs as other people write them, beside one config and one tensor index, with their graphs |
//! | `faulty` | programs with one mistake each, beside configs and tensor indexes, with the whole message |
//! | `errors` | faulty programs, each with the diagnostics that it gives; `TALLOW_BLESS=1` writes them |

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod errors;
mod fasttext;
mod faulty;
mod language;
mod styles;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tallow_format::Config;
use tallow_frontends::program::{Language, Module, Options, compile};

/// The text that programs are given.
const TEXT: &str = "héllo wörld 42";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The files of a folder, by name; any but those of these endings are refused.
fn files(name: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder(name)).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    for file in &all {
        let ending = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
        assert!(endings.contains(&ending), "no test reads {}", file.display());
    }
    all
}

/// Whether files are written instead of compared.
fn bless() -> bool {
    std::env::var_os("TALLOW_BLESS").is_some_and(|v| v == "1")
}

/// The golden file of a program: its name with `.txt` behind it.
fn beside(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".txt");
    PathBuf::from(name)
}

/// A file against what it should hold.
fn golden(path: &Path, found: &str) {
    if bless() {
        return std::fs::write(path, found).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(expected == found, "{} differs; TALLOW_BLESS=1 writes it\nfound:\n{found}", path.display());
}

/// A config from its text.
fn config(text: &str) -> Config {
    Config::parse(text).unwrap()
}

fn text_value() -> tallow_frontends::program::value::Value {
    tallow_frontends::program::value::Value::Str(Arc::from(TEXT))
}

/// Compiles a program beside a config, without a tensor index.
fn compiled(source: &str, name: &str, config: &Config) -> Result<Module, String> {
    let language = if name.ends_with(".tri") { Language::Tri } else { Language::Rs };
    compile(source, language, name, config, None, Options::default()).map_err(|e| e.to_string())
}
