//! A site's read-only view of a directory, which outlives jobs and serves every user (Kelly, Klundt and
//! Laros, "Shared Libraries on a Capability Class Computer", CUG'11: the projection in load-balance
//! mode). `headwater serve` runs on the nodes that read, `headwater join` on those where it is seen.
//!
//! All of them are told the same lists of names, from which each derives everybody's place: there is no
//! meeting, and who is not up is dead until it comes.

pub mod key;
pub mod notify;
pub mod options;
pub mod site;
