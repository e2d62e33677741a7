//! Writes a page with 20,000 files on standard output, to try it in a browser.

use headwater_report::page::{Cell, Column, Page, Section, Table, Timeline};

const FILES: u64 = 20_000;

fn main() {
    let mut table = Table::new([Column::text("file"), Column::bytes("size"), Column::nanoseconds("time")]);
    let mut timeline = Timeline::new("time since the start");
    let categories = ["shared file system", "parent", "wait of a process"].map(|name| timeline.category(name));
    for number in 0..FILES {
        let path = format!("/sw/environment/lib/python3.11/site-packages/package{}/module{number}.py", number / 100);
        let (start_ns, size) = (number * 150_000, number * 7919 % 1_000_003);
        let length_ns = 100_000 + size;
        table.row([Cell::text(&path), Cell::number(size), Cell::number(length_ns)]);
        let row = timeline.row(path);
        row.bar(start_ns, start_ns + 3 * length_ns, categories[2], "node 1, process 4711");
        row.bar(start_ns, start_ns + length_ns, categories[0], "node 0");
        row.bar(start_ns + length_ns, start_ns + 2 * length_ns, categories[1], "node 0 to node 1");
    }
    let summary = Section::new("Summary").fact("Start", "3.0 s", "of the last process").fact("Files", "20,000", "");
    let summary = summary.share("loader", 1.0, "1.0 s").share("imports", 1.5, "1.5 s").share("own code", 0.5, "0.5 s");
    let files = Section::new("Files").timeline(timeline).table(table);
    print!("{}", Page::new("A large start").lead("generated").section(summary).section(files).html());
}
