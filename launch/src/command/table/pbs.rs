//! PBS's `pbsdsh`, from the manual pages of OpenPBS and of TORQUE.

use crate::command::grammar::{Grammar, Style};

/// `pbsdsh`.
pub const PBSDSH: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["o no_obit", "s synchronous", "u unique", "v verbose", "version"],
    values: &["c copies", "h host", "n node"],
    ..Grammar::NONE
};
