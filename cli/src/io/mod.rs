//! The I/O of MPI programs that read or write a file on one rank for all: having the ranks do it together.

pub mod options;
pub mod preload;
