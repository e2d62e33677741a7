//! Tables that read well on a terminal and are Markdown.

use std::fmt;

/// Rows of cells under a head; the first column is text, the others numbers.
pub struct Table {
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// With this head.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Table {
        Table { rows: vec![head.into_iter().map(Into::into).collect()] }
    }

    /// One more row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        };
        for (number, row) in self.rows.iter().enumerate() {
            for column in 0..columns {
                let cell = row.get(column).map_or("", String::as_str);
                match column {
                    0 => write!(f, "| {cell:<0$} ", width(column))?,
                    _ => write!(f, "| {cell:>0$} ", width(column))?,
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for column in 0..columns {
                    let line = "-".repeat(width(column) - usize::from(column > 0));
                    write!(f, "| {line}{} ", if column > 0 { ":" } else { "" })?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["what", "ms"]);
        table.row(["plain", "12.5"]);
        assert_eq!(table.to_string(), "| what  |   ms |\n| ----- | ---: |\n| plain | 12.5 |\n");
    }
}
