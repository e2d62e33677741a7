//! Pynamic, small.

use std::path::Path;

use headwater_tests::harness::{Program, has_program, skipped};
use headwater_tests::pynamic::Plan;

const SMALL: Plan = Plan { modules: 6, utilities: 4, functions: 10, code_bytes: 40_000, unloaded_bytes: 60_000 };

#[test]
fn all_functions_are_called() {
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let directory = headwater_tests::scratch("pynamic");
    let args = match SMALL.build(&directory.path().join("libraries"), Path::new("python3")) {
        Err(reason) if reason.contains("python3-dev") => return skipped(reason),
        built => built.unwrap(),
    };
    let output = Program::new(&args[0]).args(&args[1..]).run();
    assert_eq!(output.status, 0, "{output:?}");
    let printed: Vec<&str> = output.stdout.split_whitespace().collect();
    let ["startup", startup, "import", import, "visit", visit, "checksum", checksum] = printed[..] else {
        panic!("{output:?}")
    };
    for seconds in [startup, import, visit] {
        assert!((0.0..60.0).contains(&seconds.parse().unwrap()), "{output:?}");
    }
    assert_eq!(checksum, SMALL.checksum());
    let bytes = |name: &str| directory.path().join("libraries").join(name).metadata().unwrap().len();
    let least = (SMALL.code_bytes + SMALL.unloaded_bytes) as u64;
    assert!(bytes("module5.so") > least && bytes("libutility3.so") > least);
}
