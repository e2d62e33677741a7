//! A start as a page.

use headwater_figures::text::{bytes, grouped, nanoseconds};

use super::schema::{SearchKind, Start};
use super::text::predicted;
use crate::page::{Cell, Column, Page, Section, Table, Timeline};

impl Start {
    /// Returns the report as a page.
    pub fn html(&self) -> String {
        let status = self.exit_status.map_or_else(String::new, |status| format!(", exit status {status}"));
        let way = if self.via == "off" { "without Headwater".to_owned() } else { format!("with --via {}", self.via) };
        let mut page = Page::new(format!("Start of {}", self.program))
            .lead(format!("{way}{status}"))
            .section(self.summary())
            .section(self.time_lines());
        for section in [self.served_section(), self.imports_section(), self.searches_section()].into_iter().flatten() {
            page = page.section(section);
        }
        page = page.section(self.files_section()).section(self.processes_section());
        if let Some(gain) = self.gain_section() {
            page = page.section(gain);
        }
        page.section(self.notes.iter().fold(Section::new("Notes"), |section, note| section.text(note))).html()
    }

    fn summary(&self) -> Section {
        let calls = &self.calls;
        let mut section = Section::new("Where the time goes")
            .fact("Start", nanoseconds(self.wall_ns), "until the program ended, or was followed")
            .fact("Calls on files", grouped(calls.count), format!("{} in all", nanoseconds(calls.length_ns)))
            .fact("Calls that fail", grouped(calls.failed), format!("{} in all", nanoseconds(calls.failed_ns)))
            .fact("Bytes read", bytes(calls.read_bytes), "")
            .fact("Programs executed", grouped(self.processes.len() as u64), "");
        for phase in &self.phases {
            section = section.share(&phase.name, phase.length_ns as f64, nanoseconds(phase.length_ns));
        }
        let advice = self.advice();
        if !advice.is_empty() {
            section = section.text("What would help:").code(advice.join("\n"));
        }
        section
    }

    fn time_lines(&self) -> Section {
        let mut line = Timeline::new("programs");
        let categories = ["loader", "imports", "own code"].map(|name| line.category(name));
        for process in &self.processes {
            let row = line.row(format!("{} {}", process.pid, process.command));
            row.bar(process.start_ns, process.end_ns, categories[2], &process.file);
            if let Some(loaded_ns) = process.loaded_ns {
                row.bar(process.start_ns, loaded_ns, categories[0], &process.file);
            }
            for span in &process.imports {
                row.bar(span.start_ns, span.end_ns, categories[1], &span.module);
            }
        }
        let mut files = Timeline::new("files, by their first use");
        let first = files.category("time of its calls, from its first one");
        let mut ordered: Vec<_> = self.files.iter().collect();
        ordered.sort_by_key(|file| file.start_ns);
        for file in ordered {
            let detail = format!("{} calls by {} processes", grouped(file.calls), grouped(file.processes));
            files.row(&file.path).bar(file.start_ns, file.start_ns.saturating_add(file.length_ns), first, detail);
        }
        Section::new("Time-line").timeline(line).timeline(files)
    }

    fn imports_section(&self) -> Option<Section> {
        let mut table = Table::new([
            Column::text("module"),
            Column::nanoseconds("own time"),
            Column::nanoseconds("total"),
            Column::count("modules"),
            Column::count("calls"),
            Column::nanoseconds("time of calls"),
        ]);
        for import in &self.imports {
            table.row([
                Cell::text(&import.module),
                Cell::number(import.own_ns),
                Cell::number(import.total_ns),
                Cell::number(import.modules),
                Cell::number(import.calls),
                Cell::number(import.calls_ns),
            ]);
        }
        let text = "The time from the search for one module to the search for the next belongs to the first.";
        (!table.is_empty()).then(|| Section::new("Python's imports").text(text).table(table))
    }

    fn searches_section(&self) -> Option<Section> {
        let mut table = Table::new([
            Column::text("directory"),
            Column::text("searched by"),
            Column::count("in vain"),
            Column::nanoseconds("time in vain"),
            Column::count("found"),
            Column::text("what would help"),
        ]);
        for search in &self.searches {
            let by = match (&search.object, search.kind) {
                (Some(object), SearchKind::Rpath | SearchKind::Runpath) => {
                    format!("{} of {object}", search.kind.name())
                }
                _ => search.kind.name().to_owned(),
            };
            table.row([
                Cell::text(&search.directory),
                Cell::text(by),
                Cell::number(search.fruitless),
                Cell::number(search.fruitless_ns),
                Cell::number(search.found),
                search.advice.as_deref().map_or(Cell::Empty, Cell::text),
            ]);
        }
        (!table.is_empty()).then(|| Section::new("Searches").table(table))
    }

    fn files_section(&self) -> Section {
        let mut table = Table::new([
            Column::text("file"),
            Column::nanoseconds("time"),
            Column::count("calls"),
            Column::count("opens"),
            Column::count("processes"),
            Column::bytes("size"),
            Column::bytes("read"),
            Column::bytes("mapped"),
            Column::bytes("used"),
        ]);
        let number = |value: Option<u64>| value.map_or(Cell::Empty, Cell::number);
        for file in &self.files {
            table.row([
                Cell::text(&file.path),
                Cell::number(file.length_ns),
                Cell::number(file.calls),
                Cell::number(file.opens),
                Cell::number(file.processes),
                number(file.size_bytes),
                Cell::number(file.read_bytes),
                Cell::number(file.mapped_bytes),
                number(file.used_bytes),
            ]);
        }
        let mut scanned = Table::new([
            Column::text("directory"),
            Column::count("calls"),
            Column::count("names"),
            Column::nanoseconds("time"),
        ]);
        for directory in &self.directories {
            scanned.row([
                Cell::text(&directory.path),
                Cell::number(directory.calls),
                Cell::number(directory.names),
                Cell::number(directory.length_ns),
            ]);
        }
        let section = Section::new("Files").table(table);
        if scanned.is_empty() { section } else { section.text("Directories that are scanned:").table(scanned) }
    }

    fn processes_section(&self) -> Section {
        let mut table = Table::new([
            Column::text("program"),
            Column::count("PID"),
            Column::nanoseconds("time"),
            Column::nanoseconds("loader"),
            Column::count("calls"),
            Column::nanoseconds("time of calls"),
            Column::count("calls that fail"),
        ]);
        for process in &self.processes {
            let loader = process.loaded_ns.map(|at| at.saturating_sub(process.start_ns));
            table.row([
                Cell::text(&process.command),
                Cell::number(process.pid.into()),
                Cell::number(process.end_ns.saturating_sub(process.start_ns)),
                loader.map_or(Cell::Empty, Cell::number),
                Cell::number(process.calls.count),
                Cell::number(process.calls.length_ns),
                Cell::number(process.calls.failed),
            ]);
        }
        Section::new("Programs").table(table)
    }

    fn gain_section(&self) -> Option<Section> {
        let options = self.gain_options.as_ref().filter(|_| !self.gain.is_empty())?;
        let mut section = Section::new("What Headwater would save").text(format!("{}.", options.described()));
        for gain in &self.gain {
            section = section.fact(
                format!("{} nodes, with Headwater", grouped(gain.nodes.into())),
                predicted(gain.with_seconds),
                format!("{} without", predicted(gain.without_seconds)),
            );
        }
        Some(section)
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::{OpenFile, Process, Span};
    use super::*;

    #[test]
    fn a_hostile_path_stays_text() {
        let hostile = "/sw/</script><img src=x onerror=alert(1)>\n";
        let process = Process {
            command: hostile.into(),
            imports: vec![Span { module: hostile.into(), ..Span::default() }],
            ..Process::default()
        };
        let file = OpenFile { path: hostile.into(), ..OpenFile::default() };
        let start = Start { program: hostile.into(), processes: vec![process], files: vec![file], ..Start::default() };
        let page = start.html();
        assert!(!page.contains("<img"), "{page}");
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
