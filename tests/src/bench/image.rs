//! A container's image in one file, on nodes that start a program in it at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Report, Table};
use crate::counting_fs::{Caching, Mounted};
use crate::harness::{Headwater, Mechanism, Program, Running, has_program};

/// Of the server's link: 1 Gbit/s.
const BYTES_PER_SECOND: u64 = 125_000_000;
const NODES: [usize; 2] = [1, 16];
const TIME_MAX: Duration = Duration::from_secs(900);
const IMPORTS: &str =
    "import asyncio, decimal, email.message, http.client, json, sqlite3, ssl, unittest, xml.dom.minidom";
/// This machine's Python and libraries, with what Charliecloud mounts over. As enroot makes images, their data isn't
/// compressed.
const MAKE: &str = r#"cd / && exec mksquashfs usr/bin/python3* usr/lib/python3* usr/lib/$(uname -m)-linux-gnu usr/lib64 "$0" \
    -no-strip -noD -noF -quiet -no-progress \
    -p 'bin s 777 0 0 usr/bin' -p 'lib s 777 0 0 usr/lib' -p 'lib64 s 777 0 0 usr/lib64' \
    -p 'dev d 755 0 0' -p 'proc d 755 0 0' -p 'sys d 755 0 0' -p 'tmp d 777 0 0' -p 'home d 755 0 0' -p 'etc d 755 0 0' \
    -p 'etc/passwd f 644 0 0 true' -p 'etc/group f 644 0 0 true' -p 'etc/hosts f 644 0 0 true' \
    -p 'etc/resolv.conf f 644 0 0 true' -wildcards -e '... *.a' '... libLLVM*' '... valgrind' '... dri'"#;
/// What each node does with the image `$0`, before it runs the arguments in it; `$1` is a directory of the node's.
const WAYS: [(&str, &str); 3] = [
    ("each node mounts it", r#"image=$0"#),
    ("each node copies it", r#"cp "$0" "$1/copy.sqfs" && image=$1/copy.sqfs"#),
    ("each node unpacks it", r#"unsquashfs -quiet -no-progress -d "$1/tree" "$0" >"$1/log" && image=$1/tree"#),
];

pub(super) fn run(report: &mut Report) {
    report.heading("A container's image of one file, the shared file system sending 1 Gbit/s");
    if let Some(missing) = ["ch-run", "mksquashfs", "unsquashfs"].iter().find(|name| !has_program(name)) {
        return report.line(format!("skipped: {missing} is not installed"));
    }
    let image = image();
    let bytes = fs::metadata(&image).expect("it has been made").len();
    let directory = image.parent().expect("in a directory");
    report.line(format!(
        "A SquashFS file of {:.0} MB with this machine's Python and libraries. On each node `ch-run` mounts it and runs \
         one Python there, which imports a part of its library; all start at once. The time is until the last has ended, \
         sessions' starts and ends included, of one run each. Without Headwater each node has the kernel's caches for \
         itself, empty at first. All nodes share this machine's processors and its local disk.\n",
        bytes as f64 / 1e6
    ));
    let mut table = Table::new(["", "nodes", "seconds", "MB sent", "of the image"]);
    for nodes in NODES {
        let mut row = |name: &str, measured: Result<(f64, u64), String>| match measured {
            Ok((seconds, sent)) => table.row([
                name.to_owned(),
                nodes.to_string(),
                format!("{seconds:.1}"),
                format!("{:.0}", sent as f64 / 1e6),
                format!("{:.2}", sent as f64 / bytes as f64),
            ]),
            Err(reason) => table.row([name.to_owned(), nodes.to_string(), reason, String::new(), String::new()]),
        };
        for (name, script) in WAYS {
            row(name, without(directory, script, nodes));
        }
        row("Headwater, each node mounts it", with(directory, nodes));
    }
    report.table(&table);
}

/// Returns the image, made at the first use, alone in its directory.
fn image() -> PathBuf {
    let image = crate::workspace().join("target/bench/image/image.sqfs");
    if !image.exists() {
        fs::create_dir_all(image.parent().expect("in a directory")).expect("an own directory");
        let part = image.with_extension("part");
        let output = Command::new("sh").args(["-c", MAKE]).arg(&part).output().expect("sh is there");
        assert!(output.status.success(), "{output:?}");
        fs::rename(&part, &image).expect("an own directory");
    }
    image
}

fn mount(directory: &Path, nodes: usize) -> Result<Mounted, String> {
    let mut mounted = Mounted::new(directory, nodes, Caching { ttl_ms: 600_000, pages: true })?;
    mounted.set_bandwidth(BYTES_PER_SECOND);
    Ok(mounted)
}

fn sent(mounted: &mut Mounted) -> u64 {
    mounted.counts()["bytes_read"].as_u64().expect("a number")
}

fn in_image(script: &str, image: &Path, own: &Path) -> Program {
    let run = format!("{script} && exec ch-run \"$image\" -- python3 -c '{IMPORTS}'");
    Program::new("sh").args(["-c", &run]).arg(image).arg(own).env("USER", "user")
}

/// Seconds, and bytes that the shared file system sent.
fn without(directory: &Path, script: &str, nodes: usize) -> Result<(f64, u64), String> {
    let mut mounted = mount(directory, nodes)?;
    let own = crate::scratch("image");
    let own: Vec<PathBuf> = (0..nodes).map(|node| own.path().join(node.to_string())).collect();
    own.iter().for_each(|own| fs::create_dir_all(own).expect("an own directory"));
    let started = Instant::now();
    let programs = mounted.mounts().iter().zip(&own);
    let running: Vec<Running> =
        programs.map(|(mount, own)| in_image(script, &mount.join("image.sqfs"), own).start()).collect();
    for running in running {
        let output = running.finish_within(TIME_MAX);
        assert_eq!(output.status, 0, "{output:?}");
    }
    Ok((started.elapsed().as_secs_f64(), sent(&mut mounted)))
}

fn with(directory: &Path, nodes: usize) -> Result<(f64, u64), String> {
    let mut mounted = mount(directory, 1)?;
    let program = in_image(WAYS[0].1, &mounted.path().join("image.sqfs"), Path::new("/"));
    let headwater = Headwater::new(mounted.path()).via(Mechanism::Namespace).on(nodes, 1).store_of_its_own();
    let started = Instant::now();
    let session = headwater.option("--closures=/dev/null/none").start(&program).finish_within(TIME_MAX);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    Ok((started.elapsed().as_secs_f64(), sent(&mut mounted)))
}
