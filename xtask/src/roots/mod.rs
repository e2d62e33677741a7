//! `target/roots`: root directories of other systems, in which releases are built, installed and tested.

mod root;
mod systems;

pub use self::root::{Contents, Root, mirror};
pub use self::systems::Tested;
