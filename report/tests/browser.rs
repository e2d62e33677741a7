//! A page in a browser: its script runs under its own policy, and hostile text stays text. Needs Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headwater_report::page::{Cell, Column, Page, Section, Table, Timeline, printable};

const HOSTILE: &[u8] = b"</script><img src=x onerror=document.title='run'>\n\xff\xe2\x80\xae<!--\"'&";
/// More rows than the page has as markup: the script shows the last one.
const ROWS: u64 = 60;

/// Returns the document after the page's script has run; `None` without a browser.
fn shown(page: &Path) -> Option<String> {
    let directory = std::env::split_paths(&std::env::var_os("PATH")?).find(|one| one.join("chromium").is_file());
    let Some(directory) = directory else {
        println!("skipped: no chromium in PATH");
        return None;
    };
    let profile = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("profile");
    let mut command = Command::new(directory.join("chromium"));
    // Its own sandbox needs user namespaces, which a machine may refuse.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", page.display()));
    let output = command.output().expect("chromium starts");
    if !output.status.success() {
        println!("skipped: chromium ends with {}", output.status);
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_page_works_in_a_browser() {
    let hostile = printable(HOSTILE);
    let mut table = Table::new([Column::text("file"), Column::bytes("size")]);
    for row in 0..ROWS {
        table.row([Cell::text(format!("{row} {hostile}")), Cell::number(row << 20)]);
    }
    let mut timeline = Timeline::new("time");
    let read = timeline.category("read");
    timeline.row(&hostile).bar(0, 1_000, read, &hostile);
    let section = Section::new("Files").text(&hostile).table(table).timeline(timeline);
    let page = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page.html");
    fs::write(&page, Page::new("unchanged").section(section).html()).expect("the page is written");
    let Some(document) = shown(&page) else { return };
    assert!(document.contains("<title>unchanged</title>"), "{document}");
    // What the script has made: a filter, rows, a canvas.
    assert!(
        document.contains("60 rows") && document.contains("<canvas") && document.contains("aria-label=\"zoom in\"")
    );
    let before_data = document.split("id=\"data\"").next().unwrap_or_default();
    assert!(before_data.contains("0 &lt;/script&gt;&lt;img src=x"), "{before_data}");
    assert!(!document.contains("<img") && !before_data.contains('\u{202e}'));
    assert!(before_data.contains("\\xff") && before_data.contains("\\u{202e}"));
}
