//! Refused accesses stay refused. Root has every permission, so as root the test runs itself again
//! as another user.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use headwater_abi::Kind;
use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use support::{Cluster, elf};

/// The user and group `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn permissions_hold() {
    if !rustix::process::geteuid().is_root() {
        return check_permissions();
    }
    let itself = std::env::current_exe().unwrap();
    let mut again = Command::new(itself);
    again.args(["--exact", "permissions_hold", "--nocapture"]).env("TMPDIR", "/tmp").uid(NOBODY).gid(NOBODY);
    match again.current_dir("/").output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("skipped: another user can't run this test: {error}"),
    }
}

fn check_permissions() {
    let mut cluster = Cluster::prepare();
    for name in ["secret", "hidden/known", "closed/x", "write-only", "read-only"] {
        cluster.write(name, b"text");
    }
    cluster.write("lib.so", &elf(8, 1));
    let shared = cluster.shared("");
    let chmod = |name: &str, mode| {
        std::fs::set_permissions(shared.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let modes = [
        ("secret", 0),
        ("hidden", 0o300),
        ("closed", 0o600),
        ("write-only", 0o200),
        ("read-only", 0o400),
        ("lib.so", 0o444),
    ];
    modes.into_iter().for_each(|(name, mode)| chmod(name, mode));
    cluster.run(2, |_| ());

    for node in [1, 0] {
        for name in ["hidden/known", "hidden/unknown", "closed/x", "secret"] {
            assert_eq!(cluster.ask(node, name, Want::ATTR), Status::Done, "{name}");
        }
        for name in ["secret", "write-only"] {
            assert_eq!(cluster.ask(node, name, Want::WHOLE), Status::Fallback, "{name}: the source has the error");
            assert!(!cluster.nodes[node].copy(&cluster.shared(name)).exists());
        }
        assert_eq!(cluster.ask(node, "read-only", Want::WHOLE), Status::Done);
        // The copy of a read-only file is filled nevertheless, and has the same attributes afterwards.
        for want in [Want::LOADABLE, Want::WHOLE] {
            assert_eq!(cluster.ask(node, "lib.so", want), Status::Done);
        }
        let copy = cluster.nodes[node].copy(&cluster.shared("lib.so"));
        assert!(std::fs::read(&copy).unwrap() == elf(8, 1));
        assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o7777, 0o444);

        let table = cluster.nodes[node].table();
        let record = |name: &str| table.reader().find(cluster.shared(name).as_os_str().as_encoded_bytes()).unwrap();
        assert!(record("hidden").state.contains(State::UNLISTABLE));
        assert_eq!(record("hidden/known").kind, Kind::File);
        assert_eq!(record("hidden/unknown").kind, Kind::Absent);
        assert!(record("secret").state.contains(State::ATTR));
    }
    let table = cluster.nodes[0].table();
    let closed = table.reader().find(cluster.shared("closed/x").as_os_str().as_encoded_bytes()).unwrap();
    assert_eq!((closed.kind, closed.errno), (Kind::Error, 13), "a directory that can't be searched");
    cluster.stop();
    ["secret", "hidden", "closed"].into_iter().for_each(|name| chmod(name, 0o700));
}
