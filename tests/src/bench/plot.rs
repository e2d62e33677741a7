//! Curves as text and as SVG, both axes logarithmic.

use std::fmt::Write;

/// Points under a name.
pub struct Curve {
    /// What it shows.
    pub name: &'static str,
    /// (x, y), both positive.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Without points.
    pub fn new(name: &'static str) -> Curve {
        Curve { name, points: Vec::new() }
    }
}

/// Curves over the same axes.
pub struct Plot<'a> {
    /// The title.
    pub title: &'a str,
    /// What x is.
    pub x: &'a str,
    /// What y is.
    pub y: &'a str,
    /// The curves.
    pub curves: &'a [Curve],
}

const COLOURS: [&str; 7] = ["#b2432f", "#2f6db2", "#5a8f3c", "#8a5fb0", "#c08a1e", "#3c8f8a", "#444444"];
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;

impl Plot<'_> {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.curves.iter().flat_map(|curve| curve.points.iter().copied())
    }

    /// A bar for each point, as long as the logarithm of its value.
    pub fn text(&self) -> String {
        let largest = self.points().map(|point| point.1).fold(0.0, f64::max);
        let smallest = self.points().map(|point| point.1).fold(f64::INFINITY, f64::min) / 2.0;
        let mut text = format!("{}: {} by {}, logarithmic\n", self.title, self.y, self.x);
        let xs =
            self.curves.first().map(|curve| curve.points.iter().map(|p| p.0).collect::<Vec<_>>()).unwrap_or_default();
        for (number, x) in xs.iter().enumerate() {
            for curve in self.curves {
                let y = curve.points[number].1;
                let bar = "#".repeat((50.0 * (y / smallest).ln() / (largest / smallest).ln()).round() as usize);
                let _ = writeln!(text, "{x:>4} {:<24} {bar} {y:.1}", curve.name);
            }
        }
        text
    }

    /// A drawing.
    pub fn svg(&self) -> String {
        let bounds = |of: fn((f64, f64)) -> f64| {
            let (low, high) = self.points().map(of).fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
            (low.ln(), (high * 1.1).ln().max(low.ln() + 0.1))
        };
        let ((x_low, x_high), (y_low, y_high)) = (bounds(|p| p.0), bounds(|p| p.1));
        let across = |x: f64| 70.0 + (x.ln() - x_low) / (x_high - x_low) * (WIDTH - 100.0);
        let up = |y: f64| HEIGHT - 60.0 - (y.ln() - y_low) / (y_high - y_low) * (HEIGHT - 110.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{}\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">{}</text>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text x=\"16\" y=\"44\">{}</text>\n",
            WIDTH / 2.0,
            self.title,
            WIDTH / 2.0,
            HEIGHT - 14.0,
            self.x,
            self.y
        );
        let (left, bottom) = (70.0, HEIGHT - 60.0);
        let _ = writeln!(svg, "<path d=\"M{left} 50V{bottom}H{}\" fill=\"none\" stroke=\"#444\"/>", WIDTH - 30.0);
        for tick in
            [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5]
                .into_iter()
                .filter(|t: &f64| (y_low..=y_high).contains(&t.ln()))
        {
            let y = up(tick);
            let _ = writeln!(
                svg,
                "<text x=\"62\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text><path d=\"M66 {y:.1}h4\" stroke=\"#444\"/>",
                y + 4.0
            );
        }
        for &(x, _) in self.curves.first().map_or(&[][..], |curve| &curve.points) {
            let _ =
                writeln!(svg, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{x}</text>", across(x), bottom + 18.0);
        }
        for (number, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let points: Vec<String> =
                curve.points.iter().map(|p| format!("{:.1},{:.1}", across(p.0), up(p.1))).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                points.join(" ")
            );
            for point in &curve.points {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                    across(point.0),
                    up(point.1)
                );
            }
            let y = 60.0 + 18.0 * number as f64;
            let _ = writeln!(
                svg,
                "<path d=\"M90 {0}h20\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"116\" y=\"{1}\">{2}</text>",
                y,
                y + 4.0,
                curve.name
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn() {
        let curves = [
            Curve { name: "a", points: vec![(1.0, 2.0), (4.0, 8.0)] },
            Curve { name: "b", points: vec![(1.0, 1.0), (4.0, 1.0)] },
        ];
        let plot = Plot { title: "t", x: "nodes", y: "seconds", curves: &curves };
        assert_eq!(plot.svg().matches("<circle").count(), 4);
        assert_eq!(plot.text().lines().count(), 5);
    }
}
