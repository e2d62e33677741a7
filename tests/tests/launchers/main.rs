//! Programs that real launchers start on several nodes: the same result as without Headwater, each file read
//! once, and nothing left.

mod allocations;
mod bad_days;
mod fabric;
mod flux;
mod interfaces;
mod many;
mod mpi;
mod observed;
mod odd_nodes;
mod one_host;
mod pbs;
mod site;
mod slurm;
mod spank;
mod ssh;
mod tools;
