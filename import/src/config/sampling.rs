//! `[sampling]`: how the source suggests to pick tokens, in per-mille integers.

/// What the integers of `[sampling]` are divided by.
pub const SCALE: f64 = 1000.0;

/// Numbers as the source gives them; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: Option<f64>,
    /// Mass of the likeliest tokens that are kept.
    pub top_p: Option<f64>,
    /// Number of the likeliest tokens that are kept; 0 keeps all.
    pub top_k: Option<u64>,
    /// Smallest share of the likeliest token's probability that is kept.
    pub min_p: Option<f64>,
    /// Divides the logits of tokens seen before.
    pub repetition_penalty: Option<f64>,
}

impl Sampling {
    /// The lines of `[sampling]`, and a sentence for each number that per-mille integers cannot hold.
    pub fn lines(&self) -> (Vec<(&'static str, u64)>, Vec<String>) {
        let mut warnings = Vec::new();
        let mut scaled = |key: &str, value: f64| {
            let exact = value * SCALE;
            let rounded = exact.round();
            if (exact - rounded).abs() > 1e-6 {
                warnings.push(format!("`{key}` = {value} is stored as {rounded} thousandths, the nearest there is."));
            }
            rounded.max(0.0) as u64
        };
        let mut lines = vec![
            ("temperature", scaled("temperature", self.temperature.unwrap_or(0.0))),
            ("top_p", scaled("top_p", self.top_p.unwrap_or(1.0))),
            ("top_k", self.top_k.unwrap_or(0)),
        ];
        if let Some(min_p) = self.min_p {
            lines.push(("min_p", scaled("min_p", min_p)));
        }
        if let Some(penalty) = self.repetition_penalty {
            lines.push(("repetition_penalty", scaled("repetition_penalty", penalty)));
        }
        lines.push(("scale", SCALE as u64));
        (lines, warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_suggestions_is_greedy() {
        let (lines, warnings) = Sampling::default().lines();
        assert_eq!(lines, [("temperature", 0), ("top_p", 1000), ("top_k", 0), ("scale", 1000)]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn numbers_beyond_thousandths_are_rounded_aloud() {
        let sampling = Sampling {
            temperature: Some(0.7),
            top_p: Some(0.8125),
            repetition_penalty: Some(1.05),
            ..Sampling::default()
        };
        let (lines, warnings) = sampling.lines();
        assert_eq!(lines[0], ("temperature", 700));
        assert_eq!(lines[1], ("top_p", 813));
        assert_eq!(lines[3], ("repetition_penalty", 1050));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("top_p") && warnings[0].contains("813"), "{}", warnings[0]);
    }
}
