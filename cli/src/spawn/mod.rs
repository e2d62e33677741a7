//! `headwater spawn`: many processes of one program on this node, placed, labelled and counted.
//!
//! A [guard] and a worker; the worker ([`work`]) makes the processes by the spawning library ([`library`]), as
//! the [plan] describes, reads their output ([`outlet`]), and waits for them ([`processes`]). With [`relay`], a
//! launcher starts the processes itself.

pub mod check;
pub mod guard;
pub mod library;
pub mod on_behalf;
pub mod options;
mod outlet;
pub mod plan;
mod processes;
pub mod relay;
mod report;
mod screen;
pub mod work;

pub use self::plan::interpreter_arguments;
