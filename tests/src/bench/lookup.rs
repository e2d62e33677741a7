//! One look-up in the table.

use super::{Report, Table};
use crate::harness::{Fixture, Headwater, Program};

const FILES: usize = 5000;

pub(super) fn run(report: &mut Report) {
    report.heading("One look-up in the table");
    let fixture = Fixture::new("lookup");
    for number in 0..FILES {
        fixture.file(&format!("some/path/of/usual/depth/{}/module_{number}.py", number % 50), "x", 0o644);
    }
    fixture.link("depth", "some/path/of/usual/link");
    let shim = crate::workspace().join("shim/audit");
    let include = [format!("-I{}", shim.display()), format!("-I{}", crate::workspace().join("abi/include").display())];
    let sources = ["table.c", "resolve.c", "request.c", "path.c", "sys.c", "view.c"]
        .map(|name| shim.join(name).display().to_string());
    let mut flags: Vec<&str> = vec!["-O2", "-DHWA_HOSTED"];
    flags.extend(include.iter().chain(&sources).map(String::as_str));
    let program = fixture.build("bench/lookup.c", "bin/lookup", &flags);
    let log = fixture.outside("strace");
    let program = Program::new(program).arg(fixture.path("some/path/of/usual")).arg(FILES.to_string());
    let session = Headwater::new(&fixture.shared()).run(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    let traced = program.behind(["strace", "-f", "-e", "trace=all", "-o", &log.display().to_string()]);
    let traced = Headwater::new(&fixture.shared()).run(&traced);
    let mut table = Table::new(["", "ns, median of 21", "system calls", "target"]);
    for line in session.output.stdout.lines() {
        let Some((name, ns)) = line.rsplit_once(' ') else { continue };
        let calls = if traced.output.status == 0 { calls_between(&log, name) } else { "?".into() };
        table.row([name, ns, &calls, "300"]);
    }
    report.line(format!("`hwa_resolve` of the shim, {FILES} paths in turn, attributes wanted.\n"));
    report.table(&table);
}

/// System calls between the two marks that the program makes around its look-ups, which are attempts to close no
/// descriptor.
fn calls_between(log: &std::path::Path, name: &str) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let after = text.split_once(&format!("\"begin {name}\\n\"")).map(|(_, after)| after).unwrap_or_default();
    let between = after.split_once(&format!("\"end {name}\\n\"")).map(|(between, _)| between);
    between.map_or("?".into(), |between| between.lines().count().saturating_sub(2).to_string())
}
