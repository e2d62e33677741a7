//! Variables as text and as numbers.

use std::ffi::OsString;

/// The variable with the number of nodes, for node agents that are started without a launcher's variables.
pub const TOOL_NODES: &str = "HEADWATER_TOOL_NODES";

/// The variables of a process.
pub struct Variables<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl<'a> Variables<'a> {
    /// Makes a view of the variables that this function returns.
    pub fn new(variable: &'a dyn Fn(&str) -> Option<OsString>) -> Variables<'a> {
        Variables { variable }
    }

    /// Returns a variable's value; `None` if it is empty or no text.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.variable)(name)?.into_string().ok().filter(|value| !value.is_empty())
    }

    /// Returns whether a variable has a value.
    pub fn has(&self, name: &str) -> bool {
        (self.variable)(name).is_some_and(|value| !value.is_empty())
    }

    /// Returns a variable that is a number, without sign.
    pub fn number(&self, name: &str) -> Option<u32> {
        let text = self.text(name)?;
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
    }

    /// Returns the first of these variables that is a number.
    pub fn first_number(&self, names: &[&str]) -> Option<u32> {
        names.iter().find_map(|name| self.number(name))
    }
}
