//! What the storm benchmark is made of: a program with very many libraries, and a shared file system of which
//! the server can be slow and counts.

mod counts;
mod gluster;
mod pynamic;
