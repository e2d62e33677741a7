//! The units are what systemd understands.

use std::process::Command;

use headwater_tests::harness::{has_program, headwater_binary, nodes, skipped};

/// The units, and the most exposed that `systemd-analyze security` may call each: from 0 to 10, times 10. The mount of
/// `headwater-join` must be seen by all processes, and half of the points are for what needs a mount namespace.
const UNITS: [(&str, u32); 4] = [
    ("headwater-serve.service", 29),
    ("headwater-join.service", 38),
    ("headwater-metrics.service", 29),
    ("headwater-guard.service", 29),
];

#[test]
fn systemd_understands_the_units() {
    if !has_program("systemd-analyze") {
        return skipped("systemd-analyze is not installed");
    }
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    for (unit, _) in UNITS {
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

#[test]
fn the_units_have_few_rights() {
    if !has_program("systemd-analyze") {
        return skipped("systemd-analyze is not installed");
    }
    for (unit, exposure_max) in UNITS {
        let mut analyze = Command::new("systemd-analyze");
        let threshold = format!("--threshold={exposure_max}");
        let file = nodes::project().join("integrations/systemd").join(unit);
        let output = analyze.args(["security", "--offline=true", "--no-pager", &threshold]).arg(file).output();
        let output = output.expect("it is there");
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if printed.contains("unrecognized option") {
            return skipped("this systemd-analyze examines no files");
        }
        assert!(output.status.success(), "{unit}: {printed}");
    }
}
