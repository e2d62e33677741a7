//! Several processes that work on the same files, plans of which are drawn from seeds: each operation has the result
//! that it has without Headwater, and the resulting files are the same.
//!
//! A difference is shrunk, and shown as the smallest plan that has it, whose operations `tests/programs/several`
//! explains. A block of seeds that is always the same is run; `HEADWATER_TEST_SEED=N` begins with another seed, and
//! `HEADWATER_TEST_PROGRAMS=N` runs so many, from one that was not tried before.

mod plan;
mod races;
mod run;

use std::time::{Duration, Instant, SystemTime};

use headwater_tests::harness::{Mechanism, skipped};

use self::plan::{Plan, Random};
use self::run::Ground;

/// How many seeds there are in the fixed block.
const FIXED: u64 = 20;
const SHRINK_TIME_MAX: Duration = Duration::from_secs(60);
const OPERATIONS: usize = 150;
/// How many races of several nodes there are in a session.
const RACES: usize = 150;

/// Plans of bugs that have been fixed.
const KNOWN: [&str; 14] = [
    // A write through a link changes the file to which it leads, known or not, made by the job or not.
    "1 whole a; 0 open 1 l rw; 0 write 1 100 0 3; 1 whole a",
    "1 whole a; 1 whole k; 0 open 1 k rw; 0 write 1 100 0 3; 1 whole a; 1 whole l",
    "1 whole e/a; 0 open 1 dl/a rw; 0 write 1 100 0 3; 1 whole e/a; 0 unlink dl/a; 1 list e",
    "1 whole a; 0 chmod l 644; 1 stat a; 0 time k 7; 1 stat a; 0 truncate l 10; 1 whole a",
    "1 whole a; 0 mkdir q; 0 symlink ../a q/l; 0 open 1 q/l wo; 0 write 1 100 0 9; 1 whole a",
    "1 whole new; 1 list .; 0 symlink new q; 0 open 1 q wo+creat; 0 write 1 9 0 9; 1 whole new; 1 list .",
    "1 whole a; 0 open 1 ../../out/a rw; 0 write 1 100 0 3; 1 whole a; 0 unlink ../../out/b; 1 list .",
    // A file has other names.
    "1 whole a; 0 open 1 e/n rw+append; 0 write 1 5000 0 1; 1 whole a; 0 cp a x; 1 whole x",
    // An open file shows the file's present content, and that of no other file that has its number or its name by now.
    "1 open 1 a ro; 0 chmod a 640; 1 fstat 1; 1 same 1 a; 0 time a 9; 1 fstat 1; 1 same 1 l",
    "1 open 1 a ro; 0 rename a d/q; 0 open 1 d/q rw; 0 write 1 9 0 3; 1 fstat 1; 1 pread 1 99 0",
    "1 open 1 a ro; 1 pread 1 9 0; 0 unlink e/n; 0 unlink a; 0 open 1 a wo+creat; 0 write 1 9 0 3; 1 fstat 1; 1 pread 1 99 0",
    "1 open 1 b ro; 0 unlink b; 0 open 1 b wo+creat; 0 write 1 9 0 3; 1 lock 1 0; 1 pread 1 99 0; 1 fstat 1",
    "1 open 1 a ro; 0 rename b a; 1 time l 5; 1 stat a; 1 fstat 1; 1 whole a",
    "1 open 1 a ro; 1 reopen 1 2 rw; 1 write 2 100 0 3; 1 whole a; 1 pread 1 200 0",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn explain(ground: &Ground, plan: &Plan, difference: &str) -> String {
    let end = Instant::now() + SHRINK_TIME_MAX;
    let mut best = plan.clone();
    let mut part = best.operations.len() / 2;
    while part > 0 && Instant::now() < end {
        let smaller = best.without_parts(part).find(|plan| Instant::now() < end && ground.differs(plan));
        match smaller {
            Some(smaller) => best = smaller,
            None => part /= 2,
        }
    }
    let shrunk = ground.compare(&best).err().unwrap_or_default();
    format!("{difference}\nshrunk:\n{}\n{shrunk}", best.operations.join("\n"))
}

fn check(via: Mechanism, seeds: std::ops::Range<u64>) {
    let ground = Ground::new(via);
    for seed in seeds {
        let plan = Plan::drawn(&mut Random::new(seed), OPERATIONS);
        if let Err(difference) = ground.compare(&plan) {
            println!("again: HEADWATER_TEST_SEED={seed} HEADWATER_TEST_PROGRAMS=1 and the same test");
            panic!("seed {seed}: {}", explain(&ground, &plan, &difference));
        }
    }
}

fn generated(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let (seed, programs) = (number("HEADWATER_TEST_SEED"), number("HEADWATER_TEST_PROGRAMS"));
    if seed.is_some() || programs.is_some() {
        let first = seed.unwrap_or_else(new_seed);
        return check(via, first..first + programs.unwrap_or(1));
    }
    check(via, 0..FIXED);
}

/// A seed that was not tried before.
fn new_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    since.as_millis() as u64
}

#[test]
fn drawn_by_audit() {
    generated(Mechanism::Audit);
}

#[test]
fn drawn_by_namespace() {
    generated(Mechanism::Namespace);
}

/// Races of several nodes: with a block that is always the same, or those of other seeds.
fn raced(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let (seed, sessions) = (number("HEADWATER_TEST_SEED"), number("HEADWATER_TEST_PROGRAMS"));
    let first = seed.unwrap_or_else(|| if sessions.is_some() { new_seed() } else { 0 });
    for seed in first..first + sessions.unwrap_or(1) {
        [1, 3].iter().for_each(|&writers| races::race(via, seed, RACES, writers));
    }
}

#[test]
fn raced_by_audit() {
    raced(Mechanism::Audit);
}

#[test]
fn raced_by_namespace() {
    raced(Mechanism::Namespace);
}

#[test]
fn known() {
    for via in [Mechanism::Audit, Mechanism::Namespace] {
        if let Err(reason) = via.check() {
            skipped(reason);
            continue;
        }
        let ground = Ground::new(via);
        for text in KNOWN {
            let difference = ground.compare(&Plan::known(text)).err();
            assert!(difference.is_none(), "{text}: {}", difference.unwrap_or_default());
        }
    }
}
