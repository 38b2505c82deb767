//! A text classifier of the fasttext kind: the mean of one row for each word and each part of a word,
//! one product, and the likeliest labels.
//!
//! `input.weight` holds a row for each word of the vocabulary and, behind them, `bucket` rows that parts of
//! words share by their hash; `output.weight` holds a row for each label. The names of the config are those
//! of fasttext: `minn` to `maxn` characters make a part, `wordNgrams` words in a row count as a part too.

use cyb::nn::{Config, Tensor, Tokenizer, Weights};

/// The end of the line, a word that closes every text.
const END: &str = "</s>";

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> (Vec<f32>, Vec<u32>) {
    let a = &config.architecture;
    assert!(a.loss.unwrap_or("softmax") == "softmax", "labels in a tree (`hs`) are not written here");

    let words = w.shape("input.weight")[0] - a.bucket;
    let ids = rows(text, tok, words as u64, a.bucket as u64, a.minn, a.maxn, a.wordNgrams.unwrap_or(1));
    let labels = w.shape("output.weight")[0];
    let mean = w.embed("input.weight", &ids, a.dim).mean(0);
    w.linear(&mean, "output.weight", labels).softmax(-1).topk(a.top_k.unwrap_or(1).min(labels))
}

/// The rows of a text: of its words, of their parts, and of words in a row. Only the first line counts.
fn rows(text: &str, tok: &Tokenizer, words: u64, bucket: u64, minn: usize, maxn: usize, in_a_row: usize) -> Vec<u64> {
    let line = text.split('\n').next().unwrap_or("");
    let mut found: Vec<&str> = line.split(|c: char| " \r\t\u{b}\u{c}\0".contains(c)).collect();
    found.push(END);

    let mut ids = vec![];
    let mut hashes = vec![];
    for word in found {
        // Labels in the text are for training.
        if word.is_empty() || word.starts_with("__label__") {
            continue;
        }
        if let Some(id) = tok.id(word) {
            ids.push(id as u64);
        }
        if word == END {
            hashes.push(hash(word));
            break;
        }
        for part in parts(&format!("<{word}>"), minn, maxn) {
            ids.push(words + part as u64 % bucket);
        }
        hashes.push(hash(word));
    }

    for i in 0..hashes.len() {
        let mut h = hashes[i] as i32 as u64;
        for j in i + 1..hashes.len().min(i + in_a_row) {
            h = h.wrapping_mul(116049371).wrapping_add(hashes[j] as i32 as u64);
            ids.push(words + h % bucket);
        }
    }
    assert!(!ids.is_empty(), "no word of the text, and no part of one, is known to this model");
    ids
}

/// Hashes of all runs of `minn` to `maxn` characters, but for the marks of the word's ends alone.
fn parts(word: &str, minn: usize, maxn: usize) -> Vec<u32> {
    let letters: Vec<String> = word.chars().map(|c| c.to_string()).collect();
    let mut found = vec![];
    for i in 0..letters.len() {
        let mut h = EMPTY;
        for j in i..letters.len().min(i + maxn) {
            h = extend(h, &letters[j]);
            let length = j - i + 1;
            let at_an_end = i == 0 || j + 1 == letters.len();
            if length >= minn && !(length == 1 && at_an_end) {
                found.push(h);
            }
        }
    }
    found
}

/// The hash of no bytes: FNV-1a of 32 bits.
const EMPTY: u32 = 2166136261;

fn hash(text: &str) -> u32 {
    extend(EMPTY, text)
}

/// The hash of what `h` is the hash of with `text` behind it. Bytes count as signed, as in fasttext itself.
fn extend(h: u32, text: &str) -> u32 {
    let mut h = h;
    for byte in text.bytes() {
        h = (h ^ (byte as i8 as u32)).wrapping_mul(16777619);
    }
    h
}
