//! How far encoded values are from their source.

/// Accumulates the relative root-mean-square error of values against their source, chunk by
/// chunk, in double precision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorMeter {
    error: f64,
    reference: f64,
    largest: f64,
    values: u64,
}

impl ErrorMeter {
    /// A meter that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `decoded` against `source`, value by value. Slices of different lengths have
    /// nothing to compare: they make the error infinite.
    pub fn add(&mut self, source: &[f32], decoded: &[f32]) {
        if source.len() != decoded.len() {
            self.error = f64::INFINITY;
            return;
        }
        let mut error = [0.0_f64; 8];
        let mut reference = [0.0_f64; 8];
        let mut largest = [0.0_f32; 8];
        let (source_chunks, source_rest) = source.as_chunks::<8>();
        let (decoded_chunks, decoded_rest) = decoded.as_chunks::<8>();
        for (a, b) in source_chunks.iter().zip(decoded_chunks) {
            for lane in 0..8 {
                let difference = f64::from(a[lane]) - f64::from(b[lane]);
                error[lane] += difference * difference;
                reference[lane] += f64::from(a[lane]) * f64::from(a[lane]);
                largest[lane] = largest[lane].max(difference.abs() as f32);
            }
        }
        for (&a, &b) in source_rest.iter().zip(decoded_rest) {
            let difference = f64::from(a) - f64::from(b);
            error[0] += difference * difference;
            reference[0] += f64::from(a) * f64::from(a);
            largest[0] = largest[0].max(difference.abs() as f32);
        }
        self.error += error.iter().sum::<f64>();
        self.reference += reference.iter().sum::<f64>();
        self.largest = largest.iter().fold(self.largest, |most, &lane| most.max(lane.into()));
        self.values += source.len() as u64;
    }

    /// Adds what another meter has seen.
    pub fn merge(&mut self, other: &ErrorMeter) {
        self.error += other.error;
        self.reference += other.reference;
        self.largest = self.largest.max(other.largest);
        self.values += other.values;
    }

    /// `sqrt(Σ(source − decoded)² / Σ source²)`: 0 where both sums are zero, infinite where
    /// only the source's is, NaN where a value was NaN.
    pub fn relative_rms(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { (self.error / self.reference).sqrt() }
    }

    /// The largest absolute difference, in single precision.
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// Values compared.
    pub fn values(&self) -> u64 {
        self.values
    }
}

/// The relative root-mean-square error of `decoded` against `source`, as
/// [`ErrorMeter::relative_rms`]; infinite when the lengths differ.
pub fn relative_rms_error(source: &[f32], decoded: &[f32]) -> f64 {
    let mut meter = ErrorMeter::new();
    meter.add(source, decoded);
    meter.relative_rms()
}
