//! Medians and spreads.

use headwater_figures::plot::quantile;

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

    /// A value that the median is above with a certainty of 95 %, by order statistics (the sign test): the k-th
    /// smallest of n, with the largest k for which a fair coin shows heads less than k times in n tosses with a
    /// probability of 5 % at most. `None` if there are fewer than five.
    pub fn median_bound(&self) -> Option<f64> {
        let n = self.0.len() as i32;
        let (mut term, mut below, mut k) = (0.5_f64.powi(n), 0.0, 0);
        while below + term <= 0.05 {
            below += term;
            term *= f64::from(n - k) / f64::from(k + 1);
            k += 1;
        }
        (k > 0).then(|| self.0[k as usize - 1])
    }

    fn quantile(&self, q: f64) -> f64 {
        quantile(&self.0, q)
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
    fn bounds_of_medians() {
        // Binomial tables: P(X < k) at most 0.05 for n tosses.
        for (n, k) in
            [(4, None), (5, Some(1)), (8, Some(2)), (11, Some(3)), (15, Some(4)), (25, Some(8)), (101, Some(42))]
        {
            let sample = Sample::new((1..=n).map(f64::from).collect());
            assert_eq!(sample.median_bound(), k.map(f64::from), "{n}");
        }
    }

    #[test]
    fn medians() {
        assert_eq!(Sample::new(vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Sample::new(vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(Sample::new((0..=10).map(f64::from).collect()).spread(), "1.0 to 9.0");
    }
}
