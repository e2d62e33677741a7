//! Measured seconds by bytes.

use serde::{Deserialize, Serialize};

/// Measured points, by ascending bytes. Between them it is linear in the logarithms of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curve(pub(super) Vec<(f64, f64)>);

impl Curve {
    /// Makes a curve of these points, (bytes, seconds).
    ///
    /// # Errors
    /// There is none, or they are not positive numbers with ascending bytes.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Curve, &'static str> {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if points.is_empty() || !points.iter().all(|&(bytes, seconds)| is_positive(bytes) && is_positive(seconds)) {
            return Err("write points as [bytes, seconds], one at least, all above zero");
        }
        if !points.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("write points with ascending bytes");
        }
        Ok(Curve(points))
    }

    /// Makes a curve of a latency and a rate in bytes a second.
    pub fn of_rate(latency_s: f64, bytes_per_s: f64) -> Curve {
        let powers = (0..=40).step_by(2).map(|power| f64::from(power).exp2());
        Curve(powers.map(|bytes| (bytes, latency_s + bytes / bytes_per_s)).collect())
    }

    /// Returns the points.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// Returns the seconds for so many bytes. Fewer than the first point's take as long as these, and nothing
    /// takes none; beyond the last point that one's rate applies.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let (first, last) = (self.0[0], self.0[self.0.len() - 1]);
        if bytes <= 0.0 {
            return 0.0;
        }
        if bytes <= first.0 {
            return first.1;
        }
        if bytes >= last.0 {
            return last.1 * bytes / last.0;
        }
        let after = self.0.partition_point(|point| point.0 < bytes);
        let ((x0, y0), (x1, y1)) = (self.0[after - 1], self.0[after]);
        let part = (bytes / x0).ln() / (x1 / x0).ln();
        y0 * (y1 / y0).powf(part)
    }
}

impl std::fmt::Display for Curve {
    /// Writes it in TOML.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let points: Vec<String> = self.0.iter().map(|(bytes, seconds)| format!("[{bytes}, {seconds:e}]")).collect();
        write!(f, "[{}]", points.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_points_it_is_linear_in_logarithms() {
        let curve = Curve::new(vec![(100.0, 1.0), (10_000.0, 100.0), (1e6, 400.0)]).unwrap();
        for (bytes, expected) in
            [(0.0, 0.0), (1.0, 1.0), (100.0, 1.0), (1000.0, 10.0), (10_000.0, 100.0), (1e5, 200.0), (2e6, 800.0)]
        {
            let seconds = curve.seconds(bytes);
            assert!((seconds - expected).abs() < 1e-9 * expected.max(1.0), "{bytes}: {seconds}, not {expected}");
        }
    }

    #[test]
    fn a_rate_is_constant_between_its_points() {
        let curve = Curve::of_rate(1e-4, 1e8);
        for bytes in [1.0, 3e4, 1e6, 3e8, 1e14] {
            let exact = 1e-4 + bytes / 1e8;
            assert!((curve.seconds(bytes) / exact - 1.0).abs() < 0.15, "{bytes}");
        }
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        for points in [vec![], vec![(0.0, 1.0)], vec![(1.0, -1.0)], vec![(1.0, f64::NAN)], vec![(2.0, 1.0), (1.0, 1.0)]]
        {
            assert!(Curve::new(points).is_err());
        }
    }
}
