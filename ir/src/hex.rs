//! Hexadecimal text and bytes: how the binary form stands in a text section.

use thiserror::Error;

/// The lowercase digits of `bytes`, on one line, without a line break at the end.
pub fn encode(bytes: &[u8]) -> String {
    ::hex::encode(bytes)
}

/// The bytes of a text of hexadecimal digits; white space between digits is ignored, and both cases
/// are read.
///
/// # Errors
/// The place of the first character that is neither a digit nor white space, or of the last digit
/// where their number is odd.
pub fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    ::hex::decode(&digits).map_err(|error| match error {
        ::hex::FromHexError::InvalidHexCharacter { .. } => bad_digit(text),
        ::hex::FromHexError::OddLength | ::hex::FromHexError::InvalidStringLength => {
            // A wrong character explains an odd number of digits better.
            if digits.iter().all(u8::is_ascii_hexdigit) {
                let last = text.trim_end().char_indices().next_back();
                let (line, column) = place(text, last.map_or(0, |(at, _)| at));
                HexError::Odd { line, column, digits: digits.len() }
            } else {
                bad_digit(text)
            }
        }
    })
}

/// Why a text is not hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HexError {
    /// A character that is no digit.
    #[error(
        "line {line}, column {column}: {character:?} is not a hexadecimal digit; a graph in hexadecimal holds 0-9, a-f and white space only"
    )]
    Digit {
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
        /// The character.
        character: char,
    },
    /// An odd number of digits.
    #[error(
        "line {line}, column {column}: {digits} hexadecimal digits are no whole number of bytes; the text is cut off or a digit is missing"
    )]
    Odd {
        /// Line of the last digit, counted from 1.
        line: usize,
        /// Column of the last digit, counted from 1.
        column: usize,
        /// Number of digits.
        digits: usize,
    },
}

fn bad_digit(text: &str) -> HexError {
    let found = text.char_indices().find(|(_, c)| !c.is_ascii_hexdigit() && !c.is_ascii_whitespace());
    let (at, character) = found.unwrap_or((text.len(), ' '));
    let (line, column) = place(text, at);
    HexError::Digit { line, column, character }
}

/// Line and column of a byte offset.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |n| n + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_blanks_and_case() {
        assert_eq!(encode(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(decode(" 00\t1F\r\nfF \n").unwrap(), [0, 0x1f, 0xff]);
        assert_eq!(decode("0\n0").unwrap(), [0]);
        assert_eq!(decode("").unwrap(), Vec::<u8>::new());
    }

    #[test]
    fn errors_name_the_place() {
        assert_eq!(decode("00\n1é22"), Err(HexError::Digit { line: 2, column: 2, character: 'é' }));
        assert_eq!(decode("00\n12 g"), Err(HexError::Digit { line: 2, column: 4, character: 'g' }));
        let odd = decode("00\n12 3\n").unwrap_err();
        assert_eq!(odd, HexError::Odd { line: 2, column: 4, digits: 5 });
        assert!(odd.to_string().contains("5 hexadecimal digits"));
    }
}
