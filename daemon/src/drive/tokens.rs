//! The event loop's tokens.

use mio::Token;

pub(crate) const WAKER: Token = Token(0);
pub(crate) const CONTROL: Token = Token(1);
pub(crate) const TERMINATION: Token = Token(2);
pub(crate) const CLIENTS: Token = Token(3);
pub(crate) const PEERS: Token = Token(4);
pub(crate) const CONTROL_SOCKET: Token = Token(5);
pub(crate) const PRESSURE: Token = Token(6);
pub(crate) const FIRST_FREE: usize = 16;
