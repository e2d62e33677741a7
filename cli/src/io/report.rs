//! `headwater io report`: prints the library's report, with a line of JSON for each call site, as a table.

use std::fs;
use std::io::stdout;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use headwater_figures::text::{bytes, columns};
use serde::Deserialize;

use super::commands::ReportOptions;
use super::source::Source;
use crate::message::show;

/// The separator of a call site's frames, the innermost first.
const BETWEEN_FRAMES: &str = " < ";

/// A call site that reads or writes, and its counts.
#[derive(Debug, Deserialize)]
struct CallSite {
    /// `module+0xoffset` of the return addresses, optionally with a source line in parentheses.
    context: String,
    #[serde(default)]
    pattern: String,
    #[serde(default)]
    operations: u64,
    #[serde(default)]
    transformed: u64,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    decision: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    seconds_saved: f64,
    #[serde(default)]
    seconds_missed: f64,
}

/// Prints the report.
///
/// # Errors
/// It can't be read, or is malformed.
pub fn report(options: &ReportOptions) -> Result<u8> {
    let name = options.report.display();
    let written = fs::read_to_string(&options.report)
        .with_context(|| format!("{name} can't be read: name the file of --io-report"))?;
    let sites = parse(&written, &options.report)?;
    let source = options.program.as_deref().map(Source::open).transpose()?;
    show(stdout(), text(&sites, source.as_ref()));
    Ok(0)
}

fn parse(text: &str, file: &Path) -> Result<Vec<CallSite>> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let sites = lines.map(|(line, number)| {
        serde_json::from_str(line).with_context(|| {
            format!("line {number} of {} is not a line of a report: name the file of --io-report", file.display())
        })
    });
    let sites: Vec<CallSite> = sites.collect::<Result<_>>()?;
    ensure!(!sites.is_empty(), "{} is empty: no rank was seen to read or write for others", file.display());
    Ok(sites)
}

fn text(sites: &[CallSite], source: Option<&Source>) -> String {
    let heading = ["PLACE", "PATTERN", "DECISION", "OPERATIONS", "TOGETHER", "BYTES", "SAVED", "MISSED"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    let mut reasons = String::new();
    for (site, number) in sites.iter().zip(1..) {
        let seconds = |seconds: f64| if seconds > 0.0 { format!("{seconds:.3} s") } else { "-".to_owned() };
        let known = |word: &str| if word.is_empty() { "-".to_owned() } else { word.to_owned() };
        rows.push(vec![
            format!("{number} {}", shown(&site.context, source)),
            known(&site.pattern),
            known(&site.decision),
            site.operations.to_string(),
            site.transformed.to_string(),
            bytes(site.bytes),
            seconds(site.seconds_saved),
            seconds(site.seconds_missed),
        ]);
        if !site.why.is_empty() {
            reasons += &format!("{number}: {}\n", site.why);
        }
    }
    let saved: f64 = sites.iter().map(|site| site.seconds_saved).sum();
    let missed: f64 = sites.iter().map(|site| site.seconds_missed).sum();
    let total = format!("{saved:.3} s saved in all, {missed:.3} s missed\n");
    format!("{}\n{reasons}{total}", columns(&rows, 3))
}

/// Returns a call site as text: the source line of the innermost frame in the program, if it is known.
fn shown(context: &str, source: Option<&Source>) -> String {
    let frames = || context.split(BETWEEN_FRAMES);
    if let Some((_, line)) = frames().next().and_then(|first| first.strip_suffix(')')?.split_once(" (")) {
        return line.to_owned();
    }
    let line = source.and_then(|source| frames().find_map(|frame| source.line(frame)));
    line.unwrap_or_else(|| frames().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "\
{\"context\": \"app+0x1234 (main.c:57)\", \"pattern\": \"read+scatter\", \"operations\": 3, \"transformed\": 2, \
 \"bytes\": 3145728, \"decision\": \"transform\", \"why\": \"messages cost 0.3 s\", \"seconds_saved\": 1.25}\n\n\
{\"context\": \"libio.so+0x10 < app+0x20\", \"operations\": 7, \"seconds_missed\": 0.5, \"new\": [1]}\n";

    #[test]
    fn people_can_read_it() {
        let text = text(&parse(WRITTEN, Path::new("x")).unwrap(), None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1], "1 main.c:57      read+scatter  transform           3         2   3.0M  1.250 s        -",
            "{text}"
        );
        assert_eq!(
            lines[2], "2 libio.so+0x10  -             -                   7         0      0        -  0.500 s",
            "{text}"
        );
        assert_eq!(lines[4..], ["1: messages cost 0.3 s", "1.250 s saved in all, 0.500 s missed"]);
    }

    #[test]
    fn what_is_no_report_is_named() {
        let check = |text: &str, part: &str| {
            let error = parse(text, Path::new("file")).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{error:#}");
        };
        check("", "file is empty");
        check("{\"context\": \"a\"}\nelse\n", "line 2 of file");
        check("{}", "context");
    }
}
