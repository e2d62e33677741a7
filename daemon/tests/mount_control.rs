//! Clearing and refreshing while a file system is mounted.

mod support;

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use headwater_daemon::protocol::{Answer, Cleared, Refreshed};
use headwater_fuse::init::Opening;
use support::mounted::{Mounted, assert_same};
use support::{CHAIN, Cluster, Node, control, eventually, stats};

const OPENINGS: [Opening; 3] = [Opening::None, Opening::Cached, Opening::Passthrough];

/// Runs `ranks` daemons in a chain with a mount each, if the machine allows it.
fn run(cluster: &mut Cluster, ranks: u32, opening: Opening) -> Option<Vec<Mounted>> {
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let mounts = RefCell::new(Vec::new());
    cluster.run(ranks, |config| {
        config.shape = CHAIN;
        let at = dir.join(format!("view{}", config.rank));
        mounts.borrow_mut().extend(Mounted::new(config, &at, &root, opening));
    });
    let mounts = mounts.into_inner();
    (mounts.len() == ranks as usize).then_some(mounts)
}

fn clear(node: &Node, path: &Path) -> Cleared {
    let command = serde_json::json!({"clear": [{"path": path.to_str().unwrap(), "subtree": true}]});
    match control(node, &command) {
        Answer::Cleared(cleared) => cleared,
        other => panic!("{other:?}"),
    }
}

fn refresh(node: &Node) -> Refreshed {
    match control(node, &serde_json::json!({"refresh": []})) {
        Answer::Refreshed(refreshed) => refreshed,
        other => panic!("{other:?}"),
    }
}

/// Counts the kernel's requests for this operation.
fn requests(node: &Node, operation: &str) -> u64 {
    stats(node).operations.iter().find(|o| o.name == operation).map_or(0, |o| o.count)
}

#[test]
fn cleared_content_is_requested_again() {
    for opening in OPENINGS {
        let mut cluster = Cluster::prepare();
        for number in 0..40 {
            cluster.write(&format!("lib/d{}/f{number}", number % 4), &vec![number; 10_000]);
        }
        let Some(mounts) = run(&mut cluster, 2, opening) else { return };
        let view = &mounts[1];
        let read = |number: u8| std::fs::read(view.path(&format!("lib/d{}/f{number}", number % 4))).unwrap();
        (0..40).for_each(|number| assert_eq!(read(number), vec![number; 10_000]));
        let mut open = File::open(view.path("lib/d1/f1")).unwrap();
        let before = stats(&cluster.nodes[1]);
        assert_eq!((before.holds.files, before.hits.upcalls > 40), (40, true));
        assert_eq!(before.mount.as_ref().unwrap().mount_point.to_path(), view.at);

        let cleared = clear(&cluster.nodes[1], &cluster.shared("lib"));
        assert_eq!((cleared.files, cleared.kept_in_use, cleared.kept_in_transit), (39, 1, 0), "{opening:?}");
        assert_eq!(stats(&cluster.nodes[1]).holds.files, 1);
        assert_eq!(stats(&cluster.nodes[0]).holds.files, 40, "the parent's copies stay");
        let lookups = requests(&cluster.nodes[1], "lookup");
        (0..40).for_each(|number| assert_eq!(read(number), vec![number; 10_000], "{opening:?}"));
        assert!(requests(&cluster.nodes[1], "lookup") >= lookups + 39, "the kernel has forgotten the names");
        assert_eq!(stats(&cluster.nodes[1]).holds.files, 40);
        assert_eq!(stats(&cluster.nodes[0]).shared_fs.files_read, 40, "nothing is read from the shared file system");
        let mut content = Vec::new();
        open.read_to_end(&mut content).unwrap();
        assert_eq!(content, [1; 10_000]);
        drop((open, mounts));
        cluster.stop();
    }
}

#[test]
fn a_refresh_shows_what_is_new_and_leaves_open_files_alone() {
    for opening in OPENINGS {
        let mut cluster = Cluster::prepare();
        for name in ["lib/same", "lib/modified", "lib/replaced", "lib/removed", "kept/same", "gone/deep/file"] {
            cluster.write(name, format!("first {name}").as_bytes());
        }
        symlink("same", cluster.shared("lib/link")).unwrap();
        let source = cluster.shared("").components().as_path().to_owned();
        let Some(mounts) = run(&mut cluster, 3, opening) else { return };
        for view in &mounts {
            assert_same(&source, &view.at);
            assert!(!view.path("lib/added").exists() && !view.path("kept/added/x").exists());
        }
        let mut open: Vec<File> = mounts
            .iter()
            .flat_map(|view| {
                ["lib/modified", "lib/replaced", "lib/removed", "gone/deep/file"].map(|name| view.path(name))
            })
            .map(|path| File::open(path).unwrap())
            .collect();
        let inode = std::fs::metadata(mounts[2].path("lib/modified")).unwrap().ino();

        cluster.write("lib/modified", b"second, and longer");
        cluster.write("lib/new", b"second");
        std::fs::rename(cluster.shared("lib/new"), cluster.shared("lib/replaced")).unwrap();
        std::fs::remove_file(cluster.shared("lib/removed")).unwrap();
        cluster.write("lib/added", b"second");
        std::fs::remove_file(cluster.shared("lib/link")).unwrap();
        symlink("added", cluster.shared("lib/link")).unwrap();
        std::fs::remove_dir_all(cluster.shared("gone")).unwrap();
        cluster.write("gone", b"a file now");
        assert_eq!(std::fs::read(mounts[2].path("lib/modified")).unwrap(), b"first lib/modified");

        assert_eq!(refresh(&cluster.nodes[1]).generation, 2);
        for (node, view) in cluster.nodes.iter().zip(&mounts) {
            eventually("the generation", || stats(node).generation == 2 && !stats(node).is_settling);
            assert!(view.path("lib/added").exists());
            let reads = requests(node, "read");
            assert_eq!(std::fs::read(view.path("kept/same")).unwrap(), b"first kept/same");
            assert_eq!(std::fs::read(view.path("lib/same")).unwrap(), b"first lib/same");
            if opening != Opening::Passthrough {
                assert_eq!(requests(node, "read"), reads, "the kernel still caches pages of unchanged files");
            }
            assert_same(&source, &view.at);
        }
        assert_eq!(std::fs::metadata(mounts[2].path("lib/modified")).unwrap().ino(), inode);
        for (number, file) in open.iter_mut().enumerate() {
            let name = ["lib/modified", "lib/replaced", "lib/removed", "gone/deep/file"][number % 4];
            let mut content = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, format!("first {name}"), "{opening:?}");
            assert_eq!(file.metadata().unwrap().len(), content.len() as u64);
        }
        let root = stats(&cluster.nodes[0]);
        assert_eq!(root.generations_kept, 1, "open files retain the older one");
        drop(open);
        drop(mounts);
        cluster.stop();
    }
}
