//! Why one program's start takes as long as it does: the schema, as `headwater explain --json` writes it, and its text
//! and page.

mod html;
mod schema;
mod text;

pub use self::schema::{
    Calls, Directory, Gain, GainOptions, Import, OpenFile, Phase, Process, SCHEMA, Search, SearchKind, Span, Start,
};
