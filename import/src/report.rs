//! What an import did, for people and for machines.

use std::fmt;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde::Serialize;

use crate::source::LeftOut;

/// The result of an import. `Display` gives an aligned table.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// Where it was read from.
    pub source: PathBuf,
    /// Where it was written; `None` after a dry run.
    pub output: Option<PathBuf>,
    /// Name of the model.
    pub name: String,
    /// `model_type`.
    pub model_type: String,
    /// Values of all tensors.
    pub parameters: u64,
    /// One entry per tensor written, in order.
    pub tensors: Vec<TensorReport>,
    /// Tensors that were not taken over.
    pub left_out: Vec<LeftOut>,
    /// One sentence each.
    pub warnings: Vec<String>,
    /// Sums over all tensors.
    pub totals: Totals,
}

/// One tensor.
#[derive(Clone, Debug, Serialize)]
pub struct TensorReport {
    /// Name in the `.model`.
    pub name: String,
    /// Row-major.
    pub shape: Vec<u64>,
    /// Type name in the source.
    pub source_type: String,
    /// Encoding name.
    pub encoding: String,
    /// Bytes written.
    pub bytes: u64,
    /// Relative root-mean-square error against the source; 0 where the bytes are the source's.
    pub relative_error: f64,
}

/// Sums.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes of tensor data in the source.
    pub source_bytes: u64,
    /// Bytes of tensor data written.
    pub bytes: u64,
    /// By encoding: tensors, bytes, and the largest relative error.
    pub encodings: IndexMap<String, EncodingTotal>,
}

/// Sums over the tensors of one encoding.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EncodingTotal {
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes written.
    pub bytes: u64,
    /// The largest relative error among them.
    pub largest_error: f64,
    /// The tensor that has it.
    pub worst: String,
}

impl Totals {
    pub(crate) fn add(&mut self, tensor: &TensorReport, source_bytes: u64) {
        self.tensors += 1;
        self.source_bytes += source_bytes;
        self.bytes += tensor.bytes;
        let total = self.encodings.entry(tensor.encoding.clone()).or_default();
        total.tensors += 1;
        total.bytes += tensor.bytes;
        if total.worst.is_empty() || tensor.relative_error > total.largest_error {
            total.largest_error = tensor.relative_error;
            total.worst.clone_from(&tensor.name);
        }
    }
}

impl ImportReport {
    /// The encodings in short, as in `q8 × 140, q6k × 12, u32 × 49`.
    pub fn encodings_in_short(&self) -> String {
        let parts: Vec<String> = self.totals.encodings.iter().map(|(e, t)| format!("{e} × {}", t.tensors)).collect();
        parts.join(", ")
    }

    /// Writes what follows the table of tensors: sums by encoding, what was left out, warnings.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        let totals = &self.totals;
        let mut rows = vec![[
            "encoding".to_owned(),
            "tensors".to_owned(),
            "bytes".to_owned(),
            "largest error".to_owned(),
            "in".to_owned(),
        ]];
        for (name, total) in &totals.encodings {
            rows.push([
                name.clone(),
                total.tensors.to_string(),
                total.bytes.to_string(),
                percent(total.largest_error),
                total.worst.clone(),
            ]);
        }
        align(&rows, &[false, true, true, true, false], &mut out);
        out.push_str(&format!(
            "\n{} tensors, {} parameters, {} bytes from {} bytes\n",
            totals.tensors, self.parameters, totals.bytes, totals.source_bytes
        ));
        if !self.left_out.is_empty() {
            let s = if self.left_out.len() == 1 { "" } else { "s" };
            out.push_str(&format!("\n{} tensor{s} left out:\n", self.left_out.len()));
            for tensor in &self.left_out {
                out.push_str(&format!("  {} ({}): {}\n", tensor.name, tensor.source_type, tensor.reason));
            }
        }
        if !self.warnings.is_empty() {
            out.push_str("\nwarnings:\n");
            for warning in &self.warnings {
                out.push_str(&format!("  {warning}\n"));
            }
        }
        out
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![[
            "tensor".to_owned(),
            "shape".to_owned(),
            "source".to_owned(),
            "encoding".to_owned(),
            "bytes".to_owned(),
            "error".to_owned(),
        ]];
        for tensor in &self.tensors {
            let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            rows.push([
                tensor.name.clone(),
                shape.join(" × "),
                tensor.source_type.clone(),
                tensor.encoding.clone(),
                tensor.bytes.to_string(),
                percent(tensor.relative_error),
            ]);
        }
        let mut out = String::new();
        align(&rows, &[false, true, false, false, true, true], &mut out);
        writeln!(f, "{} ({})", self.name, self.model_type)?;
        writeln!(f)?;
        f.write_str(&out)?;
        writeln!(f)?;
        f.write_str(&self.summary())
    }
}

fn percent(error: f64) -> String {
    match error * 100.0 {
        0.0 => "exact".into(),
        small if small < 1e-4 => "< 0.0001 %".into(),
        percent => format!("{percent:.4} %"),
    }
}

/// Columns two spaces apart, numbers to the right.
fn align<const N: usize>(rows: &[[String; N]], right: &[bool; N], out: &mut String) {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for ((cell, &width), &right) in row.iter().zip(&widths).zip(right) {
            let pad = " ".repeat(width - cell.chars().count());
            if right {
                line.push_str(&pad);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&pad);
            }
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_sums_up() {
        let tensor = |name: &str, encoding: &str, bytes, relative_error| TensorReport {
            name: name.into(),
            shape: vec![2, 3],
            source_type: "F32".into(),
            encoding: encoding.into(),
            bytes,
            relative_error,
        };
        let tensors = vec![tensor("a", "u32", 24, 0.0), tensor("bbb", "q8", 1000, 0.0042)];
        let mut totals = Totals::default();
        for t in &tensors {
            totals.add(t, 24);
        }
        let report = ImportReport {
            source: "x.gguf".into(),
            output: None,
            name: "m".into(),
            model_type: "llama".into(),
            parameters: 12,
            tensors,
            left_out: vec![LeftOut { name: "inv_freq".into(), source_type: "F32".into(), reason: "computed".into() }],
            warnings: vec!["Mind the gap.".into()],
            totals,
        };
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "m (llama)");
        assert_eq!(lines[2], "tensor  shape  source  encoding  bytes     error");
        assert_eq!(lines[3], "a       2 × 3  F32     u32          24     exact");
        assert_eq!(lines[4], "bbb     2 × 3  F32     q8         1000  0.4200 %");
        assert!(text.contains("2 tensors, 12 parameters, 1024 bytes from 48 bytes"), "{text}");
        assert!(text.contains("inv_freq (F32): computed") && text.contains("Mind the gap."), "{text}");
        assert_eq!(report.encodings_in_short(), "u32 × 1, q8 × 1");
        assert!(serde_json::to_string(&report).unwrap().contains("\"relative_error\":0.0042"));
    }
}
