//! Checks of the cache.

use std::path::Path;

use headwater_cache::Usage;
use headwater_figures::text::size;
use rustix::fs::Access;

use super::check::Check;
use super::network;

/// The smallest useful cache, in bytes.
const CACHE_BYTES_MIN: u64 = 256 << 20;
const NAME: &str = "cache";
/// What to do about a directory that is no good.
const ANOTHER: &str = "name a directory on a local disk with --cache, in which this user may write";

/// Checks the directory that is named for the cache.
pub fn cache(named: Option<&Path>, bytes_max: Option<u64>) -> Check {
    let Some(dir) = named.filter(|dir| !dir.as_os_str().is_empty()) else {
        return Check::ok(NAME, "none: with --cache DIR, later sessions fetch only what has changed");
    };
    let Some(parent) = dir.ancestors().find(|above| above.exists()) else {
        return Check::warning(NAME, format!("{} is not there", dir.display()), ANOTHER);
    };
    let usage = match Usage::of(parent, bytes_max) {
        Ok(usage) => usage,
        Err(error) => return Check::warning(NAME, format!("it can't be used: {error}"), ANOTHER),
    };
    let found = format!(
        "{}, {} in {} contents, of at most {}",
        dir.display(),
        size(usage.bytes),
        usage.contents,
        size(usage.bytes_max)
    );
    let place = if usage.directory.exists() { &usage.directory } else { parent };
    if let Err(errno) = rustix::fs::access(place, Access::WRITE_OK | Access::EXEC_OK) {
        Check::warning(NAME, format!("{} can't be written to: {errno}", place.display()), ANOTHER)
    } else if let Some(kind) = network::shared_type(place) {
        let next = "name a directory on a local disk with --cache: nodes would ask the shared file system for content";
        Check::warning(NAME, format!("{found}, on {kind}, which nodes share"), next)
    } else if usage.bytes_max < CACHE_BYTES_MIN {
        Check::warning(NAME, found, "make room there, or raise --cache-max")
    } else {
        Check::ok(NAME, found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::check::CheckResult;
    use super::*;

    #[test]
    fn a_cache_needs_a_directory_and_room() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let of = |bytes_max| cache(Some(&dir.path().join("new")), bytes_max);
        assert_eq!(of(Some(1 << 40)).verdict, CheckResult::Ok, "{:?}", of(Some(1 << 40)));
        assert!(of(Some(1 << 40)).found.contains("0 B in 0 contents, of at most 1"), "{:?}", of(Some(1 << 40)));
        assert_eq!(of(Some(1 << 20)).verdict, CheckResult::Warning);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is created");
        for none in [None, Some(Path::new(""))] {
            assert_eq!(cache(none, None).verdict, CheckResult::Ok);
        }
    }

    #[test]
    fn what_is_no_use_is_worth_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(format!("headwater-{}", rustix::process::geteuid().as_raw()));
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (dir, why) in [(dir.path(), "is open to other users"), (&*file, "can't be used")] {
            let check = cache(Some(dir), None);
            assert!(check.verdict == CheckResult::Warning && check.found.contains(why), "{check:?}");
            assert!(check.next.is_some_and(|next| next.contains("--cache")));
        }
    }
}
