//! One file for each command of the command line.

pub mod clear;
pub mod join;
pub mod mount;
pub mod record;
pub mod refresh;
pub mod run;
pub mod serve;
pub mod stats;
pub mod unmount;
