//! Curves as SVG, both axes logarithmic.

use std::fmt::Write;

/// A named curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// (x, y), both positive.
    pub points: Vec<(f64, f64)>,
}

/// Curves over the same axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The label of the x axis.
    pub x: String,
    /// The label of the y axis.
    pub y: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

const COLOURS: [&str; 7] = ["#b2432f", "#2f6db2", "#5a8f3c", "#8a5fb0", "#b58a1f", "#3c8f8a", "#444444"];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// The position of the axes.
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = HEIGHT - 60.0;

/// A logarithmic scale from values to positions, with rounded values at both ends.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let low = values.clone().fold(f64::INFINITY, f64::min).max(1e-9);
        let high = values.fold(low, f64::max);
        let (low, high) = if high > low * 1.05 { (low, high) } else { (low / 2.0, high * 2.0) };
        Axis { low: low.ln(), high: high.ln(), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (value.max(1e-9).ln() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Returns 1, 2 and 5 times powers of ten, or only powers of ten if these are many.
    fn ticks(&self) -> Vec<f64> {
        let powers = |steps: &[f64]| {
            let all = (-9..10).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            all.filter(|tick| (self.low - 1e-9..=self.high + 1e-9).contains(&tick.ln())).collect::<Vec<f64>>()
        };
        let few = powers(&[1.0]);
        if few.len() >= 3 { few } else { powers(&[1.0, 2.0, 5.0]) }
    }
}

impl Curve {
    /// Returns a curve without points.
    pub fn new(name: impl Into<String>) -> Curve {
        Curve { name: name.into(), points: Vec::new() }
    }
}

impl Plot {
    /// Returns the drawing.
    pub fn svg(&self) -> String {
        let points = self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let across = Axis::new(points.clone().map(|point| point.0), LEFT, RIGHT);
        let up = Axis::new(points.map(|point| point.1), BOTTOM, TOP + 20.0);
        let middle = WIDTH / 2.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{middle}\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">{}</text>\n\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text x=\"16\" y=\"44\">{}</text>\n\
             <path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#444\"/>\n",
            escaped(&self.title),
            HEIGHT - 14.0,
            escaped(&self.x),
            escaped(&self.y),
        );
        for tick in up.ticks() {
            let y = up.place(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                number(tick)
            );
        }
        for tick in across.ticks() {
            let x = across.place(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {BOTTOM}v5\" stroke=\"#444\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 20.0,
                number(tick)
            );
        }
        for (curve, row) in self.curves.iter().zip(0..) {
            draw(&mut svg, curve, row, &across, &up);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn draw(svg: &mut String, curve: &Curve, row: usize, across: &Axis, up: &Axis) {
    let colour = COLOURS[row % COLOURS.len()];
    let places: Vec<(f64, f64)> = curve.points.iter().map(|&(x, y)| (across.place(x), up.place(y))).collect();
    let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
    for (x, y) in places {
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
    let y = TOP + 6.0 + 18.0 * row as f64;
    let name = escaped(&curve.name);
    let _ = writeln!(
        svg,
        "<path d=\"M{} {y}h20\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{}\" y=\"{}\">{name}</text>",
        LEFT + 14.0,
        LEFT + 40.0,
        y + 4.0,
    );
}

fn number(value: f64) -> String {
    if value >= 0.999 { format!("{value:.0}") } else { format!("{value:.3}").trim_end_matches('0').to_owned() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_within_the_axes() {
        let curve = |name: &str, points: &[(f64, f64)]| Curve { name: name.into(), points: points.to_vec() };
        let plot = Plot {
            title: "a < b".into(),
            x: "nodes".into(),
            y: "seconds".into(),
            curves: vec![curve("a", &[(1.0, 0.02), (1000.0, 8.0)]), curve("b", &[(1.0, 1.0), (4.0, 1.0)])],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b") && svg.matches("<circle").count() == 4);
        assert!(svg.contains(">0.1</text>") && svg.contains(">100</text>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let single = Plot { curves: vec![curve("a", &[(5.0, 5.0)])], ..plot };
        assert!(!single.svg().contains("NaN"));
    }
}
