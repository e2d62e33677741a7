//! Tables whose rows the reader of a page sorts and filters.

use std::fmt::Write;

use headwater_figures::text::{bytes, grouped, nanoseconds};

use super::escape::html;

/// The most rows that are in the page as markup, for browsers without scripts.
const STATIC_ROWS_MAX: usize = 50;

/// What a column's numbers count; it determines how they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No numbers: text.
    Text,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// A column's heading.
#[derive(Clone, Debug)]
pub struct Column {
    pub(super) name: String,
    pub(super) unit: Unit,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Text, in a column of text.
    Text(String),
    /// A number, in the unit of its column.
    Number(u64),
    /// Not known, or without meaning here.
    Empty,
}

/// A table under construction. Its rows are shown in the order in which they were added, until they are sorted.
#[derive(Clone, Debug)]
pub struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Column {
    /// Returns a column of text.
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), unit: Unit::Text }
    }

    /// Returns a column of numbers of things.
    pub fn count(name: impl Into<String>) -> Column {
        Column { name: name.into(), unit: Unit::Count }
    }

    /// Returns a column of bytes.
    pub fn bytes(name: impl Into<String>) -> Column {
        Column { name: name.into(), unit: Unit::Bytes }
    }

    /// Returns a column of times, in nanoseconds.
    pub fn nanoseconds(name: impl Into<String>) -> Column {
        Column { name: name.into(), unit: Unit::Nanoseconds }
    }
}

impl Cell {
    /// Returns a cell with text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// Returns a cell with a number.
    pub fn number(number: u64) -> Cell {
        Cell::Number(number)
    }
}

impl Table {
    /// Returns a table with these columns and no rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row: a cell for each column.
    ///
    /// # Panics
    /// The numbers of cells and columns differ, or a cell doesn't fit its column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        for (cell, column) in cells.iter().zip(&self.columns) {
            let fits = match cell {
                Cell::Text(_) => column.unit == Unit::Text,
                Cell::Number(_) => column.unit != Unit::Text,
                Cell::Empty => true,
            };
            assert!(fits, "{cell:?} in column {}", column.name);
        }
        self.rows.push(cells);
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the first rows as markup.
    pub(super) fn html(&self) -> String {
        let class = |unit: Unit| if unit == Unit::Text { "" } else { " class=\"n\"" };
        let mut text = String::from("<table><thead><tr>");
        for Column { name, unit } in &self.columns {
            let _ = write!(text, "<th{}>{}</th>", class(*unit), html(name));
        }
        text += "</tr></thead><tbody>\n";
        for row in self.rows.iter().take(STATIC_ROWS_MAX) {
            text += "<tr>";
            for (cell, Column { unit, .. }) in row.iter().zip(&self.columns) {
                let _ = write!(text, "<td{}>{}</td>", class(*unit), html(&unit.shown(cell)));
            }
            text += "</tr>\n";
        }
        text += "</tbody></table>\n";
        if self.rows.len() > STATIC_ROWS_MAX {
            let _ =
                writeln!(text, "<noscript>{} more rows need scripts.</noscript>", self.rows.len() - STATIC_ROWS_MAX);
        }
        text
    }
}

impl Unit {
    /// Returns its name in a page's data.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Text => "text",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
        }
    }

    fn shown(self, cell: &Cell) -> String {
        match (cell, self) {
            (Cell::Text(text), _) => text.clone(),
            (Cell::Number(number), Unit::Bytes) => bytes(*number),
            (Cell::Number(number), Unit::Nanoseconds) => nanoseconds(*number),
            (Cell::Number(number), _) => grouped(*number),
            (Cell::Empty, _) => String::new(),
        }
    }
}
