//! One file for each command of the command line.

pub mod clear;
pub mod closures;
pub mod config;
pub mod doctor;
pub mod explain;
pub mod join;
pub mod metrics;
pub mod mount;
pub mod record;
pub mod refresh;
pub mod run;
pub mod serve;
pub mod simulate;
pub mod spawn;
pub mod start;
pub mod stats;
pub mod stop;
pub mod topology;
pub mod unmount;
