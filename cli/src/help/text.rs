//! Parses the text after a command's options in its help, for man pages and documents.

/// A part of such a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Command lines, with a remark behind each.
    Examples(Vec<&'a str>),
    /// What the exit status means.
    ExitStatus(&'a str),
    /// A paragraph.
    Prose(&'a str),
    /// Lines that stay as they are.
    Lines(Vec<&'a str>),
}

/// Parses a text.
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut awaits_examples = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match (line.strip_prefix("  "), parts.last_mut()) {
            (Some(line), Some(Part::Examples(lines) | Part::Lines(lines))) => lines.push(line),
            (Some(line), _) if awaits_examples => parts.push(Part::Examples(vec![line])),
            (Some(line), _) => parts.push(Part::Lines(vec![line])),
            (None, _) if line != "Examples:" => parts.push(match line.strip_prefix("Exit status: ") {
                Some(meaning) => Part::ExitStatus(meaning),
                None => Part::Prose(line),
            }),
            _ => {}
        }
        awaits_examples = line == "Examples:";
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed() {
        let text = "Examples:\n  a b\n  c\n\nIt does:\n  x  y\nand more.\n\nExit status: 0.";
        let expected = [
            Part::Examples(vec!["a b", "c"]),
            Part::Prose("It does:"),
            Part::Lines(vec!["x  y"]),
            Part::Prose("and more."),
            Part::ExitStatus("0."),
        ];
        assert_eq!(parts(text), expected);
    }
}
