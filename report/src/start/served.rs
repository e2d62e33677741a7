//! What Headwater did for a start, as text and as a section of the page.

use headwater_figures::text::{bytes, columns, grouped, nanoseconds};

use super::schema::{Answers, Served, Start};
use super::text::{cut, more};
use crate::page::{Cell, Column, Section, Table};

/// Rows of the text's table.
const ROWS_MAX: usize = 6;

impl Served {
    /// Returns the reason for the mechanism, unless the user has named it.
    fn because(&self) -> String {
        if self.reason.starts_with("--via") { String::new() } else { format!(", because {}", self.reason) }
    }

    /// Returns the sums of calls, by what answered them.
    fn answers(&self) -> [(&'static str, &Answers); 4] {
        [
            ("Headwater", &self.answered),
            ("source files", &self.source),
            ("other directories", &self.outside),
            ("Headwater's own calls", &self.own),
        ]
    }

    /// Returns sentences about what no call shows.
    fn sentences(&self, via: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.look_ups > 0 {
            sentences.push(format!(
                "The audit library looked up {} paths; for {} of them no system call was made.",
                grouped(self.look_ups),
                grouped(self.look_ups_without_call)
            ));
        }
        if self.mount_requests > 0 {
            sentences.push(format!(
                "The kernel sent {} requests to the mount; it answered all else from its caches.",
                grouped(self.mount_requests)
            ));
        }
        if self.fetches > 0 {
            sentences.push(format!(
                "Processes waited {} in all for {} fetches.",
                nanoseconds(self.fetches_ns),
                grouped(self.fetches)
            ));
        }
        sentences.push(format!(
            "The daemon made {} operations on the shared file system and read {}.",
            grouped(self.shared_fs_operations),
            bytes(self.shared_fs_bytes)
        ));
        if via == "audit" {
            sentences.push(
                "By audit, searches that the table answers are in no list, because they are no system calls."
                    .to_owned(),
            );
        }
        sentences
    }
}

impl Start {
    /// Returns what Headwater did, as text; nothing without it.
    pub(super) fn served_text(&self) -> String {
        let Some(served) = &self.served else { return String::new() };
        let mut text = format!(
            "\nWith --via {}{}\n  {} until the daemon served, then {} until the program started; no phase has them\n",
            self.via,
            served.because(),
            nanoseconds(served.session_ns),
            nanoseconds(served.entry_ns)
        );
        let mut rows: Vec<Vec<String>> =
            vec![["ANSWERED BY", "CALLS", "TIME", "FAIL", "READ", "MAPPED"].map(String::from).into()];
        for (name, answers) in served.answers().into_iter().filter(|(_, answers)| answers.calls > 0) {
            rows.push(vec![
                name.to_owned(),
                grouped(answers.calls),
                nanoseconds(answers.length_ns),
                grouped(answers.failed),
                bytes(answers.read_bytes),
                bytes(answers.mapped_bytes),
            ]);
        }
        text += &columns(&rows, 1);
        served.sentences(&self.via).iter().for_each(|line| text += &format!("{line}\n"));
        if !served.not_served.is_empty() {
            let mut rows: Vec<Vec<String>> = vec![["NOT SERVED", "WHY", "CALLS", "TIME"].map(String::from).into()];
            for not in served.not_served.iter().take(ROWS_MAX) {
                rows.push(vec![cut(&not.path), not.why.clone(), grouped(not.calls), nanoseconds(not.length_ns)]);
            }
            text += &format!("\n{}{}", columns(&rows, 2), more(served.not_served.len()));
        }
        text
    }

    /// Returns the same as a section of the page.
    pub(super) fn served_section(&self) -> Option<Section> {
        let served = self.served.as_ref()?;
        let mut answers = Table::new([
            Column::text("answered by"),
            Column::count("calls"),
            Column::nanoseconds("time"),
            Column::count("calls that fail"),
            Column::bytes("read"),
            Column::bytes("mapped"),
        ]);
        for (name, sums) in served.answers().into_iter().filter(|(_, sums)| sums.calls > 0) {
            answers.row([
                Cell::text(name),
                Cell::number(sums.calls),
                Cell::number(sums.length_ns),
                Cell::number(sums.failed),
                Cell::number(sums.read_bytes),
                Cell::number(sums.mapped_bytes),
            ]);
        }
        let mut section = Section::new("What Headwater did")
            .text(format!("--via {}{}.", self.via, served.because()))
            .fact("Session", nanoseconds(served.session_ns), "until the daemon served")
            .fact("Entry", nanoseconds(served.entry_ns), "from then until the program started")
            .table(answers);
        for sentence in served.sentences(&self.via) {
            section = section.text(sentence);
        }
        let mut table = Table::new([
            Column::text("not served"),
            Column::text("why"),
            Column::count("calls"),
            Column::nanoseconds("time"),
        ]);
        for not in &served.not_served {
            table.row([
                Cell::text(&not.path),
                Cell::text(&not.why),
                Cell::number(not.calls),
                Cell::number(not.length_ns),
            ]);
        }
        Some(if table.is_empty() { section } else { section.table(table) })
    }
}
