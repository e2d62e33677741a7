//! What an operator reads where nothing can be watched.

use std::process::Command;

use headwater_tests::harness::{headwater_binary, is_root, skipped, user};

/// The status and the messages of a guard that ends by itself.
fn ended(precede: &[&str], arguments: &[&str]) -> (Option<i32>, String) {
    let binary = headwater_binary();
    let binary = binary.to_str().expect("its path is UTF-8");
    let line = [precede, &[binary, "guard"], arguments].concat();
    let output = Command::new(line[0]).args(&line[1..]).output().expect("it is there");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let (status, printed) = ended(&[], &["--mount", "/nonexistent"]);
    let expected = "--mount /nonexistent is not there; name a directory of a mounted file system";
    assert!(status == Some(125) && printed.contains(expected), "{printed}");
}

#[test]
fn an_ordinary_user_is_refused_with_the_right_that_is_missing() {
    let precede: &[&str] = if is_root() { &user::ORDINARY } else { &[] };
    if is_root() && !headwater_tests::harness::has_program("setpriv") {
        return skipped("setpriv is not installed");
    }
    let (status, printed) = ended(precede, &["--mount", "/"]);
    assert!(status == Some(125) && printed.contains("CAP_SYS_ADMIN alone: run `headwater guard` as root"), "{printed}");
}

#[test]
fn a_hook_must_be_executable() {
    let (status, printed) = ended(&[], &["--mount", "/", "--command", "/etc/passwd"]);
    let expected = "--command /etc/passwd is not executable: `chmod +x /etc/passwd`";
    assert!(status == Some(125) && printed.contains(expected), "{printed}");
}
