//! The data of a page's tables and time-lines, as its script reads them. Each string is there once.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::escape::{printable, script};
use super::table::{Cell, Table};
use super::timeline::Timeline;

#[derive(Default)]
pub(super) struct Content {
    numbers: HashMap<String, usize>,
    strings: Vec<String>,
    tables: Vec<Value>,
    timelines: Vec<Value>,
}

impl Content {
    /// Adds a table and returns its number.
    pub(super) fn table(&mut self, table: &Table) -> usize {
        let columns: Vec<Value> =
            table.columns.iter().map(|c| json!([printable(c.name.as_bytes()), c.unit.name()])).collect();
        let cells = |column: usize| -> Vec<Value> {
            table.rows.iter().map(|row| self.cell(row.get(column).unwrap_or(&Cell::Empty))).collect()
        };
        let cells: Vec<Vec<Value>> = (0..table.columns.len()).map(cells).collect();
        self.tables.push(json!({"columns": columns, "cells": cells}));
        self.tables.len() - 1
    }

    /// Adds a time-line and returns its number.
    pub(super) fn timeline(&mut self, timeline: &Timeline) -> usize {
        let categories: Vec<String> = timeline.categories.iter().map(|name| printable(name.as_bytes())).collect();
        let mut rows = Vec::new();
        for row in &timeline.rows {
            let mut bars = Vec::with_capacity(row.bars.len() * 4);
            for bar in &row.bars {
                let length = bar.end_ns.saturating_sub(bar.start_ns);
                bars.extend([bar.start_ns, length, bar.category.0 as u64, self.string(&bar.detail) as u64]);
            }
            rows.push(json!([self.string(&row.label), bars]));
        }
        self.timelines
            .push(json!({"title": printable(timeline.title.as_bytes()), "categories": categories, "rows": rows}));
        self.timelines.len() - 1
    }

    /// Returns all data, as text for an element `script`.
    pub(super) fn json(self) -> String {
        let all = json!({"strings": self.strings, "tables": self.tables, "timelines": self.timelines});
        script(&all.to_string())
    }

    fn cell(&mut self, cell: &Cell) -> Value {
        match cell {
            Cell::Text(text) => self.string(text).into(),
            Cell::Number(number) => (*number).into(),
            Cell::Empty => Value::Null,
        }
    }

    fn string(&mut self, text: &str) -> usize {
        let text = printable(text.as_bytes());
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        self.strings.push(text.clone());
        self.numbers.insert(text, self.strings.len() - 1);
        self.strings.len() - 1
    }
}
