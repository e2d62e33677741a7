//! A FUSE file system, whose files have no identity: the kernel opens files for the guard.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{has_program, headwater_binary, skipped};
use headwater_tests::needs_root;

/// The most operations that the guard may add, for each second.
const ADDED_PER_SECOND_MAX: f64 = 100.0;
/// What the job opens.
const OPENS: u64 = 16_000;

/// Opens 500 files in turn, so often, with a pause after each.
const JOB: &str = "\
import os, sys, time
for i in range(int(sys.argv[2])):
    os.close(os.open(os.path.join(sys.argv[1], 'm%d' % (i % 500)), os.O_RDONLY))
    time.sleep(0.0005)
";

/// The opens of all files and directories.
fn opens(mounted: &mut Mounted) -> u64 {
    let counts = mounted.counts();
    let paths = counts["paths"].as_object().expect("counts of each path").values();
    paths.map(|kinds| kinds["open"].as_u64().unwrap_or(0) + kinds["opendir"].as_u64().unwrap_or(0)).sum()
}

#[test]
fn a_job_is_named_and_few_files_are_opened_for_that() {
    needs_root!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let source = tempfile::tempdir().expect("there is a temporary directory");
    for number in 0..500 {
        fs::write(source.path().join(format!("m{number}")), "").expect("an own directory");
    }
    let mut mounted = match Mounted::new(source.path(), 1, Caching::USUAL) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let mut guard = Command::new(headwater_binary());
    guard.args(["guard", "--json", "--interval", "2", "--operations-per-second", "300", "--mount"]).arg(mounted.path());
    let mut guard = guard.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is there");
    let mut ready = String::new();
    BufReader::new(guard.stderr.take().expect("a pipe")).read_line(&mut ready).expect("it is text");
    assert!(ready.contains("watches "), "{ready}");
    mounted.reset();
    let began = Instant::now();
    let mut job = Command::new("python3");
    job.arg("-c").arg(JOB).arg(mounted.path()).arg(OPENS.to_string()).env("SLURM_JOB_ID", "31");
    let status = job.status().expect("python3 is there");
    let seconds = began.elapsed().as_secs_f64();
    let added = opens(&mut mounted).saturating_sub(OPENS);
    let mut found = String::new();
    BufReader::new(guard.stdout.take().expect("a pipe")).read_line(&mut found).expect("it is text");
    guard.kill().expect("it is this process's");
    guard.wait().expect("it has been killed");
    assert!(status.success());
    println!("{OPENS} opens in {seconds:.1} s, and {added} for the guard");
    assert!(
        found.contains(r#""began""#) && found.contains(r#""id":"31""#) && found.contains(r#""counted":"opens""#),
        "{found}"
    );
    assert!(added > 0 && (added as f64) < ADDED_PER_SECOND_MAX * seconds, "{added} opens in {seconds} s");
}
