//! The benchmarks that are compared between systems.

use std::path::Path;

use anyhow::{Context, Result};

use crate::roots::Root;
use crate::shell::Shell;

/// What `cargo xtask bench` names them.
const BENCHMARKS: [&str; 2] = ["startup", "lookup"];

/// Numbers of the benchmarks, as these print them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speed {
    /// From exec to main with 200 libraries in milliseconds: plain and with Headwater, and their ratio.
    pub start_ms: [String; 3],
    /// System calls of such a start, plain and with Headwater.
    pub system_calls: [String; 2],
    /// A look-up of a file in the table, in nanoseconds.
    pub lookup_ns: String,
}

/// Runs them in a root.
pub fn measure(shell: &Shell, root: &Root<'_>, bench: &Path) -> Result<Speed> {
    let mut command = root.command("env", &shell.path("tests"));
    command.args(["HEADWATER_TEST_PREFIX=/usr"]).arg(bench).args(BENCHMARKS).arg("--json=/srv/speed.json");
    shell.run(&mut command)?;
    let text = std::fs::read_to_string(root.outside("srv/speed.json"))?;
    let tables: Vec<Vec<Vec<String>>> = serde_json::from_str(&text)?;
    let get = |row: &str, column: &str| cell(&tables, row, column).with_context(|| format!("no `{row}`, `{column}`"));
    let start = |column| get("local disk", column);
    Ok(Speed {
        start_ms: [start("plain")?, start("with Headwater")?, start("ratio")?],
        system_calls: [get("all", "plain")?, get("all", "with Headwater")?],
        lookup_ns: get("a file", "ns, median of 21")?,
    })
}

/// The cell of the first table that has such a row and column.
fn cell(tables: &[Vec<Vec<String>>], row: &str, column: &str) -> Option<String> {
    tables.iter().find_map(|table| {
        let at = table.first()?.iter().position(|head| head == column)?;
        table.iter().find(|cells| cells.first().is_some_and(|first| first == row))?.get(at).cloned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_by_their_heads() {
        let table = |rows: &[&[&str]]| -> Vec<Vec<String>> {
            rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
        };
        let tables = [table(&[&["", "ns"], &["a", "1"]]), table(&[&["", "plain", "ns"], &["b", "2", "3"]])];
        assert_eq!(cell(&tables, "b", "ns").as_deref(), Some("3"));
        assert_eq!(cell(&tables, "a", "ns").as_deref(), Some("1"));
        assert_eq!(cell(&tables, "a", "plain"), None);
    }
}
