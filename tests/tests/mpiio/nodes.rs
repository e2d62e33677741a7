//! Jobs of four nodes, on a directory that all see, and on GlusterFS.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_cluster::{Cluster, Options, Rate};
use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::nodes::project;
use headwater_tests::harness::services::gluster::{Gluster, VOLUME};
use headwater_tests::harness::services::{Ssh, output_of};
use headwater_tests::harness::{Fixture, MemoryGroup, Output, Program, skipped, wait_until};

use crate::programs::{checksum, make_input};
use crate::report::{report, transformed};

const NODES: usize = 4;
/// How long clients of a file system may cache outdated attributes.
const SEEN_MAX: Duration = Duration::from_secs(20);
/// As much as the largest of the programs reads.
const INPUT_BYTES: usize = 36_000_000;
const PROGRAMS: [(&str, &str); 15] = [
    ("c/rows.c", "--rows 333 --row-bytes 1003 --header 77 --steps 3"),
    ("c/rows.c", "--rows 333 --row-bytes 1003 --later --steps 3"),
    ("c/rows.c", "--rows 333 --row-bytes 1003 --by scatterv --read stdio --write stdio --steps 3"),
    ("c/blocks.c", "--rows 401 --columns 303 --steps 3"),
    // Blocks that are exchanged before they are written, those of both rows together.
    ("c/blocks.c", "--rows 2203 --columns 2011 --steps 2"),
    ("c/blocks.c", "--rows 2203 --columns 2011 --read stdio --write stdio --receive irecv"),
    // More planes than runs are listed.
    ("c/blocks.c", "--planes 83 --rows 83 --columns 79 --layers 1"),
    // Writes that replace the ends of earlier ones, whose memory the program uses again or doesn't.
    ("c/halo.c", "--rows 4003 --row-bytes 2003 --border 61 --steps 3"),
    ("c/halo.c", "--rows 1203 --row-bytes 2003 --border 7 --steps 3 --separate"),
    // Writes that must be complete before the file is closed.
    ("c/halo.c", "--rows 4003 --row-bytes 2003 --border 61 --locked file"),
    ("c/halo.c", "--rows 4003 --row-bytes 2003 --border 61 --locked record"),
    ("c/halo.c", "--rows 4003 --row-bytes 2003 --border 61 --timed"),
    ("c/matvec.c", "--rows 401 --columns 303"),
    // It writes nothing. Pieces of the file travel from node to node, into memory with and without gaps.
    ("c/broadcast.c", "--bytes 24000000 --header 77 --root 1"),
    ("c/broadcast.c", "--bytes 3200000 --piece 1600000 --gaps"),
];

/// Four nodes, and a fifth one if a volume is to be served; and what all of them see.
pub struct Nodes {
    cluster: Cluster,
    fixture: Fixture,
}

impl Nodes {
    /// `None`, with the reason on standard output, where there can't be any.
    pub fn up(count: usize, mpi: &Mpi) -> Option<Nodes> {
        Nodes::up_at(None, count, mpi)
    }

    /// The same with links of this rate.
    fn up_at(rate: Option<Rate>, count: usize, mpi: &Mpi) -> Option<Nodes> {
        if let Err(reason) = headwater_cluster::check() {
            skipped(reason);
            return None;
        }
        let fixture = Fixture::new("mpiio-nodes");
        let library = Library::find(mpi).ok().map(|library| library.directory().to_path_buf());
        // Files in a directory that the nodes' RAM disks hide.
        let hidden = library.into_iter().filter(|path| path.starts_with("/tmp"));
        let shares = [project().to_path_buf(), fixture.outside("")].into_iter().chain(hidden).collect();
        let cluster = Cluster::up(count, &Options { rate, shares, ..Options::default() }).unwrap();
        Some(Nodes { cluster, fixture })
    }

    /// A directory that all nodes see.
    pub fn shared(&self) -> PathBuf {
        self.fixture.shared()
    }

    /// How ranks are started on other nodes.
    pub fn ssh(&self) -> Result<Ssh, String> {
        Ssh::start(&self.cluster, &self.fixture.dir("ssh"))
    }

    /// The launcher of a job, on the first node, with so many ranks on each of some nodes; its arguments follow.
    pub fn launcher(&self, mpi: &Mpi, ssh: &Ssh, nodes: usize, ranks: usize) -> Program {
        let hosts: Vec<&str> = self.cluster.nodes()[..nodes].iter().map(|node| node.name.as_str()).collect();
        let agent = ssh.agent.display().to_string();
        let (count, each) = (ranks.to_string(), ranks.div_ceil(nodes).to_string());
        let slots = hosts.iter().map(|host| format!("{host}:{each}")).collect::<Vec<_>>().join(",");
        let hosts = hosts.join(",");
        let args: Vec<&str> = match mpi.is_open_mpi() {
            true => vec!["--mca", "plm_rsh_agent", &agent, "-H", &slots, "-np", &count],
            false => vec!["-launcher", "ssh", "-launcher-exec", &agent, "-hosts", &hosts, "-ppn", &each, "-n", &count],
        };
        let node = self.cluster.on(1).command_in(self.fixture.shared().as_path(), mpi.mpirun());
        let start = Program::new(node.get_program()).args(node.get_args());
        let launcher = Mpi::environment().iter().fold(start, |start, (name, value)| start.env(name, value));
        launcher.args(args)
    }

    /// Runs a program with a rank on each of the four nodes. `report`: where the library writes, if it is used.
    fn run(&self, mpi: &Mpi, ssh: &Ssh, program: &[String], library: Option<(&Library, &Path)>) -> Output {
        let own = library.map(|(library, report)| library.clone().with("HEADWATER_IO_EVERYWHERE", "yes").args(report));
        let launcher = self.launcher(mpi, ssh, NODES, NODES);
        launcher.args(own.unwrap_or_else(|| vec!["env".into()])).args(program).run()
    }

    /// All nodes' view of a file, once it is the same: clients of a file system cache sizes for a moment.
    fn contents(&self, file: &Path) -> String {
        let sums = || (1..=NODES).map(|node| output_of(self.cluster.on(node), &format!("cksum <'{}'", file.display())));
        let seen = || sums().collect::<BTreeSet<String>>();
        assert!(wait_until(SEEN_MAX, || seen().len() == 1), "{}: {:?}", file.display(), seen());
        seen().into_iter().next().unwrap_or_default()
    }

    /// All programs, whose files are in a directory that all four nodes see: the checksums and the output are the
    /// same with the library.
    fn check(&self, mpi: &Mpi, ssh: &Ssh, input: &Path, directory: &Path) {
        let library = Library::find(mpi);
        for (source, options) in PROGRAMS {
            let out = directory.join("out");
            let mut args = vec![mpi.build(source).unwrap().display().to_string()];
            args.extend(options.split_whitespace().map(str::to_owned));
            args.extend(["--in".into(), input.display().to_string(), "--out".into(), out.display().to_string()]);
            let plain = self.run(mpi, ssh, &args, None);
            assert_eq!(plain.status, 0, "{args:?}: {}", plain.stderr);
            let expected = (checksum(&plain).to_owned(), self.contents(&out));
            let mut twin = args.clone();
            twin.push("--twin".into());
            let by_hand = self.run(mpi, ssh, &twin, None);
            assert_eq!(by_hand.status, 0, "{twin:?}: {}", by_hand.stderr);
            assert_eq!((checksum(&by_hand).to_owned(), self.contents(&out)), expected, "{twin:?}");
            let Ok(library) = &library else { continue };
            let report = self.fixture.outside("report");
            let served = self.run(mpi, ssh, &args, Some((library, &report)));
            assert_eq!(served.status, 0, "{args:?}: {}", served.stderr);
            assert_eq!((checksum(&served).to_owned(), self.contents(&out)), expected, "{args:?}");
            let text = fs::read_to_string(&report).unwrap_or_default();
            assert!(transformed(&text) > 0, "{args:?}: nothing was transformed: {text} {}", served.stderr);
            if source == "c/matvec.c" {
                let served = self.run(mpi, ssh, &twin, Some((library, &report)));
                assert_eq!(served.status, 0, "{twin:?}: {}", served.stderr);
                assert_eq!((checksum(&served).to_owned(), self.contents(&out)), expected, "{twin:?}");
            }
        }
        if let Err(reason) = library {
            skipped(reason);
        }
    }
}

/// On a directory of the machine, which all nodes see.
fn a_common_directory(mpi: &Mpi) {
    let Some(nodes) = Nodes::up(NODES, mpi) else { return };
    let ssh = match Ssh::start(&nodes.cluster, &nodes.fixture.dir("ssh")) {
        Ok(ssh) => ssh,
        Err(reason) => return skipped(reason),
    };
    let input = nodes.fixture.outside("in");
    make_input(&input, INPUT_BYTES);
    nodes.check(mpi, &ssh, &input, &nodes.fixture.shared());
}

/// On a volume that a fifth node serves.
fn a_volume(mpi: &Mpi) {
    let Some(nodes) = Nodes::up(NODES + 1, mpi) else { return };
    let ssh = match Ssh::start(&nodes.cluster, &nodes.fixture.dir("ssh")) {
        Ok(ssh) => ssh,
        Err(reason) => return skipped(reason),
    };
    let gluster = match Gluster::start(&nodes.cluster) {
        Err(reason) if reason.contains("is not installed") => return skipped(reason),
        started => started.unwrap(),
    };
    let files = nodes.fixture.dir("files");
    make_input(&files.join("in"), INPUT_BYTES);
    gluster.fill(&[files]).unwrap();
    gluster.mount(NODES).unwrap();
    let volume = Path::new(VOLUME).join("files");
    nodes.check(mpi, &ssh, &volume.join("in"), &volume);
    gluster.unmount().unwrap();
}

/// One of the two senders of a row is late. The other one's data isn't sent meanwhile: with all four in one exchange,
/// rank 0 receives an eighth of the file. Each rank may be late by itself, so one of a few runs must do it.
fn a_late_sender(mpi: &Mpi) {
    const RUNS: usize = 3;
    const BYTES: u64 = 2203 * 2011 * 8;
    let Ok(library) = Library::find(mpi).map_err(skipped) else { return };
    let Some(nodes) = Nodes::up_at(Some("100mbit".parse().unwrap()), NODES, mpi) else { return };
    let Ok(ssh) = Ssh::start(&nodes.cluster, &nodes.fixture.dir("ssh")).map_err(skipped) else { return };
    let library = library.with("HEADWATER_IO_MODEL", "always");
    let (input, report) = (nodes.fixture.outside("in"), nodes.fixture.outside("report"));
    make_input(&input, INPUT_BYTES);
    let out = nodes.fixture.shared().join("out");
    let options = "--rows 2203 --columns 2011 --late-ms 100 --in".split(' ').map(str::to_owned);
    let mut args = vec![mpi.build("c/blocks.c").unwrap().display().to_string()];
    args.extend(options.chain([input.display().to_string(), "--out".into(), out.display().to_string()]));
    // The kernel's own count of bytes received on a link; of `/sys` each node has the machine's.
    let counted = "awk '$1 == \"eth0:\" { print $2 }' /proc/net/dev";
    let received = || output_of(nodes.cluster.on(1), counted).trim().parse::<u64>().unwrap();
    let received_by_run = (0..RUNS).map(|_| {
        let before = received();
        let served = nodes.run(mpi, &ssh, &args, Some((&library, &report)));
        assert_eq!(served.status, 0, "{args:?}: {}", served.stderr);
        received() - before
    });
    let mut seen = Vec::new();
    let is_once =
        received_by_run.inspect(|bytes| seen.push(*bytes)).any(|bytes| (BYTES / 8..BYTES / 6).contains(&bytes));
    assert!(is_once, "{seen:?} of {BYTES} bytes arrived at rank 0");
}

/// Blocks whose rows are shorter than a page are written together, too. Senders may time out on a busy machine, so one
/// of a few runs must do it.
fn narrow_blocks(mpi: &Mpi) {
    const RUNS: usize = 3;
    let Ok(library) = Library::find(mpi).map_err(skipped) else { return };
    let Some(nodes) = Nodes::up(NODES, mpi) else { return };
    let Ok(ssh) = Ssh::start(&nodes.cluster, &nodes.fixture.dir("ssh")).map_err(skipped) else { return };
    let library = library.with("HEADWATER_IO_MODEL", "always");
    let (input, out) = (nodes.fixture.outside("in"), nodes.fixture.shared().join("out"));
    make_input(&input, INPUT_BYTES);
    let options = "--rows 4003 --columns 503 --in".split(' ').map(str::to_owned);
    let mut args = vec![mpi.build("c/blocks.c").unwrap().display().to_string()];
    args.extend(options.chain([input.display().to_string(), "--out".into(), out.display().to_string()]));
    let plain = nodes.run(mpi, &ssh, &args, None);
    assert_eq!(plain.status, 0, "{args:?}: {}", plain.stderr);
    let expected = (checksum(&plain).to_owned(), nodes.contents(&out));
    let mut reports = String::new();
    let is_written = (0..RUNS).any(|_| {
        let file = nodes.fixture.outside("report");
        let served = nodes.run(mpi, &ssh, &args, Some((&library, &file)));
        assert_eq!(served.status, 0, "{args:?}: {}", served.stderr);
        assert_eq!((checksum(&served).to_owned(), nodes.contents(&out)), expected);
        let text = fs::read_to_string(&file).unwrap_or_default();
        reports += &text;
        report(&text).iter().any(|line| line.pattern == "receive+write" && line.transformed > 0)
    });
    assert!(is_written, "{reports}");
}

/// A matrix of twice the memory that a node has: rank 0, which reads all of it, dies of it, but not with the library.
fn more_than_fits(mpi: &Mpi) {
    const MEMORY_BYTES: u64 = 96 << 20;
    const COLUMNS: u64 = 4096;
    let Ok(library) = Library::find(mpi).map_err(skipped) else { return };
    let Some(nodes) = Nodes::up(NODES, mpi) else { return };
    let Ok(ssh) = Ssh::start(&nodes.cluster, &nodes.fixture.dir("ssh")).map_err(skipped) else { return };
    let group = |n: &usize| MemoryGroup::new(&format!("node{n}"), MEMORY_BYTES);
    let Ok(groups) = (0..NODES).collect::<Vec<_>>().iter().map(group).collect::<Result<Vec<_>, _>>().map_err(skipped)
    else {
        return;
    };
    let (input, out) = (nodes.fixture.outside("in"), nodes.fixture.shared().join("out"));
    make_input(&input, 1 << 20);
    let once = fs::read(&input).unwrap();
    fs::write(&input, once.repeat(2 * MEMORY_BYTES as usize / once.len() + 1)).unwrap();
    let program = mpi.build("c/matvec.c").unwrap().display().to_string();
    let rows = (2 * MEMORY_BYTES / (8 * COLUMNS)).to_string();
    let (input, shown) = (input.display().to_string(), out.display().to_string());
    let free = [&program, "--rows", &rows, "--columns", &COLUMNS.to_string(), "--in", &input, "--out", &shown];
    let free = free.map(str::to_owned);
    // A node's name ends in its number, from 1 on.
    let files: Vec<String> = groups.iter().map(|group| group.processes().display().to_string()).collect();
    let script = "name=$(uname -n); shift $((${name##*[!0-9]} - 1)); echo $$ >\"$1\" && shift $# && exec $0";
    let mut bound = vec!["sh".to_owned(), "-c".into(), script.into(), free.join(" ")];
    bound.extend(files);
    let plain = nodes.run(mpi, &ssh, &free, None);
    assert_eq!(plain.status, 0, "{}", plain.stderr);
    let expected = (checksum(&plain).to_owned(), nodes.contents(&out));
    let dead = nodes.run(mpi, &ssh, &bound, None);
    assert_ne!(dead.status, 0, "the plain program needs more than there is: {dead:?}");
    fs::remove_file(&out).ok();
    let served = nodes.run(mpi, &ssh, &bound, Some((&library, &nodes.fixture.outside("report"))));
    assert_eq!(served.status, 0, "{served:?}");
    assert_eq!((checksum(&served).to_owned(), nodes.contents(&out)), expected);
}

#[test]
fn narrow_blocks_open_mpi() {
    crate::with_first(crate::OPEN_MPI, narrow_blocks);
}

#[test]
fn narrow_blocks_mpich() {
    crate::with_first(&["mpich5", "mpich4"], narrow_blocks);
}

#[test]
fn more_than_fits_open_mpi() {
    crate::with_first(crate::OPEN_MPI, more_than_fits);
}

#[test]
fn more_than_fits_mpich() {
    if crate::all() {
        crate::with_first(&["mpich5", "mpich4"], more_than_fits);
    }
}

#[test]
fn open_mpi_over_ssh() {
    crate::with_first(crate::OPEN_MPI, a_common_directory);
}

#[test]
fn mpich_by_hydra() {
    crate::with_first(&["mpich5", "mpich4"], a_common_directory);
}

#[test]
fn open_mpi_on_gluster() {
    crate::with_first(crate::OPEN_MPI, a_volume);
}

#[test]
fn mpich_on_gluster() {
    if crate::all() {
        crate::with_first(&["mpich5", "mpich4"], a_volume);
    }
}

#[test]
fn a_late_sender_open_mpi() {
    crate::with_first(crate::OPEN_MPI, a_late_sender);
}

#[test]
fn a_late_sender_mpich() {
    crate::with_first(&["mpich5", "mpich4"], a_late_sender);
}
