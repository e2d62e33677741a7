//! Defaults of options, from the site's file and the user's.
//!
//! A key is the long name of an option of `headwater run` or `start`. Its value becomes the default of every option with
//! the same variable, so a file counts wherever the variable would, below it. `serve` and `join` read no file.

pub mod defaults;
pub mod file;
pub mod keys;
pub mod options;
pub mod places;
pub mod report;
pub mod usage_log;
