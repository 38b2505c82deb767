//! What a comparison has found, as a table for people.

use super::json;
use super::measure::Measure;
use super::weights::{WeightDifference, index};
use std::fmt::Write as _;
use tallow_ir::Value;

/// How the values of two sides agree.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the reference is called.
    pub left: String,
    /// What the other side is called.
    pub right: String,
    /// The inputs with their shapes.
    pub inputs: Vec<(String, Vec<usize>)>,
    /// Every value that was compared, in the order in which the right side computes them.
    pub values: Vec<Compared>,
    /// The first one out of tolerance.
    pub first: Option<usize>,
    /// What the first and the worst values out of tolerance are made by; the first one first.
    pub suspects: Vec<Suspect>,
    /// The values that were compared with nothing.
    pub unmatched: Unmatched,
    /// Values of a reference in files that are none of the graph's, with the reason.
    pub unknown: Vec<(String, String)>,
}

/// Values that have no partner, by name.
#[derive(Clone, Debug, Default)]
pub struct Unmatched {
    /// Those of the reference.
    pub left: Vec<String>,
    /// Those of the other side.
    pub right: Vec<String>,
}

/// A value that both sides have.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The value in the right graph.
    pub value: Value,
    /// What the reference calls it.
    pub left: String,
    /// Its other names in the reference: a module and its last part give the same value.
    pub also: Vec<String>,
    /// What the right graph calls it.
    pub right: String,
    /// The operation of the right graph that gives it.
    pub op: &'static str,
    /// Its sizes on the right side.
    pub shape: Vec<usize>,
    /// Its error; none where the shapes differ.
    pub measure: Option<Measure>,
    /// What [`Measure::relative`] may be.
    pub tolerance: f64,
    /// Whether so many operations lie between it and those before it that are compared, that little is told of each.
    pub far: bool,
    /// The part of the tolerance of a single product that encodings of weights in blocks make.
    pub by_encoding: f64,
    /// What the graph does otherwise than the module of this name, as far as names tell.
    pub hint: Option<String>,
    /// Whether it is.
    pub verdict: Verdict,
}

/// The judgement on a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Equal as far as the tolerance tells.
    Within,
    /// The error is larger than the tolerance.
    Beyond,
    /// NaN or infinity on one side alone.
    NotFinite,
    /// The reference has this other shape.
    Shape(Vec<usize>),
}

/// A value out of tolerance, and what it is made by.
#[derive(Clone, Debug)]
pub struct Suspect {
    /// The place of the value in [`Report::values`].
    pub at: usize,
    /// The statement of the right graph that gives it.
    pub statement: String,
    /// The statements between it and the values before it that were compared: the error may be theirs.
    pub between: Vec<String>,
    /// The weights that these statements read.
    pub reads: Vec<String>,
    /// Those of them that are not the same on both sides.
    pub weights: Vec<WeightDifference>,
}

impl Verdict {
    /// The verdict on an error; `shape` is that of the reference, for where there is none.
    pub(super) fn of(measure: Option<&Measure>, shape: &[usize], tolerance: f64) -> Verdict {
        match measure {
            None => Verdict::Shape(shape.to_vec()),
            Some(m) if m.nan + m.infinite > 0 => Verdict::NotFinite,
            Some(m) if m.relative > tolerance => Verdict::Beyond,
            Some(_) => Verdict::Within,
        }
    }

    /// Whether the value is in tolerance.
    pub fn is_within(&self) -> bool {
        *self == Verdict::Within
    }

    /// As the table says it.
    pub fn text(&self) -> String {
        match self {
            Verdict::Within => "ok".to_owned(),
            Verdict::Beyond => "OUT".to_owned(),
            Verdict::NotFinite => "NAN OR INF".to_owned(),
            Verdict::Shape(shape) => format!("SHAPE {}", sizes(shape)),
        }
    }
}

impl Compared {
    /// How bad the error is: over the tolerance, NaN, infinities and other shapes above all.
    fn badness(&self) -> f64 {
        match (&self.verdict, &self.measure) {
            (Verdict::Shape(_) | Verdict::NotFinite, _) | (_, None) => f64::INFINITY,
            (_, Some(m)) if m.relative == 0.0 => 0.0,
            (_, Some(m)) => m.relative / self.tolerance.max(f64::MIN_POSITIVE),
        }
    }

    /// The reference's names and the right graph's, or one where they are the same.
    fn name(&self) -> String {
        if self.left == self.right && self.also.is_empty() {
            return self.right.clone();
        }
        format!("{} ~ {}", self.names(), self.right)
    }

    /// The reference's names.
    fn names(&self) -> String {
        let names: Vec<&str> = [&self.left].into_iter().chain(&self.also).map(String::as_str).collect();
        names.join(", ")
    }

    /// The relative error; 0 where shapes differ.
    pub(super) fn relative(&self) -> f64 {
        self.measure.as_ref().map_or(0.0, |m| m.relative)
    }
}

impl Report {
    /// Whether every value that was compared is in tolerance.
    pub fn is_within(&self) -> bool {
        self.first.is_none()
    }

    /// The places of the `count` values with the largest errors over their tolerance, the worst first; those without
    /// any error are left out.
    pub fn worst(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.values.len()).filter(|&at| self.values[at].badness() > 0.0).collect();
        order.sort_by(|&a, &b| self.values[b].badness().total_cmp(&self.values[a].badness()).then(a.cmp(&b)));
        order.truncate(count);
        order
    }

    /// The places of the `count` values with the largest relative errors.
    fn largest(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.values.len()).filter(|&at| self.values[at].relative() > 0.0).collect();
        order.sort_by(|&a, &b| self.values[b].relative().total_cmp(&self.values[a].relative()).then(a.cmp(&b)));
        order.truncate(count);
        order
    }

    /// What the tolerances leave unseen: those that encodings make wide, and those far from what is compared.
    fn limits(&self, out: &mut String) {
        const WIDE: f64 = 0.1;
        let wide = self.values.iter().filter(|v| v.by_encoding >= WIDE);
        let (count_wide, least) = wide.fold((0, f64::INFINITY), |(n, x), v| (n + 1, x.min(v.by_encoding)));
        if count_wide > 0 {
            let _ = writeln!(
                out,
                "\nweights in blocks of few bits: at {} errors below {:.0} % of the scale, or more, pass; a model from \
                 `import --encoding u32` shows finer ones",
                count(count_wide, "value"),
                100.0 * least
            );
        }
        let far: Vec<&Compared> = self.values.iter().filter(|v| v.far && v.verdict.is_within()).collect();
        let most = far.iter().fold(0f64, |x, v| x.max(v.tolerance));
        if !far.is_empty() {
            let _ = writeln!(
                out,
                "\ntoo far from the last compared value to judge finer: {}, where errors up to {} pass; values between \
                 tell more",
                count(far.len(), "value"),
                number(most)
            );
        }
        let outstanding = self.standing_out();
        if !outstanding.is_empty() {
            const SHOWN: usize = 10;
            let _ = writeln!(out, "\nstands out: within tolerance, and far above the same value of the other layers");
            out.push_str(&self.table(&outstanding[..outstanding.len().min(SHOWN)]));
            if outstanding.len() > SHOWN {
                let _ = writeln!(out, "and {} more", outstanding.len() - SHOWN);
            }
        }
    }

    /// The report as JSON.
    pub fn json(&self) -> serde_json::Value {
        json::json(self)
    }

    /// The report for people: the first operation out of tolerance, the worst ones, and a table; of every value where
    /// `full`, else of those out of tolerance and of the worst.
    pub fn text(&self, full: bool) -> String {
        const SHOWN: usize = 10;
        const LARGEST: usize = 3;
        let mut out = String::new();
        let out_of = self.values.iter().filter(|v| !v.verdict.is_within()).count();
        let inputs: Vec<String> = self.inputs.iter().map(|(name, shape)| format!("{name} {}", sizes(shape))).collect();
        let _ = writeln!(out, "reference  {}\nagainst    {}", self.left, self.right);
        let _ = writeln!(out, "inputs     {}", inputs.join(", "));
        let total = self.values.len();
        match self.first {
            None => {
                let _ = writeln!(out, "compared   {}, all within tolerance", count(total, "value"));
            }
            Some(_) => {
                let _ = writeln!(out, "compared   {}, {out_of} out of tolerance", count(total, "value"));
            }
        }
        for (at, suspect) in self.suspects.iter().enumerate() {
            let title = match at {
                0 => "first out of tolerance",
                1 => "worst",
                _ => "",
            };
            if !title.is_empty() {
                let _ = writeln!(out, "\n{title}");
            }
            self.describe(suspect, &mut out);
        }
        let mut shown: Vec<usize> = match full {
            true => (0..total).collect(),
            false => self.worst(SHOWN).into_iter().chain(self.largest(LARGEST)).collect(),
        };
        shown.sort_unstable();
        shown.dedup();
        if !shown.is_empty() {
            out.push('\n');
            out.push_str(&self.table(&shown));
        }
        if shown.is_empty() {
            out.push_str("no value differs at all\n");
        } else if shown.len() < total {
            let rest = total - shown.len();
            let _ = writeln!(
                out,
                "and {} farther within tolerance, none with a larger relative error than the largest shown",
                count(rest, "value")
            );
        }
        self.limits(&mut out);
        self.rest(full, &mut out);
        out
    }

    fn describe(&self, suspect: &Suspect, out: &mut String) {
        const BETWEEN: usize = 8;
        let value = &self.values[suspect.at];
        let _ = writeln!(out, "  {}", suspect.statement);
        if value.left != value.right || !value.also.is_empty() {
            let _ = writeln!(out, "    the reference's {}", value.names());
        }
        if let Some(hint) = &value.hint {
            let _ = writeln!(out, "    {hint}");
        }
        if let Some(m) = &value.measure {
            let shape: Vec<u64> = value.shape.iter().map(|&n| n as u64).collect();
            let _ = writeln!(
                out,
                "    error {} of the scale, tolerance {}; worst at {}; {} of {} differ, by at most {}",
                number(m.relative),
                number(value.tolerance),
                sizes(&index(m.at, &shape)),
                m.differing,
                count(m.elements, "element"),
                number(m.max_abs)
            );
            if m.nan + m.infinite > 0 {
                let _ = writeln!(out, "    NaN on one side alone: {}; infinity: {}", m.nan, m.infinite);
            }
        } else if let Verdict::Shape(shape) = &value.verdict {
            let _ = writeln!(out, "    shape {}, the reference's {}", sizes(&value.shape), sizes(shape));
        }
        for w in &suspect.weights {
            let _ = write!(
                out,
                "    its weight {:?} is not the same: {} of {} differ, by at most {}, first at {}",
                w.name,
                w.differing,
                count(w.values, "value"),
                number(w.max_abs),
                sizes(&w.first)
            );
            match &w.encodings {
                Some((left, right)) => {
                    let _ = writeln!(out, " ({left} in the reference, {right} here)");
                }
                None => out.push('\n'),
            }
        }
        if !suspect.between.is_empty() {
            let _ = writeln!(out, "    or of what it reads, which was compared with nothing:");
            for line in suspect.between.iter().rev().take(BETWEEN) {
                let _ = writeln!(out, "      {line}");
            }
            if suspect.between.len() > BETWEEN {
                let _ = writeln!(out, "      and {} more before", suspect.between.len() - BETWEEN);
            }
        }
    }

    fn table(&self, shown: &[usize]) -> String {
        let head = ["value", "operation", "shape", "max abs", "relative", "cosine", "tolerance", ""];
        let mut rows = vec![head.map(str::to_owned)];
        for &at in shown {
            let v = &self.values[at];
            let (abs, relative, cosine) = match &v.measure {
                Some(m) => (number(m.max_abs), number(m.relative), format!("{:.6}", m.cosine)),
                None => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
            };
            let shape = sizes(&v.shape);
            rows.push([v.name(), v.op.to_owned(), shape, abs, relative, cosine, number(v.tolerance), v.verdict.text()]);
        }
        let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut out = String::new();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Names to the left, numbers to the right.
                let _ = match column {
                    0 | 1 | 2 | 7 => write!(line, "{cell:<width$}  "),
                    _ => write!(line, "{cell:>width$}  "),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// What was compared with nothing.
    fn rest(&self, full: bool, out: &mut String) {
        for (of, names) in [("the reference", &self.unmatched.left), (&self.right, &self.unmatched.right)] {
            if names.is_empty() {
                continue;
            }
            let _ = write!(out, "{} of {of} without a partner", count(names.len(), "value"));
            let _ = if full { writeln!(out, ": {}", names.join(", ")) } else { writeln!(out) };
        }
        if !self.unknown.is_empty() {
            let _ = writeln!(out, "\nnot compared");
            let width = self.unknown.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            for (name, why) in &self.unknown {
                let _ = writeln!(out, "  {name:<width$}  {why}");
            }
        }
    }
}

/// `[3, 4]`.
pub(super) fn sizes(shape: &[usize]) -> String {
    format!("[{}]", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}

fn count(n: usize, of: &str) -> String {
    if n == 1 { format!("1 {of}") } else { format!("{n} {of}s") }
}

/// Two significant digits with an exponent; a bare 0.
pub(super) fn number(x: f64) -> String {
    if x == 0.0 { "0".to_owned() } else { format!("{x:.1e}") }
}
