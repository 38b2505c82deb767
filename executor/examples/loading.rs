//! Times what opening a model and its tokenizer takes: `cargo run --release --example loading -- FILE.model`.

use std::path::Path;
use std::time::Instant;
use tallow_executor::tokenizer::{SpecialIds, Tokenizer};
use tallow_format::ModelFile;

fn main() {
    for path in std::env::args().skip(1) {
        for _ in 0..5 {
            let start = Instant::now();
            let file = ModelFile::open(Path::new(&path)).expect("a model");
            let opened = start.elapsed();
            let vocab = file.vocab().expect("a vocabulary");
            let read = start.elapsed();
            let special = SpecialIds { bos: file.config().bos_id().expect("an id"), eos: None };
            let settings = file.config().tokenizer().expect("settings");
            let tokenizer = Tokenizer::with_ids(&vocab, &settings, special).expect("a tokenizer");
            let built = start.elapsed();
            drop(vocab);
            let freed = start.elapsed();
            println!(
                "{path}: {} tokens, {} tensors: open {opened:.1?}, vocabulary {:.1?}, tokenizer {:.1?}, freeing {:.1?}",
                tokenizer.vocab_len(),
                file.tensors().len(),
                read - opened,
                built - read,
                freed - built
            );
        }
    }
}
