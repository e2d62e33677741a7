//! A change on one node is seen on the others.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use headwater_fuse::init::Opening;

use crate::support::mounted::{Mounted, assert_same, check_at};
use crate::support::{CHAIN, Cluster, eventually};

/// Three nodes in a chain, each with a writable mount that knows the whole tree already.
fn start(cluster: &mut Cluster) -> Option<Vec<Mounted>> {
    cluster.write("dir/file", b"content");
    cluster.write("dir/other", b"another");
    cluster.write("dir/deep/er/leaf", b"leaf");
    cluster.write("library", &[7; 9000]);
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(3, |config| {
        config.shape = CHAIN;
        let at = dir.join(format!("mount{}", config.rank));
        mounts.borrow_mut().push(Mounted::with(config, &at, &root, Opening::None, true));
    });
    let mounts: Vec<Mounted> = mounts.into_inner().into_iter().collect::<Option<_>>()?;
    for mount in &mounts {
        check_at(&mount.at);
        assert!(!mount.path("dir/new").exists());
    }
    Some(mounts)
}

fn reads(path: &Path, expected: &str) -> bool {
    fs::read(path).is_ok_and(|found| found == expected.as_bytes())
}

#[test]
fn changes_reach_all_nodes() {
    let mut cluster = Cluster::prepare();
    let Some(mounts) = start(&mut cluster) else { return };
    let [root, middle, leaf] = &mounts[..] else { panic!("three mounts") };
    fs::write(leaf.path("dir/file"), "changed on the leaf").unwrap();
    fs::write(leaf.path("dir/new"), "made on the leaf").unwrap();
    for mount in [root, middle, leaf] {
        eventually("the change", || reads(&mount.path("dir/file"), "changed on the leaf"));
        eventually("the new file", || reads(&mount.path("dir/new"), "made on the leaf"));
        eventually("its name", || fs::read_dir(mount.path("dir")).unwrap().count() == 4);
    }
    // A passthrough path needs no more messages.
    fs::write(root.path("dir/file"), "changed on the root").unwrap();
    assert!(reads(&leaf.path("dir/file"), "changed on the root"));
    fs::remove_file(root.path("dir/new")).unwrap();
    assert!(!leaf.path("dir/new").exists());
    let changed = fs::metadata(cluster.shared("dir")).unwrap().modified().unwrap();
    for mount in &mounts {
        // A kernel keeps the attributes of a directory for a tick or two.
        eventually("its time", || fs::metadata(mount.path("dir")).unwrap().modified().unwrap() == changed);
        assert_same(&cluster.shared(""), &mount.at);
    }
    drop(mounts);
    cluster.stop();
}

#[test]
fn a_renamed_directory_is_renamed_everywhere() {
    let mut cluster = Cluster::prepare();
    let Some(mounts) = start(&mut cluster) else { return };
    let [root, _, leaf] = &mounts[..] else { panic!("three mounts") };
    let file = File::open(leaf.path("dir/deep/er/leaf")).unwrap();
    fs::rename(root.path("dir"), root.path("moved")).unwrap();
    fs::create_dir_all(root.path("dir/deep/er")).unwrap();
    fs::write(root.path("dir/deep/er/leaf"), "a new one").unwrap();
    for mount in &mounts {
        eventually("the new directory", || reads(&mount.path("dir/deep/er/leaf"), "a new one"));
        eventually("the moved one", || reads(&mount.path("moved/deep/er/leaf"), "leaf"));
        eventually("what is gone", || !mount.path("dir/file").exists());
        assert_same(&cluster.shared(""), &mount.at);
    }
    let mut content = [0; 4];
    file.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"leaf", "an open file stays readable");
    drop(file);
    drop(mounts);
    cluster.stop();
}

#[test]
fn what_is_replaced_stays_what_it_was_for_its_users() {
    let mut cluster = Cluster::prepare();
    let Some(mounts) = start(&mut cluster) else { return };
    let [root, _, leaf] = &mounts[..] else { panic!("three mounts") };
    let file = File::open(leaf.path("library")).unwrap();
    let ino = file.metadata().unwrap().ino();
    fs::write(root.path("library.new"), [8; 9000]).unwrap();
    fs::rename(root.path("library.new"), root.path("library")).unwrap();
    eventually("the new library", || fs::read(leaf.path("library")).unwrap() == [8; 9000]);
    let mut page = [0; 9000];
    file.read_exact_at(&mut page, 0).unwrap();
    assert_eq!(page, [7; 9000]);
    assert_eq!(file.metadata().unwrap().ino(), ino);
    assert_ne!(fs::metadata(leaf.path("library")).unwrap().ino(), ino);
    drop(file);
    drop(mounts);
    cluster.stop();
}

#[test]
fn lines_that_two_nodes_append_are_all_there() {
    let mut cluster = Cluster::prepare();
    let Some(mounts) = start(&mut cluster) else { return };
    let append = |mount: &Mounted, line: &'static str| {
        let mut file = OpenOptions::new().append(true).open(mount.path("dir/file")).unwrap();
        move || (0..200).for_each(|_| file.write_all(line.as_bytes()).unwrap())
    };
    let writers = [append(&mounts[0], "from the root\n"), append(&mounts[2], "from the leaf\n")];
    for writer in writers.map(std::thread::spawn) {
        writer.join().unwrap();
    }
    let lines = fs::read_to_string(mounts[1].path("dir/file")).unwrap();
    let count = |line| lines.matches(line).count();
    assert_eq!((count("from the root\n"), count("from the leaf\n"), lines.len()), (200, 200, 7 + 400 * 14));
    drop(mounts);
    cluster.stop();
}

#[test]
fn changes_beside_the_mounts_are_seen_on_passthrough_paths() {
    let mut cluster = Cluster::prepare();
    let Some(mounts) = start(&mut cluster) else { return };
    fs::write(mounts[0].path("dir/file"), "passthrough now").unwrap();
    for round in 0..5 {
        let text = format!("round {round}");
        fs::write(cluster.shared("dir/file.new"), &text).unwrap();
        fs::rename(cluster.shared("dir/file.new"), cluster.shared("dir/file")).unwrap();
        // The kernel is notified of passthrough names once it accepts the notification.
        eventually("the kernel's view", || round > 0 || reads(&mounts[0].path("dir/file"), &text));
        assert!(reads(&mounts[0].path("dir/file"), &text), "{text}");
    }
    drop(mounts);
    cluster.stop();
}

#[test]
fn a_path_becomes_passthrough_once_and_writers_release_it() {
    let mut cluster = Cluster::prepare();
    let Some(mounts) = start(&mut cluster) else { return };
    let copied = Command::new("cp").arg("/bin/true").arg(mounts[0].path("dir/program")).status().unwrap();
    assert!(copied.success());
    for round in 0..100 {
        fs::write(mounts[0].path("dir/file"), format!("round {round}")).unwrap();
    }
    // A file that is open for writing can't be executed.
    let run = || Command::new(cluster.shared("dir/program")).status();
    eventually("the program", || run().is_ok_and(|status| status.success()));
    drop(mounts);
    let asked = cluster.stop()[0].mount.asked;
    // One request for each name that existed, and for the two that become passthrough.
    assert!(asked < 20, "{asked} questions");
}
