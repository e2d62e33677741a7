//! Reports about a program's start: their schema, and pages and text that show them.
//!
//! [`page`] is the frame that all pages share: one HTML file that asks nothing of any other place.

pub mod job;
pub mod page;
