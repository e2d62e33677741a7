//! A program that was written for Spindle, unchanged.

use headwater_tests::harness::Mechanism;

use crate::calls::Site;

#[test]
fn a_program_for_spindle_runs_unchanged() {
    let Some(mut site) = Site::new() else { return };
    let program = site.build("spindle.c", &["-I{include}/headwater/spindle"]);
    let arguments = ["@/one", "@/link"];
    let expected = |present: u8, enabled: u8| {
        let lines = [&format!("present: {present}"), &format!("enabled: {enabled}"), "open: one", "fopen: one"];
        lines.into_iter().chain(["stat: 3", "lstat: 3"]).map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(site.run(None, &program, &arguments).0, expected(0, 0));
    for via in Mechanism::ALL {
        let enabled = if via == Mechanism::Audit { 2 } else { 0 };
        let (lines, counts) = site.run(Some(via), &program, &arguments);
        assert_eq!((lines, counts), (expected(1, enabled), [1, 0, 0]), "{via:?}");
    }
}
