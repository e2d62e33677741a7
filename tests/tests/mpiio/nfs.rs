//! Jobs of four nodes that mount an NFS server: in an emulated machine, as the kernels of test machines often lack NFS.
//! The scripts are in `tests/nfs`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::{Fixture, Program, skipped};

use crate::programs::make_input;
use crate::with_mpi;

/// Names a directory with the unpacked package of a kernel of Debian, for which `depmod -b` was called.
const KERNEL: &str = "HEADWATER_TEST_NFS_KERNEL";
/// The emulated machine is stopped then.
const SECONDS_MAX: &str = "170";
const TIME_MAX: Duration = Duration::from_secs(180);
const INPUT_BYTES: usize = 4_000_000;
/// Shares that begin and end within pages, within a file and one after the other; and blocks, which are exchanged.
const CASES: [(&str, &str, &str); 5] = [
    ("rows", "c/rows.c", "--rows 1333 --row-bytes 1003 --header 77 --steps 2"),
    ("parts", "c/rows.c", "--rows 1335 --row-bytes 1003 --by scatterv --write vector"),
    ("blocks", "c/blocks.c", "--rows 803 --columns 605"),
    ("cubes", "c/blocks.c", "--planes 61 --rows 83 --columns 79 --layers 1"),
    ("pieces", "c/small_writes.c", ""),
];
/// The client of NFS joins the small pieces of a program as it is to this many requests at most, if it may.
const REQUESTS_MAX: u32 = 10;

/// The directory of the kernel, or what is missing.
fn kernel() -> Result<PathBuf, String> {
    let kernel = std::env::var_os(KERNEL).map(PathBuf::from);
    let kernel = kernel.ok_or_else(|| format!("{KERNEL} names no kernel (tests/nfs/machine.sh)"))?;
    let needed = [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("rpc.nfsd", "nfs-kernel-server"),
        ("modprobe", "kmod"),
        ("busybox", "busybox-static"),
        ("cpio", "cpio"),
    ];
    for (command, package) in needed {
        let found =
            Command::new("sh").args(["-c", &format!("PATH=$PATH:/usr/sbin:/sbin command -v {command}")]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            return Err(format!("{command} is not installed (package {package})"));
        }
    }
    Ok(kernel)
}

/// What nodes write together on NFS, mounted with these options, is what one process writes to a local file.
fn writes_are_those_of_one_node(mpi: &Mpi, options: &str) {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(reason) => return skipped(reason),
    };
    let library = match Library::find(mpi) {
        Ok(library) => library.directory().join("libheadwater-mpiio.so"),
        Err(reason) => return skipped(reason),
    };
    let fixture = Fixture::new("mpiio-nfs");
    let (input, out) = (fixture.outside("in"), fixture.outside("local"));
    make_input(&input, INPUT_BYTES);
    let (mut cases, mut expected) = (String::new(), Vec::new());
    for (name, source, own) in CASES {
        let program = mpi.build(source).unwrap().display().to_string();
        let files = ["--in".as_ref(), input.as_os_str(), "--out".as_ref(), out.as_os_str()];
        let plain = mpi.launcher(4).arg(&program).args(own.split_whitespace()).args(files).run();
        assert_eq!(plain.status, 0, "{name}: {}", plain.stderr);
        let sum = Program::shell(&format!("cksum <'{}'", out.display())).run().stdout;
        cases += &format!("{name} {program} {own}\n");
        // Thousands of pieces take an emulated processor longer than senders wait.
        let writes = match name {
            "cubes" => "",
            "pieces" => "0",
            _ => "1",
        };
        expected.push(format!("case {name} status=0 sum={} writes={writes}", sum.trim()));
        fs::remove_file(&out).unwrap();
    }
    let (list, answers) = (fixture.outside("cases"), fixture.dir("answers"));
    fs::write(&list, cases).unwrap();
    let scripts = headwater_tests::workspace().join("tests/nfs");
    let check = format!(
        "KERNEL='{}' NFS_OPTIONS='{options}' NODE_RATE=80mbit SERVER_RATE=320mbit sh '{}' '{}' {} '{}' '{}'",
        kernel.display(),
        scripts.join("check.sh").display(),
        library.display(),
        mpi.name,
        input.display(),
        list.display()
    );
    let machine = Program::new(scripts.join("machine.sh")).arg(&kernel).arg(&answers).args([SECONDS_MAX, &check]);
    let output = machine.start().finish_within(TIME_MAX);
    // Each write is sent by itself with `sync`, which `noac` includes.
    if !options.contains("sync") && !options.contains("noac") {
        let sent = output.stdout.lines().find_map(|line| line.strip_prefix("case pieces ")?.split_once("requests="));
        let sent = sent.unwrap_or_else(|| panic!("no line of the program: {} {}", output.stdout, output.stderr));
        let sent: u32 = sent.1.parse().unwrap();
        assert!(sent <= REQUESTS_MAX, "{sent} requests to write: {}", output.stdout);
    }
    for line in expected {
        assert!(output.stdout.lines().any(|one| one.starts_with(&line)), "{line}: {} {}", output.stdout, output.stderr);
    }
}

#[test]
fn open_mpi() {
    with_mpi("openmpi4", |mpi| writes_are_those_of_one_node(mpi, "vers=4.2"));
}

#[test]
fn mpich() {
    with_mpi("mpich4", |mpi| writes_are_those_of_one_node(mpi, "vers=4.2"));
}

#[test]
fn version_3() {
    with_mpi("openmpi4", |mpi| writes_are_those_of_one_node(mpi, "vers=3"));
}

#[test]
fn synchronous() {
    with_mpi("openmpi4", |mpi| writes_are_those_of_one_node(mpi, "vers=4.2,sync"));
}

#[test]
fn without_cached_attributes() {
    with_mpi("openmpi4", |mpi| writes_are_those_of_one_node(mpi, "vers=4.2,noac"));
}
