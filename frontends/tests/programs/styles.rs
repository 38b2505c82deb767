//! Programs in the styles of different authors, against the graphs and drivers that they compile to.

use crate::{beside, config, files, folder, golden};
use indexmap::IndexMap;
use std::fmt::Write as _;
use tallow_frontends::program::{Language, Options, Outcome, compile};
use tallow_ir::text::print;

/// What all of them are compiled beside.
const BESIDE: [&str; 2] = ["config.toml", "tensors.toml"];

#[test]
fn programs_give_their_graphs() {
    let read = |name: &str| std::fs::read_to_string(folder("styles").join(name)).unwrap();
    let config = config(&read("config.toml"));
    let tensors: toml_edit::DocumentMut = read("tensors.toml").parse().unwrap();
    let sizes = |item: &toml_edit::Item| -> Vec<u64> {
        item.as_array().unwrap().iter().map(|n| n.as_integer().unwrap() as u64).collect()
    };
    let index: IndexMap<String, Vec<u64>> = tensors.iter().map(|(name, item)| (name.to_owned(), sizes(item))).collect();
    let mut failures = Vec::new();
    for file in files("styles", &["rs", "tri", "txt", "toml"]) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let language = match file.extension().and_then(|e| e.to_str()) {
            Some("rs") => Language::Rs,
            Some("tri") => Language::Tri,
            Some("toml") => {
                assert!(BESIDE.contains(&name), "no test reads {name}");
                continue;
            }
            _ => {
                assert!(file.with_extension("").exists(), "{name} belongs to no program");
                continue;
            }
        };
        let source = std::fs::read_to_string(&file).unwrap();
        let module = match compile(&source, language, name, &config, Some(&index), Options::default()) {
            Ok(module) => module,
            Err(error) => {
                failures.push(error.to_string());
                continue;
            }
        };
        let mut out = String::new();
        for (name, graph) in &module.graphs {
            let _ = writeln!(out, "# {name}\n{}", print(graph).trim_end());
        }
        if let Some(driver) = &module.driver {
            let _ = writeln!(out, "# driver\nbegins with {:?}", driver.start);
            let _ = writeln!(out, "samples {:?}", driver.sampling);
            let _ = writeln!(out, "ends at {:?}, after {:?}, at {:?} in all", driver.stop, driver.limit, driver.total);
        }
        if let Outcome::Value(_) = &module.outcome {
            let _ = writeln!(out, "# a value of host code");
        }
        golden(&beside(&file), &out);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
