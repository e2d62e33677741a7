//! Seals: closures with the digests of all content, signed. `headwater seal` makes one, and `headwater run --sealed`
//! runs a program only with what it lists.

mod check;
mod key;
mod make;
mod measure;
pub mod options;
mod text;

pub use self::check::SealedRun;
pub use self::make::make;
