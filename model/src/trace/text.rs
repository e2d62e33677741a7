//! Headwater's own form of a trace: lines `SECONDS KIND SIZE PATH`.

use std::fmt::Write;

use headwater_abi::Path;

use super::lookups::{Kind, Lookup, Trace, TraceError};

const KINDS: [(&str, Kind); 5] =
    [("stat", Kind::Stat), ("absent", Kind::Absent), ("list", Kind::List), ("open", Kind::Open), ("load", Kind::Load)];

/// Reads it. Empty lines and those that begin with `#` are comments.
pub(super) fn parse(text: &str) -> Result<Trace, TraceError> {
    let mut trace = Trace::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        add(&mut trace, line).map_err(|what| TraceError::Line { line: number + 1, what })?;
    }
    Ok(trace)
}

fn add(trace: &mut Trace, line: &str) -> Result<(), &'static str> {
    let mut words = line.splitn(4, char::is_whitespace);
    let seconds: f64 = words.next().and_then(|word| word.parse().ok()).ok_or("it does not begin with seconds")?;
    if !(0.0..1e9).contains(&seconds) {
        return Err("its seconds are negative, or too many");
    }
    let computing_ns = (seconds * 1e9).round() as u64;
    let kind = words.next().ok_or("it has no kind")?;
    if kind == "end" {
        trace.after_ns += computing_ns;
        return Ok(());
    }
    let kind = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, kind)| *kind);
    let kind = kind.ok_or("its kind is none of stat, absent, list, open, load, end")?;
    let size = match words.next().ok_or("it has no size")? {
        "-" => 0,
        word => word.parse().map_err(|_| "its size is neither a number nor -")?,
    };
    let path = words.next().and_then(|word| Path::new(word.trim().as_bytes())).ok_or("its path is not absolute")?;
    let before_ns = computing_ns + std::mem::take(&mut trace.after_ns);
    trace.lookups.push(Lookup { kind, path, size, before_ns });
    Ok(())
}

pub(super) fn write(trace: &Trace) -> String {
    let mut text = String::from("# seconds of computing before it, what is looked up, bytes or names, path\n");
    for Lookup { kind, path, size, before_ns } in &trace.lookups {
        let name = KINDS.iter().find(|(_, other)| other == kind).map_or("stat", |(name, _)| name);
        let size = if *size == 0 { "-".to_owned() } else { size.to_string() };
        let _ = writeln!(text, "{:.6} {name} {size} {path}", *before_ns as f64 / 1e9);
    }
    let _ = writeln!(text, "{:.6} end", trace.after_ns as f64 / 1e9);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "# a comment\n0.5 load 1000 /sw/lib/a b.so\n\n0 absent - /sw/lib/x\n0.25 list 7 /sw\n1 end\n";
        let trace = parse(text).unwrap();
        assert_eq!(trace.lookups[0].path, Path::new(b"/sw/lib/a b.so").unwrap());
        let kinds: Vec<Kind> = trace.lookups.iter().map(|lookup| lookup.kind).collect();
        assert_eq!(kinds, [Kind::Load, Kind::Absent, Kind::List]);
        assert_eq!((trace.lookups[2].size, trace.computing_ns()), (7, 1_750_000_000));
        assert_eq!(parse(&trace.to_text()), Ok(trace));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, part) in [
            ("0 open 1 /a\nopen 1 /a", "line 2: it does not begin"),
            ("0 opens 1 /a", "its kind"),
            ("0 open x /a", "its size"),
            ("0 open 1 a", "not absolute"),
            ("-1 open 1 /a", "negative"),
            ("0 open 1", "its path"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
