//! The readers of a site export, as this node reaches them.

use std::thread;
use std::time::Duration;

use headwater_abi::wire::RELEASE;
use headwater_overlay::probe;

use crate::doctor::check::Check;
use crate::site_export::site::Site;

/// How long a reader may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Readers that are examined at the same time.
const AT_ONCE_MAX: usize = 32;

/// Checks whether each other reader can be reached, proves the key, and has this release.
pub fn check(site: &Site) -> Vec<Check> {
    let readers = site.readers();
    let results: Vec<Result<String, String>> =
        readers.chunks(AT_ONCE_MAX).flat_map(|some| examine(site, some)).collect();
    judge(&readers, &results)
}

fn examine(site: &Site, readers: &[(String, String)]) -> Vec<Result<String, String>> {
    let died = || Err("it could not be examined".to_owned());
    thread::scope(|scope| {
        let (session, key) = (site.identity(), site.key());
        let begun = readers.iter().map(|(_, address)| scope.spawn(move || probe(address, session, key, TIMEOUT)));
        let begun: Vec<_> = begun.collect();
        begun.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).collect()
    })
}

/// Returns a line for each reader that lacks something, and one for all others.
fn judge(readers: &[(String, String)], results: &[Result<String, String>]) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut well = 0;
    for ((name, address), result) in readers.iter().zip(results) {
        match result {
            Ok(release) if release == RELEASE => well += 1,
            Ok(release) => checks.push(Check::missing(
                "reader",
                format!("{name} ({address}) proves the key, and has release {release}; this node has {RELEASE}"),
                "install one release on all nodes",
            )),
            Err(why) => checks.push(Check::missing(
                "reader",
                format!("{name} ({address}): {why}"),
                format!("on {name}, `headwater doctor --site` and `systemctl status headwater-serve`"),
            )),
        }
    }
    if well > 0 {
        checks.push(Check::ok("readers", format!("{well} of {} prove the key, with release {RELEASE}", readers.len())));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::CheckResult;

    #[test]
    fn each_reader_that_lacks_something_has_a_line() {
        let reader = |name: &str| (name.to_owned(), format!("{name}:7"));
        let readers = ["io1", "io2", "io3", "io4"].map(reader);
        let results = [Ok(RELEASE.to_owned()), Err("no answer".into()), Ok("0.0".into()), Ok(RELEASE.to_owned())];
        let checks = judge(&readers, &results);
        let found: Vec<&str> = checks.iter().map(|check| &*check.found).collect();
        assert_eq!(found[0], "io2 (io2:7): no answer");
        assert!(found[1].contains("io3 (io3:7) proves the key, and has release 0.0"), "{}", found[1]);
        assert!(found[2].starts_with("2 of 4 prove the key"), "{}", found[2]);
        let verdicts: Vec<CheckResult> = checks.iter().map(|check| check.verdict).collect();
        assert_eq!(verdicts, [CheckResult::Missing, CheckResult::Missing, CheckResult::Ok]);
        assert!(judge(&[], &[]).is_empty(), "a site's only reader has no other");
    }
}
