//! Formats numbers, columns and bars as text.

use std::io::{IsTerminal, stdout};

/// Aligns rows of cells in columns; the first row is the heading. The first `left` columns are aligned to the left, the
/// others to the right.
pub fn columns(rows: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..).map_while(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (number, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let gap = if number == 0 { "" } else { "  " };
            line += gap;
            line += &if number < left { format!("{cell}{padding}") } else { format!("{padding}{cell}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Formats bytes for a column: three digits, powers of 1024.
pub fn bytes(number: u64) -> String {
    scaled(number as f64, 1024.0, &["", "K", "M", "G", "T", "P", "E"], 99.95)
}

/// Formats bytes for a sentence: two digits, powers of 1000.
pub fn size(number: u64) -> String {
    scaled(number as f64, 1000.0, &[" B", " kB", " MB", " GB", " TB"], 9.95)
}

/// Formats nanoseconds as a time with three digits.
pub fn nanoseconds(number: u64) -> String {
    if number == 0 {
        return "-".into();
    }
    scaled(number as f64, 1000.0, &["ns", "µs", "ms", "s"], 99.95)
}

/// Formats milliseconds as a duration.
pub fn milliseconds(number: u64) -> String {
    let seconds = number / 1000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, number % 1000 / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Draws a value as a bar, in eighths of a character; `longest` is drawn with `width` characters. What is more than
/// nothing is seen.
pub fn bar(value: f64, longest: f64, width: usize) -> String {
    let eighths = if value > 0.0 { (value / longest * (width * 8) as f64).ceil() as usize } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(" ▏▎▍▌▋▊▉".chars().nth(eighths % 8).filter(|_| eighths % 8 > 0));
    bar
}

/// Returns whether standard output is coloured: on a terminal with colours, unless NO_COLOR is set.
pub fn wants_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// Formats a number with the largest unit that fits, and a decimal if it is less than `rounded_min`.
fn scaled(mut number: f64, step: f64, units: &[&str], rounded_min: f64) -> String {
    let mut unit = 0;
    // A value that would be rounded up to the next unit has that unit.
    while number >= step - 0.5 && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && number < rounded_min);
    format!("{number:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (10 << 20, "10.0M"),
            (200 << 20, "200M"),
            ((1 << 30) - 1, "1.0G"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(bytes(number), expected);
        }
        let sizes = [0, 999, 1000, 12_345, 999_600, 173_000_000, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "12 kB", "1.0 MB", "173 MB", "18446744 TB"]);
        for (number, expected) in [
            (0, "-"),
            (12, "12ns"),
            (1_500, "1.5µs"),
            (999_999, "1.0ms"),
            (123_456_789, "123ms"),
            (7e12 as u64, "7000s"),
        ] {
            assert_eq!(nanoseconds(number), expected);
        }
        for (number, expected) in [(950, "0.9 s"), (61_000, "1m01s"), (7_260_000, "2h01m")] {
            assert_eq!(milliseconds(number), expected);
        }
    }

    #[test]
    fn digits_are_in_groups_of_three() {
        for (number, text) in [(0, "0"), (123, "123"), (1234, "1,234"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        for (value, longest, expected) in
            [(0.0, 100.0, ""), (0.0, 0.0, ""), (1.0, 1e6, "▏"), (100.0, 100.0, "████"), (50.0, 100.0, "██")]
        {
            assert_eq!(bar(value, longest, 4), expected);
        }
        assert_eq!(bar(3.0, 8.0, 1), "▍");
    }

    #[test]
    fn columns_fit() {
        let row = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        let text = columns(&[row(&["NODE", "N"]), row(&["0", "1234"]), row(&["10", ""])], 1);
        assert_eq!(text, "NODE     N\n0     1234\n10\n");
    }
}
