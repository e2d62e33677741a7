//! Time-lines: rows of bars over one axis of time, which the reader of a page zooms, moves and filters.

/// The most categories with a colour of their own; further ones are grey.
pub const CATEGORIES_MAX: usize = 8;

/// A time-line under construction. Times are nanoseconds since a moment that the title names.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub(super) title: String,
    pub(super) categories: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// A category of bars: a colour with a name in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category(pub(super) usize);

/// A row: a label and its bars.
#[derive(Clone, Debug)]
pub struct Row {
    pub(super) label: String,
    pub(super) bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) category: Category,
    pub(super) detail: String,
}

impl Timeline {
    /// Returns a time-line without rows; the title stands at its axis.
    pub fn new(title: impl Into<String>) -> Timeline {
        Timeline { title: title.into(), categories: Vec::new(), rows: Vec::new() }
    }

    /// Adds a category. Each has a colour by its place in the order, so the same category should have the same place in
    /// all time-lines of a page.
    pub fn category(&mut self, name: impl Into<String>) -> Category {
        self.categories.push(name.into());
        Category(self.categories.len() - 1)
    }

    /// Adds a row below the others and returns it for its bars.
    pub fn row(&mut self, label: impl Into<String>) -> &mut Row {
        self.rows.push(Row { label: label.into(), bars: Vec::new() });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Row {
    /// Adds a bar from `start_ns` to `end_ns`. `detail` is shown when the pointer is on the bar. Where bars of a row
    /// overlap, the later one covers the earlier one.
    pub fn bar(&mut self, start_ns: u64, end_ns: u64, category: Category, detail: impl Into<String>) -> &mut Row {
        self.bars.push(Bar { start_ns, end_ns, category, detail: detail.into() });
        self
    }
}

/// Returns the number of a category's colour in the style.
pub(super) fn colour(category: usize) -> usize {
    category.min(CATEGORIES_MAX)
}
