//! The acceptance programs: naive, by hand, and naive with the library.

use std::path::Path;
use std::process::Command;

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::services::environment;
use headwater_tests::harness::{Output, skipped};

use crate::all;
use crate::job::{Done, Job, differences};
use crate::report::{Line, report, transformed};

/// A program, its options, and those of its twin. Its input has two million bytes; no row or block size divides it.
struct Case {
    source: &'static str,
    options: &'static str,
    /// Part of CI, not only of the whole matrix.
    is_quick: bool,
}

const fn quick(source: &'static str, options: &'static str) -> Case {
    Case { source, options, is_quick: true }
}

const fn other(source: &'static str, options: &'static str) -> Case {
    Case { source, options, is_quick: false }
}

const ROWS: &str = "--rows 333 --row-bytes 1003 --header 77";
const BLOCKS: &str = "--rows 401 --columns 303";

const CASES: &[Case] = &[
    quick("c/rows.c", "--steps 3"),
    quick("c/rows.c", "--read at --write vector --in-place --steps 3"),
    quick("c/rows.c", "--read stdio --write stdio --by scatterv --steps 3 --fresh"),
    quick("c/rows.c", "--later --steps 3 --fresh"),
    quick("c/rows.c", "--later --read at --write stdio --by scatterv --in-place --steps 3"),
    other("c/rows.c", "--later --read mpi --write mpi --by type --line --rows 61 --row-bytes 8003"),
    quick("c/rows.c", "--read mpi --write mpi --by type --line --rows 61 --row-bytes 8003"),
    other("c/rows.c", "--read vector --write at --by scatterv --in-place"),
    other("c/rows.c", "--read mpi_at --write mpi_at --files --steps 2"),
    other("c/rows.c", "--read stdio --write plain --line --by type --steps 2 --row-bytes 5003"),
    other("c/rows.c", "--read at --write at --fresh --by scatterv --line --row-bytes 5003"),
    quick("c/blocks.c", "--steps 3"),
    quick("c/blocks.c", "--type subarray --send isend --receive irecv --steps 3"),
    other("c/blocks.c", "--send ssend --read stdio --write stdio"),
    other("c/blocks.c", "--type subarray --read at --write vector --receive irecv"),
    other("c/blocks.c", "--read mpi --write mpi_at --send isend"),
    other("c/blocks.c", "--planes 53 --rows 61 --columns 67 --layers 1"),
    other("c/halo.c", "--rows 1003 --row-bytes 2003 --border 5 --steps 3"),
    other("c/halo.c", "--rows 1003 --row-bytes 2003 --border 5 --steps 2 --separate --reverse"),
    quick("c/broadcast.c", "--bytes 1600000 --header 77 --steps 3"),
    quick("c/broadcast.c", "--bytes 1600000 --piece 240000 --read stdio --gaps"),
    other("c/broadcast.c", "--bytes 1600000 --piece 700000 --read mpi --root 1 --header 5"),
    other("c/broadcast.c", "--bytes 1600000 --read vector --gaps"),
    quick("c/matvec.c", "--rows 401 --columns 303 --steps 2"),
    quick("cxx/life.cpp", "--rows 403 --columns 1001 --generations 3"),
    quick("fortran/heat.f90", "--rows 301 --columns 203 --steps 3"),
    quick("fortran/heat_f08.f90", "--rows 301 --columns 203 --steps 3"),
];

impl Case {
    /// The first of several values of an option counts.
    fn arguments(&self, input: &Path, twin: bool) -> Vec<String> {
        let size = match self.source {
            "c/rows.c" => ROWS,
            "c/blocks.c" => BLOCKS,
            _ => "",
        };
        let mut args: Vec<String> =
            [self.options, size].iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
        args.extend(["--in".into(), input.display().to_string(), "--out".into(), "{dir}/out".into()]);
        args.extend(twin.then(|| "--twin".to_owned()));
        args
    }
}

/// Doubles in [1, 2), and the same for files with a step's number.
pub fn make_input(path: &Path, bytes: usize) {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from_bits((1023 << 52) | (state >> 12))
    };
    let data: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    std::fs::write(path, &data[..bytes]).unwrap();
    std::fs::write(format!("{}.1", path.display()), &data[8..bytes]).unwrap();
}

/// The first word of the last printed line, the checksum; the times differ.
pub fn checksum(output: &Output) -> &str {
    let line = output.stdout.lines().last().unwrap_or_default();
    line.split_whitespace().find(|word| word.starts_with("checksum=")).unwrap_or_default()
}

fn check_same(what: &str, done: &Done, plain: &Done) {
    assert_eq!(done.output.status, 0, "{what}: {}", done.output.stderr);
    assert_eq!(checksum(&done.output), checksum(&plain.output), "{what}");
    let differences = differences(&plain.files, &done.files);
    assert!(differences.is_empty(), "{what}: {differences:?}");
}

/// One case: the naive program and its twin do the same, and so does the naive one with the library, which must have
/// transformed something.
fn check(mpi: &Mpi, ranks: usize, case: &Case, input: &Path, library: Result<&Library, &String>) {
    let program = match mpi.build(case.source) {
        Ok(program) => program,
        Err(reason) => return skipped(reason),
    };
    let job = |twin| Job { mpi, ranks, program: &program, arguments: case.arguments(input, twin), variables: vec![] };
    let (naive, twin) = (job(false), job(true));
    let plain = naive.run(None);
    let what = naive.shown(library.ok());
    assert_eq!(plain.output.status, 0, "{what}: {}", plain.output.stderr);
    assert!(checksum(&plain.output).len() > "checksum=".len(), "{what}: {}", plain.output.stdout);
    check_same(&twin.shown(None), &twin.run(None), &plain);
    if let Ok(library) = library {
        let served = naive.run(Some(library));
        check_same(&what, &served, &plain);
        let is_transformed = transformed(&served.report) > 0;
        assert!(is_transformed, "{what}: nothing was transformed: {:?}", report(&served.report));
        for mode in ["observe", "verify", "off"].iter().filter(|_| all() || ranks == 16) {
            check_same(mode, &naive.run(Some(&library.clone().with("HEADWATER_IO", mode))), &plain);
        }
    }
}

/// How many ranks a case has, each time it is run.
fn ranks(mpi: &Mpi, number: usize) -> &'static [usize] {
    match (all(), mpi.name, number) {
        (true, ..) => &[2, 4, 16],
        (false, "openmpi4" | "openmpi6", 0) => &[2, 16],
        // Ranks of MPICH wait without yielding.
        (false, name, number) if name.starts_with("openmpi") && number % 2 == 1 => &[4],
        _ => &[2],
    }
}

fn programs(mpi: &Mpi) {
    let scratch = headwater_tests::scratch("mpiio-in");
    let input = scratch.path().join("in");
    make_input(&input, 2_000_003);
    let library = Library::find(mpi);
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| case.is_quick || all()) {
        for &ranks in ranks(mpi, number) {
            check(mpi, ranks, case, &input, library.as_ref());
        }
    }
    if let Err(reason) = library {
        skipped(reason);
    }
}

/// A process that has a GPU's driver is left alone: a buffer may be in the GPU's memory.
fn gpu(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let scratch = headwater_tests::scratch("mpiio-gpu");
    let (input, driver) = (scratch.path().join("in"), scratch.path().join("libcuda.so.1"));
    make_input(&input, 2_000_000);
    let driver = driver.display().to_string();
    let made = Command::new("cc").args(["-shared", "-x", "c", "/dev/null", "-o", &driver]).status().unwrap();
    assert!(made.success());
    let case = &CASES[0];
    let program = mpi.build(case.source).unwrap();
    let job = Job { mpi, ranks: 2, program: &program, arguments: case.arguments(&input, false), variables: vec![] };
    let without = job.run(Some(&library));
    assert!(transformed(&without.report) > 0, "without a driver it is transformed: {}", without.report);
    let preload = format!("{driver} {}", library.directory().join("libheadwater-mpiio.so").display());
    let with = job.run(Some(&library.with("LD_PRELOAD", &preload)));
    assert_eq!(with.output.stderr.matches("libcuda.so is loaded").count(), 1, "{}", with.output.stderr);
    assert_eq!((with.output.status, with.report.as_str()), (0, ""));
    assert_eq!(differences(&without.files, &with.files), Vec::<String>::new());
}

/// A thread that a library has started before MPI, and that has ended, is none of the program's: what is gathered is
/// deferred.
fn ended_thread(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let scratch = headwater_tests::scratch("mpiio-ended-thread");
    let (input, starter) = (scratch.path().join("in"), scratch.path().join("libstarter.so"));
    make_input(&input, 2_000_000);
    let source = headwater_tests::workspace().join("tests/programs/mpiio/preloaded/short_thread.c");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-pthread", "-o"]).args([&starter, &source]).status();
    assert!(made.unwrap().success());
    let program = mpi.build(CASES[0].source).unwrap();
    let arguments = CASES[0].arguments(&input, false);
    let job = Job { mpi, ranks: 2, program: &program, arguments, variables: vec![] };
    let front = library.directory().join("libheadwater-mpiio.so");
    let served = job.run(Some(&library.with("LD_PRELOAD", &format!("{} {}", starter.display(), front.display()))));
    let gathered = report(&served.report).into_iter().find(|line| line.pattern == "gather+write");
    assert!(gathered.is_some_and(|line| line.transformed > 0), "{}", served.report);
}

/// Ranks without the library, or with it disabled, beside others: nothing is transformed, and no rank waits.
fn mixed(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let scratch = headwater_tests::scratch("mpiio-mixed");
    let input = scratch.path().join("in");
    make_input(&input, 2_000_000);
    let case = &CASES[0];
    let program = mpi.build(case.source).unwrap();
    for other in ["0", "2"] {
        for without in ["unset LD_PRELOAD", "export HEADWATER_IO=off", "export ASAN_OPTIONS=detect_leaks=0"] {
            let script = format!(
                "case ${{PMIX_RANK:-$PMI_RANK}} in {other}) {without};; esac; exec {} \"$@\"",
                program.display()
            );
            let mut arguments = vec!["-c".to_owned(), script, "sh".to_owned()];
            arguments.extend(case.arguments(&input, false));
            let job = Job { mpi, ranks: 3, program: Path::new("/bin/sh"), arguments, variables: vec![] };
            let (plain, mixed) = (job.run(None), job.run(Some(&library)));
            check_same(without, &mixed, &plain);
            let reports = mixed.output.stderr.matches("some ranks don't have this library").count();
            assert_eq!((reports, mixed.report.as_str()), (1, ""), "{without}: {}", mixed.output.stderr);
        }
    }
}

/// Runs a program without and with the library: it prints the same. Returns the report of the second run.
fn contexts_of(mpi: &Mpi, library: &Library, source: &str) -> Vec<Line> {
    contexts_with(mpi, library, source, &[])
}

/// The same with further arguments.
fn contexts_with(mpi: &Mpi, library: &Library, source: &str, further: &[&str]) -> Vec<Line> {
    let program = mpi.build(source).unwrap();
    let arguments = ["{dir}"].iter().chain(further).map(|&one| one.to_owned()).collect();
    let job = Job { mpi, ranks: 2, program: &program, arguments, variables: vec![] };
    let lines = |done: &Done| {
        assert_eq!(done.output.status, 0, "{}", done.output.stderr);
        let mut lines: Vec<String> = done.output.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (served, plain) = (job.run(Some(library)), job.run(None));
    assert_eq!(lines(&served), lines(&plain));
    assert_eq!(differences(&plain.files, &served.files), Vec::<String>::new());
    report(&served.report)
}

/// A call that is reached on two paths, one of which gains nothing: the other is transformed nevertheless.
fn two_call_paths(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "c/call_sites.c");
    let (off, other): (Vec<_>, Vec<_>) = contexts.iter().partition(|context| context.decision == "off");
    assert!(!off.is_empty() && off.iter().all(|context| context.transformed == 0), "{contexts:?}");
    // Of 60: until the first path is off, and until the other one is detected, some are left alone.
    assert!(other.iter().any(|context| context.transformed >= 45), "{contexts:?}");
}

/// A number that was a pipe's is a file's: its reads are deferred, however often the pipe's were left alone.
fn numbers(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "c/numbers.c");
    assert_eq!(contexts.iter().map(|context| context.transformed).sum::<u64>(), 12, "{contexts:?}");
}

/// Threads that scatter at once what each has read.
fn threads(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "threads/threads.c");
    assert!(contexts.iter().map(|context| context.transformed).sum::<u64>() >= 30, "{contexts:?}");
}

/// Threads that the program makes otherwise than by pthread_create: what they may access is not deferred.
fn other_threads(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    for made in ["thread", "timer"] {
        let contexts = contexts_with(mpi, &library, "threads/other.c", &[made]);
        assert!(contexts.iter().all(|context| context.transformed == 0), "{made}: {contexts:?}");
    }
}

/// A thread of the library has a stack, although the program's variables of each thread are large.
fn large_own_variables(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "threads/own.c");
    assert_eq!(contexts.iter().map(|context| context.transformed).sum::<u64>(), 4, "{contexts:?}");
}

/// Files that can't be opened any more when their receivers read them.
fn removed(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "messages/removed.c");
    assert_eq!(contexts.iter().map(|context| context.transformed).sum::<u64>(), 4, "{contexts:?}");
}

/// A receive that is too short for what was read and sent is an error, in each mode.
fn too_short(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    for mode in ["auto", "verify", "observe"] {
        contexts_of(mpi, &library.clone().with("HEADWATER_IO", mode), "c/short.c");
    }
}

/// Functions with large counts, which MPI has since version 4 and mpi4py calls where it has them.
fn large_counts(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "c/large.c");
    for pattern in ["read+scatter", "gather+write"] {
        let of_it = contexts.iter().filter(|context| context.pattern == pattern);
        assert_eq!(of_it.map(|context| context.transformed).sum::<u64>(), 6, "{pattern}: {contexts:?}");
    }
}

/// Scatters and gathers that return at once, in each mode.
fn nonblocking(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "c/nonblocking.c");
    for (pattern, least) in [("read+scatter", 30), ("gather+write", 10)] {
        let of_it = contexts.iter().filter(|context| context.pattern == pattern);
        assert!(of_it.map(|context| context.transformed).sum::<u64>() >= least, "{pattern}: {contexts:?}");
    }
    // By Fortran, where this MPI has a compiler of it.
    if mpi.build("fortran/later.f90").is_ok() {
        let contexts = contexts_of(mpi, &library, "fortran/later.f90");
        for pattern in ["read+scatter", "gather+write"] {
            let of_it = contexts.iter().filter(|context| context.pattern == pattern);
            assert!(of_it.map(|context| context.transformed).sum::<u64>() >= 5, "{pattern}: {contexts:?}");
        }
    }
    for mode in ["verify", "observe", "off"] {
        let contexts = contexts_of(mpi, &library.clone().with("HEADWATER_IO", mode), "c/nonblocking.c");
        let is_seen = |pattern| contexts.iter().any(|context| context.pattern == pattern);
        assert_eq!(is_seen("read+scatter") && is_seen("gather+write"), mode != "off", "{mode}: {contexts:?}");
        assert!(mode == "off" || contexts.iter().all(|context| !context.why.contains("not what")), "{contexts:?}");
    }
}

/// With a library that may carry them out otherwise than by messages, they are left alone.
fn beside_a_library(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let scratch = headwater_tests::scratch("mpiio-collectives");
    let other = scratch.path().join("libucc.so.1");
    let made = Command::new("cc").args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(&other).status().unwrap();
    assert!(made.success());
    let front = library.directory().join("libheadwater-mpiio.so");
    let library = library.with("LD_PRELOAD", &format!("{} {}", other.display(), front.display()));
    let contexts = contexts_of(mpi, &library, "c/nonblocking.c");
    let is_left = |pattern| contexts.iter().all(|context| context.pattern != pattern || context.transformed == 0);
    assert!(is_left("read+scatter") && is_left("gather+write"), "{contexts:?}");
}

/// The same by Python's mpi4py.
fn by_python(name: &'static str, packages: &[&str], there: &str) {
    let environment = match environment(there, packages) {
        Ok(environment) => environment,
        Err(reason) => return skipped(reason),
    };
    let _alone = crate::alone();
    let mpi = Mpi::of_environment(name, "", &environment);
    let Ok(library) = Library::find(&mpi) else { return skipped("the library is not built") };
    let script = headwater_tests::workspace().join("tests/programs/mpiio/python/later.py");
    let arguments = vec![script.display().to_string(), "{dir}".to_owned()];
    let python = environment.join("bin/python3");
    let job = Job { mpi: &mpi, ranks: 2, program: &python, arguments, variables: vec![] };
    let (plain, served) = (job.run(None), job.run(Some(&library)));
    assert_eq!((plain.output.status, plain.output.stdout.lines().count()), (0, 6), "{}", plain.output.stderr);
    assert_eq!((0, &plain.output.stdout), (served.output.status, &served.output.stdout), "{}", served.output.stderr);
    assert_eq!(differences(&plain.files, &served.files), Vec::<String>::new());
    assert!(transformed(&served.report) >= 6, "{}", served.report);
}

/// A message of many pieces whose receiver waits for its sender before it receives it.
fn long_message(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "messages/long_message.c");
    assert_eq!(contexts.iter().map(|context| context.transformed).sum::<u64>(), 2, "{contexts:?}");
}

/// Ranks with several sends under way, whose receivers take the data in other orders.
fn offers(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let program = mpi.build("messages/offers.c").unwrap();
    let job = Job { mpi, ranks: 4, program: &program, arguments: vec!["{dir}".into()], variables: vec![] };
    let lines = |done: &Done| {
        let mut lines: Vec<String> = done.output.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let plain = job.run(None);
    assert_eq!((plain.output.status, lines(&plain).len()), (0, 48), "{}", plain.output.stderr);
    for mode in ["auto", "verify"] {
        let served = job.run(Some(&library.clone().with("HEADWATER_IO", mode)));
        assert_eq!(served.output.status, 0, "{mode}: {}", served.output.stderr);
        assert_eq!(lines(&served), lines(&plain), "{mode}");
        assert_eq!(differences(&plain.files, &served.files), Vec::<String>::new(), "{mode}");
        assert!(transformed(&served.report) >= 10, "{mode}: {}", served.report);
    }
}

/// MPI's own calls of the C library while a copy is being sent and a read is deferred.
fn calls_of_mpi(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let program = mpi.build("messages/within.c").unwrap();
    let job = Job { mpi, ranks: 3, program: &program, arguments: vec!["{dir}".into()], variables: vec![] };
    let (served, plain) = (job.run(Some(&library)), job.run(None));
    assert_eq!(served.output.status, 0, "{}", served.output.stderr);
    assert_eq!(served.output.stdout, plain.output.stdout);
}

/// Threads whose requests have one handle after the other.
fn requests(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let contexts = contexts_of(mpi, &library, "messages/requests.c");
    assert!(contexts.iter().map(|context| context.transformed).sum::<u64>() >= 300, "{contexts:?}");
}

/// Blocks between whose rows lie those of others, gathered and read in several orders: all of them is there at once.
fn checkerboard(mpi: &Mpi) {
    let library = Library::find(mpi);
    let program = mpi.build("c/checkerboard.c").unwrap();
    let modes = if all() { &["auto", "verify", "observe"][..] } else { &["auto", "verify"] };
    for &ranks in if all() { &[2, 3, 4, 6][..] } else { &[4] } {
        let job = Job { mpi, ranks, program: &program, arguments: vec!["{dir}".into()], variables: vec![] };
        let plain = job.run(None);
        let is_right = plain.output.stdout.lines().all(|line| line.ends_with(": 0 wrong, then 0"));
        assert!(is_right && plain.output.stdout.lines().count() == 40, "{}", plain.output.stdout);
        let Ok(library) = &library else { continue };
        for mode in modes {
            let served = job.run(Some(&library.clone().with("HEADWATER_IO", mode)));
            let what = job.shown(Some(library));
            assert_eq!((served.output.status, &served.output.stdout), (0, &plain.output.stdout), "{mode} {what}");
            assert_eq!(differences(&plain.files, &served.files), Vec::<String>::new(), "{mode} {what}");
        }
        // It was deferred until it was read.
        let written = job.run(Some(library));
        assert!(transformed(&written.report) > 0, "{}", written.report);
    }
    if let Err(reason) = library {
        skipped(reason);
    }
}

/// A file of which a read was deferred is changed by another process, while ranks that seem to be on other nodes have
/// data in transit.
fn leased(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    if let Err(reason) = headwater_cluster::check() {
        return skipped(reason);
    }
    let program = mpi.build("c/leased.c").unwrap().display().to_string();
    let arguments = ["-m".to_owned(), program, "{dir}".to_owned()];
    let unshare = Path::new("/usr/bin/unshare");
    let job = Job { mpi, ranks: 3, program: unshare, arguments: arguments.into(), variables: vec![] };
    let library = library.with("HEADWATER_IO_EVERYWHERE", "yes");
    let (plain, served) = (job.run(None), job.run(Some(&library)));
    let what = job.shown(Some(&library));
    assert_eq!((plain.output.status, plain.output.stdout.lines().count()), (0, 12), "{}", plain.output.stderr);
    assert!(!plain.output.stdout.contains("late"), "{}", plain.output.stdout);
    assert_eq!(served.output.stdout, plain.output.stdout, "{what}: {}", served.output.stderr);
    assert_eq!(served.output.status, 0, "{what}: {}", served.output.stderr);
    assert_eq!(differences(&plain.files, &served.files), Vec::<String>::new(), "{what}");
    assert!(transformed(&served.report) > 0, "{what}: {}", served.report);
}

/// Ranks that name sizes of which some are large and others aren't don't wait for each other.
fn uneven(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    contexts_of(mpi, &library, "c/uneven.c");
}

crate::for_each_mpi!(programs);

#[test]
fn after_a_thread() {
    crate::with_first(crate::OPEN_MPI, ended_thread);
    crate::with_first(crate::MPICH, ended_thread);
}

#[test]
fn beside_a_gpu() {
    crate::with_first(crate::OPEN_MPI, gpu);
    crate::with_first(crate::MPICH, gpu);
}

#[test]
fn beside_ranks_without_it() {
    for name in Mpi::NAMES {
        crate::with_mpi(name, mixed);
    }
}

#[test]
fn two_paths_to_one_call() {
    crate::with_first(crate::OPEN_MPI, two_call_paths);
    crate::with_first(crate::MPICH, two_call_paths);
}

#[test]
fn a_number_of_two_files() {
    crate::with_first(crate::OPEN_MPI, numbers);
    crate::with_first(crate::MPICH, numbers);
}

#[test]
fn by_threads() {
    crate::with_first(crate::OPEN_MPI, threads);
    crate::with_first(crate::MPICH, threads);
}

#[test]
fn calls_of_mpi_within_a_wait() {
    crate::with_first(crate::OPEN_MPI, calls_of_mpi);
    crate::with_first(crate::MPICH, calls_of_mpi);
}

#[test]
fn with_large_variables_of_threads() {
    crate::with_first(crate::OPEN_MPI, large_own_variables);
    crate::with_first(crate::MPICH, large_own_variables);
}

#[test]
fn removed_by_any_function() {
    crate::with_first(crate::OPEN_MPI, removed);
    crate::with_first(crate::MPICH, removed);
}

#[test]
fn by_threads_of_the_c_library() {
    crate::with_first(crate::OPEN_MPI, other_threads);
    crate::with_first(crate::MPICH, other_threads);
}

#[test]
fn with_large_counts() {
    for name in Mpi::NAMES {
        crate::with_mpi(name, large_counts);
    }
}

#[test]
fn beside_other_collectives() {
    crate::with_first(crate::OPEN_MPI, beside_a_library);
    crate::with_first(crate::MPICH, beside_a_library);
}

#[test]
fn by_operations_that_return_at_once() {
    for name in Mpi::NAMES {
        crate::with_mpi(name, nonblocking);
    }
}

#[test]
fn by_pythons_operations_that_return_at_once() {
    by_python("openmpi5", &["openmpi", "mpi4py"], "openmpi");
    by_python("mpich5", &["mpich", "mpi4py"], "mpich");
}

#[test]
fn with_too_little_room() {
    crate::with_first(crate::OPEN_MPI, too_short);
    crate::with_first(crate::MPICH, too_short);
}

#[test]
fn awaited_before_a_long_message_is_received() {
    crate::with_first(crate::OPEN_MPI, long_message);
    crate::with_first(crate::MPICH, long_message);
}

#[test]
fn offers_in_other_orders() {
    crate::with_first(crate::OPEN_MPI, offers);
    crate::with_first(crate::MPICH, offers);
}

#[test]
fn requests_of_threads() {
    crate::with_first(crate::OPEN_MPI, requests);
    crate::with_first(crate::MPICH, requests);
}

#[test]
fn gathered_between_each_other() {
    crate::with_first(crate::OPEN_MPI, checkerboard);
    crate::with_first(crate::MPICH, checkerboard);
}

#[test]
fn changed_while_data_is_in_transit() {
    crate::with_first(crate::OPEN_MPI, leased);
    crate::with_first(crate::MPICH, leased);
}

#[test]
fn with_parts_of_two_sizes() {
    crate::with_first(crate::OPEN_MPI, uneven);
    crate::with_first(crate::MPICH, uneven);
}
