//! `headwater io predict`: compares the cost of I/O on one rank with that of parallel I/O.

use std::fmt::Write;
use std::fs;
use std::io::{stderr, stdout};

use anyhow::{Context, Result};
use headwater_figures::plot::{Curve, Plot};
use headwater_figures::text::{bytes, columns, nanoseconds};
use headwater_model::io::{Access, Cost, Decision, Parameters, Prediction};

use super::commands::PredictOptions;
use super::measure::measure;
use crate::message::show;

/// The smallest file of a plot, and the factor from the requested one to the largest.
const PLOT_BYTES_MIN: f64 = 65536.0;
const PLOT_TIMES: f64 = 16.0;
const MB: f64 = 1_048_576.0;

/// Prints the prediction.
///
/// # Errors
/// A file can't be read or written, or parameters are malformed.
pub fn predict(options: &PredictOptions) -> Result<u8> {
    let parameters = parameters(options)?;
    if let Some(file) = &options.save {
        fs::write(file, parameters.write())
            .with_context(|| format!("{} can't be written: name another file with --save", file.display()))?;
    }
    if let Some(file) = &options.plot {
        fs::write(file, plot(options, &parameters).svg())
            .with_context(|| format!("{} can't be written: name another file with --plot", file.display()))?;
    }
    show(stdout(), text(options, &parameters));
    Ok(0)
}

/// Returns the parameters of a file or of a measurement, with the link and server of the command line.
fn parameters(options: &PredictOptions) -> Result<Parameters> {
    let mut parameters = match &options.parameters {
        None => Parameters::default(),
        Some(file) => {
            let name = file.display();
            let text = fs::read_to_string(file).with_context(|| format!("{name} can't be read"))?;
            Parameters::parse(&text).with_context(|| format!("{name} can't be used"))?
        }
    };
    if let Some(directory) = &options.measure {
        let measured = measure(directory, &mut parameters)?;
        show(stderr(), measured);
    }
    if let Some(link) = options.link {
        parameters.set_link(link.0);
    }
    // The rate of one process was measured, or follows from its link.
    let is_known = options.measure.is_some() || options.parameters.is_some();
    match (options.link, options.server) {
        (Some(link), Some(server)) if !is_known => parameters.set_server(link.0, server.0),
        (_, Some(server)) => parameters.bound_server(server.0),
        _ => {}
    }
    Ok(parameters)
}

fn text(options: &PredictOptions, parameters: &Parameters) -> String {
    let heading = ["PATTERN", "", "FILE", "MESSAGES", "PROTECTION", "COPY", "ALL", "TIMES AS FAST"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    let mut decisions = String::new();
    for work in options.works(options.bytes as f64) {
        let predicted = work.predict(parameters);
        rows.push(row(work.pattern.name(), "original", &predicted.original, String::new()));
        rows.push(row("", "together", &predicted.transformed, format!("{:.2}", predicted.speedup())));
        let way = match (predicted.decision, predicted.access) {
            (Decision::Transform, Access::Individual) => "together, each rank its own part",
            (Decision::Transform, Access::Collective) => "together, by collective operations",
            (Decision::Leave, _) => "as the program has it",
        };
        let _ = writeln!(decisions, "{}: {way}. {}", work.pattern.name(), predicted.why);
    }
    let (size, ranks, nodes) = (bytes(options.bytes), options.ranks, options.nodes.min(options.ranks));
    let plural = if nodes == 1 { "" } else { "s" };
    format!("{size}, {ranks} ranks on {nodes} node{plural}\n{}\n{decisions}", columns(&rows, 2))
}

fn row(pattern: &str, way: &str, cost: &Cost, speedup: String) -> Vec<String> {
    let time = |seconds: f64| nanoseconds((seconds * 1e9) as u64);
    let parts = [cost.io, cost.messages, cost.protection, cost.copies, cost.seconds()].map(time);
    [pattern.to_owned(), way.to_owned()].into_iter().chain(parts).chain([speedup]).collect()
}

fn plot(options: &PredictOptions, parameters: &Parameters) -> Plot {
    let last = options.bytes as f64 * PLOT_TIMES;
    let sizes = std::iter::successors(Some(PLOT_BYTES_MIN.min(last)), |size| Some(size * 2.0));
    let sizes: Vec<f64> = sizes.take_while(|size| *size < last).chain([last]).collect();
    let pattern = options.works(1.0)[0].pattern;
    let curve = |name: &str, cost: &dyn Fn(&Prediction) -> Cost| {
        let at = |&size: &f64| {
            let work = options.works(size).remove(0);
            (size / MB, cost(&work.predict(parameters)).seconds() * 1e3).into()
        };
        Curve { name: name.into(), points: sizes.iter().map(at).collect() }
    };
    Plot {
        title: format!("{}, {} ranks on {} nodes", pattern.name(), options.ranks, options.nodes.min(options.ranks)),
        note: "predicted".into(),
        x: "size of the file, MB".into(),
        y: "milliseconds".into(),
        curves: vec![
            curve("as the program has it", &|predicted| predicted.original),
            curve("together", &|predicted| predicted.transformed),
        ],
    }
}
