//! Some thousand sessions, each with faults of its own.

use headwater_sim::{Until, run, run_seeds};

/// Number of seeds.
const SEEDS: u64 = 2000;

#[test]
fn sessions_with_faults() {
    let total = run_seeds(0, Until::Seeds(SEEDS)).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(total.runs, SEEDS);
    // The faults and features occur.
    assert!(total.musts * 20 > total.requests, "{total:?}");
    assert!(total.faults > 0 && total.corrupt > 0 && total.continued > 0 && total.changed > 0, "{total:?}");
    assert!(total.blocks > 0 && total.hard_links > 0 && total.evictions > 0 && total.forgotten > 0, "{total:?}");
    assert!(total.pushes > 0 && total.generations > 0 && total.restarts > 0 && total.recoveries > 0, "{total:?}");
}

#[test]
fn a_seed_repeats_its_session() {
    for seed in 0..10 {
        assert_eq!(run(seed, false), run(seed, false));
    }
}
