//! Source files that change, grow, are replaced or vanish while a session runs: known content stays as it was, unknown
//! content is as it is now, and nothing is mixed.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Mounting, Program, View, wait_until};
use headwater_tests::model::Content;

use headwater_tests::needs_mounts;

fn text(path: &Path) -> Result<String, i32> {
    fs::read_to_string(path).map_err(|error| error.raw_os_error().unwrap_or(0))
}

/// The change of each file.
const NAMES: [&str; 5] = ["changes", "grows", "shrinks", "replaced", "vanishes"];

fn as_it_was(prefix: &str) -> Fixture {
    let fixture = Fixture::new(prefix);
    for name in NAMES {
        fixture.file(name, "as it was", 0o644);
    }
    fixture
}

fn change_all(fixture: &Fixture, changed: &str) {
    fs::write(fixture.path("changes"), changed).expect("an own file");
    fs::write(fixture.path("grows"), "as it was and more").expect("an own file");
    fs::write(fixture.path("shrinks"), "as").expect("an own file");
    fixture.file("new", "another file", 0o644);
    fs::rename(fixture.path("new"), fixture.path("replaced")).expect("an own file");
    fs::remove_file(fixture.path("vanishes")).expect("an own file");
}

#[test]
fn what_was_read_stays() {
    needs_mounts!();
    let fixture = as_it_was("stays");
    let view = View::of(&fixture.shared());
    for name in NAMES {
        assert_eq!(text(&view.join(name)).as_deref(), Ok("as it was"));
    }
    change_all(&fixture, "something");
    for name in NAMES {
        assert_eq!(text(&view.join(name)).as_deref(), Ok("as it was"), "{name}");
        let copy = Program::new("cat").arg(view.join(name)).run();
        assert_eq!(copy.stdout, "as it was", "{name}");
    }
    view.unmount();
}

/// Attributes are known, content is not: a reader that reads to the end gets the source file's content, whole, although
/// the kernel cached another size.
#[test]
fn what_changed_between_stat_and_read_is_the_source_file_as_it_is() {
    needs_mounts!();
    let fixture = as_it_was("mixed");
    let view = View::of(&fixture.shared());
    for name in NAMES {
        assert_eq!(fs::symlink_metadata(view.join(name)).expect("there").len(), 9);
    }
    change_all(&fixture, "something else");
    for name in NAMES {
        let now = text(&fixture.path(name));
        assert_eq!(text(&view.join(name)), now, "{name}");
        if let Ok(now) = now {
            let size = Program::new("stat").args(["-c", "%s"]).arg(view.join(name)).run();
            assert_eq!(size.stdout.trim(), now.len().to_string(), "{name}");
        }
    }
    let vanished = Program::new("cat").arg(view.join("vanishes")).run();
    assert_ne!(vanished.status, 0, "{vanished:?}");
    view.unmount();
}

#[test]
fn what_appears_after_a_listing_is_not_there_until_a_refresh() {
    needs_mounts!();
    let fixture = Fixture::new("appears");
    fixture.file("dir/old", "old", 0o644);
    let view = View::of(&fixture.shared());
    assert_eq!(fs::read_dir(view.join("dir")).expect("there").count(), 1);
    assert!(!view.join("dir/new").exists());
    fixture.file("dir/new", "new", 0o644);
    fs::remove_file(fixture.path("dir/old")).expect("an own file");
    assert!(!view.join("dir/new").exists(), "a session is a snapshot");
    assert_eq!(fs::read_dir(view.join("dir")).expect("there").count(), 1);
    view.refresh();
    assert_eq!(text(&view.join("dir/new")).as_deref(), Ok("new"));
    assert_eq!(text(&view.join("dir/old")), Err(2));
    view.unmount();
}

#[test]
fn a_big_file_that_changes_between_its_blocks() {
    needs_mounts!();
    let fixture = Fixture::new("bigchange");
    let size = 20u64 << 20;
    let old = Content::noise(1, size);
    fixture.file("big", old.read(0, size), 0o644);
    let view = Mounting::of(&fixture.shared()).option("--whole-file-max").option("1M").mount();
    let file = File::open(view.join("big")).expect("there");
    let mut bytes = vec![0; 4096];
    file.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(bytes, old.read(0, 4096));
    let new = Content::noise(2, size);
    fs::write(fixture.path("big"), new.read(0, size)).expect("an own file");
    // The first block is of the old version. The last one is the old version's too or an error.
    let at = size - 4096;
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => {
            let is_new = bytes == new.read(at, 4096);
            assert!(is_new || bytes == old.read(at, 4096), "bytes that were not written");
            let opens_new = || {
                let mut first = vec![0; 4096];
                let reopened = File::open(view.join("big")).and_then(|file| file.read_exact_at(&mut first, 0));
                reopened.is_err() || first == new.read(0, 4096)
            };
            // The kernel is notified to drop the old version's pages right after the new one's are read.
            assert!(!is_new || wait_until(Duration::from_secs(2), opens_new), "two versions in one file");
        }
        Err(error) => assert_ne!(error.raw_os_error(), Some(0)),
    }
    drop(file);
    view.unmount();
}
