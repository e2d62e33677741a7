//! Daemons that are killed while 10,000 files are read.

use std::time::{Duration, Instant};

use super::skip::is_skipped;
use super::tree::{Measured, Times};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::{View, kill, wait_until};

const KILLS: usize = 200;
/// In each session; a supervisor serves by itself when daemons die again and again.
const KILLS_A_SESSION: usize = 4;
/// How long a daemon lives, at least and at most.
const LIFE_MS: (u64, u64) = (20, 220);

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The mount: daemons that are killed");
    if is_skipped(report) {
        return;
    }
    let measured = Measured::new();
    let (mut kills, mut sessions) = (0, 0);
    let (mut longest, mut returns) = (Vec::new(), Vec::new());
    while kills < KILLS {
        let view = View::of(&measured.fixture.shared());
        let reader = measured.program("read,stat,absent", 4, 1, &[view.path()]).start();
        let is_over = || !crate::harness::is_running(reader.pid().as_raw_pid());
        for kill_number in 0..KILLS_A_SESSION {
            let (least, most) = LIFE_MS;
            let life = least + (kills as u64 * 7919 + kill_number as u64 * 104_729) % (most - least);
            std::thread::sleep(Duration::from_millis(life));
            let daemons = view.daemons();
            if daemons.is_empty() || is_over() {
                break;
            }
            daemons.iter().for_each(|&pid| kill(pid));
            kills += 1;
            let died = Instant::now();
            let returned =
                wait_until(Duration::from_secs(10), || view.daemons().iter().any(|pid| !daemons.contains(pid)));
            assert!(returned, "no daemon was started again");
            returns.push(died.elapsed().as_secs_f64() * 1e3);
        }
        longest.push(Times::of(&reader.finish()).longest());
        sessions += 1;
        view.unmount();
    }
    let most = longest.iter().copied().fold(0.0, f64::max);
    let mut table = Table::new(["", "", "target"]);
    table.row(["daemons killed", &kills.to_string(), "200"]);
    table.row(["wrong bytes and errors", "0", "0"]);
    table.row(["longest operation, ms", &format!("{most:.0}"), "2000"]);
    table.row(["longest operation of a session, median, ms", &format!("{:.0}", Sample::new(longest).median()), ""]);
    table.row(["until another daemon runs, median, ms", &format!("{:.0}", Sample::new(returns).median()), ""]);
    report.line(format!(
        "{sessions} sessions; in each, a process reads 10,000 files and checks their bytes, stats them, and looks up 10,000 \
         absent names, four times over, while the daemon is killed {KILLS_A_SESSION} times. One wrong byte or error would have \
         ended the benchmark.\n"
    ));
    report.table(&table);
}
