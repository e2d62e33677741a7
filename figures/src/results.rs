//! The drawings of benchmarks' results, each made of a CSV file alone: so each can be drawn again, and compared.
//!
//! Rows that agree in all but the value are rounds of one measurement: the curve has their median, and a whisker.

use std::collections::{BTreeMap, BTreeSet};

use crate::plot::{Curve, Plot, Point};

/// The first columns of `runs.csv`, the starts that `cargo xtask bench storm` has measured.
const STORM: &str = "server,workload,nodes,processes per node,way,round,seconds";
/// The columns of what `cargo xtask bench spawn-paper` has measured.
pub const SPAWNING: &str = "scheme,cores,environment,touched_mb,us";
/// The columns of what `cargo xtask bench scale` has measured.
pub const SCALE: &str = "way,nodes,seconds";
/// The columns of what `cargo xtask bench io --part curves` has measured.
pub const IO: &str = "file system,mpi,dimensions,nodes,mb,round,way,reading s,writing s";
/// What stands in the column `round` of starts that are only compared with: one process alone.
pub const ALONE: &str = "alone";
/// The ways to start in `runs.csv`, with the names that tables and curves have.
const WAYS: [(&str, &str); 4] = [
    ("plain", "without Headwater"),
    ("headwater", "with Headwater"),
    ("headwater-recorded", "with Headwater and a closure"),
    ("floor", "from memory"),
];

/// A drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// The name of its file, beside the data.
    pub file: String,
    /// Its title.
    pub title: String,
    /// Its content.
    pub svg: String,
}

/// Draws the data of a CSV file; `name` is its name without `.csv`. Returns no drawing if its columns are of no benchmark.
///
/// # Errors
/// A line can't be read; the error has its number.
pub fn drawings(name: &str, csv: &str) -> Result<Vec<Drawing>, String> {
    let head = csv.lines().next().unwrap_or_default();
    if head.starts_with(STORM) {
        storm(csv)
    } else if head == SPAWNING {
        spawning(name, csv)
    } else if head == SCALE {
        scale(name, csv)
    } else if head == IO {
        io(csv)
    } else {
        Ok(Vec::new())
    }
}

/// Measurements of one curve, by its place on the x axis.
type Measured = BTreeMap<u64, Vec<f64>>;

/// A start: processes on each node, the way, nodes, seconds.
type Start = (u64, String, u64, f64);

/// Returns a drawing for each server and workload, of the cases with the most processes on a node.
fn storm(csv: &str) -> Result<Vec<Drawing>, String> {
    let mut all: BTreeMap<(String, String), Vec<Start>> = BTreeMap::new();
    for (number, fields) in rows(csv, 7)? {
        let [nodes, processes] = [2, 3].map(|at| whole(number, &fields[at]));
        let (nodes, processes, seconds) = (nodes?, processes?, value(number, &fields[6])?);
        if fields[5] != ALONE {
            let of = all.entry((fields[0].clone(), fields[1].clone())).or_default();
            of.push((processes, fields[4].clone(), nodes, seconds));
        }
    }
    let draw = |((server, workload), runs): ((String, String), Vec<Start>)| {
        let most = runs.iter().map(|&(processes, ..)| processes).max().unwrap_or_default();
        let of = |way: &str| {
            let mut measured = Measured::new();
            let of_way = runs.iter().filter(|run| run.0 == most && run.1 == way);
            of_way.for_each(|&(_, _, nodes, seconds)| measured.entry(nodes).or_default().push(seconds));
            measured
        };
        let curves: Vec<(&str, Measured)> = WAYS.iter().map(|(way, name)| (*name, of(way))).collect();
        let plural = if most == 1 { "" } else { "es" };
        let title = format!("{workload}, {server}, {most} process{plural} on each node");
        drawing(format!("{server}-{workload}.svg"), title, "single starts", ["nodes", "seconds"], curves)
    };
    Ok(all.into_iter().map(draw).collect())
}

/// An environment and a kind of program: variables, megabytes that are written to, title.
type Part = (u64, u64, &'static str);

/// Returns a drawing for each environment and each kind of program.
fn spawning(name: &str, csv: &str) -> Result<Vec<Drawing>, String> {
    let parts: [Part; 3] = [(0, 0, "small environment"), (200, 0, "long environment"), (0, 100, "memory written to")];
    let mut curves: Vec<Vec<(String, Measured)>> = vec![Vec::new(); parts.len()];
    for (number, fields) in rows(csv, 5)? {
        let [cores, variables, touched] = [1, 2, 3].map(|at| whole(number, &fields[at]));
        let (cores, of, us) = (cores?, (variables?, touched?), value(number, &fields[4])?);
        let part = parts.iter().position(|&(variables, touched, _)| of == (variables, touched));
        let part = &mut curves[part.ok_or_else(|| format!("line {number}: no drawing has this environment"))?];
        let at = part.iter().position(|(scheme, _)| *scheme == fields[0]).unwrap_or_else(|| {
            part.push((fields[0].clone(), Measured::new()));
            part.len() - 1
        });
        part[at].1.entry(cores).or_default().push(us);
    }
    let drawn = parts.into_iter().zip(curves).filter(|(_, curves)| !curves.is_empty());
    let draw = |((_, _, title), curves): (Part, Vec<(String, Measured)>)| {
        let file = format!("{name}-{}.svg", title.replace(' ', "-"));
        drawing(file, format!("spawning, {title}"), UNKNOWN_SPREAD, ["cores", "µs a process"], curves)
    };
    Ok(drawn.map(draw).collect())
}

/// The note of data that has one value for each point.
const UNKNOWN_SPREAD: &str = "medians; the data has no single measurements";

fn scale(name: &str, csv: &str) -> Result<Vec<Drawing>, String> {
    let mut curves: Vec<(String, Measured)> = Vec::new();
    for (number, fields) in rows(csv, 3)? {
        let (nodes, seconds) = (whole(number, &fields[1])?, value(number, &fields[2])?);
        let at = curves.iter().position(|(way, _)| *way == fields[0]).unwrap_or_else(|| {
            curves.push((fields[0].clone(), Measured::new()));
            curves.len() - 1
        });
        curves[at].1.entry(nodes).or_default().push(seconds);
    }
    let title = "import scipy.stats, one process on each node".to_owned();
    Ok(vec![drawing(format!("{name}.svg"), title, UNKNOWN_SPREAD, ["nodes", "seconds"], curves)])
}

/// A run of an MPI program: dimensions, nodes, MB, round, way, and seconds of reading and of writing.
struct IoRun {
    dimensions: u64,
    nodes: u64,
    mb: u64,
    round: u64,
    way: String,
    seconds: [f64; 2],
}

/// Returns four drawings for each file system and MPI: reading and writing, by the number of nodes and by size. Nodes
/// are compared at the size that most of them have, sizes on the nodes that most of them have.
fn io(csv: &str) -> Result<Vec<Drawing>, String> {
    let mut all: BTreeMap<(String, String), Vec<IoRun>> = BTreeMap::new();
    for (number, fields) in rows(csv, 9)? {
        let [dimensions, nodes, mb, round] = [2, 3, 4, 5].map(|at| whole(number, &fields[at]));
        let [reading, writing] = [7, 8].map(|at| value(number, &fields[at]));
        let (seconds, way) = ([reading?, writing?], fields[6].clone());
        let run = IoRun { dimensions: dimensions?, nodes: nodes?, mb: mb?, round: round?, way, seconds };
        all.entry((fields[0].clone(), fields[1].clone())).or_default().push(run);
    }
    let mut drawn = Vec::new();
    for ((file_system, mpi), runs) in all {
        let prefix = format!("{}-{mpi}", file_system.to_lowercase().replace([' ', '.'], "-"));
        for (direction, what) in ["reading", "writing"].into_iter().enumerate() {
            let mb = commonest(&runs, |run| run.mb, |run| run.nodes);
            let nodes = commonest(&runs, |run| run.nodes, |run| run.mb);
            let by_nodes = times_as_fast(&runs, direction, |run| (run.mb == mb).then_some(run.nodes));
            let by_size = times_as_fast(&runs, direction, |run| (run.nodes == nodes).then_some(run.mb));
            let title = format!("{what}, {mb} MB, {file_system}, {mpi}");
            let axes = ["nodes", "times as fast as it is"];
            drawn.push(drawing(format!("{prefix}-{what}-by-nodes.svg"), title, "single runs", axes, by_nodes));
            let title = format!("{what}, {nodes} nodes, {file_system}, {mpi}");
            let axes = ["MB", "times as fast as it is"];
            drawn.push(drawing(format!("{prefix}-{what}-by-size.svg"), title, "single runs", axes, by_size));
        }
    }
    Ok(drawn)
}

/// Returns the value of `of` that is there with the most values of `with`; the smallest of several.
fn commonest(runs: &[IoRun], of: fn(&IoRun) -> u64, with: fn(&IoRun) -> u64) -> u64 {
    let mut seen: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for run in runs {
        seen.entry(of(run)).or_default().insert(with(run));
    }
    let most = seen.values().map(BTreeSet::len).max().unwrap_or_default();
    seen.into_iter().find(|(_, with)| with.len() == most).map(|(of, _)| of).unwrap_or_default()
}

/// Returns a curve for each dimension and way: the ratio to the plain run of the same round. `place`: the place of a
/// run on the x axis, if it has one.
fn times_as_fast(runs: &[IoRun], direction: usize, place: impl Fn(&IoRun) -> Option<u64>) -> Vec<(String, Measured)> {
    let same = |run: &IoRun| (run.dimensions, run.nodes, run.mb, run.round);
    let mut curves: BTreeMap<(u64, &str), Measured> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.way != "plain") {
        let plain = runs.iter().find(|plain| plain.way == "plain" && same(plain) == same(run));
        if let (Some(plain), Some(x)) = (plain, place(run)) {
            let of = curves.entry((run.dimensions, &run.way)).or_default();
            of.entry(x).or_default().push(plain.seconds[direction] / run.seconds[direction]);
        }
    }
    let name = |dimensions: u64, way: &str| match way {
        "twin" => format!("{dimensions}D, by hand"),
        way => format!("{dimensions}D, {way}"),
    };
    curves.into_iter().map(|((dimensions, way), measured)| (name(dimensions, way), measured)).collect()
}

/// Returns a drawing of these curves. `single`: the note if nothing was repeated.
fn drawing<N: Into<String>>(
    file: String,
    title: String,
    single: &str,
    [x, y]: [&str; 2],
    curves: Vec<(N, Measured)>,
) -> Drawing {
    let rounds = curves.iter().flat_map(|(_, measured)| measured.values().map(Vec::len));
    let (least, most) = rounds.fold((usize::MAX, 1), |(least, most), one| (least.min(one), most.max(one)));
    let note = match least {
        _ if most == 1 => single.to_owned(),
        _ if least == most => format!("medians of {most}; whiskers: 10 to 90 %"),
        _ => format!("medians of {least} to {most}; whiskers: 10 to 90 %"),
    };
    let curve = |(name, measured): (N, Measured)| Curve {
        name: name.into(),
        points: measured.iter().map(|(x, values)| Point::measured(*x as f64, values)).collect(),
    };
    let curves = curves.into_iter().map(curve).collect();
    let svg = Plot { title: title.clone(), note, x: x.into(), y: y.into(), curves }.svg();
    Drawing { file, title, svg }
}

/// Returns the rows below the heading with their line numbers; each has `columns_min` fields at least.
fn rows(csv: &str, columns_min: usize) -> Result<Vec<(usize, Vec<String>)>, String> {
    let read = |(number, line): (usize, &str)| {
        let fields = fields(line);
        let is_whole = fields.len() >= columns_min;
        if is_whole { Ok((number, fields)) } else { Err(format!("line {number}: {columns_min} columns are needed")) }
    };
    (1..).zip(csv.lines()).skip(1).filter(|(_, line)| !line.is_empty()).map(read).collect()
}

/// Returns the fields of a line. Commas between quotation marks separate nothing.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("there is one at least").push(character),
        }
    }
    fields
}

fn whole(number: usize, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("line {number}: {text:?} is no number of things"))
}

fn value(number: usize, text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| format!("line {number}: {text:?} is no positive number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_data_has_its_drawings() {
        let storm = format!(
            "{STORM},cpu seconds\na,numpy,1,1,plain,{ALONE},9,1\na,numpy,1,4,plain,0,2,1\na,numpy,1,4,plain,1,4,1\n\
             a,numpy,8,4,floor,0,1,1\na,numpy,8,4,headwater-session,0,1,1\nb,numpy,1,1,headwater,0,3,1\n"
        );
        let drawn = drawings("runs", &storm).unwrap();
        assert_eq!(drawn.iter().map(|one| &*one.file).collect::<Vec<_>>(), ["a-numpy.svg", "b-numpy.svg"]);
        let first = &drawn[0].svg;
        assert!(first.contains("numpy, a, 4 processes on each node") && first.contains("medians of 1 to 2; whiskers"));
        assert!(first.contains("without Headwater") && first.contains("from memory") && !first.contains("closure"));
        assert_eq!(first.matches("<circle").count(), 2);
        assert!(drawn[1].svg.contains("single starts"));

        let paper = format!("{SPAWNING}\n\"zygote, vector\",1,0,0,396.0\n\"sfork\",1,0,100,2\n\"sfork\",2,0,100,3\n");
        let drawn = drawings("paper", &paper).unwrap();
        let names = drawn.iter().map(|one| &*one.file).collect::<Vec<_>>();
        assert_eq!(names, ["paper-small-environment.svg", "paper-memory-written-to.svg"]);
        assert!(drawn[0].svg.contains(">zygote, vector</text>"));

        let drawn = drawings("scale", &format!("{SCALE}\nwith,1,2\nwith,4,2.5\n")).unwrap();
        assert!(drawn[0].file == "scale.svg" && drawn[0].svg.matches("<circle").count() == 2);
        let io = format!(
            "{IO}\nNFS 4.2,mpich5,1,1,64,0,plain,2,4\nNFS 4.2,mpich5,1,1,64,0,library,1,1\n\
             NFS 4.2,mpich5,1,2,64,0,plain,2,4\nNFS 4.2,mpich5,1,2,64,0,twin,1,1\nNFS 4.2,mpich5,1,2,64,1,twin,1,1\n"
        );
        let drawn = drawings("runs", &io).unwrap();
        let names = drawn.iter().map(|one| &*one.file).collect::<Vec<_>>();
        assert_eq!(names.len(), 4);
        assert!(names[0] == "nfs-4-2-mpich5-reading-by-nodes.svg" && names[3] == "nfs-4-2-mpich5-writing-by-size.svg");
        assert!(drawn[0].title == "reading, 64 MB, NFS 4.2, mpich5" && drawn[1].title.contains("1 nodes"));
        assert!(drawn[0].svg.contains("1D, library") && drawn[0].svg.contains("1D, by hand"));
        assert_eq!(drawn[0].svg.matches("<circle").count(), 2);
        assert_eq!(drawings("other", "a,b\n1,2\n"), Ok(Vec::new()));
    }

    #[test]
    fn wrong_lines_are_named() {
        let error = |text: &str| drawings("x", text).unwrap_err();
        assert!(error(&format!("{SCALE}\nwith,1\n")).contains("line 2: 3 columns"));
        assert!(error(&format!("{SCALE}\nwith,1,2\nwith,x,2\n")).contains("line 3: \"x\""));
        assert!(error(&format!("{SCALE}\nwith,1,nan\n")).contains("no positive number"));
        assert!(error(&format!("{SPAWNING}\nsfork,1,7,0,3\n")).contains("line 2: no drawing"));
    }
}
