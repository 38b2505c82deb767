//! Attributes in lines short enough for a box.

/// The longest line, in characters.
const WIDE: usize = 40;
/// How many lines there may be.
const MOST_LINES: usize = 6;

/// The attributes of an operation in lines, and whether that is all of them: the last line of a cut text
/// ends in `…`. An attribute is parted only if it is longer than a line, and then between its values where
/// that is possible.
pub(super) fn wrapped(fields: &[(&str, String)]) -> (Vec<String>, bool) {
    let mut lines = Lines { done: Vec::new(), open: String::new(), wide: 0 };
    for (i, (name, value)) in fields.iter().enumerate() {
        let comma = if i + 1 < fields.len() { "," } else { "" };
        let text = format!("{name} = {value}{comma}");
        if text.chars().count() <= WIDE {
            lines.put(&text);
        } else {
            let parts: Vec<&str> = text.split(", ").collect();
            for (at, part) in parts.iter().enumerate() {
                match at + 1 < parts.len() {
                    true => lines.put(&format!("{part},")),
                    false => lines.put(part),
                }
                if lines.full() {
                    break;
                }
            }
        }
        if lines.full() {
            break;
        }
    }
    lines.end();
    let whole = lines.done.len() <= MOST_LINES;
    lines.done.truncate(MOST_LINES);
    if let (false, Some(last)) = (whole, lines.done.last_mut()) {
        *last = last.chars().take(WIDE - 2).chain([' ', '…']).collect();
    }
    (lines.done, whole)
}

struct Lines {
    done: Vec<String>,
    open: String,
    /// Characters in the open line.
    wide: usize,
}

impl Lines {
    /// More lines than there may be.
    fn full(&self) -> bool {
        self.done.len() > MOST_LINES
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open));
        }
        self.wide = 0;
    }

    /// A text that stays in one line if one can hold it.
    fn put(&mut self, text: &str) {
        let long = text.chars().count();
        let space = usize::from(!self.open.is_empty());
        if self.wide + space + long > WIDE {
            self.end();
        } else if space == 1 {
            self.open.push(' ');
            self.wide += 1;
        }
        for c in text.chars() {
            if self.wide == WIDE {
                self.end();
            }
            if self.full() {
                return;
            }
            self.open.push(c);
            self.wide += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_part_between_values_and_end_in_an_ellipsis() {
        let fields = |all: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            all.iter().map(|&(name, value)| (name, value.to_owned())).collect()
        };
        let (lines, whole) = wrapped(&fields(&[
            ("kernel", "[3, 3]"),
            ("stride", "[1, 1]"),
            ("padding", "[1, 1]"),
            ("dilation", "[2, 2]"),
            ("groups", "64"),
        ]));
        assert_eq!(lines, ["kernel = [3, 3], stride = [1, 1],", "padding = [1, 1], dilation = [2, 2],", "groups = 64"]);
        assert!(whole);
        assert_eq!(wrapped(&[]), (vec![], true));
        let list = format!("[{}]", vec!["1000"; 100].join(", "));
        let (lines, whole) = wrapped(&fields(&[("a", "1"), ("shape", &list), ("after", "2")]));
        assert_eq!(lines.len(), MOST_LINES);
        assert_eq!(lines[0], "a = 1, shape = [1000, 1000, 1000, 1000,");
        assert!(!whole && lines.iter().all(|l| l.chars().count() <= WIDE) && lines[5].ends_with(", …"), "{lines:?}");
        // What has no place to part it is parted anyway.
        let (lines, whole) = wrapped(&fields(&[("x", &"é".repeat(100))]));
        assert_eq!(lines.iter().map(|l| l.chars().count()).collect::<Vec<_>>(), [40, 40, 24]);
        assert!(whole);
        let (lines, whole) = wrapped(&fields(&[("x", &"é".repeat(1000))]));
        assert!(!whole && lines.len() == MOST_LINES && lines[5].ends_with("é …"), "{lines:?}");
    }
}
