//! Values of one kind in several layers, and those of them that stand out.

use super::report::Report;
use std::collections::BTreeMap;

impl Report {
    /// The places of the values in tolerance whose errors are far above those of the equal values of other layers, the
    /// largest ratio first: of names that differ in numbers alone, more than five times the median.
    pub fn standing_out(&self) -> Vec<usize> {
        const TIMES: f64 = 5.0;
        const LEAST: usize = 3;
        // Below this an error is rounding.
        const ROUNDING: f64 = 1e-5;
        let mut sisters: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, value) in self.values.iter().enumerate() {
            sisters.entry(without_numbers(&value.left)).or_default().push(at);
        }
        let mut found: Vec<(f64, usize)> = Vec::new();
        for places in sisters.into_values().filter(|places| places.len() >= LEAST) {
            let mut errors: Vec<f64> = places.iter().map(|&at| self.values[at].relative()).collect();
            errors.sort_by(f64::total_cmp);
            let usual = errors[errors.len() / 2].max(ROUNDING);
            let ratios = places.into_iter().map(|at| (self.values[at].relative() / usual, at));
            found.extend(ratios.filter(|&(ratio, at)| ratio > TIMES && self.values[at].verdict.is_within()));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found.into_iter().map(|(_, at)| at).collect()
    }
}

/// A name with one sign for each number.
fn without_numbers(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}
