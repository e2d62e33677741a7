//! Reports about a program's start: their schema, and pages and text that show them.
//!
//! - [`page`]: the frame that all pages share: one HTML file that asks nothing of any other place;
//! - [`job`]: what a job did on all of its nodes;
//! - [`start`]: why one program's start takes as long as it does.

pub mod job;
pub mod page;
pub mod start;
