//! Repeated measurements.

use serde_json::{Value, json};

/// What several measurements of one quantity gave, in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements(Vec<f64>);

impl Measurements {
    /// One more.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The values in the order in which they were taken.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The least; NaN of none.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The greatest; NaN of none.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// The one in the middle, or between the two in the middle; NaN of none.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => f64::NAN,
            (n, half) if n % 2 == 1 => sorted[half],
            (_, half) => (sorted[half - 1] + sorted[half]) / 2.0,
        }
    }

    /// So much per second, of measurements that are seconds.
    pub fn per_second(&self, amount: f64) -> Self {
        self.0.iter().map(|seconds| amount / seconds).collect()
    }

    /// `{"min": …, "median": …, "max": …, "values": […]}`.
    pub fn json(&self) -> Value {
        json!({ "min": self.min(), "median": self.median(), "max": self.max(), "values": self.0 })
    }
}

impl FromIterator<f64> for Measurements {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Measurements(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |values: &[f64]| values.iter().copied().collect::<Measurements>();
        let three = of(&[3.0, 1.0, 2.0]);
        assert_eq!((three.min(), three.median(), three.max()), (1.0, 2.0, 3.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(three.values(), [3.0, 1.0, 2.0]);
        assert!(of(&[]).median().is_nan() && of(&[]).min().is_nan());
        // What no number stands for is null, so that the JSON stays JSON.
        assert!(of(&[]).json()["median"].is_null());
    }
}
