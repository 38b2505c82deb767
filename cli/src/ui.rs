//! What the command shows beside its answers: progress bars, notes, errors; and interrupts.

use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicBool = AtomicBool::new(false);

/// From now on the first Ctrl-C only sets a flag, so that work in progress can clean up behind
/// itself; the second one ends the process.
pub fn watch_interrupt() {
    // Without a handler Ctrl-C ends the process at once: worse, but no reason not to work.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) || WAITING.load(Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
}

/// Runs `f`, which waits for the user: there is nothing to clean up, so Ctrl-C ends at once.
pub fn waiting<T>(f: impl FnOnce() -> T) -> T {
    WAITING.store(true, Ordering::SeqCst);
    let result = f();
    WAITING.store(false, Ordering::SeqCst);
    result
}

/// Takes a Ctrl-C back: whatever was in progress has stopped, and the conversation goes on.
pub fn forget_interrupt() {
    INTERRUPTED.store(false, Ordering::SeqCst);
}

/// Whether Ctrl-C was pressed.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Where notes go, and whether they may be coloured or drawn.
pub struct Ui {
    quiet: bool,
    colour: bool,
}

impl Ui {
    /// Colours and bars are for terminals only, and `NO_COLOR` is respected.
    pub fn new(quiet: bool) -> Self {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Ui { quiet, colour }
    }

    /// Whether answers on stdout may be coloured.
    pub fn paints_stdout(&self) -> bool {
        std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
    }

    /// Whether only answers and errors are wanted.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// A line on stderr.
    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            tell(&text);
        }
    }

    /// A warning on stderr.
    pub fn warn(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            tell(format!("{} {text}", self.paint("warning:", "33")));
        }
    }

    /// An error on stderr, with its causes where they add something.
    pub fn error(&self, error: &anyhow::Error) {
        // Those of a program each begin with their own code.
        if let Some(of_program @ (tallow::Error::Program(_) | tallow::Error::Nothing { .. })) = error.downcast_ref() {
            let text = plain(&of_program.to_string());
            let lines = text.lines().map(|line| match line.strip_prefix("error") {
                Some(rest) if rest.starts_with('[') => match rest.split_once(": ") {
                    Some((code, message)) => format!("{} {message}", self.paint(&format!("error{code}:"), "31")),
                    None => line.to_owned(),
                },
                _ => line.to_owned(),
            });
            lines.for_each(tell);
            return;
        }
        let mut text = plain(&error.to_string());
        for cause in error.chain().skip(1) {
            let cause = plain(&cause.to_string());
            if !text.contains(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        tell(format!("{} {text}", self.paint("error:", "31")));
    }

    fn paint(&self, text: &str, colour: &str) -> String {
        if self.colour { format!("\x1b[1;{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A bar over `total` bytes, drawn on a terminal only.
    pub fn bytes_bar(&self, total: u64, what: &str) -> ProgressBar {
        self.bar(total, what, "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} {wide_msg}")
    }

    /// A bar over `total` parts, drawn on a terminal only.
    pub fn count_bar(&self, total: u64, what: &str) -> ProgressBar {
        self.bar(total, what, "{prefix} {bar:30} {pos}/{len} {wide_msg}")
    }

    /// A sign of life while something without parts goes on, drawn on a terminal only.
    pub fn wait(&self, what: &str) -> ProgressBar {
        self.bar(0, what, "{prefix} {spinner} {elapsed}")
    }

    fn bar(&self, total: u64, what: &str, style: &str) -> ProgressBar {
        if self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// A text without control characters but those of lines: names that people give go to their terminal.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// The exit code of an error.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(e) = cause.downcast_ref::<tallow::Error>() {
            return e.exit_code();
        }
        if let Some(e) = cause.downcast_ref::<tallow::format::FormatError>() {
            return if e.is_unsupported() { 4 } else { 3 };
        }
    }
    2
}

/// Whether the reader of our output went away, as `tallow cat … | head` does.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe))
}

/// A text whose control characters, which names in files may hold, are written out; lines and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let wild = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(wild) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if wild(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.into()
}

/// Writes a line to stderr. Where that is closed or full there is nobody to tell.
fn tell(line: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Writes to stdout. An error names it, as it names any file.
pub fn answer(text: &str) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to stdout")
}

/// `1 thread`, `2 threads`.
pub fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `1234567` as `1.2 MB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// The size of a file, for people.
pub fn file_size(path: &std::path::Path) -> String {
    std::fs::metadata(path).map_or_else(|_| "size unknown".into(), |m| bytes(m.len()))
}

/// Rows as columns that line up: numbers to the right, text to the left, two spaces between.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let numeric = |c: usize| {
        rows.iter()
            .skip(1)
            .filter_map(|r| r.get(c))
            .all(|t| t.is_empty() || t.starts_with(|ch: char| ch.is_ascii_digit()))
    };
    let right: Vec<bool> = (0..columns).map(numeric).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(c, text)| {
                // A width in a format string has its own limit, and names have none.
                let fill = " ".repeat(widths[c].saturating_sub(text.chars().count()));
                if right[c] { format!("{fill}{text}") } else { format!("{text}{fill}") }
            })
            .collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}
