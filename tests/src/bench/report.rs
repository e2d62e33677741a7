//! The output of the results.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use super::table::Table;

/// The file of the results.
#[derive(Default)]
pub struct Report {
    pub(super) markdown: String,
    /// The cells of all tables.
    pub(super) tables: Vec<Vec<Vec<String>>>,
    /// The directory of drawings, if any.
    pub svg: Option<PathBuf>,
}

impl Report {
    /// Prints a line of text.
    pub fn line(&mut self, text: impl AsRef<str>) {
        println!("{}", text.as_ref());
        self.markdown.push_str(text.as_ref());
        self.markdown.push('\n');
    }

    /// Prints a heading.
    pub fn heading(&mut self, text: &str) {
        self.line("");
        self.line(format!("## {text}"));
        self.line("");
    }

    /// Prints a table.
    pub fn table(&mut self, table: &Table) {
        self.line(table.to_string());
        self.tables.push(table.rows.clone());
    }
}

/// Returns the processor, kernel and C library.
pub fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let libc = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let libc = libc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default();
    format!("{cores} cores of {}, Linux {}, {libc}", model.trim_start_matches([':', '\t', ' ']), kernel.trim())
}
