//! Programs that could notice a transformation: what each rank sees is the same with and without the library.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::services::environment;
use headwater_tests::harness::{Fixture, Program, headwater_binary, skipped};

use crate::job::{Done, Job, differences};
use crate::report::transformed_sites;
use crate::{all, alone};

/// The names of the cases; those that end the job apart.
fn names(program: &Path) -> (Vec<String>, Vec<String>) {
    let output = Command::new(program).arg("--list").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (ending, other): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.ends_with('!'));
    (other.iter().map(|name| name.to_string()).collect(), ending.iter().map(|n| n.replace('!', "")).collect())
}

fn job<'a>(mpi: &'a Mpi, ranks: usize, program: &'a Path, cases: &[String]) -> Job<'a> {
    let arguments = ["{dir}".to_owned()].iter().chain(cases).cloned().collect();
    Job { mpi, ranks, program, arguments, variables: vec![] }
}

/// The lines of the ranks' logs that aren't the same, each with the line of the other run.
fn log_differences(plain: &Done, served: &Done) -> Vec<String> {
    let text = |done: &Done, path: &PathBuf| {
        String::from_utf8_lossy(done.files.get(path).map_or(&[][..], Vec::as_slice)).into_owned()
    };
    let mut found = Vec::new();
    for path in plain.files.keys().filter(|path| is_log(path)) {
        let (one, other) = (text(plain, path), text(served, path));
        let (mut one, mut other) = (one.lines(), other.lines());
        loop {
            match (one.next(), other.next()) {
                (None, None) => break,
                (a, b) if a == b => {}
                (a, b) => found.push(format!("{}: plain `{a:?}`, served `{b:?}`", path.display())),
            }
        }
    }
    found.truncate(40);
    found
}

fn is_log(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.starts_with("log."))
}

fn without_logs(files: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    files.iter().filter(|(path, _)| !is_log(path)).map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
}

fn check_same(job: &Job, plain: &Done, served: &Done, library: &Library) {
    let what = job.shown(Some(library));
    let lines = log_differences(plain, served);
    assert!(lines.is_empty(), "{what}\n{}\n{}", lines.join("\n"), served.output.stderr);
    assert_eq!(served.output.status, plain.output.status, "{what}: {}", served.output.stderr);
    assert_eq!(served.output.stdout, plain.output.stdout, "{what}");
    let files = differences(&plain.files, &served.files);
    assert!(files.is_empty(), "{what}: {files:?}");
}

/// A job that ends early: its files and status. The ranks that did not end it may be at different points.
fn check_end(job: &Job, library: Option<&Library>) {
    let plain = job.run(None);
    assert_ne!(plain.output.status, 0, "{}: it ends early", job.shown(None));
    let Some(library) = library else { return };
    let served = job.run(Some(library));
    let what = job.shown(Some(library));
    assert_eq!(served.output.status, plain.output.status, "{what}: {}", served.output.stderr);
    // A rank that is ended by others may have begun the file that it reads next, or not.
    let is_begun = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let is_input = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("in."));
    let common = |one: &Done, other: &Done| {
        let files = without_logs(&one.files).into_iter();
        let is_compared = |(name, bytes): &(PathBuf, Vec<u8>)| {
            other.files.get(name).is_some_and(|others| !(is_input(name) && is_begun(bytes, others)))
        };
        files.filter(is_compared).collect::<BTreeMap<_, _>>()
    };
    let files = differences(&common(&plain, &served), &common(&served, &plain));
    assert!(files.is_empty(), "{what}: {files:?}");
}

fn cases(mpi: &Mpi) {
    let program = mpi.build("safety").unwrap();
    let (others, ending) = names(&program);
    assert!(others.len() > 200 && ending.len() > 8, "{others:?} {ending:?}");
    let library = Library::find(mpi);
    let ranks: &[usize] = match (all(), mpi.is_open_mpi()) {
        (true, _) => &[2, 3, 4],
        (false, true) => &[4],
        (false, false) => &[2],
    };
    for &ranks in ranks {
        let whole = job(mpi, ranks, &program, &["all".to_owned()]);
        let plain = whole.run(None);
        assert_eq!((plain.output.status, plain.output.stdout.as_str()), (0, "done\n"), "{}", plain.output.stderr);
        let Ok(library) = &library else { continue };
        let threaded = job(mpi, ranks, &program, &["all".to_owned(), "--threaded".to_owned()]);
        // Each case has a call site of its own, and most are transformed there; less of what is gathered beside
        // threads.
        for (job, sites_min) in [(&whole, 180), (&threaded, 60)] {
            let served = job.run(Some(library));
            check_same(job, &plain, &served, library);
            let sites = transformed_sites(&served.report);
            assert!(sites >= sites_min, "only {sites} call sites were transformed: {}", served.report);
        }
    }
    let some = if all() { ending.len() } else { 4 };
    for case in ending.iter().take(some) {
        check_end(&job(mpi, 2, &program, std::slice::from_ref(case)), library.as_ref().ok());
    }
    if let Err(reason) = library {
        skipped(reason);
    }
}

/// A process that is made past the C library, where the kernel doesn't report it: it takes no message of its parent's,
/// and has the word of why it ends.
fn unnoticed_child(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let program = mpi.build("safety").unwrap();
    for case in ["direct_child_read", "direct_child_gathered"] {
        let job = job(mpi, 2, &program, &[case.to_owned(), "--old-kernel".to_owned()]);
        let (plain, served) = (job.run(None), job.run(Some(&library)));
        let what = format!("{}: {}", job.shown(Some(&library)), served.output.stderr);
        assert_eq!((plain.output.status, served.output.status), (0, 0), "{what}");
        assert_eq!(without_logs(&plain.files), without_logs(&served.files), "{what}");
        // It begins while a message is awaited there only.
        let ends = case == "direct_child_gathered";
        let is_childs = |line: &&str| ["child's", "status", "read"].iter().any(|word| line.contains(word));
        let log = |done: &Done| String::from_utf8_lossy(&done.files[Path::new("log.0")]).into_owned();
        let others = |log: &str| log.lines().filter(|line| !is_childs(line)).map(str::to_owned).collect::<Vec<_>>();
        let (plain_log, served_log) = (log(&plain), log(&served));
        assert_eq!(others(&plain_log), others(&served_log), "{what}");
        assert_eq!(plain_log == served_log, !ends, "{what}: {served_log}");
        assert_eq!(served_log.contains(": status 9\n"), ends, "it is killed: {what}: {served_log}");
        assert_eq!(served.output.stderr.contains("made by a system call past the C library"), ends, "{what}");
    }
}

/// A directory that is a file system of its own, which other nodes may share for all that can be seen.
const ON_FUSE: &str = "bindfs -f \"$0\" \"$0\" & until mountpoint -q \"$0\"; do kill -0 $! || exit 99; sleep 0.05; done; \
                       \"$@\"; status=$?; umount -l \"$0\"; wait; exit $status";

/// Inputs that are open for writing, too: on a network file system they are deferred nevertheless.
fn on_fuse(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    if let Err(reason) = headwater_cluster::check() {
        return skipped(reason);
    }
    if let Some(missing) = ["/usr/bin/bindfs", "/dev/fuse"].into_iter().find(|path| !Path::new(path).exists()) {
        return skipped(format!("{missing} is missing"));
    }
    let program = mpi.build("safety").unwrap();
    // Other ranks' changes of such files are what docs/guide/mpi-io.md excepts.
    let mut cases = names(&program).0;
    cases.retain(|case| !case.contains("by_another_rank"));
    for arguments in [vec!["all".to_owned()], [vec!["--read-write".to_owned()], cases].concat()] {
        let job = job(mpi, 2, &program, &arguments);
        let run = |library| job.run_behind(&["unshare", "-m", "sh", "-c", ON_FUSE, "{dir}"], library);
        let (plain, served) = (run(None), run(Some(&library)));
        assert_eq!((plain.output.status, plain.output.stdout.as_str()), (0, "done\n"), "{}", plain.output.stderr);
        check_same(&job, &plain, &served, &library);
        let sites = transformed_sites(&served.report);
        assert!(sites >= 180, "only {sites} call sites were transformed: {}", served.report);
    }
}

/// A write of gathered data into a file system without room for it.
fn full_disk(mpi: &Mpi) {
    if let Err(reason) = headwater_cluster::check() {
        return skipped(reason);
    }
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let program = mpi.build("safety").unwrap();
    let run = |library: Option<&Library>| {
        let scratch = headwater_tests::scratch("mpiio-full");
        let small = scratch.path().join("small");
        let script = "mkdir -p \"$0\" && mount -t tmpfs -o size=256k small \"$0\" && exec \"$@\"";
        std::fs::create_dir(&small).unwrap();
        let shown = small.display().to_string();
        let variables = vec![("SAFETY_SMALL".to_owned(), shown.clone())];
        let job = Job { variables, ..job(mpi, 4, &program, &["gather_disk_full".to_owned()]) };
        job.run_behind(&["unshare", "-m", "sh", "-c", script, &shown], library)
    };
    let plain = run(None);
    let log = String::from_utf8_lossy(&plain.files[Path::new("log.0")]).into_owned();
    assert!(log.contains("errno 28"), "the disk is full: {log}");
    let served = run(Some(&library));
    assert_eq!(log_differences(&plain, &served), Vec::<String>::new(), "{}", served.output.stderr);
}

crate::for_each_mpi!(cases);

/// A release of a newer standard than the header that its build is made with has: MPI 4.1's functions are interposed,
/// too.
#[test]
fn mpich_of_a_newer_standard() {
    match environment("mpich43", &["mpich==4.3.2"]) {
        Ok(there) => {
            let _alone = alone();
            cases(&Mpi::of_environment("mpich4", ".3", &there));
        }
        Err(reason) => skipped(reason),
    }
}

#[test]
fn on_a_network_file_system() {
    crate::with_first(crate::OPEN_MPI, on_fuse);
    crate::with_first(crate::MPICH, on_fuse);
}

#[test]
fn disk_full() {
    crate::with_first(crate::OPEN_MPI, full_disk);
    crate::with_first(crate::MPICH, full_disk);
}

#[test]
fn a_child_made_past_the_c_library() {
    crate::with_first(crate::OPEN_MPI, unnoticed_child);
    crate::with_first(crate::MPICH, unnoticed_child);
}

/// A library that an interpreter loads for itself needs another one, whose function the front interposes.
#[test]
fn functions_of_local_libraries() {
    let Some(front) = headwater_binary().ancestors().nth(2).map(|to| to.join("lib/libheadwater-mpiio.so")) else {
        return skipped("the library is not installed");
    };
    let fixture = Fixture::new("local");
    let directory = fixture.shared().display().to_string();
    let shared = ["-shared", "-fPIC", "-fno-builtin"];
    fixture.build("mpiio/preloaded/local.c", "libdrawing.so", &[&shared[..], &["-DIS_DRAWING"]].concat());
    let needs = format!("-Wl,--no-as-needed,-rpath,{directory}");
    let flags = [&shared[..], &["-DIS_PLUGIN", "-L", &directory, &needs, "-ldrawing"]].concat();
    let plugin = fixture.build("mpiio/preloaded/local.c", "plugin.so", &flags);
    let program = fixture.build("mpiio/preloaded/local.c", "program", &[]);
    let output = Program::new(program).arg(plugin).env("LD_PRELOAD", front).env("HEADWATER_IO", "auto").run();
    assert_eq!((output.status, output.stdout.as_str()), (0, "drawn, timed\n"), "{output:?}");
}
