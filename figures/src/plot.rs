//! Curves as SVG, both axes logarithmic. Each curve's name stands at its end.

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
const TOP: f64 = 60.0;
const BOTTOM: f64 = HEIGHT - 60.0;
/// Room for a character of a name, and the most for all of it.
const CHARACTER: f64 = 7.0;
const NAMES_MAX: f64 = 260.0;
/// Between the axis's end and the names, and from name to name.
const NAME_GAP: f64 = 22.0;
const NAME_HEIGHT: f64 = 17.0;
/// So many x values at most have a tick each.
const MEASURED_MAX: usize = 6;
/// What is left free at both ends of an axis, as a part of it.
const FREE: f64 = 0.04;

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
        let free = FREE * (high / low).ln();
        Axis { low: low.ln() - free, high: high.ln() + free, from, to }
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
    /// Returns the x values that points have, if these are few.
    fn measured(&self) -> Option<Vec<f64>> {
        let mut values: Vec<f64> = self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        (values.len() <= MEASURED_MAX).then_some(values)
    }

    /// Returns the drawing.
    pub fn svg(&self) -> String {
        let points = self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let longest = self.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or_default();
        let right = WIDTH - NAME_GAP - 8.0 - (longest as f64 * CHARACTER).min(NAMES_MAX);
        let across = Axis::new(points.clone().map(|point| point.0), LEFT, right);
        let up = Axis::new(points.map(|point| point.1), BOTTOM, TOP);
        let middle = (LEFT + right) / 2.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{middle}\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">{}</text>\n\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{} (logarithmic)</text>\n<text x=\"16\" y=\"44\">{} (logarithmic)</text>\n\
             <path d=\"M{LEFT} {TOP}V{BOTTOM}H{right}\" fill=\"none\" stroke=\"#444\"/>\n",
            escaped(&self.title),
            HEIGHT - 14.0,
            escaped(&self.x),
            escaped(&self.y),
        );
        for tick in up.ticks() {
            let y = up.place(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                number(tick)
            );
        }
        for tick in self.measured().unwrap_or_else(|| across.ticks()) {
            let x = across.place(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {BOTTOM}v5\" stroke=\"#444\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 20.0,
                number(tick)
            );
        }
        let ends: Vec<(f64, f64)> = self.curves.iter().map(|curve| end(curve, &across, &up)).collect();
        let names = apart(&ends.iter().map(|end| end.1).collect::<Vec<_>>());
        for (row, (curve, name)) in self.curves.iter().zip(names).enumerate() {
            draw(&mut svg, curve, COLOURS[row % COLOURS.len()], &across, &up);
            name_curve(&mut svg, curve, COLOURS[row % COLOURS.len()], ends[row], (right + NAME_GAP, name));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Returns the position of a curve's last point.
fn end(curve: &Curve, across: &Axis, up: &Axis) -> (f64, f64) {
    let last = curve.points.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    last.map_or((LEFT, BOTTOM), |&(x, y)| (across.place(x), up.place(y)))
}

/// Returns heights near the wanted ones, in their order, that leave room for a name each.
fn apart(wanted: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut heights = wanted.to_vec();
    for pair in 1..order.len() {
        let (above, below) = (order[pair - 1], order[pair]);
        heights[below] = heights[below].max(heights[above] + NAME_HEIGHT);
    }
    // From the bottom upwards, where the last ones would stand below the axis.
    let mut lowest = BOTTOM;
    for &at in order.iter().rev() {
        heights[at] = heights[at].min(lowest);
        lowest = heights[at] - NAME_HEIGHT;
    }
    heights
}

fn draw(svg: &mut String, curve: &Curve, colour: &str, across: &Axis, up: &Axis) {
    let places: Vec<(f64, f64)> = curve.points.iter().map(|&(x, y)| (across.place(x), up.place(y))).collect();
    let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
    for (x, y) in places {
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
}

/// Writes a curve's name at `to`, with a thin line from the curve's end.
fn name_curve(svg: &mut String, curve: &Curve, colour: &str, (x, y): (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<path d=\"M{:.1} {y:.1}L{:.1} {:.1}\" stroke=\"{colour}\" stroke-width=\"0.7\" stroke-dasharray=\"3 2\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
        x + 4.0,
        to.0 - 3.0,
        to.1,
        to.0,
        to.1 + 4.0,
        escaped(&curve.name),
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
        assert!(
            svg.contains(">0.1</text>") && svg.contains(">1000</text>") && svg.contains(">nodes (logarithmic)</text>")
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let single = Plot { curves: vec![curve("a", &[(5.0, 5.0)])], ..plot };
        assert!(!single.svg().contains("NaN"));
    }

    #[test]
    fn names_leave_each_other_room() {
        for wanted in [&[100.0, 101.0, 99.0][..], &[BOTTOM, BOTTOM, BOTTOM - 1.0], &[TOP], &[70.0, 300.0]] {
            let mut heights = apart(wanted);
            let highest = (0..wanted.len()).min_by(|&a, &b| wanted[a].total_cmp(&wanted[b])).unwrap();
            assert!(heights.iter().all(|&height| height >= heights[highest] && height <= BOTTOM), "{heights:?}");
            heights.sort_by(f64::total_cmp);
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= NAME_HEIGHT), "{heights:?}");
        }
    }
}
