//! Fetching before any request: every node has the files, and the shared file system is read once.

mod support;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use headwater_closure::recorded::{Entry, Version, What};
use headwater_daemon::{Config, Policy, Preload, PreloadList, PreloadProgram, Preloaded, Report, Shape};
use support::{CHAIN, Cluster, eventually, stats};

const FILES: usize = 200;

fn version(path: &Path) -> Version {
    let status = path.metadata().unwrap();
    Version {
        size: status.len(),
        mtime_seconds: status.mtime(),
        mtime_nanoseconds: u32::try_from(status.mtime_nsec()).unwrap(),
    }
}

fn list(entries: &[(What, &Path)]) -> Preload {
    let line = |(what, path): &(What, &Path)| Entry { what: what.clone(), path: path.to_path_buf() }.to_string();
    Preload::List(PreloadList {
        name: "app.closure".into(),
        is_learnt: false,
        is_complete: false,
        entries: entries.iter().map(line).collect(),
    })
}

/// Waits until every node has fetched all its files, and returns the counts.
fn fetched(cluster: &Cluster) -> Vec<Preloaded> {
    let tally = |node| stats(node).preload;
    cluster.nodes.iter().for_each(|node| eventually("the end of preloading", || tally(node).has_ended));
    cluster.nodes.iter().map(tally).collect()
}

/// Checks that each node's table has these records.
fn published(cluster: &Cluster, wanted: &[(&Path, State)]) {
    for (number, node) in cluster.nodes.iter().enumerate() {
        let table = node.table();
        for (path, bits) in wanted {
            let record = table.reader().find(path.as_os_str().as_bytes());
            let state = record.map_or(State::empty(), |record| record.state);
            assert!(state.contains(*bits), "{} on node {number}: {state:?}", path.display());
        }
    }
}

fn fill(cluster: &Cluster) -> Vec<std::path::PathBuf> {
    let names: Vec<String> = (0..FILES).map(|n| format!("lib/d{}/f{n}", n % 7)).collect();
    for (number, name) in names.iter().enumerate() {
        cluster.write(name, &vec![number as u8; 100 * number]);
    }
    names.iter().map(|name| cluster.shared(name)).collect()
}

fn read_once(reports: &[Report], files: u64, directories: u64) {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    assert_eq!(sum(|r| r.shared_fs.files_read), files, "each file is opened once: {reports:#?}");
    assert_eq!(sum(|r| r.shared_fs.directories_read), directories, "each directory is read once: {reports:#?}");
}

#[test]
fn every_node_has_what_the_list_names() {
    for (shape, policy, ranks) in [
        (CHAIN, Policy::Pull, 4),
        (CHAIN, Policy::Push, 4),
        (Shape::Striped { trees: 3, readers: 3 }, Policy::Adaptive, 5),
        (Shape::Striped { trees: 3, readers: 1 }, Policy::Push, 5),
    ] {
        let mut cluster = Cluster::prepare();
        let files = fill(&cluster);
        symlink("d0/f0", cluster.shared("lib/link")).unwrap();
        let link = cluster.shared("lib/link");
        let directory = cluster.shared("lib/d3");
        let mut entries: Vec<_> = files.iter().map(|file| (What::Whole(version(file)), &**file)).collect();
        entries.extend([(What::Link, &*link), (What::Directory, &*directory), (What::Any, &*directory)]);
        let preload = list(&entries);
        cluster.run(ranks, |config| {
            (config.shape, config.policy, config.preload) = (shape, policy, Some(preload.clone()));
        });
        let mut wanted: Vec<(&Path, State)> = files.iter().map(|file| (&**file, State::WHOLE)).collect();
        wanted.extend([(&*link, State::ATTR), (&*directory, State::LISTED)]);
        let tallies = fetched(&cluster);
        let expected =
            Preloaded { entries: FILES as u64 + 3, files: FILES as u64, changed: 0, failed: 0, has_ended: true };
        assert!(tallies.iter().all(|tally| *tally == expected), "{shape:?} {policy:?}: {tallies:#?}");
        published(&cluster, &wanted);
        for node in 0..ranks as usize {
            assert!(std::fs::read(cluster.nodes[node].copy(&files[9])).unwrap() == vec![9; 900]);
        }
        let reports = cluster.stop();
        read_once(&reports, FILES as u64, 9);
    }
}

#[test]
fn changed_files_are_left_until_requested() {
    let mut cluster = Cluster::prepare();
    let files = fill(&cluster);
    let versions: Vec<Version> = files.iter().map(|file| version(file)).collect();
    std::fs::write(&files[20], b"longer, and newer").unwrap();
    std::fs::remove_file(&files[30]).unwrap();
    std::fs::remove_file(&files[40]).unwrap();
    symlink("f5", &files[40]).unwrap();
    let outside = cluster.dir.path().join("session/lock");
    let mut entries: Vec<_> =
        files.iter().zip(&versions).map(|(file, version)| (What::Whole(*version), &**file)).collect();
    entries.push((What::Any, &outside));
    let preload = list(&entries);
    cluster.run(3, |config| (config.shape, config.preload) = (CHAIN, Some(preload.clone())));
    let kept = files.iter().enumerate().filter(|(n, _)| ![20, 30, 40].contains(n));
    let wanted: Vec<(&Path, State)> = kept.map(|(_, file)| (&**file, State::WHOLE)).collect();
    let tallies = fetched(&cluster);
    let expected =
        Preloaded { entries: FILES as u64 + 1, files: FILES as u64 - 3, changed: 3, failed: 1, has_ended: true };
    assert!(tallies.iter().all(|tally| *tally == expected), "{tallies:#?}");
    published(&cluster, &wanted);
    assert!(cluster.nodes.iter().all(|node| !node.copy(&files[20]).exists()));
    assert_eq!(cluster.nodes[2].ask(&files[20], Want::WHOLE), Status::Done);
    assert_eq!(std::fs::read(cluster.nodes[2].copy(&files[20])).unwrap(), b"longer, and newer");
    let reports = cluster.stop();
    read_once(&reports, FILES as u64 - 2, 9);
}

#[test]
fn a_list_does_not_fill_the_store() {
    let mut cluster = Cluster::prepare();
    let files: Vec<_> = (0..600).map(|number| cluster.shared(&format!("f{number:03}"))).collect();
    files.iter().for_each(|file| std::fs::write(file, vec![1; 4096]).unwrap());
    let entries: Vec<_> = files.iter().map(|file| (What::Any, &**file)).collect();
    let preload = list(&entries);
    cluster.run(1, |config| (config.store_bytes_max, config.preload) = (2 << 20, Some(preload.clone())));
    let tally = fetched(&cluster)[0];
    assert!(tally.failed > 0 && tally.files + tally.failed == 600, "{tally:?}");
    assert_eq!(cluster.nodes[0].ask(&files[599], Want::WHOLE), Status::Done, "for processes there is room");
    assert_eq!(stats(&cluster.nodes[0]).holds.evictions, 0);
    cluster.stop();
}

/// Writes a program with a library that needs another one, which the search path of its directory has.
fn program(cluster: &Cluster) -> Vec<std::path::PathBuf> {
    let compile = |output: &str, flags: &[&str]| {
        let output = cluster.shared(output);
        std::fs::create_dir_all(output.parent().unwrap()).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-Wl,--no-as-needed", "-o"]).arg(&output).args(flags).current_dir(cluster.shared(""));
        assert!(compiler.status().unwrap().success());
        output
    };
    cluster.write("main.c", b"int main(void) { return 0; }\n");
    let library = ["-shared", "-fPIC", "-xc", "/dev/null", "-xnone"];
    vec![
        compile("deep/libbelow.so", &library),
        compile("lib/libabove.so", &[&library[..], &["-Ldeep", "-lbelow", "-Wl,-rpath,$ORIGIN/../deep"]].concat()),
        compile(
            "bin/app",
            &["main.c", "-Llib", "-labove", "-Wl,-rpath-link,deep", "-Wl,-rpath,$ORIGIN/none:$ORIGIN/../lib"],
        ),
    ]
}

#[test]
fn every_node_has_what_the_program_is_loaded_with() {
    let mut cluster = Cluster::prepare();
    let files = program(&cluster);
    let app = cluster.shared("link");
    symlink("bin/app", &app).unwrap();
    let preload = |config: &mut Config| {
        let program =
            PreloadProgram { file: app.to_str().unwrap().into(), cwd: "/".into(), ..PreloadProgram::default() };
        (config.shape, config.preload) = (CHAIN, Some(Preload::Program(program)));
    };
    cluster.run(4, preload);
    let wanted: Vec<(&Path, State)> = files.iter().map(|file| (&**file, State::LOADABLE)).collect();
    fetched(&cluster);
    published(&cluster, &wanted);
    let reports = cluster.stop();
    // The scope's top, bin, lib and deep.
    read_once(&reports, 3, 4);
    assert!(reports[1..].iter().all(|report| report.shared_fs.operations == 0), "{reports:#?}");
}
