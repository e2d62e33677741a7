//! What the demonstration measures with Headwater was served by it, and the file server did less.

use std::process::Command;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::demo::Demo;
use headwater_tests::harness::{has_program, headwater_binary, skipped};

#[test]
fn a_measured_start_was_served() {
    if !has_program("python3") {
        return skipped("no python3");
    }
    let programs = headwater_tests::workspace().join("tests/programs/demo");
    let directory = headwater_tests::scratch("demo");
    let software = directory.path().join("software");
    let copied = Command::new("python3").arg(programs.join("copy.py")).arg(&software).output().expect("python3 starts");
    assert!(copied.status.success(), "{copied:?}");
    std::fs::copy(programs.join("start.py"), software.join("start.py")).expect("an own directory");
    if let Err(reason) = Mounted::new(&software, 1, Caching::NONE) {
        return skipped(reason);
    }
    let demo = Demo { headwater: headwater_binary(), software };
    let plain = demo.plain(2).expect("a plain start");
    let (served, summary) = demo.with_headwater(2, "auto").expect("a start with Headwater");
    assert!(served.operations < plain.operations, "{served:?}, {plain:?}\n{summary:#}");
    let error = demo.with_headwater(2, "off").expect_err("nothing is served");
    assert!(error.contains("ran without Headwater: --via off"), "{error}");
}
