//! A request waits for its own file alone.

use std::fs;
use std::time::Duration;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Program, View, is_running, skipped, wait_until};
use headwater_tests::needs_mounts;

/// How long the shared file system takes to open the slow file: ample for everything else.
const SLOW: Duration = Duration::from_secs(5);

#[test]
fn no_request_waits_for_anothers_file() {
    needs_mounts!();
    let fixture = Fixture::new("waiting");
    for name in ["slow", "known", "new"] {
        fixture.file(&format!("data/{name}"), name, 0o644);
    }
    fixture.file("beside/file", "beside", 0o644);
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 60_000, pages: true }) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let view = View::of(mounted.path());
    assert_eq!(fs::read(view.join("data/known")).expect("there"), b"known");
    assert_eq!(fs::metadata(view.join("data/slow")).expect("there").len(), 4);
    let opens = |mounted: &mut Mounted| mounted.counts()["total"]["open"].as_u64().unwrap_or(0);
    let before = opens(&mut mounted);
    mounted.set_delay("open", SLOW);
    let slow: Vec<_> = (0..4).map(|_| Program::new("cat").arg(view.join("data/slow")).start()).collect();
    assert!(wait_until(SLOW, || opens(&mut mounted) > before), "the slow file is being opened");
    mounted.set_delay("open", Duration::ZERO);
    // Stored files, an absent name, another directory's names, and the slow file's attributes.
    assert_eq!(fs::read(view.join("data/known")).expect("there"), b"known");
    assert_eq!(fs::read(view.join("data/new")).expect("there"), b"new");
    assert!(!view.join("data/absent").exists());
    assert_eq!(fs::read_dir(view.join("beside")).expect("there").count(), 1);
    assert_eq!(fs::read(view.join("beside/file")).expect("there"), b"beside");
    assert_eq!(fs::metadata(view.join("data/slow")).expect("there").len(), 4);
    assert!(slow.iter().all(|cat| is_running(cat.pid().as_raw_pid())), "all earlier requests were still waiting");
    for cat in slow {
        assert_eq!(cat.finish().stdout, "slow");
    }
    assert_eq!(opens(&mut mounted) - before, 3, "each file is opened once");
    view.unmount();
}
