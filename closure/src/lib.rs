//! What a program's start needs, found without running it.
//!
//! - [`elf`]: which bytes of an object a loader maps, and which libraries it asks for where;
//! - [`libraries`]: all libraries that a program is loaded with, and where they are looked for;
//! - [`program`]: which file a program's name stands for;
//! - [`recorded`]: what a run used, as text;
//! - [`scope`]: the directories that a session serves.
//!
//! All read what users and their build systems wrote: everything here is bounded, and input that
//! makes no sense leads to a smaller answer, never to a failure.

#![forbid(unsafe_code)]

pub mod elf;
pub mod libraries;
pub mod program;
pub mod recorded;
pub mod scope;
mod search_path;
