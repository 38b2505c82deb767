// Texts: cutting, searching, building.

use cyb::nn::Weights;

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn all(text: &str) -> bool {
    looked_at(text);
    cut(text);
    searched(text);
    built(text);
    formatted(text);
    true
}

fn looked_at(text: &str) {
    assert_eq!(text.len(), 16);
    assert!(!text.is_empty() && "".is_empty());
    assert_eq!(text.chars().count(), 14);
    assert_eq!(text.chars().rev().take(4).collect::<String>(), "24 d");
    assert_eq!(text.char_indices().nth(2), Some((3, 'l')));
    assert_eq!(text.bytes().nth(1), Some(0xc3));
    assert_eq!(text.as_bytes()[..2], [104, 0xc3]);
    assert_eq!("ab".to_string().into_bytes(), vec![97, 98]);
    assert_eq!("ab".as_bytes().to_vec(), [97, 98]);
    assert_eq!(text.to_owned().as_str(), text);
    assert!(text.is_char_boundary(1) && !text.is_char_boundary(2));
    assert_eq!(text.get(0..3), Some("hé"));
    assert_eq!(text.get(0..2), None);
    assert_eq!(&text[7..], "wörld 42");
    assert!("ascii".is_ascii() && !text.is_ascii());
    assert!("AbC".eq_ignore_ascii_case("aBc"));
    assert!("abc" < "abd" && "Z" < "a");
    assert_eq!("b".cmp("a"), std::cmp::Ordering::Greater);
    assert_eq!(text.max("zz"), "zz");
}

fn cut(text: &str) {
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!(words, ["héllo", "wörld", "42"]);
    assert_eq!(text.split_whitespace().count(), 3);
    assert_eq!(text.split_ascii_whitespace().last(), Some("42"));
    assert_eq!("a,b,,c".split(',').collect::<Vec<_>>(), vec!["a", "b", "", "c"]);
    assert_eq!("a,b,,c".rsplit(',').next(), Some("c"));
    assert_eq!("a,b,c".splitn(2, ',').collect::<Vec<_>>(), ["a", "b,c"]);
    assert_eq!("a,b,c".rsplitn(2, ',').collect::<Vec<_>>(), ["c", "a,b"]);
    assert_eq!("a;b;".split_terminator(';').count(), 2);
    assert_eq!("a\nb\nc".split_inclusive('\n').collect::<Vec<_>>(), ["a\n", "b\n", "c"]);
    assert_eq!("k=v=w".split_once('='), Some(("k", "v=w")));
    assert_eq!("k=v=w".rsplit_once('='), Some(("k=v", "w")));
    assert_eq!("k".split_once("="), None);
    assert_eq!(text.split_at(3), ("hé", "llo wörld 42"));
    assert_eq!("a1b22c".split(|c: char| c.is_ascii_digit()).collect::<Vec<_>>(), ["a", "b", "", "c"]);
    assert_eq!("a-b_c".split(['-', '_']).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!("one\r\ntwo\n\nfour".lines().collect::<Vec<_>>(), ["one", "two", "", "four"]);
    assert_eq!("  x \n".trim(), "x");
    assert_eq!("  x ".trim_start(), "x ");
    assert_eq!("  x ".trim_end(), "  x");
    assert_eq!("--x--".trim_matches('-'), "x");
    assert_eq!("xxabxx".trim_start_matches("x"), "abxx");
    assert_eq!("ab12".trim_end_matches(char::is_numeric), "ab");
    assert_eq!("model.layers".strip_prefix("model."), Some("layers"));
    assert_eq!("a.weight".strip_suffix(".weight"), Some("a"));
    assert_eq!("a".strip_suffix(".weight"), None);
}

fn searched(text: &str) {
    assert!(text.starts_with("hé") && text.ends_with(char::is_numeric) && text.contains("wör"));
    assert!(text.contains(['z', '4']) && !text.contains('z'));
    assert_eq!(text.find('l'), Some(3));
    assert_eq!(text.rfind('l'), Some(11));
    assert_eq!(text.find("nothing"), None);
    assert_eq!(text.find(|c: char| c.is_whitespace()), Some(6));
    assert_eq!("abcab".matches("ab").count(), 2);
    assert_eq!("abcab".match_indices("ab").map(|(i, _)| i).collect::<Vec<_>>(), [0, 3]);
    assert_eq!("12".parse::<u32>(), Ok(12));
    assert_eq!("+7".parse::<i32>().unwrap(), 7);
    assert!("300".parse::<u8>().is_err() && "-1".parse::<u8>().is_err() && "x".parse::<f32>().is_err());
    assert_eq!("1.5".parse::<f64>().unwrap(), 1.5);
    assert_eq!("true".parse::<bool>(), Ok(true));
    assert_eq!("é".parse::<char>(), Ok('é'));
    let n: usize = text.split(' ').last().unwrap().parse().unwrap();
    assert_eq!(n, 42);
}

fn built(text: &str) {
    assert_eq!(text.to_uppercase(), "HÉLLO WÖRLD 42");
    assert_eq!("ÀB".to_lowercase(), "àb");
    assert_eq!("éa".to_ascii_uppercase(), "éA");
    assert_eq!("ÉA".to_ascii_lowercase(), "Éa");
    assert_eq!("a-b-c".replace('-', "+"), "a+b+c");
    assert_eq!("a-b-c".replacen("-", "", 1), "ab-c");
    assert_eq!("ab".repeat(3), "ababab");
    assert_eq!(["a", "b"].concat(), "ab");
    assert_eq!(["a", "b"].join("/"), "a/b");
    let mut s = String::new();
    s.push('x');
    s.push_str("yz");
    s += "!";
    s.insert(0, '>');
    s.insert_str(1, "--");
    assert_eq!(s, ">--xyz!");
    assert_eq!(s.pop(), Some('!'));
    assert_eq!(s.remove(1), '-');
    s.truncate(4);
    assert_eq!(s, ">-xy");
    s.extend(['a', 'b']);
    s.retain(|c| c != 'x');
    assert_eq!(s, ">-yab");
    assert_eq!(s.drain(..2).collect::<String>(), ">-");
    let tail = s.split_off(1);
    assert_eq!((s.as_str(), tail.as_str()), ("y", "ab"));
    s.make_ascii_uppercase();
    assert_eq!(s, "Y");
    s.make_ascii_lowercase();
    assert_eq!(s, "y");
    s.clear();
    assert!(s.is_empty());
    assert_eq!(String::from("a") + &"b".to_string(), "ab");
    assert_eq!(String::from_utf8(vec![104, 105]).unwrap(), "hi");
    assert_eq!(String::from_utf8_lossy(&[104, 105]).to_string(), "hi");
    assert_eq!(String::from_iter(vec!['a', 'b']), "ab");
    assert_eq!(String::with_capacity(10), "");
}

fn formatted(text: &str) {
    let (i, width, name) = (7, 3.5, "q_proj");
    assert_eq!(format!("layers.{i}.{name}"), "layers.7.q_proj");
    assert_eq!(format!("{}-{0}-{name:>8}|{:<4}|{:^5}|", i, text.len(), 'c'), "7-7-  q_proj|16  |  c  |");
    assert_eq!(format!("{:05} {:+} {:#x} {:08b} {:.1}", i, i, 255, 5, width), "00007 +7 0xff 00000101 3.5");
    assert_eq!(format!("{:?} {:?} {:?}", "a\n", 'c', vec![Some(1), None]), "\"a\\n\" 'c' [Some(1), None]");
    assert_eq!(format!("{{{}}}", (1 + 2) * 3), "{9}");
}
