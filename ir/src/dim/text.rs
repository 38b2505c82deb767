//! The text of dimensions: `7`, `S`, `2*P*S - 1`, `floor((S + 1)/2)`.

use super::{Atom, Dim, Repr, Term, floor::MAX_DEPTH};
use std::fmt;
use std::str::FromStr;

/// The most characters of a symbol, so that every dimension has a text of bounded length.
pub const MAX_SYMBOL: usize = 64;

/// Prints `7`, `S`, `2*S`, `P + S`, `2*P*S - 1`, `floor(S/2)`, `floor((S + 1)/2) + 4`: what
/// [`Dim::from_str`](FromStr) reads.
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Const(n) => write!(f, "{n}"),
            Repr::Symbol(name) => f.write_str(name),
            Repr::Sum(terms) => write_terms(terms, f),
        }
    }
}

fn write_terms(terms: &[Term], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, (m, c)) in terms.iter().enumerate() {
        f.write_str(match (i, *c < 0) {
            (0, true) => "-",
            (0, false) => "",
            (_, true) => " - ",
            (_, false) => " + ",
        })?;
        let magnitude = c.unsigned_abs();
        if magnitude != 1 || m.is_empty() {
            write!(f, "{magnitude}")?;
        }
        for (j, atom) in m.iter().enumerate() {
            if j > 0 || magnitude != 1 {
                f.write_str("*")?;
            }
            match atom {
                Atom::Symbol(name) => f.write_str(name)?,
                // What stands before the stroke is one product.
                Atom::Floor(floor) if floor.numerator.terms().len() > 1 => {
                    write!(f, "floor(({})/{})", floor.numerator, floor.by)?;
                }
                Atom::Floor(floor) => write!(f, "floor({}/{})", floor.numerator, floor.by)?,
            }
        }
    }
    Ok(())
}

/// Reads what `Display` prints, and parentheses anywhere; symbols are `[A-Za-z_?][A-Za-z0-9_.?]*`.
impl FromStr for Dim {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let long =
            text.split(|c: char| !(c.is_ascii_alphanumeric() || "_.?".contains(c))).find(|w| w.len() > MAX_SYMBOL);
        if let Some(word) = long {
            return Err(format!("a symbol has at most {MAX_SYMBOL} characters, `{}…` has {}", &word[..20], word.len()));
        }
        let mut reader = Reader { text, at: 0, depth: 0 };
        let dim = reader.sum().filter(|_| reader.peek().is_none());
        dim.ok_or_else(|| format!("`{text}` is not a dimension; write for example `7`, `S` or `2*S + 1`"))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Open parentheses.
    depth: u32,
}

impl<'a> Reader<'a> {
    /// `product + product - product …`, the first of them negative after `-`.
    fn sum(&mut self) -> Option<Dim> {
        let negative = self.eat(b'-');
        let mut total = self.product(negative)?;
        loop {
            let negative = self.eat(b'-');
            if !negative && !self.eat(b'+') {
                return Some(total);
            }
            total = total.add(&self.product(negative)?)?;
        }
    }

    /// `factor*factor …`. The sign belongs to the first factor, since one number is negative only.
    fn product(&mut self, negative: bool) -> Option<Dim> {
        let mut product = self.factor(negative)?;
        while self.eat(b'*') {
            product = product.mul(&self.factor(false)?)?;
        }
        Some(product)
    }

    /// A number, a symbol, `floor(product/number)` or a sum in parentheses.
    fn factor(&mut self, negative: bool) -> Option<Dim> {
        let word = self.word();
        let dim = match word.bytes().next() {
            None => {
                self.open()?;
                let dim = self.sum()?;
                self.close()?;
                dim
            }
            Some(b'0'..=b'9') if negative => return format!("-{word}").parse().ok().map(Dim::constant),
            Some(b'0'..=b'9') => return word.parse().ok().map(Dim::constant),
            Some(_) if word == "floor" && self.peek() == Some(b'(') => {
                self.open()?;
                let numerator = self.product(false)?;
                let by = self.eat(b'/').then(|| self.word().parse().ok())??;
                self.close()?;
                numerator.div_floor(by)?
            }
            Some(b'.') => return None,
            Some(_) => Dim::symbol(word),
        };
        if negative { dim.mul(&Dim::constant(-1)) } else { Some(dim) }
    }

    fn open(&mut self) -> Option<()> {
        self.depth += 1;
        // A printed quotient takes two.
        (self.eat(b'(') && self.depth <= 2 * MAX_DEPTH + 8).then_some(())
    }

    fn close(&mut self) -> Option<()> {
        self.depth -= 1;
        self.eat(b')').then_some(())
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Letters, digits, `_`, `.` and `?`; may be empty.
    fn word(&mut self) -> &'a str {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|b| !(b.is_ascii_alphanumeric() || b"_.?".contains(&b)));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_printed() {
        for text in [
            "0",
            "7",
            "-7",
            "-9223372036854775808",
            "S",
            "?n",
            "_a.b",
            "floor",
            "-S",
            "2*S",
            "P + S",
            "2*P*S - 1",
            "-2*S + 7",
            "floor(S/2)",
            "floor(3*S/4)",
            "floor((S + 1)/2) + 4",
            "-floor(S/2)",
            "S - 2*floor(S/3)",
            "2*P*floor((P*S + S)/3) - 1",
            "floor(P*floor(S/2)/3)",
        ] {
            let dim: Dim = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(dim.to_string(), text);
        }
        for (text, printed) in [
            (" 2 * S+1 ", "2*S + 1"),
            ("(S)", "S"),
            ("2*(S + 1)", "2*S + 2"),
            ("-(S - 1)", "-S + 1"),
            ("floor( ( S+1 ) / 2 )", "floor((S + 1)/2)"),
            ("floor(7/2)", "3"),
            ("2*S - S*2", "0"),
        ] {
            assert_eq!(text.parse::<Dim>().map(|d| d.to_string()).unwrap(), printed, "{text}");
        }
        for text in [
            "",
            " ",
            "-",
            "S +",
            "+S",
            "--S",
            "2S",
            ".a",
            "S S",
            "S/2",
            "floor(S)",
            "floor(S + 1/2)",
            "floor(S/0)",
            "floor(S/-2)",
            "floor(S/T)",
            "floor(S/2",
            "(S",
            "S)",
            "é",
            "S%",
            "99999999999999999999",
            "a-é",
        ] {
            assert!(text.parse::<Dim>().is_err(), "{text}");
        }
        assert!("s".repeat(MAX_SYMBOL).parse::<Dim>().is_ok());
        assert!("s".repeat(MAX_SYMBOL + 1).parse::<Dim>().unwrap_err().contains("at most 64 characters"));
        assert!(("(".repeat(100_000) + "S").parse::<Dim>().is_err());
        assert!(("floor(".repeat(100_000) + "S").parse::<Dim>().is_err());
        assert!("S".parse::<Dim>().is_ok());
    }
}
