//! Faulty programs: the diagnostics of each stand beside it.

use crate::{beside, compiled, config, files, golden};

const CONFIG: &str = r#"
[architecture]
hidden_size = 8
vocab_size = 32
layer_types = ["full", "window"]
"#;

#[test]
fn faults_are_named() {
    for file in files("errors", &["rs", "tri", "txt"]) {
        if file.extension().is_some_and(|e| e == "txt") {
            assert!(file.with_extension("").exists(), "{} belongs to no program", file.display());
            continue;
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        let source = std::fs::read_to_string(&file).unwrap();
        match compiled(&source, name, &config(CONFIG)) {
            Ok(_) => panic!("{name} compiles"),
            Err(error) => golden(&beside(&file), &format!("{error}\n")),
        }
    }
}
