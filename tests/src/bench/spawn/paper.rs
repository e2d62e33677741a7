//! The comparison of Kulkarni et al.: fork in turn and all at once, vfork, one child that forks the others, and a
//! zygote; with a small environment and a long one, on one core and on all, and with memory that is written to.

use std::fmt::Write;

use headwater_figures::results::{SPAWNING, drawings};

use super::super::fixture::many_libraries;
use super::super::{Report, Table};
use super::runs::{Method, Mode, ROUNDS, Runs, VARIABLES};

const COUNT: usize = 200;
/// Of the program whose memory is written to, as in the paper.
const TOUCHED_MB: usize = 100;
/// Processes of it at once: each takes that much memory.
const TOUCHING: usize = 20;

/// The paper's names, and their methods here.
const SCHEMES: [(&str, Method, Mode); 7] = [
    ("sfork", Method::FORK, Mode::Sync),
    ("afork", Method::FORK, Mode::Async),
    ("vfork", Method::VFORK, Mode::Async),
    ("pfork", Method::PFORK, Mode::Vector),
    ("posix_spawn", Method::POSIX_SPAWN, Mode::Async),
    ("zygote", Method::ZYGOTE, Mode::Async),
    ("zygote, vector", Method::ZYGOTE, Mode::Vector),
];

/// The paper's table, its curves beside `--svg`'s files, and all measurements as CSV.
pub(in super::super) fn paper(report: &mut Report) {
    report.heading("The paper's comparison: spawning a tiny dynamic program");
    let fixture = many_libraries(1, 1);
    let touch = format!("-DMEGABYTES={TOUCHED_MB}");
    fixture.build("spawn/touch.c", "bin/touch", &[&touch]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let sizes: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&n| n < cores).chain([cores]).collect();
    report.line(format!(
        "µs a process, medians of {ROUNDS} rounds in turn; *sfork* waits for each process before the next, the others \
         for all {COUNT} ({TOUCHING} where {TOUCHED_MB} MB are written to) together.\n"
    ));
    let mut csv = format!("{SPAWNING}\n");
    let mut table = Table::new(["", "cores"].into_iter().chain(SCHEMES.map(|(name, ..)| name)));
    for (title, variables, program, count) in [
        ("small environment", 0, "bin/empty", COUNT),
        ("long environment", VARIABLES, "bin/empty", COUNT),
        ("memory written to", 0, "bin/touch", TOUCHING),
    ] {
        for &cores in &sizes {
            let runs = Runs::new(&fixture, &[program]).variables(variables).cores(cores);
            let mut all = vec![Vec::new(); SCHEMES.len()];
            for _ in 0..ROUNDS {
                for ((_, method, mode), of_scheme) in SCHEMES.iter().zip(&mut all) {
                    of_scheme.extend(runs.once(*method, *mode, count).microseconds);
                }
            }
            let touched = if program == "bin/touch" { TOUCHED_MB } else { 0 };
            for ((name, ..), us) in
                SCHEMES.iter().zip(&all).flat_map(|(scheme, all)| all.iter().map(move |us| (scheme, us)))
            {
                let _ = writeln!(csv, "\"{name}\",{cores},{variables},{touched},{us:.1}");
            }
            let medians = all.into_iter().map(|values| super::super::statistics::Sample::new(values).median());
            let cells = medians.map(|us| format!("{us:.0}"));
            table.row([title.to_owned(), cores.to_string()].into_iter().chain(cells));
        }
    }
    report.table(&table);
    if let Some(file) = &report.svg {
        save(&file.with_extension("csv"), &csv);
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        match drawings(&name, &csv) {
            Ok(drawn) => drawn.iter().for_each(|one| save(&file.with_file_name(&one.file), &one.svg)),
            Err(reason) => eprintln!("{}: {reason}", file.display()),
        }
    }
}

fn save(file: &std::path::Path, text: &str) {
    if let Err(reason) = std::fs::write(file, text) {
        eprintln!("{}: {reason}", file.display());
    }
}
