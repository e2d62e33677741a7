//! What a job's start did, over all nodes.
//!
//! Each node's daemon records a [`NodePart`]: rows of a fixed size, bounded in number. A [`Merger`] adds the parts up,
//! one after the other, and returns a [`JobReport`]: the schema that users read as JSON, as text ([`text`]) or as a page
//! ([`page`]).

mod clock;
mod merge;
mod page;
mod part;
mod schema;
mod text;
mod upstream;

pub use self::clock::Clock;
pub use self::merge::Merger;
pub use self::page::page;
pub use self::part::{
    Cause, EventKind, EventPart, Kind, LinkPart, NodePart, PART_BYTES_MAX, PathRow, Relation, SharedReads, Snapshot,
    Source, Traffic, Waits,
};
pub use self::schema::{
    Cell, Event, FORMAT, JobReport, Legs, LinkReport, NodeReport, NodeTimes, PathReport, Run, Span, VERSION,
};
pub use self::text::{event_name, text};
