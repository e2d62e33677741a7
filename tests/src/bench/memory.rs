//! A daemon's memory.

use std::fs;

use rustix::param::page_size;

use super::{Report, Table};
use crate::harness::{Fixture, Headwater, Program};

const FILES: usize = 5000;
const FILE_BYTES: usize = 4000;
const LIBRARIES: usize = 100;

pub(super) fn run(report: &mut Report) {
    report.heading(&format!("Memory with {FILES} files"));
    let fixture = Fixture::new("memory");
    for number in 0..FILES - LIBRARIES {
        fixture.file(&format!("data/{}/module_{number}.py", number % 50), vec![b'#'; FILE_BYTES], 0o644);
    }
    let mut open = Vec::new();
    let mut loadable = 0;
    for number in 0..LIBRARIES {
        let define = format!("-DNUMBER={number}");
        let path =
            fixture.build("bench/library.c", &format!("lib/libbench{number}.so"), &["-shared", "-fPIC", &define]);
        loadable += loadable_bytes(&fs::read(&path).expect("just built"));
        open.push(format!("open={}", path.display()));
    }
    let pages = |bytes: usize| bytes.next_multiple_of(page_size()) as u64;
    let plain = (FILES - LIBRARIES) as u64 * pages(FILE_BYTES);
    let app = fixture.build("loader.c", "bin/app", &[]);
    let reached = fixture.outside("reached");
    let all = format!("find {} -name '*.py' -exec cat {{}} + > /dev/null", fixture.path("data").display());
    let program = Program::shell(&format!("{all}; {} {} pause={}", app.display(), open.join(" "), reached.display()));
    let started = Headwater::new(&fixture.shared()).start(&program);
    crate::harness::wait_until(std::time::Duration::from_secs(120), || reached.exists());
    let status =
        started.daemons().first().map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default());
    fs::write(fixture.outside("reached.go"), "").expect("an own directory");
    let session = started.finish();
    let status = status.unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
    };
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / (1 << 20) as f64);
    let mut table = Table::new(["MiB", "", "target"]);
    table.row([
        "daemon: anonymous and file pages (RssAnon + RssFile)",
        &format!("{:.1}", kib("RssAnon") + kib("RssFile")),
        "16",
    ]);
    table.row(["daemon: shared memory mapped (RssShmem)", &format!("{:.1}", kib("RssShmem")), ""]);
    table.row([
        "daemon: most at any time, by its own account",
        &mib(session.number("memory.daemon_rss_bytes_max")),
        "",
    ]);
    table.row(["table", &mib(session.number("memory.table_bytes")), ""]);
    table.row(["store", &mib(session.number("memory.store_bytes")), &mib(plain + loadable)]);
    report.line(format!(
        "{} files of {FILE_BYTES} bytes, read, and {LIBRARIES} libraries, loaded. The store's target is what was \
         requested in whole pages: files, and libraries' loaded segments.\n",
        FILES - LIBRARIES
    ));
    report.table(&table);
    report.line(format!("Files read: {}.", session.number("shared_fs.files_read")));
}

/// Bytes of an ELF file that a loader maps, its header included, in whole pages.
fn loadable_bytes(elf: &[u8]) -> u64 {
    let number = |at: usize, bytes: usize| (0..bytes).rev().fold(0u64, |n, i| n << 8 | u64::from(elf[at + i]));
    let (table, size, count) = (number(32, 8) as usize, number(54, 2) as usize, number(56, 2) as usize);
    let headers = (0..count).map(|n| table + n * size).filter(|&at| number(at, 4) == 1);
    let segments = headers.map(|at| (number(at + 8, 8), number(at + 8, 8) + number(at + 32, 8)));
    let page = page_size() as u64;
    let pages: std::collections::BTreeSet<u64> =
        segments.flat_map(|(from, to)| from / page..to.div_ceil(page)).collect();
    pages.len() as u64 * page
}
