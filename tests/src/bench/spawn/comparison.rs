//! Two methods beside each other.

use super::super::Table;
use super::super::statistics::Sample;

/// Adds two measurements to `table`, and how much the second is larger.
pub(super) fn row(table: &mut Table, name: &str, [one, other]: [&Sample; 2], bound: &str) {
    let shown = |sample: &Sample| format!("{:.2} ({})", sample.median(), sample.spread());
    let ratio = format!("{:.1}", other.median() / one.median());
    table.row([name.to_owned(), shown(one), shown(other), ratio, bound.to_owned()]);
}
