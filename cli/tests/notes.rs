//! The lines before the program: why nothing is served, what can't be gained, what a run waits for.

mod site;

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use site::terminal::{on_terminal, terminal};
use site::{Site, text};

/// Copies a program to a file below the site.
fn program(site: &Site, name: &str) -> String {
    let file = site.path(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::copy("/bin/echo", &file).unwrap();
    file.display().to_string()
}

/// Returns what a command writes to standard error, and checks that its program has run.
#[track_caller]
fn notes(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "it ran\n".into()), "{output:?}");
    text(&output.stderr)
}

/// Returns all that a command writes to a terminal.
fn shown(command: &Command) -> String {
    let (mut master, slave) = terminal();
    let outputs = [slave.try_clone().unwrap(), slave.try_clone().unwrap()];
    let mut command = on_terminal(command, &[], slave);
    let [output, errors] = outputs;
    let mut child = command.env("TERM", "xterm").stdout(output).stderr(errors).spawn().unwrap();
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        // The read fails when the other end is closed.
        let _ = master.read_to_end(&mut shown);
        shown
    });
    assert!(child.wait().unwrap().success());
    text(&reader.join().unwrap()).replace("\r\n", "\n")
}

#[test]
fn why_nothing_is_served_is_one_line() {
    let site = Site::new();
    let app = program(&site, "work/app/bin/app");
    let top = site.path("work/app").display().to_string();
    let nothing = |why: &str| format!("headwater: nothing to serve: {why}\n");
    let run = |arguments: &[&str]| site.plain_command(&[arguments, &["--", &app, "it ran"]].concat());
    let local = nothing(&format!("{top}/bin is on a local file system; add --shared {top}"));
    assert_eq!(notes(run(&[])), local);
    let excluded = format!(
        "{top}/bin is excluded; leave out --exclude, or name the directories of your software with --shared DIR"
    );
    assert_eq!(notes(run(&["--exclude", &top])), nothing(&excluded));
    let file = format!("--shared {app}: it is not a directory; name {top}/bin, which contains it");
    assert_eq!(notes(run(&["--shared", &app])), nothing(&file));
    let missing = format!("--shared {top}/none: there is no such directory; name one that exists");
    assert_eq!(notes(run(&["--shared", &format!("{top}/none")])), nothing(&missing));
    let system = "/usr/bin is on a local file system; name the directories of your software with --shared DIR";
    assert_eq!(notes(site.plain_command(&["--", "/usr/bin/echo", "it ran"])), nothing(system));
    site.assert_clean();
}

/// A program of this name starts others outside of its namespaces, and audit needs a dynamic one.
#[test]
fn why_no_mechanism_is_possible_is_one_line() {
    let site = Site::new();
    let docker = site.path("shared/docker");
    let source = site.write("work/it_ran.c", "#include <stdio.h>\nint main(void) { return puts(\"it ran\") < 0; }\n");
    assert!(Command::new("cc").args(["-static", "-o"]).args([&docker, &source]).status().unwrap().success());
    let run =
        |options: &[&str]| notes(site.command(&[options, &["--via", "auto", "--", docker.to_str().unwrap()]].concat()));
    let why = "docker is statically linked; and docker starts its processes outside of this program's namespaces";
    let line = format!("headwater: not served: {why}. `headwater doctor` shows what this machine allows\n");
    assert_eq!((run(&[]), run(&["--quiet"])), (line, String::new()));
    site.assert_clean();
}

#[test]
fn what_is_served_and_what_is_wanted_has_no_line() {
    let site = Site::new();
    let app = program(&site, "work/app/bin/app");
    let served = program(&site, "shared/app");
    assert_eq!(notes(site.command(&["--", &served, "it ran"])), "");
    for option in [&["--via", "off"][..], &["--quiet"], &["-q"]] {
        assert_eq!(notes(site.plain_command(&[option, &["--", &app, "it ran"]].concat())), "", "{option:?}");
    }
    let mut quiet = site.plain_command(&["--", &app, "it ran"]);
    quiet.env("HEADWATER_CONFIG", site.write("work/defaults.toml", "quiet = true\n"));
    assert_eq!(notes(quiet), "");
    // Of the ranks of a launch, the first reports.
    for (rank, lines) in [("0", 1), ("1", 0)] {
        let mut command = site.plain_command(&["--", &app, "it ran"]);
        command.envs([("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0"), ("SLURM_PROCID", rank), ("SLURM_NTASKS", "2")]);
        assert_eq!(notes(command).lines().count(), lines, "rank {rank}");
    }
    site.assert_clean();
}

/// Writes a launcher that starts its program once for each of two ranks, and takes so long to print its version.
fn launcher(site: &Site, seconds: u32) -> String {
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ sleep {seconds}; echo 'mpirun (Open MPI) 4.1.4'; exit; }}\n\"$@\" && \"$@\"\n"
    );
    fs::create_dir(site.path("work/bin")).unwrap();
    let file = site.write("work/bin/mpirun", &script);
    fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    file.display().to_string()
}

#[test]
fn a_launch_has_one_line_for_all_ranks() {
    let site = Site::new();
    let (mpirun, app) = (launcher(&site, 0), program(&site, "work/app/bin/app"));
    let output = site.plain_command(&["--", &mpirun, &app, "it ran"]).output().unwrap();
    let top = site.path("work/app").display().to_string();
    let expected = format!("headwater: nothing to serve: {top}/bin is on a local file system; add --shared {top}\n");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("it ran\nit ran\n".into(), expected));
    let output = site.plain_command(&["--", &mpirun, "no-such-program"]).output().unwrap();
    let stderr = text(&output.stderr);
    let line = "headwater: nothing to serve: no-such-program is not found on this machine; if nodes have it at another \
                path than this machine, use --map FROM=TO\n";
    assert!(stderr.starts_with(line), "{stderr}");
    site.assert_clean();
}

#[test]
fn a_store_without_room_is_reported_before_the_start() {
    let site = Site::new();
    let app = program(&site, "shared/app");
    let bytes = Path::new(&app).metadata().unwrap().len();
    let stderr = notes(site.command(&["--store-max", "10000", "--", &app, "it ran"]));
    let line =
        format!("headwater: warning: the store of a node holds 10 kB, and {app} has {} kB: ", (bytes + 500) / 1000);
    assert!(stderr.starts_with(&line), "{stderr}");
    site.assert_clean();
}

#[test]
fn a_person_reads_what_one_process_gains() {
    let site = Site::new();
    let app = program(&site, "shared/app");
    let note = "headwater: note: one process on one node: its first start is seldom faster than without Headwater. More \
                processes or nodes gain (--ppn, --nodes, a launcher). Later starts fetch ahead what this one uses\n";
    let closures = site.path("work/closures");
    let run = |arguments: &[&str], words: &[&str]| {
        let mut command = site.command(&[arguments, &["--no-summary", "--"], words].concat());
        command.env("HEADWATER_CLOSURES", &closures).env_remove("SLURM_JOB_ID");
        shown(&command)
    };
    assert_eq!(run(&[], &[&app, "it ran"]), format!("{note}it ran\n"));
    for (options, words) in [
        (&["--ppn", "1", "--quiet"][..], &[app.as_str(), "it ran"][..]),
        (&["--preload", &site.write("work/list", &app).display().to_string()], &[&app, "it ran"]),
        (&[], &["sh", "-c", "echo it ran"]),
    ] {
        assert_eq!(run(options, words), "it ran\n", "{options:?} {words:?}");
    }
    assert_eq!(run(&["--ppn", "2"], &[&app, "it ran"]), "it ran\nit ran\n");
    site.assert_clean();
}

#[test]
fn progress_is_shown_on_a_terminal_and_gone_before_the_program() {
    let site = Site::new();
    let (mpirun, app) = (launcher(&site, 4), program(&site, "work/app/bin/app"));
    let link = site.path("work/bin/mpiexec");
    std::os::unix::fs::symlink(&mpirun, &link).unwrap();
    let command = site.plain_command(&["--no-summary", "--", link.to_str().unwrap(), &app, "it ran"]);
    let shown = shown(&command);
    let progress = format!("headwater: examining {} and its directories, ", link.display());
    assert!(shown.contains(&progress), "{shown:?}");
    // Nothing is left of the line, and nothing is drawn once the program runs.
    let (before, program) = shown.split_at(shown.find("headwater: nothing to serve").unwrap());
    assert!(before.ends_with("\x1b[2K") || before.ends_with("\x1b[K") || before.ends_with('\r'), "{before:?}");
    assert!(program.ends_with("\nit ran\nit ran\n") && !program.contains('\x1b'), "{program:?}");
    let log = File::create(site.path("work/log")).unwrap();
    let mut command = command;
    assert!(command.stderr(log).output().unwrap().status.success());
    assert_eq!(fs::read_to_string(site.path("work/log")).unwrap().lines().count(), 1);
    site.assert_clean();
}
