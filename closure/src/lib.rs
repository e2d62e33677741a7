//! Finding what a program's start needs, without running it.
//!
//! - [`contents`]: which content a list of entries has;
//! - [`elf`]: which bytes of an object a loader maps, and which libraries it needs from where;
//! - [`libraries`]: all libraries of a program, and where the loader searches for them;
//! - [`program`]: the file of a program's name;
//! - [`recorded`]: what a run used, as text;
//! - [`sealed`]: the same with digests and a signature;
//! - [`scope`]: the directories that a session serves.
//!
//! All of it reads files of users and their build systems: everything here is bounded, and invalid input
//! leads to a smaller result, never to a failure.

#![forbid(unsafe_code)]

pub mod contents;
pub mod elf;
pub mod libraries;
pub mod program;
pub mod recorded;
pub mod scope;
pub mod sealed;
mod search_path;
