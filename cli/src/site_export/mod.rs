//! A site export: a read-only view of a directory that outlives jobs and serves every user (Kelly, Klundt and Laros,
//! "Shared Libraries on a Capability Class Computer", CUG'11: the projection in load-balance mode). `headwater serve`
//! runs on the readers, `headwater join` on the other nodes.
//!
//! All nodes have the same lists of names, from which each computes all ranks. There is no rendezvous: a node that is
//! not up counts as dead until it connects.

pub mod export;
pub mod key;
pub mod notify;
pub mod options;
pub mod parents;
pub mod site;
