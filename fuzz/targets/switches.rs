//! Files that list which nodes share a switch: the resulting order has each rank once, and unknown nodes at its end.

#![no_main]

use headwater_topology::hosts::{Hostlist, Switches};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let hosts = Hostlist::parse("n[1-4],a,n2.b,b,a,10.0.0.1").expect("it is a hostlist");
    for read in [Switches::parse_topology_conf, Switches::parse_racks] {
        let Ok(switches) = read(text) else { continue };
        let order = switches.order(&hosts);
        let mut ranks: Vec<usize> = order.ranks.iter().map(|rank| rank.0 as usize).collect();
        for (position, rank) in order.ranks.iter().enumerate() {
            let name = hosts.name(*rank).expect("the order has the list's ranks");
            assert_eq!(switches.leaf(&name).is_none(), position >= hosts.len() - order.unknown);
        }
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq(0..hosts.len()));
    }
});
