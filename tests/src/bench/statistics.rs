//! Medians and spreads.

/// Some measurements of one thing.
pub struct Sample(Vec<f64>);

impl Sample {
    /// From at least one measurement.
    pub fn new(mut values: Vec<f64>) -> Sample {
        assert!(!values.is_empty(), "something was measured");
        values.sort_by(f64::total_cmp);
        Sample(values)
    }

    /// The value in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    fn quantile(&self, q: f64) -> f64 {
        let at = q * (self.0.len() - 1) as f64;
        let (low, high) = (self.0[at.floor() as usize], self.0[at.ceil() as usize]);
        low + (high - low) * at.fract()
    }

    /// `10th percentile to 90th percentile`.
    pub fn spread(&self) -> String {
        format!("{:.1} to {:.1}", self.quantile(0.1), self.quantile(0.9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Sample::new(vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Sample::new(vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(Sample::new((0..=10).map(f64::from).collect()).spread(), "1.0 to 9.0");
    }
}
