//! What the audit mechanism must notice by itself: processes that see other files, programs of which it hears
//! nothing, and what is done through a descriptor of the store's copy.

mod address_space;
mod confined;
mod elsewhere;
mod holes;
mod locks;
mod results;
mod rights;
mod stack;
mod unaudited;
mod unloadable;
