//! What a run reports before the program starts: why nothing is served, what can't be gained, what takes long.

mod audience;
mod gain;
mod nothing;
pub mod progress;
mod room;

pub use audience::Audience;
pub use gain::{Start, first_alone, harmed, starts_others, unaudited};
pub use nothing::{Naming, why_nothing};
pub use room::too_small;
