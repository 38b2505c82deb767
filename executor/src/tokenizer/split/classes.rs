//! Character classes that pre-tokeniser patterns speak of (`\p{L}`, `\p{N}`, `\s`, …), as sets of disjoint classes.

use super::class_table::RUNS;

/// The class of a character: every character has exactly one. Discriminants are those of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    /// `\p{Lu}`
    Upper = 0,
    /// `\p{Ll}`
    Lower,
    /// `\p{Lt}`
    Title,
    /// `\p{Lm}`
    Modifier,
    /// `\p{Lo}`
    OtherLetter,
    /// `\p{M}`
    Mark,
    /// `\p{N}`
    Number,
    /// `\p{P}`
    Punctuation,
    /// `\p{S}`
    Symbol,
    /// `\s`: the property White_Space, which no other class here overlaps
    Space,
    /// Everything else: controls that are no white space, format characters, private use, unassigned
    Other,
}

const CLASSES: [Class; 11] = [
    Class::Upper,
    Class::Lower,
    Class::Title,
    Class::Modifier,
    Class::OtherLetter,
    Class::Mark,
    Class::Number,
    Class::Punctuation,
    Class::Symbol,
    Class::Space,
    Class::Other,
];

/// A set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classes(u16);

impl Classes {
    /// `\p{L}`
    pub(super) const LETTER: Self =
        Self::of(&[Class::Upper, Class::Lower, Class::Title, Class::Modifier, Class::OtherLetter]);
    /// `\p{N}`
    pub(super) const NUMBER: Self = Self::of(&[Class::Number]);
    /// `\p{M}`
    pub(super) const MARK: Self = Self::of(&[Class::Mark]);
    /// `[\p{P}\p{S}]`
    pub(super) const PUNCTUATION_OR_SYMBOL: Self = Self::of(&[Class::Punctuation, Class::Symbol]);
    /// `\s`
    pub(super) const SPACE: Self = Self::of(&[Class::Space]);
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`: what may stand in the first half of a word split by case
    pub(super) const HEAD: Self =
        Self::of(&[Class::Upper, Class::Title, Class::Modifier, Class::OtherLetter, Class::Mark]);
    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`: what may stand in the second half of a word split by case
    pub(super) const TAIL: Self = Self::of(&[Class::Lower, Class::Modifier, Class::OtherLetter, Class::Mark]);

    const fn of(classes: &[Class]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < classes.len() {
            bits |= 1 << classes[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// The classes of either set.
    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Every class that is not in the set.
    pub(super) const fn not(self) -> Self {
        Self(!self.0)
    }

    /// True if `c` is of a class in the set.
    pub(super) fn contains(self, c: char) -> bool {
        self.0 >> class_of(c) as u16 & 1 == 1
    }
}

/// The class of a character.
pub(super) fn class_of(c: char) -> Class {
    match c {
        'a'..='z' => Class::Lower,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Number,
        ' ' | '\t'..='\r' => Class::Space,
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => Class::Symbol,
        _ if c.is_ascii_punctuation() => Class::Punctuation,
        _ if c.is_ascii() => Class::Other,
        _ => {
            let after = RUNS.partition_point(|&run| run >> 4 <= c as u32);
            after
                .checked_sub(1)
                .and_then(|run| RUNS.get(run))
                .and_then(|&run| CLASSES.get((run & 15) as usize))
                .copied()
                .unwrap_or(Class::Other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character against the classes of the regular-expression engine.
    #[test]
    fn classes_agree_with_the_regular_expression_engine() {
        let every: String = (0..=char::MAX as u32).filter_map(char::from_u32).collect();
        let mut seen = vec![Class::Other; char::MAX as usize + 1];
        let patterns = [
            (Class::Upper, r"\p{Lu}+"),
            (Class::Lower, r"\p{Ll}+"),
            (Class::Title, r"\p{Lt}+"),
            (Class::Modifier, r"\p{Lm}+"),
            (Class::OtherLetter, r"\p{Lo}+"),
            (Class::Mark, r"\p{M}+"),
            (Class::Number, r"\p{N}+"),
            (Class::Punctuation, r"\p{P}+"),
            (Class::Symbol, r"\p{S}+"),
            (Class::Space, r"\s+"),
        ];
        for (class, pattern) in patterns {
            let regex = fancy_regex::Regex::new(pattern).unwrap();
            for run in regex.find_iter(&every) {
                for c in run.unwrap().as_str().chars() {
                    assert_eq!(seen[c as usize], Class::Other, "{c:?} has two classes");
                    seen[c as usize] = class;
                }
            }
        }
        for c in every.chars() {
            assert_eq!(class_of(c), seen[c as usize], "U+{:04X}", c as u32);
        }
    }
}
