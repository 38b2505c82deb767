// Characters, and bytes as characters.

use cyb::nn::Weights;

const TEXT: &str = "héllo wörld 42";

pub fn forward(text: &str, _w: &Weights) -> bool {
    all(TEXT) && all(text)
}

fn all(text: &str) -> bool {
    let e = text.chars().nth(1).unwrap();
    assert_eq!(e, 'é');
    assert!(e.is_alphabetic() && e.is_alphanumeric() && e.is_lowercase());
    assert!(!e.is_numeric() && !e.is_whitespace() && !e.is_uppercase() && !e.is_control());
    assert!(!e.is_ascii() && 'h'.is_ascii());
    assert_eq!(e.len_utf8(), 2);
    assert!('7'.is_digit(10) && !'8'.is_digit(8));
    assert_eq!('f'.to_digit(16), Some(15));
    assert_eq!('g'.to_digit(16), None);
    assert!('a'.is_ascii_alphabetic() && '1'.is_ascii_digit() && 'f'.is_ascii_hexdigit());
    assert!('z'.is_ascii_alphanumeric() && '!'.is_ascii_punctuation() && ' '.is_ascii_whitespace());
    assert!('A'.is_ascii_uppercase() && 'a'.is_ascii_lowercase() && 'a'.is_ascii_graphic() && '\n'.is_ascii_control());
    assert_eq!('q'.to_ascii_uppercase(), 'Q');
    assert_eq!('Q'.to_ascii_lowercase(), 'q');
    assert!('q'.eq_ignore_ascii_case(&'Q'));
    assert_eq!(e.to_uppercase().to_string(), "É");
    assert_eq!('ß'.to_uppercase().collect::<String>(), "SS");
    assert_eq!('Ä'.to_lowercase().next(), Some('ä'));
    assert_eq!(char::from(65u8), 'A');
    assert_eq!(char::from_u32(0xe9), Some('é'));
    assert_eq!(char::from_u32(0xd800), None);
    assert_eq!(char::from_digit(11, 16), Some('b'));
    assert_eq!(('a' as u8 + 2) as char, 'c');
    assert_eq!(('a'..='e').collect::<String>(), "abcde");
    assert!(('a'..'e').contains(&'d') && !('a'..'e').contains(&'e'));
    let first = text.as_bytes()[0];
    assert!(first.is_ascii_alphabetic() && first.is_ascii());
    assert_eq!(first.to_ascii_uppercase(), b'H');
    assert!(!text.as_bytes()[1].is_ascii());
    let kinds: String = text
        .chars()
        .map(|c| match c {
            'a'..='z' => 'a',
            '0'..='9' => '0',
            ' ' | '\t' => '_',
            c if c.is_alphabetic() => 'A',
            _ => '?',
        })
        .collect();
    assert_eq!(kinds, "aAaaa_aAaaa_00");
    assert_eq!(text.chars().filter(char::is_ascii_digit).count(), 2);
    assert_eq!('a'.to_string() + "b", "ab");
    true
}
