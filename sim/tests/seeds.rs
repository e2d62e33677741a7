//! A few hundred sessions, calm and stormy.

use headwater_sim::{Options, Summary, run};

fn check(options: &Options, seeds: std::ops::Range<u64>) -> Summary {
    let mut total = Summary::default();
    for seed in seeds {
        let summary = run(seed, options).unwrap_or_else(|violation| panic!("{violation}"));
        total.requests += summary.requests;
        total.evictions += summary.evictions;
        total.pushes += summary.pushes;
        total.hard_links += summary.hard_links;
        total.faults += summary.faults;
    }
    total
}

#[test]
fn calm_sessions() {
    let total = check(&Options::calm(), 0..100);
    assert!(total.pushes > 0 && total.hard_links > 0, "{total:?}");
    assert_eq!(total.faults, 0);
}

#[test]
fn stormy_sessions() {
    let total = check(&Options::stormy(), 0..150);
    assert!(total.faults > 0 && total.evictions > 0 && total.hard_links > 0, "{total:?}");
}

#[test]
fn a_seed_repeats_its_session() {
    assert_eq!(run(7, &Options::stormy()), run(7, &Options::stormy()));
}
