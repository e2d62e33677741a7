//! The destination of output, the source of input, and the processors of processes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use headwater_tests::harness::{Fixture, skipped};

use super::{by_rank, command, seen, spawn};

#[test]
fn lines_are_whole_and_labelled() {
    let script = "for i in $(seq 50); do printf 'a{rank}'; printf \"b$i\\n\"; done; echo wrong >&2; printf last";
    let seen = spawn(&["-n", "8", "--", "sh", "-c", script]);
    assert_eq!(seen.status, Some(0), "{}", seen.err);
    let lines = by_rank(&seen.out);
    assert_eq!(lines.len(), 8 * 51);
    for rank in 0..8 {
        let own: Vec<&str> = lines.iter().filter(|(of, _)| *of == rank).map(|&(_, line)| line).collect();
        let expected = (1..=50).map(|i| format!("a{rank}b{i}")).chain(["last".to_owned()]);
        assert_eq!(own, expected.collect::<Vec<_>>());
    }
    let errors = by_rank(&seen.err);
    assert_eq!(errors, (0..8).map(|rank| (rank, "wrong")).collect::<Vec<_>>());
}

#[test]
fn each_process_has_its_number() {
    let seen = spawn(&["-n", "3", "--", "sh", "-c", "echo {rank}/{rank} $HEADWATER_RANK of $HEADWATER_RANKS"]);
    assert_eq!(by_rank(&seen.out), [(0, "0/0 0 of 3"), (1, "1/1 1 of 3"), (2, "2/2 2 of 3")]);
}

#[test]
fn five_hundred_processes() {
    for from in ["exec", "zygote"] {
        let seen = spawn(&["-n", "500", "--from", from, "--", "sh", "-c", "echo $HEADWATER_RANK"]);
        assert_eq!(seen.status, Some(0), "{}", seen.err);
        let ranks: Vec<String> = (0..500).map(|rank| rank.to_string()).collect();
        let expected: Vec<(usize, &str)> = ranks.iter().map(String::as_str).enumerate().collect();
        assert_eq!(by_rank(&seen.out), expected, "by {from}");
    }
}

#[test]
fn more_processes_than_files_may_be_open() {
    let script = "ulimit -Sn 64 && exec \"$0\" spawn -n 40 -- sh -c 'ulimit -Sn'";
    let binary = headwater_tests::harness::headwater_binary();
    let seen = seen(std::process::Command::new("sh").arg("-c").arg(script).arg(binary).stdin(Stdio::null()));
    assert_eq!(seen.status, Some(0), "{}", seen.err);
    // Their limit is still the user's.
    assert_eq!(by_rank(&seen.out), (0..40).map(|rank| (rank, "64")).collect::<Vec<_>>());
}

#[test]
fn files_by_number() {
    let fixture = Fixture::new("spawn-files");
    let name = fixture.path("out-{rank}.txt");
    let output = name.to_str().expect("an own path");
    let seen = spawn(&["-n", "3", "--output", output, "--", "sh", "-c", "echo out {rank}; echo err {rank} >&2"]);
    assert_eq!((seen.status, seen.out, seen.err), (Some(0), String::new(), String::new()));
    for rank in 0..3 {
        let text = fs::read_to_string(fixture.path(&format!("out-{rank}.txt"))).expect("it was made");
        assert_eq!(text, format!("out {rank}\nerr {rank}\n"));
    }
}

#[test]
fn files_that_can_not_be_made_are_named() {
    let seen = spawn(&["-n", "2", "--output", "/nonexistent/{rank}", "--", "true"]);
    assert_eq!(seen.status, Some(125));
    assert!(seen.err.contains("/nonexistent/0 can't be written: No such file"), "{}", seen.err);
    let seen = spawn(&["-n", "2", "--output", "/tmp/one", "--", "true"]);
    assert_eq!(seen.status, Some(125));
    assert!(seen.err.contains("put {rank} into its name"), "{}", seen.err);
}

#[test]
fn output_as_it_is() {
    let seen = spawn(&["-n", "2", "--output", "none", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((seen.out.as_str(), seen.err.as_str()), ("out\nout\n", "err\nerr\n"));
}

#[test]
fn the_first_process_reads_the_input() {
    let mut child = command(&["-n", "3", "--", "sh", "-c", "cat; echo end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    child.stdin.take().expect("a pipe").write_all(b"text\n").expect("a process reads");
    let output = child.wait_with_output().expect("it can be waited for");
    let out = String::from_utf8(output.stdout).expect("text");
    assert_eq!(by_rank(&out), [(0, "text"), (0, "end"), (1, "end"), (2, "end")]);
}

#[test]
fn a_closed_output_ends_the_processes() {
    let mut child = command(&["-n", "2", "--", "yes"]).stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line arrives");
    assert!(line.ends_with(": y\n"), "{line}");
    // By SIGPIPE, as in a pipeline.
    assert_eq!(child.wait().expect("it can be waited for").code(), Some(141));
}

#[test]
fn processors_in_turn() {
    let allowed = rustix::thread::sched_getaffinity(None).expect("it can be read");
    let cores: Vec<usize> = (0..1024).filter(|&core| allowed.is_set(core)).take(2).collect();
    if cores.len() < 2 {
        return skipped("this process may use one processor alone");
    }
    let list = format!("{},{}", cores[1], cores[0]);
    let script = ["--", "grep", "Cpus_allowed_list", "/proc/self/status"];
    for from in ["zygote", "exec"] {
        let args = [&["-n", "3", "--from", from, "--cores", &list][..], &script].concat();
        let seen = spawn(&args);
        let lines = by_rank(&seen.out);
        let cpus: Vec<&str> = lines.iter().filter_map(|(_, line)| line.split_whitespace().nth(1)).collect();
        let expected = [cores[1], cores[0], cores[1]].map(|core| core.to_string());
        assert_eq!(cpus, expected, "by {from}: {}", seen.err);
    }
    for numa in ["fill", "spread"] {
        let seen = spawn(&[&["-n", "2", "--numa", numa][..], &script].concat());
        let lines = by_rank(&seen.out);
        let cpus: Vec<&str> = lines.iter().filter_map(|(_, line)| line.split_whitespace().nth(1)).collect();
        assert!(cpus.len() == 2 && cpus.iter().all(|cpu| cpu.parse::<usize>().is_ok()), "{numa}: {cpus:?}");
        assert_ne!(cpus[0], cpus[1], "{numa}");
    }
}

#[test]
fn a_processor_that_is_not_there() {
    let seen = spawn(&["-n", "2", "--cores", "1023", "--", "true"]);
    assert_eq!(seen.status, Some(125));
    assert!(seen.err.contains("processor 1023 is not there"), "{}", seen.err);
}

#[test]
fn progress_without_a_terminal_is_lines() {
    let seen = spawn(&["-n", "4", "--progress", "always", "--", "true"]);
    assert!(seen.err.contains("of 4 started"), "{}", seen.err);
    assert_eq!(spawn(&["-n", "4", "--", "true"]).err, "");
}
