//! Parallel I/O for MPI programs that read or write a file on one rank for all. `options` and `preload` load the I/O
//! library into a program's processes; the other files are `headwater io`.

pub mod commands;
mod measure;
pub mod options;
pub mod predict;
pub mod preload;
pub mod report;
mod source;
pub mod trial;
