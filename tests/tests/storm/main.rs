//! The parts of the storm benchmark: a program with very many libraries, and a shared file system whose server can be
//! slow and counts.

mod counts;
mod gluster;
mod pynamic;
