//! A start as text: at most about 60 lines, the numbers that matter first.

use std::fmt::Write;

use headwater_figures::text::{bar, bytes, columns, grouped, nanoseconds};

use super::schema::Start;

/// Rows of each table.
const ROWS_MAX: usize = 6;
const WIDTH_MAX: usize = 64;

impl Start {
    /// Returns the report as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}", cut_end(&self.program), nanoseconds(self.wall_ns));
        let calls = &self.calls;
        let _ = writeln!(
            text,
            ", {} calls on files take {}; {} of them fail, {}",
            grouped(calls.count),
            nanoseconds(calls.length_ns),
            grouped(calls.failed),
            nanoseconds(calls.failed_ns)
        );
        for phase in &self.phases {
            let part = phase.length_ns as f64;
            let percent = if self.wall_ns > 0 { part / self.wall_ns as f64 * 100.0 } else { 0.0 };
            let drawn = bar(part, self.wall_ns.max(1) as f64, 40);
            let _ = writeln!(text, "  {:<9} {:>7} {percent:>4.0} %  {drawn}", phase.name, nanoseconds(phase.length_ns));
        }
        let advice = self.advice();
        if !advice.is_empty() {
            text += "\nWhat would help:\n";
            advice.iter().take(ROWS_MAX).for_each(|line| text += &format!("  {line}\n"));
            text += &more(advice.len());
        }
        text += &self.served_text();
        text += &self.imports_text();
        text += &self.searches_text();
        text += &self.files_text();
        text += &self.processes_text();
        text += &self.gain_text();
        if !self.notes.is_empty() {
            text.push('\n');
            self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        }
        text
    }

    fn imports_text(&self) -> String {
        let heading = ["IMPORT", "OWN", "TOTAL", "MODULES", "CALLS", "TIME"];
        let rows = self.imports.iter().map(|import| {
            vec![
                cut(&import.module),
                nanoseconds(import.own_ns),
                nanoseconds(import.total_ns),
                import.modules.to_string(),
                grouped(import.calls),
                nanoseconds(import.calls_ns),
            ]
        });
        table(&heading, 1, rows)
    }

    fn searches_text(&self) -> String {
        let heading = ["SEARCHED", "BY", "IN VAIN", "TIME", "FOUND"];
        let searches = self.searches.iter().filter(|search| search.fruitless > 0);
        let rows = searches.map(|search| {
            vec![
                cut(&search.directory),
                search.kind.name().to_owned(),
                grouped(search.fruitless),
                nanoseconds(search.fruitless_ns),
                grouped(search.found),
            ]
        });
        table(&heading, 2, rows)
    }

    fn files_text(&self) -> String {
        let heading = ["FILE", "TIME", "CALLS", "PROCESSES", "SIZE", "READ", "USED"];
        let number = |value: Option<u64>| value.map_or_else(String::new, bytes);
        let rows = self.files.iter().map(|file| {
            vec![
                cut(&file.path),
                nanoseconds(file.length_ns),
                grouped(file.calls),
                file.processes.to_string(),
                number(file.size_bytes),
                bytes(file.read_bytes),
                number(file.used_bytes),
            ]
        });
        let mut text = table(&heading, 1, rows);
        let scanned: u64 = self.directories.iter().map(|directory| directory.names).sum();
        if let Some(slowest) = self.directories.first() {
            let _ = writeln!(
                text,
                "{} directories are scanned, {} names; slowest: {} ({})",
                grouped(self.directories.len() as u64),
                grouped(scanned),
                cut(&slowest.path),
                nanoseconds(slowest.length_ns)
            );
        }
        text
    }

    fn processes_text(&self) -> String {
        if !self.has_children() {
            return String::new();
        }
        let heading = ["PROGRAM", "PID", "TIME", "LOADER", "CALLS", "TIME"];
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_by_key(|process| std::cmp::Reverse(process.end_ns.saturating_sub(process.start_ns)));
        let rows = processes.into_iter().map(|process| {
            vec![
                cut_end(&process.command),
                process.pid.to_string(),
                nanoseconds(process.end_ns.saturating_sub(process.start_ns)),
                process.loaded_ns.map_or_else(String::new, |at| nanoseconds(at.saturating_sub(process.start_ns))),
                grouped(process.calls.count),
                nanoseconds(process.calls.length_ns),
            ]
        });
        table(&heading, 1, rows)
    }

    fn gain_text(&self) -> String {
        let (Some(options), false) = (&self.gain_options, self.gain.is_empty()) else { return String::new() };
        let mut rows = vec![["NODES", "WITHOUT", "WITH HEADWATER"].map(String::from).into()];
        for gain in &self.gain {
            rows.push(vec![grouped(gain.nodes.into()), predicted(gain.without_seconds), predicted(gain.with_seconds)]);
        }
        format!("\nPredicted: {}\n{}", options.described(), columns(&rows, 0))
    }
}

impl super::GainOptions {
    /// Returns what the prediction assumes, in one line.
    pub(super) fn described(&self) -> String {
        let place = if self.shared.is_empty() {
            "all but the machine's own directories".to_owned()
        } else {
            self.shared.join(":")
        };
        format!(
            "{} look-ups in {place} on a shared file system like {}, {} process{} a node, nothing cached",
            grouped(self.look_ups),
            self.file_system,
            self.processes_per_node,
            if self.processes_per_node == 1 { "" } else { "es" }
        )
    }
}

/// Returns a predicted time.
pub(super) fn predicted(seconds: f64) -> String {
    nanoseconds((seconds * 1e9) as u64)
}

fn table(heading: &[&str], left: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let all: Vec<Vec<String>> = rows.collect();
    if all.is_empty() {
        return String::new();
    }
    let count = all.len();
    let shown = all.into_iter().take(ROWS_MAX);
    let rows: Vec<Vec<String>> =
        [heading.iter().map(|&name| name.to_owned()).collect()].into_iter().chain(shown).collect();
    format!("\n{}{}", columns(&rows, left), more(count))
}

pub(super) fn more(count: usize) -> String {
    if count > ROWS_MAX { format!("  and {} more\n", grouped((count - ROWS_MAX) as u64)) } else { String::new() }
}

/// Returns the end of a text that is too long: of a path it says most.
pub(super) fn cut(text: &str) -> String {
    let length = text.chars().count();
    if length <= WIDTH_MAX {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length - WIDTH_MAX + 1).collect();
    format!("…{end}")
}

/// Returns the beginning of a text that is too long.
fn cut_end(text: &str) -> String {
    if text.chars().count() <= WIDTH_MAX {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(WIDTH_MAX - 1).collect();
    format!("{beginning}…")
}

#[cfg(test)]
mod tests {
    use super::super::schema::{Calls, Phase};
    use super::*;

    #[test]
    fn a_report_is_short() {
        let phases = vec![Phase { name: "loader".into(), length_ns: 5_000_000 }];
        let calls = Calls { count: 1234, length_ns: 1_000_000, failed: 5, failed_ns: 10_000, read_bytes: 0 };
        let start = Start { program: "x".repeat(300), wall_ns: 10_000_000, phases, calls, ..Start::default() };
        let text = start.text();
        assert!(text.contains("1,234 calls on files take 1.0ms; 5 of them fail"), "{text}");
        assert!(text.contains("  loader      5.0ms   50 %"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 160));
    }

    #[test]
    fn long_paths_show_their_end() {
        assert_eq!(cut("/a/b"), "/a/b");
        let shown = cut(&format!("/{}/end", "x".repeat(100)));
        assert!(shown.starts_with('…') && shown.ends_with("/end") && shown.chars().count() == WIDTH_MAX);
    }
}
