//! Changes that the audit mechanism must detect by itself: processes that see other files, programs that are not
//! audited, and actions through a descriptor of the store's copy.

mod address_space;
mod confined;
mod elsewhere;
mod follow_fork;
mod holes;
mod locks;
mod results;
mod rights;
mod stack;
mod unaudited;
mod unloadable;
