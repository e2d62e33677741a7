//! Prints the findings as text.

use std::fmt;

use super::check::{Check, CheckResult, Findings};

/// The findings as aligned lines.
pub struct Text<'a> {
    pub findings: &'a Findings,
    pub has_colours: bool,
}

/// Checks as aligned lines.
pub struct Lines<'a> {
    pub checks: &'a [Check],
    pub has_colours: bool,
}

impl Lines<'_> {
    fn label(&self, result: CheckResult) -> String {
        let (word, colour) = match result {
            CheckResult::Ok => ("ok", 32),
            CheckResult::Warning => ("warning", 33),
            CheckResult::Missing => ("missing", 31),
        };
        if self.has_colours { format!("\x1b[{colour}m{word:7}\x1b[0m") } else { format!("{word:7}") }
    }
}

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        for check in self.checks {
            writeln!(f, "{}  {:width$}  {}", self.label(check.verdict), check.name, check.found)?;
            if let Some(next) = &check.next {
                writeln!(f, "{:9}{:width$}  -> {next}", "", "")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Lines { checks: &self.findings.checks, has_colours: self.has_colours })?;
        for removed in &self.findings.removed {
            writeln!(f, "removed {removed}")?;
        }
        writeln!(f)?;
        let works = self.findings.mechanisms;
        let named = [("namespace", works.namespace), ("audit", works.audit), ("mount", works.mount)];
        let usable: Vec<&str> = named.into_iter().filter(|&(_, works)| works).map(|(name, _)| name).collect();
        match usable[..] {
            [] => writeln!(f, "No mechanism works here: programs run as they are.")?,
            _ => writeln!(f, "These mechanisms work here: {}.", usable.join(", "))?,
        }
        writeln!(f, "An ordinary program runs via {}: {}.", self.findings.via, self.findings.via_reason)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{Check, Mechanisms};
    use super::*;

    #[test]
    fn lines_are_aligned_and_coloured_only_on_a_terminal() {
        let checks = vec![Check::ok("kernel", "6.1"), Check::missing("/dev/fuse", "not there", "modprobe fuse")];
        let findings = Findings {
            checks,
            mechanisms: Mechanisms { namespace: false, audit: true, mount: false },
            via: "audit",
            via_reason: "no /dev/fuse".into(),
            removed: vec!["/dev/shm/x".into()],
        };
        let text = Text { findings: &findings, has_colours: false }.to_string();
        let expected = "ok       kernel     6.1\n\
                        missing  /dev/fuse  not there\n\
                        \x20                   -> modprobe fuse\n\
                        removed /dev/shm/x\n\
                        \n\
                        These mechanisms work here: audit.\n\
                        An ordinary program runs via audit: no /dev/fuse.\n";
        assert_eq!(text, expected);
        let coloured = Text { findings: &findings, has_colours: true }.to_string();
        assert!(coloured.contains("\x1b[31mmissing\x1b[0m  /dev/fuse  not there"), "{coloured:?}");
    }
}
