use alloc::format;
use alloc::string::ToString;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{GROUPS_MAX, RANGES_MAX};
use super::*;

fn names(list: &Hostlist) -> Vec<String> {
    list.iter().collect()
}

fn check(text: &str, expected: &[&str]) {
    let list = Hostlist::parse(text).unwrap();
    assert_eq!(names(&list), expected, "{text}");
    assert_eq!(list.len(), expected.len(), "{text}");
}

/// The output of `scontrol show hostnames` of Slurm 22.05 for these.
#[test]
fn expressions_mean_what_they_mean_in_slurm() {
    check("", &[]);
    check(" ,\t\n", &[]);
    check("login", &["login"]);
    check("a,,b", &["a", "b"]);
    check(" a  b,\tc,\n", &["a", "b", "c"]);
    check(
        "rack[1-2]n[01-03],a[9-11]",
        &["rack1n01", "rack1n02", "rack1n03", "rack2n01", "rack2n02", "rack2n03", "a9", "a10", "a11"],
    );
    check("a[09-10]", &["a09", "a10"]);
    check("a[9-10]", &["a9", "a10"]);
    check("a[00-1]", &["a00", "a01"]);
    check("a[1-010]", &["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10"]);
    check("a[098-101]", &["a098", "a099", "a100", "a101"]);
    check("a[01-03,5-7]", &["a01", "a02", "a03", "a5", "a6", "a7"]);
    check("a[1-2][3-4]", &["a13", "a14", "a23", "a24"]);
    check("a[1-2]b[3-4]c[5-6]", &["a1b3c5", "a1b3c6", "a2b3c5", "a2b3c6", "a1b4c5", "a1b4c6", "a2b4c5", "a2b4c6"]);
    check("a[1-2]b[3-4]c[5]", &["a1b3c5", "a2b3c5", "a1b4c5", "a2b4c5"]);
    check("a[1]b[3-4]c[5-6]", &["a1b3c5", "a1b3c6", "a1b4c5", "a1b4c6"]);
    check("a[1-2],a[1-2]", &["a1", "a2", "a1", "a2"]);
    check("[1-3],7", &["1", "2", "3", "7"]);
    check("n[1-2] [3-4]", &["n1", "n2", "3", "4"]);
    check("a-b[1-2]", &["a-b1", "a-b2"]);
    check("a[18446744073709551615]", &["a18446744073709551615"]);
    check("lx[15,18,32-33]", &["lx15", "lx18", "lx32", "lx33"]);
    check("tux[0-3,12,18-20]", &["tux0", "tux1", "tux2", "tux3", "tux12", "tux18", "tux19", "tux20"]);
}

#[test]
fn expressions_beyond_slurm() {
    check("n[1-3]-ib", &["n1-ib", "n2-ib", "n3-ib"]);
    check("n[1-2].x[3].y", &["n1.x3.y", "n2.x3.y"]);
    check("n[1-2]0", &["n10", "n20"]);
    check("a[ 1 , 2 - 3 ]", &["a1", "a2", "a3"]);
    check("fe80::[1-2]", &["fe80::1", "fe80::2"]);
}

#[test]
fn names_are_made_one_by_one() {
    let list = Hostlist::parse("a[1-1000]b[1-1000],c").unwrap();
    assert_eq!(list.len(), 1_000_001);
    assert_eq!(list.name(Rank(999_999)).as_deref(), Some("a1000b1000"));
    assert_eq!(list.name(Rank(1_000_000)).as_deref(), Some("c"));
    assert_eq!(list.name(Rank(1_000_001)), None);
    let mut iter = list.iter();
    assert_eq!((iter.nth(1001).as_deref(), iter.len()), (Some("a2b2"), 998_999));
    assert_eq!((iter.next_back().as_deref(), iter.next_back().as_deref()), (Some("c"), Some("a1000b1000")));
    assert_eq!((iter.nth(usize::MAX), iter.next(), iter.next_back()), (None, None, None));
    assert!(Hostlist::default().is_empty() && Hostlist::default().name(Rank(0)).is_none());
}

fn check_print(list: &[&str], printed: &str) {
    let folded = Hostlist::from_names(list).unwrap();
    assert_eq!(folded.to_string(), printed);
    assert_eq!(names(&folded), list);
}

#[test]
fn names_are_folded_in_their_order() {
    check_print(&[], "");
    check_print(&["a"], "a");
    check_print(&["n1", "n2", "n3", "n7"], "n[1-3,7]");
    check_print(&["n08", "n09", "n10"], "n[08-10]");
    check_print(&["n8", "n9", "n10"], "n[8-10]");
    check_print(&["n3", "n2", "n1"], "n[3,2,1]");
    check_print(&["n1", "n1"], "n[1,1]");
    check_print(&["n1", "m1", "n2"], "n1,m1,n2");
    check_print(&["n1-ib0", "n2-ib0", "n3-ib0"], "n[1-3]-ib0");
    check_print(&["r1n1", "r1n2", "r2n1", "r2n2", "r3n1"], "r[1-2]n[1-2],r3n1");
    check_print(&["r1n1", "r2n1", "r1n2", "r2n2"], "r[1-2]n1,r[1-2]n2");
    check_print(&["r1n1", "r1n2", "r2n1", "r2n3"], "r1n[1-2],r2n[1,3]");
    check_print(&["a1b1c1", "a1b1c2", "a1b2c1", "a1b2c2", "a2b1c1", "a2b1c2"], "a1b[1-2]c[1-2],a2b1c[1-2]");
    check_print(&["1", "2", "login"], "[1-2],login");
}

#[test]
fn expressions_are_folded_too() {
    for (text, folded) in [
        ("rack[1-4]n[01-16]", "rack[1-4]n[01-16]"),
        ("rack1n[01-16],rack2n[01-16]", "rack[1-2]n[01-16]"),
        ("a[1-2][3-4]", "a[13-14,23-24]"),
        ("a[1-2]b[3-4]c[5-6]", "a[1-2]b[3-4]c[5-6]"),
        ("a[1-2]b[3-4]c[5]", "a[1-2]b3c5,a[1-2]b4c5"),
        ("a[1-2]b[3-4]c[5-6]d[7-8]x9", "a[1-2]b[3-4]c[5-6]d[7-8]x9"),
        ("n[1,2,3]0", "n[10,20,30]"),
        ("x1,x2,x3", "x[1-3]"),
    ] {
        let list = Hostlist::parse(text).unwrap();
        assert_eq!(
            (list.folded().to_string().as_str(), list.to_string().as_str()),
            (folded, text.replace("1,2,3", "1-3").as_str())
        );
        assert_eq!(list.folded(), list);
    }
}

#[test]
fn folding_respects_the_limits_of_reading() {
    let odd: Vec<String> = (0..=RANGES_MAX).map(|n| format!("n{}", 2 * n)).collect();
    let list = Hostlist::from_names(&odd).unwrap();
    assert_eq!(names(&Hostlist::parse(&list.to_string()).unwrap()), odd);
    let deep = ["a1b1c1d1e1f1g1h1i1", "a2b1c1d1e1f1g1h1i1", "a2b2c1d1e1f1g1h1i1", "a3b2c1d1e1f1g1h1i1"];
    let list = Hostlist::from_names(deep).unwrap();
    assert_eq!(list.to_string(), "a1b1c1d1e1f1g1h1i1,a2b[1-2]c1d1e1f1g1h1i1,a3b2c1d1e1f1g1h1i1");
    assert_eq!(names(&Hostlist::parse(&list.to_string()).unwrap()), deep);
    assert_eq!(deep[0].matches(|c: char| c.is_ascii_digit()).count(), GROUPS_MAX + 1);
}

#[test]
fn names_without_end_are_folded_as_they_come() {
    let list = Hostlist::from_names((0..100_000).map(|n| format!("r{}n{}-ib0", n / 1000, n % 1000))).unwrap();
    assert_eq!(list.to_string(), "r[0-99]n[0-999]-ib0");
}

#[test]
fn a_wrong_name_of_a_list_is_reported() {
    for (list, line, column, problem) in [
        (&["a", ""][..], 2, 1, Problem::Empty),
        (&["a", "b", "c d"], 3, 2, Problem::Character(' ')),
        (&["a[1-2]"], 1, 2, Problem::Character('[')),
        (&["-a"], 1, 1, Problem::Start('-')),
        (&["a", &"n".repeat(300)], 2, 256, Problem::LongName),
    ] {
        assert_eq!(Hostlist::from_names(list), Err(HostlistError { line, column, problem }));
    }
    let error = Hostlist::from_names((0..=HOSTS_MAX).map(|_| "n")).unwrap_err();
    assert_eq!((error.line, error.problem), (HOSTS_MAX + 1, Problem::Hosts));
}

#[test]
fn a_name_has_its_first_rank() {
    let list = Hostlist::parse("a[1-3],b[01-02]x[5,5],a2,c[1-2][1-12],login").unwrap();
    for (name, rank) in [("a1", 0), ("a2", 1), ("b01x5", 3), ("b02x5", 5), ("c11", 8), ("c112", 19), ("login", 32)] {
        assert_eq!(list.rank_of(name), Ok(Rank(rank)), "{name}");
    }
    for name in ["", "a", "a01", "a4", "b1x5", "b01x", "b01x55", "c", "c1", "logi", "login1", "a1-ib"] {
        assert_eq!(list.rank_of(name), Err(NoRank::Unknown(name.into())), "{name}");
    }
}

#[test]
fn domains_need_not_be_given_on_both_sides() {
    let list = Hostlist::parse("node[1-2],n[3-4].east,n[4-5].west,n5.west,10.0.0.[1-9],7").unwrap();
    for (name, rank) in
        [("node2.cluster", 1), ("n3", 2), ("n4.west", 4), ("n5", 5), ("10.0.0.2", 8), ("7.cluster", 16), ("7", 16)]
    {
        assert_eq!(list.rank_of(name), Ok(Rank(rank)), "{name}");
    }
    for name in ["n3.west", "10", "7.0.0.1", "node3.cluster", ".east", "n6"] {
        assert_eq!(list.rank_of(name), Err(NoRank::Unknown(name.into())), "{name}");
    }
    let (first, other) = ("n4.east".into(), "n4.west".into());
    assert_eq!(list.rank_of("n4"), Err(NoRank::Ambiguous { name: "n4".into(), first, other }));
}

/// Makes similar names, so that there is something to fold.
fn similar_name() -> impl Strategy<Value = String> {
    "[ab_]{0,1}(0|1|2|3|9|00|01|02|09|10|11|99|099|100)([-.:a](0|1|2|3|01|02|10)){0,2}[a-]{0,1}"
}

/// Makes the text of some ranges and their numbers.
fn ranges() -> impl Strategy<Value = (String, Vec<String>)> {
    let range = (0u64..120, 0u64..4, 1usize..4).prop_map(|(low, more, width)| {
        let text = if more == 0 { format!("{low:0width$}") } else { format!("{low:0width$}-{}", low + more) };
        let width = format!("{low:0width$}").len();
        (text, (low..=low + more).map(|number| format!("{number:0width$}")).collect::<Vec<_>>())
    });
    vec(range, 1..4).prop_map(|ranges| {
        let (texts, numbers): (Vec<_>, Vec<_>) = ranges.into_iter().unzip();
        (texts.join(","), numbers.concat())
    })
}

/// Makes the text of an expression and its names, by nested loops.
fn expression() -> impl Strategy<Value = (String, Vec<String>)> {
    ("[ab0-1]{1,2}", vec((ranges(), "[-ab0-1.]{0,2}"), 0..5))
        .prop_filter("small", |(_, groups)| {
            groups.iter().map(|((_, numbers), _)| numbers.len()).product::<usize>() < 300
        })
        .prop_map(|(head, groups)| {
            let text = groups.iter().map(|((ranges, _), tail)| format!("[{ranges}]{tail}")).collect::<String>();
            // From the outermost loop, of the last group but one, over that of the first to that of the last.
            let outer = (0..groups.len().saturating_sub(1)).rev();
            let mut chosen = Vec::from([Vec::<(usize, &String)>::new()]);
            for group in outer.chain(groups.len().checked_sub(1)) {
                let more = |way: &Vec<_>| {
                    groups[group].0.1.iter().map(|n| [&way[..], &[(group, n)]].concat()).collect::<Vec<_>>()
                };
                chosen = chosen.iter().flat_map(more).collect();
            }
            let names = chosen
                .into_iter()
                .map(|mut way| {
                    way.sort_unstable();
                    way.iter().fold(head.clone(), |name, &(group, n)| name + n + &groups[group].1)
                })
                .collect();
            (head.clone() + &text, names)
        })
}

fn first_with_name(names: &[String], name: &str) -> Option<Rank> {
    names.iter().position(|other| other == name).map(|rank| Rank(rank as u32))
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same_list(list in vec(similar_name(), 0..30)) {
        let folded = Hostlist::from_names(&list).unwrap();
        prop_assert_eq!(folded.len(), list.len());
        prop_assert_eq!(&names(&folded), &list);
        let again = Hostlist::parse(&folded.to_string()).unwrap();
        prop_assert_eq!(&names(&again), &list);
        prop_assert!(folded.to_string().len() <= 2 * list.join(",").len());
        let backwards: Vec<String> = folded.iter().rev().collect();
        prop_assert!(backwards.iter().rev().eq(&list));
    }

    #[test]
    fn expressions_mean_nested_loops(parts in vec(expression(), 0..3), wanted in similar_name()) {
        let (texts, expected): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let expected = expected.concat();
        let list = Hostlist::parse(&texts.join(",")).unwrap();
        prop_assert_eq!(list.len(), expected.len());
        prop_assert_eq!(&names(&list), &expected);
        prop_assert_eq!(&names(&Hostlist::parse(&list.to_string()).unwrap()), &expected);
        prop_assert_eq!(&names(&list.folded()), &expected);
        for name in expected.iter().step_by(expected.len() / 10 + 1) {
            prop_assert_eq!(list.rank_of(name).ok(), first_with_name(&expected, name));
        }
        prop_assert_eq!(list.find(&wanted).map(Rank), first_with_name(&expected, &wanted));
    }

    #[test]
    fn products_are_folded_to_one_expression(
        (racks, nodes) in ((1u32..20, 1u32..20), (1u32..20, 1u32..20)),
        width in 1usize..4,
    ) {
        let product = |(first, count): (u32, u32)| (first..=first + count).map(|n| format!("{n:0width$}")).collect::<Vec<_>>();
        let (outer, inner) = (product(racks), product(nodes));
        let list: Vec<String> = outer.iter().flat_map(|r| inner.iter().map(move |n| format!("r{r}n{n}-ib"))).collect();
        let text = |all: &[String]| format!("[{}-{}]", all[0], all[all.len() - 1]);
        let folded = Hostlist::from_names(&list).unwrap();
        prop_assert_eq!(folded.to_string(), format!("r{}n{}-ib", text(&outer), text(&inner)));
    }

    #[test]
    fn distinct_retains_the_first_of_each(list in vec(similar_name(), 0..20)) {
        let distinct = names(&Hostlist::from_names(&list).unwrap().distinct());
        let mut expected: Vec<String> = Vec::new();
        for name in list {
            if !expected.contains(&name) {
                expected.push(name);
            }
        }
        prop_assert_eq!(distinct, expected);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ab019,\\[\\]+/# \n.-]{0,40}") {
        if let Ok(list) = Hostlist::parse(&text) {
            prop_assert_eq!(&Hostlist::parse(&list.to_string()).unwrap(), &list);
        }
    }
}
