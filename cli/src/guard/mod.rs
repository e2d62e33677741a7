//! `headwater guard`: finds the jobs of this node that put most operations on shared file systems.
//!
//! A thread for each file system ([`sampler`]) has the kernel report opens for a known part of the time
//! ([`fanotify`]), and attributes them to jobs ([`jobs`]). Where the file system counts its own operations
//! ([`counters`]), these give the rate, and the opens give each job's share. [`judge`] decides, without I/O, which jobs
//! are named; [`watch`] is the command. Nothing here can delay or refuse an open: no permission events are requested.

mod counters;
mod fanotify;
mod finding;
mod hook;
mod jobs;
mod judge;
mod metrics;
mod mounts;
pub mod options;
mod sampler;
pub mod watch;
