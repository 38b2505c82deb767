//! A small mutator: the same inputs on every machine.

/// What inputs consist of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Little-endian numbers and names.
    Bytes,
    /// Hexadecimal digits of such.
    Digits,
    /// Text with numbers, names and brackets.
    Text,
    /// Programs: their words and signs.
    Program,
}

/// Texts that parsers care about.
const TEXTS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "\"",
    "\"\"",
    "'",
    "\\",
    "\\u{",
    "\\u{10ffff}",
    "%",
    "%0",
    "@",
    "@cpu",
    "@255",
    ":",
    "=",
    ",",
    ";",
    "//",
    "#",
    "\n",
    " ",
    "\t",
    "\r\n",
    "é",
    "\u{0}",
    "\u{202e}",
    "?",
    "?q",
    "S",
    "P",
    "B",
    "S*S",
    "2*S - 1",
    "S + P",
    "-",
    "-1",
    "0",
    "1",
    "2",
    "16",
    "17",
    "255",
    "256",
    "65536",
    "65537",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "1e-6",
    "1e39",
    "nan",
    "nan:7fc00001",
    "inf",
    "-inf",
    "-0",
    "-0.0",
    "0x10",
    "1_0",
    "true",
    "false",
    "none",
    "f32",
    "i64",
    "bool",
    "q8",
    "q4k",
    "input",
    "output",
    "weight",
    "graph",
    "pos",
    "input_ids",
    "lm_head.weight",
    "[[nodes]]",
    "[[inputs]]",
    "nodes = []",
    "inputs = []",
    "hint = 5",
    "hint_form = \"byte\"",
    "attrs = { }",
    "offset = 1",
    "size = 1",
    "[]",
    "[-1]",
    "[-1, -1]",
    "Matmul",
    "Add",
    "Split",
    "Chunk",
    "Concat",
    "Reshape",
    "KvCache",
    "Kron",
    "HostCall",
    "Pool",
    "Conv2d",
    "Interpolate",
    "Clamp",
    "Sdpa",
];

/// Texts that the readers of programs care about.
const PROGRAM: &[&str] = &[
    "fn ",
    "pub fn f",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "{}",
    "()",
    "<",
    ">",
    "::<",
    "->",
    "=>",
    "::",
    ":",
    ";",
    ",",
    ".",
    "..",
    "..=",
    "=",
    "==",
    "!=",
    "+=",
    "<<=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "&&",
    "|",
    "||",
    "^",
    "!",
    "?",
    "@",
    "#",
    "#[cfg]",
    "#[a]",
    "$",
    "'",
    "'a: ",
    "'a'",
    "\"",
    "\"{x}\"",
    "\"{",
    "{{",
    "{:>8.3}",
    "\\",
    "r#\"",
    "b\"",
    "b'",
    "//",
    "/*",
    "*/",
    "///",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\u{feff}",
    "\0",
    "é",
    "“",
    "×",
    "0",
    "1",
    "0x",
    "0b2",
    "1e",
    "1.",
    "1.5e-3",
    "1u8",
    "300u8",
    "999999999999999999999999999999999999999999",
    "_",
    "__",
    "self",
    "Self",
    "let ",
    "let mut ",
    "mut ",
    "const ",
    "struct ",
    "enum ",
    "impl ",
    "use ",
    "module ",
    "use cyb::nn::",
    "use vm.io.io",
    "for ",
    " in ",
    " bounded ",
    "while ",
    "loop ",
    "if ",
    "if let ",
    " else ",
    "match ",
    "return ",
    "break ",
    "continue",
    "true",
    "move |x| ",
    "|x| ",
    "unsafe ",
    "async ",
    "await",
    " as ",
    "ref ",
    "dyn ",
    "where ",
    "vec![",
    "vec!",
    "format!(",
    "panic!()",
    "matches!(x, ",
    "assert_eq!(",
    "println!",
    "Field",
    "U32",
    "Vec<",
    "&[T]",
    "&str",
    "impl Fn(f32) -> f32",
    "x",
    "x.y",
    "f(x)",
    "a[0]",
];

/// Numbers that length fields and payloads break at.
const NUMBERS: &[u32] = &[
    0,
    1,
    2,
    3,
    4,
    8,
    15,
    16,
    17,
    64,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    u32::MAX,
];

/// A generator of changed inputs.
pub struct Mutator {
    words: Words,
    state: u64,
}

impl Mutator {
    /// The generator; every one begins the same.
    pub fn new(words: Words) -> Self {
        Mutator { words, state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// A number below `limit`, which is at least 1 (xorshift64, Marsaglia 2003).
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 16) % limit.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Another byte than `old`.
    pub fn byte(&mut self, old: u8) -> u8 {
        match (self.words, self.below(4)) {
            (_, 0) => old ^ (1 << self.below(8)),
            (Words::Bytes, 1) => !old,
            (Words::Bytes, _) => self.pick(&[0, 1, 2, 0x7f, 0x80, 0xfe, 0xff]),
            (Words::Digits, _) => self.pick(b"0123456789abcdefABCDEFg \n-"),
            (Words::Program, _) => self.pick(b"{}[]()<>\"'\\=,:;-+*&|!?. 01aA_\n#@/"),
            (Words::Text, _) => self.pick(b"%{}[]()\"\\=,:-+*? 0129aZS_.\n#@"),
        }
    }

    /// One seed with a few changes.
    pub fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..1 + self.below(4) {
            self.change(&mut input, seeds);
        }
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        // Digits change by whole bytes most of the time.
        let unit = if self.words == Words::Digits && self.below(8) > 0 { 2 } else { 1 };
        let place = |m: &mut Self, n: usize| m.below(n + 1) / unit * unit;
        let at = place(self, input.len());
        match self.below(9) {
            0 | 1 if at < input.len() => input[at] = self.byte(input[at]),
            2 => {
                let n = (1 + self.below(16)) * unit;
                input.drain(at..(at + n).min(input.len()));
            }
            3 => {
                let n = (1 + self.below(64)) * unit;
                let part = input[at..(at + n).min(input.len())].to_vec();
                let to = place(self, input.len());
                input.splice(to..to, part);
            }
            4 => {
                let other = &seeds[self.below(seeds.len())];
                let from = place(self, other.len());
                let n = (1 + self.below(200)) * unit;
                let part = other[from..(from + n).min(other.len())].to_vec();
                let over = self.below(2) * part.len();
                input.splice(at..(at + over).min(input.len()), part);
            }
            5 => input.truncate(at),
            6 => {
                let n = 1 + self.below(4);
                let fresh: Vec<u8> = (0..n * unit).map(|_| self.byte(b'0')).collect();
                input.splice(at..at, fresh);
            }
            _ => self.word(input, at),
        }
        input.truncate(16 << 10);
    }

    /// A whole number or word in the place of another.
    fn word(&mut self, input: &mut Vec<u8>, at: usize) {
        if matches!(self.words, Words::Text | Words::Program) {
            // Half of the time in the place of what stands there.
            let class = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
            let mut end = at;
            if self.below(2) == 0 {
                end += input[at..].iter().take_while(|&&b| class(b)).count().max(1);
            }
            let texts = if self.words == Words::Program { PROGRAM } else { TEXTS };
            let word = self.pick(texts).as_bytes().to_vec();
            input.splice(at..end.min(input.len()), word);
            return;
        }
        let mut number = self.pick(NUMBERS).to_le_bytes().to_vec();
        if self.below(3) == 0 {
            // A 64-bit one, or the bits of a number that is none.
            let high = self.pick(&[[0u8; 4], [0xff; 4], 0x7fff_ffffu32.to_le_bytes(), f32::NAN.to_le_bytes()]);
            number.extend(high);
        }
        if self.words == Words::Digits {
            number = number.iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect();
        }
        let end = (at + number.len()).min(input.len());
        input.splice(at..end, number);
    }
}
