//! One link.

use super::tap::Tap;

/// The devices of one link.
#[derive(Debug)]
pub struct Wire {
    /// The node's end.
    pub node: Tap,
    /// The port of the switch.
    pub switch: Tap,
}
