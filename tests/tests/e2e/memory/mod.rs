//! Processes that map files, share memory, and read one another's.

mod kinds;
mod large_files;
mod own_disk;

use std::path::PathBuf;

use headwater_tests::harness::{Fixture, Mechanism, Program, is_root, skipped};

pub fn maps_and_direct_reads(via: Mechanism) {
    let fixture = Fixture::new("emaps");
    let content: Vec<u8> = (0..100_001u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fixture.file("data/file", content, 0o644);
    let program = Program::new(fixture.build("maps.c", "bin/maps", &[])).arg(fixture.path("data/file"));
    fixture.headwater().via(via).same(&program);
}

/// Two processes of one node that started apart from one another, as the ranks of an MPI job: each
/// reads the other's memory and writes into a segment that they share.
pub fn siblings_share_memory_and_read_each_others(via: Mechanism) {
    let fixture = Fixture::new("siblings");
    fixture.file("data/file", "from the scope\n", 0o644);
    let meeting = fixture.outside("meeting");
    std::fs::create_dir(&meeting).expect("an own directory");
    let segment = format!("/hwt-siblings-{}-{}", via.name(), std::process::id());
    let program = Program::new(fixture.build("siblings.c", "bin/siblings", &[]))
        .arg(&meeting)
        .arg(&segment)
        .arg(fixture.path("data/file"));
    let plain = program.behind(["sh", "-c", "\"$0\" \"$@\" & \"$0\" \"$@\"; wait"]).run();
    assert_eq!(plain.stdout, "read, shared, from the scope\n".repeat(2), "{plain:?}");
    std::fs::remove_dir_all(&meeting).and_then(|()| std::fs::create_dir(&meeting)).expect("an own directory");
    let session = fixture.headwater().via(via).on(1, 2).run(&program);
    session.output.assert_same(&plain);
    session.assert_served();
}

/// A tmpfs, unmounted when dropped.
struct RamDisk(PathBuf);

impl RamDisk {
    /// One of this size, as mount(8) writes it, mounted over this directory; it is made.
    fn mount(at: PathBuf, size: &str) -> RamDisk {
        std::fs::create_dir(&at).expect("an own directory");
        let options = format!("size={size},mode=1777");
        let mounted = Program::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&at).run();
        assert_eq!(mounted.status, 0, "{mounted:?}");
        RamDisk(at)
    }
}

impl Drop for RamDisk {
    fn drop(&mut self) {
        Program::new("umount").arg("-l").arg(&self.0).run();
    }
}

/// More is read and loaded than the RAM disk takes: first less than its table and one file, then some of
/// it.
pub fn a_ram_disk_that_fills_up(via: Mechanism) {
    if !is_root() {
        return skipped("a small RAM disk needs root to mount it");
    }
    let fixture = Fixture::new("full");
    for number in 0..8u8 {
        fixture.file(&format!("data/{number}"), vec![number; 1 << 20], 0o644);
    }
    let padding = "x".repeat(100 << 10);
    let library = std::fs::read(fixture.library("libx.so", &padding, &[])).expect("just built");
    let libraries = (0..64).map(|number| fixture.file(&format!("lib/{number}/libx.so"), &library, 0o755));
    let opened: Vec<String> = libraries.map(|library| format!("open={}", library.display())).collect();
    let loader = Program::new(fixture.build("loader.c", "bin/app", &[])).args(opened).args(["objects"]);
    let sums = format!("cksum {0}/* {0}/*; ls -l {0}", fixture.path("data").display());
    let sums = Program::new("sh").args(["-c", &sums]);
    for size in ["4480k", "10m"] {
        let disk = RamDisk::mount(fixture.outside(size), size);
        let headwater = fixture.headwater().via(via).store(&disk.0).option("--store-max").option("1G");
        headwater.same_output(&loader);
        headwater.same_output(&sums);
    }
}
