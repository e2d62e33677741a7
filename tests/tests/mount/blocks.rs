//! Files over the limit travel in blocks, and only those that are read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Mechanism, Mounting, Program, skipped, wait_until};
use headwater_tests::model::Content;
use serde_json::Value;

use headwater_tests::needs_mounts;

const BLOCK: u64 = 4 << 20;
const SIZE: u64 = 100 << 20;

fn fixture() -> (Fixture, Content) {
    let fixture = Fixture::new("blocks");
    let content = Content::noise(6, SIZE);
    let file = File::create(fixture.path("big")).expect("an own directory");
    for at in (0..SIZE).step_by(BLOCK as usize) {
        file.write_all_at(&content.read(at, BLOCK), at).expect("room for 100 MB");
    }
    (fixture, content)
}

/// Otherwise nodes read large files from their source if that is faster, and a node that is alone always does.
const STORED: &str = "--stored-file-max=1G";

fn bytes_read(counts: &Value) -> u64 {
    counts["bytes_read"].as_u64().expect("a count")
}

#[test]
fn only_what_is_read_travels() {
    needs_mounts!();
    let (fixture, content) = fixture();
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let view = Mounting::of(mounted.path()).option("--whole-file-max=16M").option(STORED).mount();
    let file = File::open(view.join("big")).expect("there");
    // Offsets that are far apart and no sequence: there is nothing to read ahead.
    let offsets = [70 << 20, 10 << 20, 40 << 20];
    for (number, &at) in offsets.iter().enumerate() {
        let mut bytes = vec![0; 5000];
        file.read_exact_at(&mut bytes, at).expect("read");
        assert_eq!(bytes, content.read(at, 5000), "at {at}");
        let counts = mounted.counts();
        let blocks = number as u64 + 1;
        let read = bytes_read(&counts);
        assert!((1..=2 * blocks * BLOCK).contains(&read), "{read} bytes for {blocks} blocks");
    }
    // The rest of the last block may still be on its way.
    let mut before = bytes_read(&mounted.counts());
    let is_settled = wait_until(Duration::from_secs(10), || {
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut before, bytes_read(&mounted.counts())) == before
    });
    assert!(is_settled, "blocks are read again and again");
    for &at in &offsets {
        let mut bytes = vec![0; 100_000];
        file.read_exact_at(&mut bytes, at + 100_000).expect("read");
        assert_eq!(bytes, content.read(at + 100_000, 100_000));
    }
    assert_eq!(bytes_read(&mounted.counts()), before, "the same blocks were read again");
    drop(file);
    view.unmount();
}

#[test]
fn a_big_file_read_by_all_nodes_is_read_once() {
    needs_mounts!();
    let (fixture, _) = fixture();
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let plain = Program::new("cksum").arg(fixture.path("big")).run();
    let sum = plain.stdout.split(' ').next().expect("a sum");
    let program = Program::new("cksum").arg(mounted.path().join("big"));
    let session = Headwater::new(mounted.path()).via(Mechanism::Namespace).on(4, 2).option(STORED);
    // The nodes of this test share the kernel's pages of the file, which each reader's opening drops.
    let session = session.option("--readers=1").run(&program);
    assert_eq!(session.output.stdout.matches(sum).count(), 8, "{:?}", session.output);
    let counts = mounted.counts();
    assert_eq!(counts["paths"]["big"]["open"], 1, "{counts:#}");
    assert_eq!(session.summary["shared_fs"]["bytes_read"], SIZE, "each byte once: {:#}", session.summary);
    // On a busy machine, the kernel of the reader's node fetches single pages twice.
    let twice = bytes_read(&counts) - SIZE;
    assert!(twice <= 64 << 10, "{counts:#}");
}

#[test]
fn blocks_that_several_processes_read_at_random() {
    needs_mounts!();
    let (fixture, _) = fixture();
    let script = r#"
        for n in $(seq 40); do
            at=$(( (n * 7919 + $2 * 104729) % 25600 ))
            dd if="$1" bs=4096 skip=$at count=3 status=none | cksum
        done"#;
    let all = |processes: usize| {
        let one = |seed: usize| {
            format!(
                "sh -c '{script}' sh {} {seed} > {}/$$.{seed} &",
                fixture.path("big").display(),
                fixture.outside("").display()
            )
        };
        let started: String = (0..processes).map(one).collect();
        let out = fixture.outside("").display().to_string();
        Program::shell(&format!(
            "{started} wait; for s in $(seq 0 {}); do cat {out}/*.$s; done; rm {out}/*.[0-9]",
            processes - 1
        ))
    };
    fixture.headwater().via(Mechanism::Namespace).option(STORED).same(&all(6));
    fixture.headwater().via(Mechanism::Mount).option("--store-max=24M").option(STORED).same_output(&all(3));
    // By a node that is alone, from the source file.
    fixture.headwater().via(Mechanism::Namespace).same_output(&all(6));
}
