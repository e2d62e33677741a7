//! The units are what systemd understands.

use std::process::Command;

use headwater_tests::harness::{has_program, headwater_binary, nodes, skipped};

#[test]
fn systemd_understands_the_units() {
    if !has_program("systemd-analyze") {
        return skipped("systemd-analyze is not installed");
    }
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    for unit in ["headwater-serve.service", "headwater-join.service"] {
        let text = std::fs::read_to_string(nodes::project().join("integrations/systemd").join(unit));
        // The executable has to be at the unit's path, which is set here.
        let text =
            text.expect("the unit is there").replace("/usr/bin/headwater", &headwater_binary().to_string_lossy());
        let copy = directory.path().join(unit);
        std::fs::write(&copy, text).expect("an own directory");
        let mut verify = Command::new("systemd-analyze");
        let output =
            verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&copy).output().expect("it is there");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.is_empty(), "{unit}: {printed}");
    }
}
