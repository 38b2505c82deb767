//! Programs that check themselves.

use crate::{compiled, config, files, text_value};
use std::collections::BTreeSet;
use tallow_frontends::program::host::Leaf;
use tallow_frontends::program::value::Value;
use tallow_frontends::program::{METHODS, Outcome};

/// Config that the programs beside it read.
const CONFIG: &str = r#"
[architecture]
hidden_size = 8
"#;

#[test]
fn programs_hold_what_they_assert() {
    let mut failures = Vec::new();
    for file in files("language", &["rs", "toml"]) {
        if file.extension().is_some_and(|e| e == "toml") {
            continue;
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        let source = std::fs::read_to_string(&file).unwrap();
        let beside = std::fs::read_to_string(file.with_extension("toml"));
        let module = match compiled(&source, name, &config(beside.as_deref().unwrap_or(CONFIG))) {
            Ok(module) => module,
            Err(error) => {
                failures.push(format!("{name} while compiling:\n{error}"));
                continue;
            }
        };
        let Outcome::Value(value) = &module.outcome else { panic!("{name} gives no value") };
        assert!(!module.host.leaves(value).is_empty(), "{name} does not read its text");
        let leaf = |leaf: &Leaf| matches!(leaf, Leaf::Text(_)).then(text_value);
        match module.host.run(value, &leaf, &|_| None, 1 << 20) {
            Ok(value) if holds(&value) => {}
            Ok(other) => failures.push(format!("{name} gives {}", other.kind())),
            Err(error) => {
                let list = vec![error];
                let shown =
                    tallow_frontends::program::Diagnostics { name: name.to_owned(), source: source.into(), list };
                failures.push(format!("{name} while running:\n{shown}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// `true`, or several of it.
fn holds(value: &Value) -> bool {
    match value {
        Value::Bool(holds) => *holds,
        Value::Tuple(parts) => parts.iter().all(holds),
        _ => false,
    }
}

/// Every method of the tables is called in some program.
#[test]
fn every_method_is_exercised() {
    let all: String = files("language", &["rs", "toml"]).iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    let called =
        |name: &str| [format!(".{name}("), format!(".{name}::<"), format!("::{name}")].iter().any(|c| all.contains(c));
    let missing: BTreeSet<&str> = METHODS
        .iter()
        .flat_map(|(_, table)| table.iter().map(|(name, _)| *name))
        .filter(|name| !called(name))
        .collect();
    assert!(missing.is_empty(), "no program under language/ calls {missing:?}");
}
