//! Small files that the node fetches before they are asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_tests::harness::{Fixture, View, wait_until};
use headwater_tests::needs_mounts;

const FILES: usize = 400;
/// Files that are read before the node has read on by itself.
const FIRST: usize = 40;
/// Of those it has read by itself.
const MORE_MIN: usize = 32;
const READ_AHEAD_MAX: Duration = Duration::from_secs(10);

fn content(number: usize) -> Vec<u8> {
    (0..100 + number * 37).map(|at| (at * 31 + number) as u8).collect()
}

/// Reads these files, and checks each.
fn read(paths: &[PathBuf]) {
    for path in paths {
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        assert!(fs::read(path).expect("a file of the fixture") == content(number), "{}", path.display());
    }
}

/// The directory's files as it lists them, with attributes that the kernel caches from now on.
fn listing(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of the fixture");
    let paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    for path in &paths {
        path.metadata().expect("an entry");
    }
    paths
}

fn files_stored(view: &View) -> usize {
    view.stats()["nodes"]["0"]["holds"]["files"].as_u64().expect("a number of files") as usize
}

#[test]
fn files_that_are_read_in_order_are_fetched_before_they_are_read() {
    needs_mounts!();
    let fixture = Fixture::new("ahead");
    for number in 0..FILES {
        fixture.file(&format!("dir/{number:03}"), content(number), 0o644);
    }
    let view = View::of(&fixture.shared());
    let paths = listing(&view.join("dir"));
    read(&paths[..FIRST]);
    let has_read_on = wait_until(READ_AHEAD_MAX, || files_stored(&view) >= FIRST + MORE_MIN);
    assert!(has_read_on, "the node holds {} files", files_stored(&view));
    read(&paths);
    view.unmount();
}
