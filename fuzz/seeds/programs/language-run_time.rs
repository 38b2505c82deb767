// Code on a text that is known only when running, inside `forward` itself.

use cyb::nn::Weights;

pub fn forward(text: &str, _w: &Weights) -> (bool, bool) {
    let words = ["hé", "wör", "zz"];
    let found = words.iter().filter(|w| text.contains(*w)).count();
    let longest = words.iter().max_by_key(|w| w.len() * text.len()).copied();

    let mut letters = text.chars();
    let mut head = String::new();
    while let Some(c) = letters.next() {
        if c == 'l' {
            break;
        }
        head.push(c);
    }
    let rest = letters.as_str().len();

    let first = if let Some(c) = text.chars().next() { c } else { '?' };
    let kind = match text.split(' ').nth(2) {
        Some("42") => "answer",
        Some(_) => "other",
        None => "none",
    };

    let mut peeked = text.bytes().peekable();
    let mut small = 0;
    if peeked.next() == Some(b'h') {
        small += 1;
    }
    let left = peeked.count();

    let mut counts = std::collections::BTreeMap::new();
    for c in text.chars() {
        *counts.entry(c).or_insert(0) += 1;
    }
    let most = counts.iter().max_by_key(|(_, n)| **n).map(|(c, _)| *c);

    let mut hashes = vec![0u32; 2];
    for (i, word) in text.split(' ').enumerate() {
        let mut h = 2166136261u32;
        for b in word.bytes() {
            h = (h ^ b as u32).wrapping_mul(16777619);
        }
        hashes.push(h % 97 + i as u32);
    }
    let total: u32 = hashes.iter().sum();
    let bigrams: Vec<String> =
        text.chars().collect::<Vec<_>>().windows(2).map(|w| w.iter().collect::<String>()).collect();

    let ok = check(found, longest, &head, rest, first, kind) && small == 1 && left == 15;
    (ok, more(most, total, &bigrams))
}

fn check(found: usize, longest: Option<&str>, head: &str, rest: usize, first: char, kind: &str) -> bool {
    assert_eq!((found, longest), (2, Some("wör")));
    assert_eq!((head, rest), ("hé", 12));
    assert_eq!((first, kind), ('h', "answer"));
    true
}

fn more(most: Option<char>, total: u32, bigrams: &[String]) -> bool {
    assert_eq!(most, Some('l'));
    assert_eq!(total, 158);
    assert_eq!((bigrams.len(), bigrams[0].as_str()), (13, "hé"));
    true
}
