//! The byte-to-unicode alphabet of byte-level vocabularies: every byte is written as one printable character (GPT-2's scheme).
//!
//! Printable ASCII and Latin-1 stand for themselves; the other 68 bytes, in order, are the characters from U+0100 on. A space is
//! `Ġ`, a line feed `Ċ`.

/// True for the bytes that stand for themselves.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut byte = 0;
    let mut moved = 0;
    while byte < 256 {
        chars[byte] = if is_plain(byte as u8) {
            byte as u8 as char
        } else {
            moved += 1;
            match char::from_u32(0xFF + moved) {
                Some(c) => c,
                None => '\0',
            }
        };
        byte += 1;
    }
    chars
};

const MOVED: [u8; 68] = {
    let mut bytes = [0; 68];
    let mut byte = 0;
    let mut moved = 0;
    while byte < 256 {
        if !is_plain(byte as u8) {
            bytes[moved] = byte as u8;
            moved += 1;
        }
        byte += 1;
    }
    bytes
};

/// The character that stands for a byte.
pub(super) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that a character stands for; none for characters outside the alphabet.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let code = c as u32;
    match u8::try_from(code) {
        Ok(byte) => is_plain(byte).then_some(byte),
        Err(_) => MOVED.get(code as usize - 0x100).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(char_of(b'\n'), 'Ċ');
        assert_eq!(char_of(0xAD), '\u{143}');
        assert_eq!(byte_of(' '), None);
        assert_eq!(byte_of('\u{144}'), None);
    }
}
