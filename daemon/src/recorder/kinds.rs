//! What a fact is about, as a report names it.

use headwater_abi::Attr;
use headwater_abi::attr::mode;
use headwater_abi::wire::Fact;
use headwater_report::job::Kind;

/// Returns what a fact is about; `None` for an absent name.
pub(crate) fn kind_of(fact: &Fact) -> Option<Kind> {
    match fact {
        Fact::Absent => None,
        Fact::Error(_) => Some(Kind::Other),
        Fact::Attr(attr) => Some(kind_of_attr(attr)),
        Fact::Link(..) => Some(Kind::Link),
        Fact::Listing(..) | Fact::Unlistable(_) => Some(Kind::Directory),
    }
}

fn kind_of_attr(attr: &Attr) -> Kind {
    match attr.mode & mode::TYPE {
        mode::FILE => Kind::File,
        mode::DIR => Kind::Directory,
        _ => Kind::Other,
    }
}
