//! Lists of nodes' names: what is read is printed so that it is read again as the same. Folded it is still the same,
//! and names are found at their positions.

#![no_main]

use headwater_topology::Rank;
use headwater_topology::hosts::{HOSTS_MAX, Hostlist, NAME_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

/// Lists that are expanded; longer ones are only parsed.
const EXPANDED_MAX: usize = 2000;

fuzz_target!(|text: &str| {
    let Ok(list) = Hostlist::parse(text) else { return };
    assert!(list.len() <= HOSTS_MAX);
    let again = Hostlist::parse(&list.to_string()).expect("what is printed can be read");
    assert_eq!(again.len(), list.len());
    let last = Rank(list.len().saturating_sub(1) as u32);
    assert_eq!(again.name(last), list.name(last));
    if list.len() <= EXPANDED_MAX {
        check_names(&list, &again);
    }
});

fn check_names(list: &Hostlist, again: &Hostlist) {
    let names: Vec<String> = list.iter().collect();
    assert_eq!(names.len(), list.len());
    assert!(again.iter().eq(names.iter().cloned()));
    let folded = list.folded();
    assert!(folded.iter().eq(names.iter().cloned()));
    assert_eq!(Hostlist::parse(&folded.to_string()).as_ref(), Ok(list));
    for name in names.iter().step_by(names.len() / 20 + 1) {
        assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX);
        let first = names.iter().position(|other| other == name).expect("it is one of them");
        assert_eq!(list.rank_of(name), Ok(Rank(first as u32)));
        assert_eq!(folded.rank_of(name), Ok(Rank(first as u32)));
    }
}
