//! The demonstration: a Python program whose files lie on a slow file server, started by more and more processes, without
//! and with Headwater.

mod start;

use std::io::{IsTerminal, Write, stdout};
use std::num::NonZero;
use std::thread::available_parallelism;

use headwater_figures::text::{bar, grouped, wants_colours};

use crate::bench::Sample;
pub use start::Demo;
use start::{NODES_MAX, OPERATIONS_PER_SECOND, Start};

/// How many processes start at once.
const PROCESSES: [usize; 5] = [1, 2, 4, 8, 16];
/// Times that each is measured.
const ROUNDS: usize = 3;
/// Characters of the longest bar. A line fits 80 characters.
const BAR_WIDTH: usize = 38;
const NEXT_STEPS: &str = "
Your own program:
  cargo xtask install --prefix ~/.local
  ~/.local/bin/headwater run --summary -- srun -N 64 python3 train.py
Read on: docs/guide/first-start.md";
const YELLOW: u8 = 33;
const GREEN: u8 = 32;

/// The medians of a number of processes.
struct Row {
    processes: usize,
    plain: Start,
    headwater: Start,
}

impl Demo {
    /// Measures and prints what happened, for a person.
    pub fn run(&self) -> Result<(), String> {
        if let Err(why) = self.server(1) {
            println!("\nA slow file server can't be simulated here, so times would mean nothing:\n  {why}");
            println!("{} processes on {NODES_MAX} nodes, from the local disk:\n", last());
            self.with_headwater_locally(last())?;
            println!("{NEXT_STEPS}");
            return Ok(());
        }
        println!("{}", introduction());
        let measured = self.measure();
        progress("");
        let (rows, mechanism) = measured?;
        print!("{}", chart(&rows, wants_colours()));
        println!("\n{}Mechanism: {mechanism}.\n{NEXT_STEPS}", comparison(&rows));
        Ok(())
    }

    /// Returns the medians, and how Headwater brought the files. Plain starts and those with Headwater alternate.
    fn measure(&self) -> Result<(Vec<Row>, String), String> {
        let mut starts = PROCESSES.map(|_| (Vec::new(), Vec::new()));
        let mut mechanism = String::new();
        for round in 1..=ROUNDS {
            for (processes, (plain, headwater)) in PROCESSES.into_iter().zip(&mut starts) {
                progress(&format!("measuring, round {round} of {ROUNDS}: {processes} processes"));
                plain.push(self.plain(processes)?);
                let (start, summary) = self.with_headwater(processes, "auto")?;
                headwater.push(start);
                let word = |name: &str| summary[name].as_str().unwrap_or_default().to_owned();
                mechanism = format!("{} ({})", word("via"), word("via_reason"));
            }
        }
        let rows = PROCESSES.into_iter().zip(&starts);
        let row = |(processes, (plain, headwater)): (usize, &(Vec<Start>, Vec<Start>))| Row {
            processes,
            plain: median(plain),
            headwater: median(headwater),
        };
        Ok((rows.map(row).collect(), mechanism))
    }
}

fn last() -> usize {
    PROCESSES[PROCESSES.len() - 1]
}

fn progress(text: &str) {
    if stdout().is_terminal() {
        print!("\r\x1b[K{text}");
        let _ = stdout().flush();
    }
}

fn median(starts: &[Start]) -> Start {
    let median = |number: fn(&Start) -> f64| Sample::new(starts.iter().map(number).collect()).median();
    Start { seconds: median(|start| start.seconds), operations: median(|start| start.operations as f64) as u64 }
}

fn introduction() -> String {
    format!(
        "
Python and the modules that a program imports lie on a busy file server.
Processes on up to {NODES_MAX} nodes start the program at once. Simulated here:

  server   does {} operations a second, one after the other, for all nodes
  nodes    are this machine; each has the kernel's caches of the server's files
           for itself, and they are empty at first, with and without Headwater

A real server did 8,300 opens a second for 16,384 processes, one every two
seconds for each (Frings et al., SPINDLE, ICS'13). This one is milder.
",
        grouped(OPERATIONS_PER_SECOND)
    )
}

/// Time and operations of each row, plain and with Headwater.
fn chart(rows: &[Row], has_colours: bool) -> String {
    let seconds = rows.iter().flat_map(|row| [row.plain.seconds, row.headwater.seconds]);
    let longest = seconds.fold(0.0, f64::max);
    let width = BAR_WIDTH + " 999.9 s".len();
    let mut text =
        format!("{:>9}  {:<9}  {:<width$}  {:>10}\n", "processes", "", "time until all have ended", "operations");
    for row in rows {
        let processes = row.processes.to_string();
        let lines = [(&*processes, "plain", &row.plain, YELLOW), ("", "Headwater", &row.headwater, GREEN)];
        for (processes, name, start, colour) in lines {
            let bar = bar(start.seconds, longest, BAR_WIDTH);
            let time = format!("{:.1} s", start.seconds);
            let padding = " ".repeat(width.saturating_sub(bar.chars().count() + 1 + time.len()));
            let bar = if has_colours { format!("\x1b[{colour}m{bar}\x1b[0m") } else { bar };
            let operations = grouped(start.operations);
            text += &format!("{processes:>9}  {name:<9}  {bar} {time}{padding}  {operations:>10}\n");
        }
    }
    text
}

fn comparison(rows: &[Row]) -> String {
    let [one, .., most] = rows else { unreachable!("several numbers of processes are measured") };
    let mut text = format!(
        "{} processes start {:.1} times as fast with Headwater, and the server does\n{} operations instead of {}: \
         each file is read once.\n",
        most.processes,
        most.plain.seconds / most.headwater.seconds,
        grouped(most.headwater.operations),
        grouped(most.plain.operations),
    );
    let later = one.headwater.seconds - one.plain.seconds;
    if later > 0.05 {
        text += &format!("A process alone starts {later:.1} s later: it has nothing to share.\n");
    }
    let processors = available_parallelism().map_or(1, NonZero::get);
    text += &format!(
        "\nMedians of {ROUNDS} starts, plain and with Headwater in turn. Nodes and server are\n\
         simulated: everything ran on this machine's {processors} processors.\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_fits_a_terminal() {
        let start = |seconds, operations| Start { seconds, operations };
        let rows = [
            Row { processes: 1, plain: start(0.8, 676), headwater: start(1.3, 957) },
            Row { processes: 16, plain: start(999.94, 1_234_567), headwater: start(0.0, 963) },
        ];
        let chart_text = chart(&rows, false);
        let lines: Vec<&str> = chart_text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{chart_text}");
        assert!(lines[0].chars().count() <= 80, "{chart_text}");
        assert!(lines[3].contains(&format!("{} 999.9 s", "█".repeat(BAR_WIDTH))), "{chart_text}");
        assert!(lines[3].ends_with(" 1,234,567") && lines[3].starts_with("       16  plain "), "{chart_text}");
        assert_eq!(
            chart(&rows, true).replace("\x1b[33m", "").replace("\x1b[32m", "").replace("\x1b[0m", ""),
            chart_text
        );
    }

    #[test]
    fn what_is_slower_is_said() {
        let row = |processes, plain, headwater| Row {
            processes,
            plain: Start { seconds: plain, operations: 1000 * processes as u64 },
            headwater: Start { seconds: headwater, operations: 1000 },
        };
        let text = comparison(&[row(1, 1.0, 1.5), row(16, 16.0, 4.0)]);
        assert!(text.starts_with("16 processes start 4.0 times as fast"), "{text}");
        assert!(text.contains("1,000 operations instead of 16,000"), "{text}");
        for line in [&*text, &introduction(), NEXT_STEPS].into_iter().flat_map(str::lines) {
            assert!(line.chars().count() < 80, "{line}");
        }
        assert!(text.contains("A process alone starts 0.5 s later"), "{text}");
        assert!(!comparison(&[row(1, 1.0, 1.0), row(16, 16.0, 4.0)]).contains("later"));
    }
}
