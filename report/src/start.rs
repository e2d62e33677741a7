//! Why one program's start takes as long as it does: the schema, as `headwater explain --json` writes it, and its text
//! and page.

mod html;
mod schema;
mod served;
mod text;

pub use self::schema::{
    Answers, Calls, Directory, Gain, GainOptions, Import, NotServed, OpenFile, Phase, Process, SCHEMA, Search,
    SearchKind, Served, Span, Start,
};
