//! Daemons that are killed at any time, of sessions of sixteen.

use std::time::{SystemTime, UNIX_EPOCH};

use headwater_tests::harness::nodes::Nodes;

use crate::site::{NODES, Site, finish, start};

const KILLS: usize = 200;
/// An event while a program runs on each node: a daemon is killed, or one returns that was killed.
const EVENTS_A_ROUND: usize = 100;

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// The seed that HEADWATER_TEST_SEED names, or one of the time.
fn seed() -> u64 {
    let named = std::env::var("HEADWATER_TEST_SEED").ok().and_then(|text| text.parse().ok());
    named.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64))
}

#[test]
fn every_program_survives() {
    let Some(site) = Site::new() else { return };
    let seed = seed();
    println!("repeat: HEADWATER_TEST_SEED={seed}");
    let mut random = Random(seed);
    let expected = site.expected();
    let mut kills = 0;
    while kills < KILLS {
        let mut nodes = Nodes::start(&site.cluster, &site.plan());
        site.reset();
        let running = start(&nodes, 0..NODES, &site.program());
        for number in 0..EVENTS_A_ROUND {
            site.await_progress(0.9 * number as f64 / EVENTS_A_ROUND as f64);
            let rank = random.below(NODES);
            if nodes.is_up(rank) {
                nodes.kill_daemon(rank);
                kills += 1;
            } else {
                nodes.begin_join(rank);
            }
        }
        finish(running, &expected);
        nodes.await_all_ready();
        let living: Vec<usize> = (0..NODES).filter(|&rank| nodes.is_up(rank)).collect();
        finish(start(&nodes, living, &site.program()), &expected);
        nodes.stop();
    }
    println!("{kills} daemons were killed");
}
