//! Curves as SVG, both axes logarithmic. Each curve's name stands at its end. Points have whiskers where values spread.
//! Colours follow the viewer's preference for light or dark.

use std::fmt::Write;

use crate::text::grouped;

/// A named curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
}

/// A point of a curve. All numbers are positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its place on the x axis.
    pub x: f64,
    /// Its place on the y axis.
    pub y: f64,
    /// The lower and the upper end of its whisker; both are `y` where nothing is known of a spread.
    pub spread: (f64, f64),
}

/// Curves over the same axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// What points and whiskers are, in small letters below the title; may be empty.
    pub note: String,
    /// The label of the x axis.
    pub x: String,
    /// The label of the y axis.
    pub y: String,
    /// The curves. One without points isn't drawn, but has its colour: so a curve has one colour in several plots.
    pub curves: Vec<Curve>,
}

/// Of curves, on a light ground and on a dark one: contrast to the ground is at least 3.
const COLOURS: [(&str, &str); 7] = [
    ("#b2432f", "#f0806a"),
    ("#2f6db2", "#74b0f2"),
    ("#4a7f2c", "#93cc6e"),
    ("#8a5fb0", "#c49ae8"),
    ("#96700f", "#e0b94e"),
    ("#2c7f7a", "#62c7c0"),
    ("#444444", "#c8c8c8"),
];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// The position of the axes.
const LEFT: f64 = 80.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = HEIGHT - 60.0;
/// Room for a character of a name, and the most for all of it.
const CHARACTER: f64 = 7.0;
const NAMES_MAX: f64 = 260.0;
/// Between the axis's end and the names, and from name to name.
const NAME_GAP: f64 = 22.0;
const NAME_HEIGHT: f64 = 17.0;
/// So many x values at most have a tick each.
const MEASURED_MAX: usize = 6;
/// Fewer ticks don't show where a value is.
const TICKS_MIN: usize = 3;
/// Half of the width of a whisker's ends.
const WHISKER: f64 = 4.0;
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

    /// Returns powers of ten; if these are few, also 2 and 5 times these, or values in even steps.
    fn ticks(&self) -> Vec<f64> {
        let powers = |steps: &[f64]| {
            let all = (-9..10).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            all.filter(|tick| (self.low - 1e-9..=self.high + 1e-9).contains(&tick.ln())).collect::<Vec<f64>>()
        };
        let steps: [&[f64]; 2] = [&[1.0], &[1.0, 2.0, 5.0]];
        let enough = steps.into_iter().map(powers).find(|ticks| ticks.len() >= TICKS_MIN);
        enough.unwrap_or_else(|| self.even_ticks())
    }

    /// Returns values in even steps: the largest of 1, 2 and 5 times powers of ten that makes enough of them.
    fn even_ticks(&self) -> Vec<f64> {
        let (low, high) = (self.low.exp(), self.high.exp());
        let step_max = (high - low) / TICKS_MIN as f64;
        let power = 10f64.powf(step_max.log10().floor());
        let step = [5.0, 2.0, 1.0].map(|factor| factor * power).into_iter().find(|step| *step <= step_max);
        let step = step.unwrap_or(power);
        let first = (low / step).ceil() as u64;
        (first..).map(|number| number as f64 * step).take_while(|tick| *tick <= high).collect()
    }
}

impl Curve {
    /// Returns a curve without points.
    pub fn new(name: impl Into<String>) -> Curve {
        Curve { name: name.into(), points: Vec::new() }
    }
}

impl Point {
    /// Returns the median of these values, at least one, at a place on the x axis. Its whisker goes from the 10th to the
    /// 90th percentile.
    ///
    /// # Panics
    /// There is no value.
    pub fn measured(x: f64, values: &[f64]) -> Point {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let [low, y, high] = [0.1, 0.5, 0.9].map(|part| quantile(&sorted, part));
        Point { x, y, spread: (low, high) }
    }

    fn is_spread(&self) -> bool {
        self.spread.0 < self.spread.1
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Point {
        Point { x, y, spread: (y, y) }
    }
}

/// Returns the value that is greater than this part (0 to 1) of the ascending values, interpolated between two.
///
/// # Panics
/// There is no value.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

impl Plot {
    /// Returns the x values that points have, if these are few.
    fn measured(&self) -> Option<Vec<f64>> {
        let mut values: Vec<f64> = self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.x).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        (values.len() <= MEASURED_MAX).then_some(values)
    }

    /// Returns the drawing.
    pub fn svg(&self) -> String {
        let points = self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let drawn = || self.curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty());
        let longest = drawn().map(|(_, curve)| curve.name.chars().count()).max().unwrap_or_default();
        let right = WIDTH - NAME_GAP - 8.0 - (longest as f64 * CHARACTER).min(NAMES_MAX);
        let across = Axis::new(points.clone().map(|point| point.x), LEFT, right);
        let up = Axis::new(points.flat_map(|point| [point.y, point.spread.0, point.spread.1]), BOTTOM, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n{}<rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n",
            style(self.curves.len())
        );
        self.write_axes(&mut svg, &across, &up);
        let ends: Vec<(f64, f64)> = drawn().map(|(_, curve)| end(curve, &across, &up)).collect();
        let names = apart(&ends.iter().map(|end| end.1).collect::<Vec<_>>());
        for ((row, curve), (end, name)) in drawn().zip(ends.into_iter().zip(names)) {
            let colour = row % COLOURS.len();
            draw(&mut svg, curve, colour, &across, &up);
            name_curve(&mut svg, curve, colour, end, (right + NAME_GAP, name));
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Writes the title and both axes.
    fn write_axes(&self, svg: &mut String, across: &Axis, up: &Axis) {
        let (right, middle) = (across.to, (LEFT + across.to) / 2.0);
        let _ = write!(
            svg,
            "<text x=\"{middle}\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">{}</text>\n\
             <text class=\"note\" x=\"{middle}\" y=\"42\" text-anchor=\"middle\" font-size=\"11\">{}</text>\n\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{} (logarithmic)</text>\n\
             <text x=\"16\" y=\"60\">{} (logarithmic)</text>\n<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{right}\"/>\n",
            escaped(&self.title),
            escaped(&self.note),
            HEIGHT - 14.0,
            escaped(&self.x),
            escaped(&self.y),
        );
        for tick in up.ticks() {
            let y = up.place(tick);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                number(tick)
            );
        }
        for tick in self.measured().unwrap_or_else(|| across.ticks()) {
            let x = across.place(tick);
            let _ = writeln!(
                svg,
                "<path class=\"axis\" d=\"M{x:.1} {BOTTOM}v5\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 20.0,
                number(tick)
            );
        }
    }
}

/// Returns the style of so many curves and of all else.
fn style(curves: usize) -> String {
    let sheet = |ground: &str, ink: &str, muted: &str, grid: &str, colour: fn((&'static str, &'static str)) -> &str| {
        let mut text = format!(
            ".ground{{fill:{ground}}}text{{fill:{ink}}}.note{{fill:{muted}}}.axis{{stroke:{muted};fill:none}}\
             .grid{{stroke:{grid}}}"
        );
        for (row, both) in COLOURS.into_iter().enumerate().take(curves) {
            let colour = colour(both);
            let _ = write!(text, ".c{row}{{stroke:{colour};fill:none}}.f{row}{{fill:{colour}}}");
        }
        text
    };
    format!(
        "<style>{}@media(prefers-color-scheme:dark){{{}}}</style>\n",
        sheet("#ffffff", "#1a1a1a", "#555555", "#dddddd", |both| both.0),
        sheet("#14181d", "#e8e8e8", "#a8a8a8", "#333a42", |both| both.1)
    )
}

/// Returns the position of a curve's last point.
fn end(curve: &Curve, across: &Axis, up: &Axis) -> (f64, f64) {
    let last = curve.points.iter().max_by(|a, b| a.x.total_cmp(&b.x));
    last.map_or((LEFT, BOTTOM), |last| (across.place(last.x), up.place(last.y)))
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

fn draw(svg: &mut String, curve: &Curve, colour: usize, across: &Axis, up: &Axis) {
    let places: Vec<(f64, f64)> = curve.points.iter().map(|point| (across.place(point.x), up.place(point.y))).collect();
    let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ = writeln!(svg, "<polyline class=\"c{colour}\" points=\"{points}\" stroke-width=\"2\"/>");
    for point in curve.points.iter().filter(|point| point.is_spread()) {
        let (x, low, high) = (across.place(point.x), up.place(point.spread.0), up.place(point.spread.1));
        let (left, right) = (x - WHISKER, x + WHISKER);
        let _ = writeln!(
            svg,
            "<path class=\"c{colour}\" d=\"M{left:.1} {low:.1}H{right:.1}M{x:.1} {low:.1}V{high:.1}M{left:.1} {high:.1}H{right:.1}\"/>"
        );
    }
    for (x, y) in places {
        let _ = writeln!(svg, "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
    }
}

/// Writes a curve's name at `to`, with a thin line from the curve's end.
fn name_curve(svg: &mut String, curve: &Curve, colour: usize, (x, y): (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<path class=\"c{colour}\" d=\"M{:.1} {y:.1}L{:.1} {:.1}\" stroke-width=\"0.7\" stroke-dasharray=\"3 2\"/>\
         <text class=\"f{colour}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        x + 4.0,
        to.0 - 3.0,
        to.1,
        to.0,
        to.1 + 4.0,
        escaped(&curve.name),
    );
}

fn number(value: f64) -> String {
    if value >= 9.999 {
        grouped(value.round() as u64)
    } else {
        format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Returns text as content of SVG. Control characters are spaces: XML has none.
pub fn escaped(text: &str) -> String {
    let text: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve { name: name.into(), points: points.iter().copied().map(Point::from).collect() }
    }

    #[test]
    fn every_point_is_drawn_within_the_axes() {
        let plot = Plot {
            title: "a < b".into(),
            note: "medians".into(),
            x: "nodes".into(),
            y: "seconds".into(),
            curves: vec![curve("a", &[(1.0, 0.02), (1000.0, 8.0)]), curve("b", &[(1.0, 1.0), (4.0, 1.0)])],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b") && svg.matches("<circle").count() == 4);
        assert!(
            svg.contains(">0.1</text>") && svg.contains(">1,000</text>") && svg.contains(">nodes (logarithmic)</text>")
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

    #[test]
    fn values_that_spread_have_whiskers() {
        let values: Vec<f64> = (0..=10).map(f64::from).collect();
        let point = Point::measured(2.0, &values);
        assert_eq!(point, Point { x: 2.0, y: 5.0, spread: (1.0, 9.0) });
        assert_eq!(Point::measured(2.0, &[3.0]), (2.0, 3.0).into());
        let points = vec![point, (4.0, 5.0).into()];
        let plot = |points| Plot {
            title: String::new(),
            note: "\u{7}&".into(),
            x: "x".into(),
            y: "y".into(),
            curves: vec![Curve { name: "a".into(), points }],
        };
        let svg = plot(points.clone()).svg();
        let whiskers = |svg: &str| {
            svg.lines().filter(|line| line.contains("<path class=\"c0\"") && !line.contains("dash")).count()
        };
        assert_eq!((whiskers(&svg), whiskers(&plot(points[1..].to_vec()).svg())), (1, 0));
        assert!(svg.contains("> &amp;</text>"), "{svg}");
        // The whiskers' ends are within the axes.
        let up = Axis::new([1.0, 9.0].into_iter(), BOTTOM, TOP);
        assert!(svg.contains(&format!("V{:.1}", up.place(9.0))), "{svg}");
    }

    #[test]
    fn each_range_has_ticks() {
        let ticks = |low: f64, high: f64| Axis::new([low, high].into_iter(), BOTTOM, TOP).ticks();
        assert_eq!(ticks(1.0, 1000.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(47_600.0, 97_100.0), [50_000.0, 60_000.0, 70_000.0, 80_000.0, 90_000.0]);
        for (low, high) in [(6.12, 6.9), (99.0, 101.0), (0.011, 0.012), (5.0, 5.0)] {
            let found = ticks(low, high);
            assert!((TICKS_MIN..=12).contains(&found.len()), "{low} to {high}: {found:?}");
        }
    }
}
