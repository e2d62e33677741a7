use alloc::format;
use alloc::string::ToString;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::hosts::{LINKS_MAX, NODES_MAX, SWITCHES_MAX};

/// The names in the order of the switches, folded; and how many no switch has.
fn in_order(switches: &Switches, hosts: &str) -> (String, usize) {
    let hosts = Hostlist::parse(hosts).unwrap();
    let Order { ranks, unknown } = switches.order(&hosts);
    (Hostlist::from_names(ranks.into_iter().map(|rank| hosts.name(rank).unwrap())).unwrap().to_string(), unknown)
}

fn ordered(text: &str, hosts: &str) -> (String, usize) {
    in_order(&Switches::parse_topology_conf(text).unwrap(), hosts)
}

fn check(text: &str, hosts: &str, expected: &str, unknown: usize) {
    assert_eq!(ordered(text, hosts), (expected.into(), unknown), "{text}");
}

fn refused(text: &str, message: &str) {
    assert_eq!(Switches::parse_topology_conf(text).unwrap_err().to_string(), message, "{text}");
}

/// The examples of the manual page topology.conf(5).
#[test]
fn examples_of_the_manual() {
    let tree = "##################################################################\n\
        # Slurm's network topology configuration file for use with the\n\
        # topology/tree plugin\n\
        ##################################################################\n\
        SwitchName=s0 Nodes=dev[0-5]\n\
        SwitchName=s1 Nodes=dev[6-11]\n\
        SwitchName=s2 Nodes=dev[12-17]\n\
        SwitchName=s3 Switches=s[0-2]\n";
    check(tree, "dev12,dev[0,6,1,7],login,dev13", "dev[0-1,6-7,12-13],login", 1);
    let switches = Switches::parse_topology_conf(tree).unwrap();
    for (node, leaf) in [("dev5", Some("s0")), ("dev6", Some("s1")), ("dev17.cluster", Some("s2")), ("dev18", None)] {
        assert_eq!(switches.leaf(node), leaf, "{node}");
    }

    let blocks = "BlockName=block1 Nodes=node[1-32]\n\
        BlockName=block2 Nodes=node[33-64]\n\
        BlockName=block3 Nodes=node[65-96]\n\
        BlockName=block4 Nodes=node[97-128]\n\
        BlockSizes=30,120\n";
    check(blocks, "node[97,1,98,33,2]", "node[1-2,33,97-98]", 0);

    let rings = "RingName=ring0 Nodes=node[01-08]\nRingName=ring1 Nodes=node[09-16]\n";
    check(rings, "node[12,02,09,01]", "node[01-02,09,12]", 0);
}

#[test]
fn a_walk_from_the_top_decides() {
    let text = "SwitchName=top Switches=b,a\nSwitchName=c Nodes=n[1-2]\nSwitchName=a Nodes=n[3-4] LinkSpeed=100\n\
        SwitchName=b Switches=d\nSwitchName=d Nodes=n[6,5]\nSwitchName=other Nodes=n7\n";
    check(text, "n[1-8]", "n[6,5,3-4,1-2,7-8]", 1);
}

#[test]
fn lines_are_read_as_slurm_reads_them() {
    check("  switchNAME = s0  NODES = \"b a\" \r\nSWITCHNAME=s1 nodes=c", "c,a,b", "b,a,c", 0);
    check("SwitchName=s0 \\\n  Nodes=n[1,\\  \n3] # all\\\nSwitchName=s1 Nodes=n2", "n[1-3]", "n[1,3,2]", 0);
    check("SwitchName=s0 # Nodes=n1\n#SwitchName=s1 Nodes=n2", "n2,n1", "n[2,1]", 2);
    check("SwitchName=S-0x1:2/U1;x Nodes=n2\nSwitchName=t Switches=S-0x1:2/U1;x", "n[1-2]", "n[2,1]", 1);
    check("", "n[2,1]", "n[2,1]", 2);
    check("SwitchName=s0 Nodes=n1\\", "n1", "n1", 0);
}

#[test]
fn a_switch_below_two_counts_once() {
    let text = "SwitchName=x Switches=a,b\nSwitchName=y Switches=b,c\nSwitchName=a Nodes=n3\nSwitchName=b Nodes=n2\n\
        SwitchName=c Nodes=n1\n";
    check(text, "n[1-3]", "n[3,2,1]", 0);
}

#[test]
fn names_occur_more_than_once_in_a_hostlist() {
    let switches = Switches::parse_topology_conf("SwitchName=a Nodes=n[2,1]").unwrap();
    let order = switches.order(&Hostlist::parse("n1,x,n2,n1,x").unwrap());
    assert_eq!(order, Order { ranks: [2, 0, 3, 1, 4].map(Rank).into(), unknown: 2 });
}

#[test]
fn domains_need_not_be_in_both_files() {
    check("SwitchName=a Nodes=n2,n1", "n[1-2].cluster", "n[2,1].cluster", 0);
    check("SwitchName=a Nodes=n2.x,n1.x,n3.x,n3.y", "n[1-3]", "n[2,1,3]", 1);
    check("SwitchName=a Nodes=n2.x", "n2.y,n1.x", "n2.y,n1.x", 2);
}

#[test]
fn errors_are_reported() {
    refused("\nInclude other.conf", "line 2: Include \"other.conf\": no other file is read: put its lines here");
    refused("include", "line 1: Include \"\": no other file is read: put its lines here");
    refused("---", "line 1: \"---\": expected KEY=VALUE, as in `SwitchName=s0 Nodes=node[1-4]`");
    refused("SwitchName=a Nodes", "line 1: \"Nodes\": expected KEY=VALUE, as in `SwitchName=s0 Nodes=node[1-4]`");
    refused(
        "SwitchName=\"a\"b",
        "line 1: \"SwitchName=\\\"a\\\"b\": expected KEY=VALUE, as in `SwitchName=s0 Nodes=node[1-4]`",
    );
    refused(
        "SwitchName=a Node=b",
        "line 1: the key Node is unknown: the keys are SwitchName, BlockName, RingName, Switches, Nodes",
    );
    refused("SwitchName=a nodes=b Nodes=c", "line 1: Nodes names again what the line has named: keep one");
    refused("SwitchName=a BlockName=b", "line 1: blockname names again what the line has named: keep one");
    refused("Nodes=b", "line 1: nothing is named: begin it with SwitchName=, BlockName= or RingName=");
    refused("SwitchName=a[1-2]", "line 1: \"a[1-2]\": a line defines one switch: give it one name");
    refused(
        "SwitchName= Nodes=b",
        "line 1: the name, character 6: '=' can't be in a name: a node's has letters, digits, `-`, `_`, `.` and `:`",
    );
    refused("SwitchName=\"\" Nodes=b", "line 1: \"\": a line defines one switch: give it one name");
    refused(
        "SwitchName=a Nodes=b[3-1]",
        "line 1: Nodes=, character 3: the range 3-1 runs backwards: write 1-3, or each number",
    );
    refused("SwitchName=a\\\n Nodes=b[1-2", "line 1: Nodes=, character 2: `[` has no `]` behind it: add the `]`");
    refused(
        "SwitchName=a Nodes=b\n\nSwitchName=a Nodes=c",
        "line 3: switch a is defined in line 1 already: rename or remove one",
    );
    refused(
        "SwitchName=a Switches=b[1-2]\nSwitchName=b1",
        "line 1: switch b2 is defined nowhere: add `SwitchName=b2 Nodes=…`, or take it out",
    );
    refused(
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]",
        "line 2: node n2 is at b here and at a in another place: keep one",
    );
    refused("SwitchName=a Nodes=n1,n1", "line 1: node n1 is at a here and at a in another place: keep one");
}

#[test]
fn circles_are_found() {
    let message = |line, names| {
        format!("line {line}: the switches {names} are each below the one before, in a circle: remove one link")
    };
    refused("SwitchName=a Switches=a", &message(1, "a"));
    refused("SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a", &message(1, "a, b, c"));
    refused("SwitchName=r Switches=a\nSwitchName=a Switches=b\nSwitchName=b Switches=a", &message(2, "a, b"));
    // What is only below a cycle is no part of it.
    refused("SwitchName=x Nodes=n\nSwitchName=a Switches=b,x\nSwitchName=b Switches=a", &message(2, "a, b"));
    let long: String = (0..20_000).map(|n| format!("SwitchName=s{n} Switches=s{}\n", (n + 1) % 20_000)).collect();
    refused(&long, &message(1, "s0, s1, s2, s3, s4, s5, s6, s7, …"));
}

#[test]
fn limits_hold() {
    let over = |line, what, max| SwitchesError::Over { line, what, max };
    let nodes = format!("SwitchName=a Nodes=n[1-{}]\nSwitchName=b Nodes=m", NODES_MAX);
    assert_eq!(Switches::parse_topology_conf(&nodes).unwrap_err(), over(2, "nodes", NODES_MAX));
    let links = format!("SwitchName=a Switches=s[1-{LINKS_MAX}]\nSwitchName=b Switches=m");
    assert_eq!(Switches::parse_topology_conf(&links).unwrap_err(), over(2, "names in Switches=", LINKS_MAX));
    let switches: String = (0..=SWITCHES_MAX).map(|n| format!("SwitchName=s{n}\n")).collect();
    let error = Switches::parse_topology_conf(&switches).unwrap_err();
    assert_eq!(error, over(SWITCHES_MAX + 1, "switches", SWITCHES_MAX));
}

#[test]
fn tables_of_racks() {
    let racks = Switches::parse_racks("# node rack\nn3 r1\nn[5-6]\tr2 # two\n\n n1  r1\r\nn2 r2\n").unwrap();
    assert_eq!(in_order(&racks, "n[1-6]").0, "n[3,1,5-6,2,4]");
    assert_eq!((racks.leaf("n1"), racks.leaf("n2"), racks.leaf("n4")), (Some("r1"), Some("r2"), None));
    for (text, message) in [
        ("n1 r1\nn2", "line 2: 1 columns: write a node and its rack, with a blank between"),
        ("n1 r1 x", "line 1: 3 columns: write a node and its rack, with a blank between"),
        ("n1 r1\nn1 r2", "line 2: node n1 is at r2 here and at r1 in another place: keep one"),
        ("n[ r1", "line 1: the first column, character 2: `[` has no `]` behind it: add the `]`"),
        ("n1 r[1-2]", "line 1: \"r[1-2]\": a line defines one switch: give it one name"),
    ] {
        assert_eq!(Switches::parse_racks(text).unwrap_err().to_string(), message, "{text}");
    }
}

/// Returns the text of a tree of switches with nodes `n0`, `n1`, …, each at its leaf in `leaves`; the parent
/// of switch `s` is below `s`.
fn conf(parents: &[usize], leaves: &[usize]) -> String {
    let line = |switch: usize| {
        let list = |letter: char, at: &[usize], from: usize| {
            let names = (from..at.len()).filter(|&child| at[child] % (child.max(1)).min(parents.len()) == switch);
            names.map(|child| format!("{letter}{child}")).collect::<Vec<_>>().join(",")
        };
        let here = (0..leaves.len()).filter(|&node| leaves[node] % parents.len() == switch);
        let here = here.map(|node| format!("n{node}")).collect::<Vec<_>>().join(",");
        format!("SwitchName=s{switch} Switches=\"{}\" Nodes=\"{here}\"\n", list('s', parents, 1))
    };
    (0..parents.len()).map(line).collect()
}

/// Returns the switches from `switch` up to the top.
fn path_up(parents: &[usize], mut switch: usize) -> Vec<usize> {
    let mut way = Vec::from([switch]);
    while switch > 0 {
        switch = parents[switch] % switch.min(parents.len());
        way.push(switch);
    }
    way
}

proptest! {
    #[test]
    fn what_shares_a_switch_is_together(
        parents in vec(0usize..100, 1..12),
        leaves in vec(0usize..100, 0..40),
        hosts in vec(0usize..50, 0..60),
    ) {
        let switches = Switches::parse_topology_conf(&conf(&parents, &leaves)).unwrap();
        let list = Hostlist::from_names(hosts.iter().map(|host| format!("n{host}"))).unwrap();
        let Order { ranks, unknown } = switches.order(&list);

        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        prop_assert!(sorted.into_iter().eq((0..hosts.len() as u32).map(Rank)));
        let (known, rest) = ranks.split_at(ranks.len() - unknown);
        prop_assert!(rest.is_sorted());
        prop_assert!(rest.iter().all(|rank| hosts[rank.0 as usize] >= leaves.len()));

        let ways: Vec<_> = known.iter().map(|rank| path_up(&parents, leaves[hosts[rank.0 as usize]] % parents.len())).collect();
        for (switch, _) in parents.iter().enumerate() {
            let below: Vec<usize> = (0..ways.len()).filter(|&at| ways[at].contains(&switch)).collect();
            prop_assert!(below.is_empty() || below[below.len() - 1] - below[0] + 1 == below.len());
        }
        for (rank, way) in known.iter().zip(&ways) {
            let leaf = format!("s{}", way[0]);
            prop_assert_eq!(switches.leaf(&list.name(*rank).unwrap()), Some(leaf.as_str()));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "((SwitchName|Nodes|Switches|BlockName|Include)?=?[ab1\"#\\\\\\[\\]\n =]{0,3}){0,10}") {
        let _ = Switches::parse_topology_conf(&text);
        let _ = Switches::parse_racks(&text);
    }
}
