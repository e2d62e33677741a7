//! `headwater mount` with real processes.

mod ends;
#[path = "../site/mod.rs"]
mod site;
mod takeover;
mod view;
