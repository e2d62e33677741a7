//! Flux, whose brokers Slurm starts: by its own commands, and by the plugin of its job shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headwater_tests::harness::{Output, has_program, headwater_binary, skipped};
use headwater_tests::{prefix, workspace};

use crate::allocations::in_shell;
use crate::site::{Site, in_any_order};
use crate::slurm::{args, with_slurm};

/// Runs a test where Flux is installed; the second argument is a file that loads the plugin.
fn with_flux(test: impl Fn(&Site, &Path)) {
    if !has_program("flux") {
        return skipped("Flux is not installed (flux-core)");
    }
    with_slurm(|site| {
        let text = fs::read_to_string(prefix().join("share/headwater/flux/headwater.lua")).expect("an installed file");
        let text = text.replace("/usr/bin/headwater", &headwater_binary().display().to_string());
        let text = text.replace("/usr/lib", &prefix().join("lib").display().to_string());
        let file = site.directory("flux").join("headwater.lua");
        fs::write(&file, text).expect("an own directory");
        test(site, &file);
    });
}

/// The output of a script in an instance of Flux with a broker on each of four nodes.
fn in_flux(site: &Site, script: &str) -> Output {
    let file: PathBuf = site.directory("flux").join("script");
    fs::write(&file, script).expect("an own directory");
    site.forget();
    let file = file.display().to_string();
    let output = site.plain(&[args("srun --mpi=pmi2 -N4 -n4 flux start sh"), vec![file]].concat());
    assert_eq!(output.status, 0, "{output:?}");
    output
}

/// What was read more than once. Flux's commands are in Python, and list the directory of PYTHONPATH themselves.
fn repeated(site: &Site) -> Vec<String> {
    site.repeated().into_iter().filter(|line| !line.starts_with(": ")).collect()
}

/// Checks that the program ran on so many nodes, and that files were read once for all of them.
fn check(site: &Site, output: Output, lines: usize) {
    let line = format!("36100 {}/pkg/m0.py", site.shared().display());
    let output = in_any_order(output);
    assert_eq!(output.stdout.lines().collect::<Vec<_>>(), vec![line; lines], "{output:?}");
    assert_eq!(repeated(site), [""; 0], "{output:?}");
    site.assert_clean();
}

#[test]
fn its_commands() {
    with_flux(|site, _| {
        let jobs = site.directory("jobs").display().to_string();
        let run = format!("{} run --job-dir {jobs} --shared {}", headwater_binary().display(), site.shared().display());
        let script = site.directory("flux").join("program");
        fs::write(&script, format!("exec {}\n", in_shell(&site.program()))).expect("an own directory");
        for launcher in ["run", "submit --watch --quiet", "bulksubmit --watch --quiet"] {
            // The last has braces of its own in its command.
            let several = if launcher.starts_with("bulk") { " ::: once" } else { "" };
            let output = in_flux(site, &format!("{run} -- flux {launcher} -N4 -n8 sh {}{several}", script.display()));
            assert!(!output.stderr.contains("headwater"), "{output:?}");
            check(site, output, 8);
        }
    });
}

#[test]
fn its_job_shell() {
    with_flux(|site, loader| {
        let option = |setting: &str| format!("-o userrc={} -o headwater={setting}", loader.display());
        let shared = site.shared().display();
        let program = in_shell(&site.program());
        for via in ["namespace", "audit"] {
            let options = option(&format!("via={via},shared={shared}"));
            let output = in_flux(site, &format!("flux run -N4 -n8 {options} {program}"));
            assert!(!output.stderr.contains("headwater"), "{output:?}");
            check(site, output, 8);
        }
        // Tasks have their own numbers.
        let shown = "sh -c 'echo $HEADWATER_NODE $HEADWATER_NODES $HEADWATER_RANK $HEADWATER_RANKS'";
        let output = in_flux(site, &format!("flux run -N4 -n4 {} {shown}", option(&format!("shared={shared}"))));
        let numbers: Vec<String> = (0..4).map(|rank| format!("{rank} 4 {rank} 4")).collect();
        assert_eq!(in_any_order(output).stdout.lines().collect::<Vec<_>>(), numbers);
        let output = in_flux(site, &format!("flux run -N2 -n2 {} {program}", option("shraed=/sw")));
        assert!(output.stderr.contains("--shraed"), "{output:?}");
        assert!(output.stderr.contains("the program runs without Headwater"), "{output:?}");
        assert_eq!(output.stdout.lines().count(), 2, "{output:?}");
        site.assert_clean();
    });
}

#[test]
fn jobs_of_a_batch_job_share_its_session() {
    with_flux(|site, loader| {
        let option = format!("-o userrc={}", loader.display());
        let shown = "sh -c 'echo session $HEADWATER_SESSION node $HEADWATER_NODE'";
        let program = in_shell(&site.program());
        let script = site.directory("flux").join("batch");
        let jobs = format!("flux run -N4 -n8 {option} {program}\nflux run -N2 -n2 {option} {program}\n");
        fs::write(&script, format!("#!/bin/sh\n{jobs}flux run -N4 -n4 {option} {shown}\n")).expect("an own directory");
        let file = site.directory("flux").join("output").display().to_string();
        let options =
            format!("{option} -o headwater=shared={} --output={file} --flags=waitable", site.shared().display());
        in_flux(site, &format!("flux batch -N4 {options} {} && flux job wait --all", script.display()));
        let text = fs::read_to_string(&file).expect("the job's output");
        assert_eq!(text.lines().filter(|line| line.starts_with("36100 ")).count(), 10, "{text}");
        let mut sessions: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("session ")).collect();
        sessions.sort_unstable();
        let session = sessions.first().and_then(|line| line.split(' ').next()).unwrap_or_default();
        assert_eq!(session.len(), 16, "{text}");
        let expected: Vec<String> = (0..4).map(|node| format!("{session} node {node}")).collect();
        assert_eq!(sessions, expected, "{text}");
        assert_eq!(repeated(site), [""; 0], "{text}");
        site.assert_clean();
    });
}

#[test]
fn a_script_begins_the_session_of_its_instance() {
    with_flux(|site, loader| {
        let directory = site.directory("flux");
        let start = format!("{} start --shared {}", headwater_binary().display(), site.shared().display());
        let by_site = directory.join("by-site.lua");
        let text = fs::read_to_string(loader).expect("an own file");
        fs::write(&by_site, text.replace("default = \"off\"", "default = \"job\"")).expect("an own directory");
        let program = in_shell(&site.program());
        let plugged = format!("flux run -N4 -n8 -o userrc={} {program}", by_site.display());
        let run = format!("{} run -- flux run -N2 -n2 {program}", headwater_binary().display());
        let script = directory.join("batch");
        let jobs = site.directory("jobs");
        let text =
            format!("#!/bin/sh\nexport HEADWATER_JOB_DIR={}\n{start} || exit 1\n{plugged}\n{run}\n", jobs.display());
        fs::write(&script, text).expect("an own directory");
        let output = in_flux(site, &format!("flux alloc -N4 sh {}", script.display()));
        site.assert_clean();
        assert_eq!(output.stdout.lines().filter(|line| line.starts_with("36100 ")).count(), 10, "{output:?}");
        assert_eq!(output.stdout.lines().next().map(str::len), Some(16), "{output:?}");
        assert_eq!(repeated(site), [""; 0], "{output:?}");
        assert!(!output.stderr.contains("headwater"), "{output:?}");
    });
}

#[test]
fn the_plugin_declares_what_flux_has() {
    let flags = Command::new("pkg-config").args(["--cflags", "flux-core"]).output();
    let Some(flags) = flags.ok().filter(|output| output.status.success()) else {
        return skipped("Flux's headers are not installed");
    };
    let mut compiler = Command::new("cc");
    compiler.args(String::from_utf8_lossy(&flags.stdout).split_whitespace());
    compiler.args(["-fsyntax-only", "-Wall", "-Wno-address", "-Werror", "-DFLUX_SHELL_PLUGIN_NAME=\"headwater\""]);
    // As the source has it, or that would be another definition.
    compiler.arg("-D_GNU_SOURCE=").args(["-include", "flux/core.h", "-include", "flux/shell.h"]);
    compiler.arg(format!("-I{}", workspace().join("abi/include").display()));
    let output = compiler.arg(workspace().join("integrations/flux/headwater-flux.c")).output().expect("cc starts");
    assert!(output.status.success(), "{output:?}");
}
