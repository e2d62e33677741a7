//! A launcher that is not known, whose program a marker shows.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use headwater_tests::harness::services::Ssh;
use headwater_tests::harness::skipped;

use crate::site::Site;

#[test]
fn a_script_with_ssh() {
    let Some(site) = Site::new() else { return };
    let directory = site.directory("ssh");
    let ssh = match Ssh::start(&site.cluster, &directory) {
        Ok(ssh) => ssh,
        Err(reason) => return skipped(reason),
    };
    let script = directory.join("launch");
    let text = format!(
        "#!/bin/bash\nwords=$(printf ' %q' env PYTHONPATH=\"$PYTHONPATH\" PYTHONDONTWRITEBYTECODE=1 \"$@\")\n\
         for node in node001 node002 node003 node004; do ssh {} root@$node \"$words\" & done\nwait\n",
        ssh.options
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let program: Vec<String> = [script.display().to_string()].into_iter().chain(site.program()).collect();
    let expected = site.plain(&program);
    assert_eq!(expected.status, 0, "{expected:?}");
    let marked: Vec<String> = [script.display().to_string(), "@".into()].into_iter().chain(site.program()).collect();
    let (output, summary) = site.served(&["--marker", "@"], &marked);
    assert_eq!(output, expected);
    assert_eq!(summary["nodes"], 4, "{summary}");
}
