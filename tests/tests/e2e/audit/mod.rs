//! What the audit mechanism must notice by itself: processes that see other files, and programs of which it hears
//! nothing.

mod elsewhere;
mod unaudited;
