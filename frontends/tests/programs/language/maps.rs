// Maps and sets.

use cyb::nn::Weights;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn all(text: &str) -> bool {
    counts(text);
    hashed(text);
    sets();
    structs_as_keys();
    true
}

fn counts(text: &str) {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for c in text.chars() {
        *counts.entry(c).or_insert(0) += 1;
    }
    assert_eq!(counts[&'l'], 3);
    assert_eq!(counts.get(&'o'), Some(&1));
    assert_eq!(counts.keys().take(3).collect::<String>(), " 24");
    assert_eq!(counts.values().sum::<usize>(), 14);
    assert_eq!(counts.iter().max_by_key(|(_, n)| **n).map(|(c, _)| *c), Some('l'));
    assert_eq!(counts.first_key_value(), Some((&' ', &2)));
    assert_eq!(counts.last_key_value().unwrap().0, &'ö');
    assert_eq!(counts.pop_first(), Some((' ', 2)));
    assert_eq!(counts.pop_last(), Some(('ö', 1)));
    let (first, _) = counts.iter().next().unwrap();
    assert_eq!(*first, '2');
    let mut groups: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for word in text.split(' ') {
        groups.entry(word.len()).or_default().push(word);
    }
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), [(2, vec!["42"]), (6, vec!["héllo", "wörld"])]);
    let mut totals: HashMap<&str, i32> = HashMap::new();
    *totals.entry("a").or_default() += 2;
    totals.entry("a").and_modify(|n| *n *= 10).or_insert(1);
    totals.entry("b").and_modify(|n| *n *= 10).or_insert_with(|| 5);
    assert_eq!((totals["a"], totals["b"]), (20, 5));
    assert_eq!(totals.entry("z").key(), &"z");
    assert!(!totals.contains_key("z"));
}

fn hashed(text: &str) {
    let mut m = HashMap::new();
    assert_eq!(m.insert("a", 1), None);
    assert_eq!(m.insert("a", 2), Some(1));
    m.insert("b", text.len());
    assert_eq!(m.len(), 2);
    assert!(!m.is_empty() && m.contains_key("b"));
    assert_eq!(m.get_key_value("b"), Some((&"b", &16)));
    if let Some(x) = m.get_mut("a") {
        *x += 5;
    }
    for x in m.values_mut() {
        *x += 1;
    }
    for (_, x) in m.iter_mut() {
        *x *= 2;
    }
    for (_, x) in &mut m {
        *x += 1;
    }
    assert_eq!(m["a"], 17);
    m.retain(|_, x| *x < 20);
    assert_eq!(m.remove("a"), Some(17));
    assert_eq!(m.remove("a"), None);
    m.extend([("c", 3), ("d", 4)]);
    let mut keys: Vec<_> = m.clone().into_keys().collect();
    keys.sort();
    assert_eq!(keys, ["c", "d"]);
    let mut values: Vec<usize> = m.clone().into_values().collect();
    values.sort();
    assert_eq!(values, [3, 4]);
    assert_eq!(m.drain().count(), 2);
    m.clear();
    assert!(m.is_empty());
    let by_word: HashMap<String, usize> = text.split(' ').enumerate().map(|(i, w)| (w.to_string(), i)).collect();
    assert_eq!(by_word["wörld"], 1);
    let n = HashMap::from([("x", 1), ("y", 2)]);
    assert_eq!(n.get("q").copied().unwrap_or(7), 7);
    assert_eq!(n.get("q").copied().unwrap_or_default() + 1, 1);
    assert_eq!(n, HashMap::from([("y", 2), ("x", 1)]));
    let b = BTreeMap::from([(2, 'b'), (1, 'a')]);
    assert_eq!(format!("{b:?}"), "{1: 'a', 2: 'b'}");
    let mut nested: HashMap<u32, HashMap<u32, u32>> = HashMap::new();
    nested.entry(1).or_default().insert(2, 3);
    *nested.entry(1).or_default().entry(2).or_insert(0) += 1;
    assert_eq!(nested[&1][&2], 4);
}

fn sets() {
    let mut s = HashSet::new();
    assert!(s.insert(3) && s.insert(1) && !s.insert(3));
    assert!(s.contains(&1) && s.len() == 2);
    assert_eq!(s.get(&1), Some(&1));
    assert!(s.remove(&1) && !s.remove(&1));
    assert_eq!(s.take(&3), Some(3));
    assert_eq!(s.replace(4), None);
    let a: BTreeSet<i32> = [5, 1, 3].into_iter().collect();
    let b = BTreeSet::from([3, 4]);
    assert_eq!(a.iter().collect::<Vec<_>>(), [&1, &3, &5]);
    assert_eq!((a.first(), a.last()), (Some(&1), Some(&5)));
    assert_eq!(a.union(&b).copied().collect::<Vec<_>>(), [1, 3, 4, 5]);
    assert_eq!(a.intersection(&b).count(), 1);
    assert_eq!(a.difference(&b).copied().collect::<Vec<_>>(), [1, 5]);
    assert_eq!(a.symmetric_difference(&b).copied().collect::<Vec<_>>(), [1, 4, 5]);
    assert!(BTreeSet::from([1]).is_subset(&a) && a.is_superset(&BTreeSet::from([1])) && !a.is_disjoint(&b));
    let unique: HashSet<char> = "hello".chars().collect();
    assert_eq!(unique.len(), 4);
    let mut seen = HashSet::new();
    let once: Vec<i32> = [1, 2, 1, 3, 2].into_iter().filter(|x| seen.insert(*x)).collect();
    assert_eq!(once, [1, 2, 3]);
    let mut extended = b.clone();
    extended.extend([9, 0]);
    assert_eq!(extended.into_iter().collect::<Vec<_>>(), [0, 3, 4, 9]);
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Word(String),
    Number,
}

fn structs_as_keys() {
    let mut m = HashMap::new();
    m.insert(Kind::Word("a".to_string()), 1);
    m.insert(Kind::Number, 2);
    assert_eq!(m[&Kind::Number], 2);
    assert_eq!(m.get(&Kind::Word("b".to_string())), None);
    let mut pairs = HashMap::new();
    pairs.insert((1, "x"), true);
    assert!(pairs.contains_key(&(1, "x")));
}
