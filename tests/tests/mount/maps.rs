//! Maps, and the reads that bypass the page cache.

use headwater_tests::harness::{Fixture, Mechanism, Program, View};
use headwater_tests::model::Content;

use crate::MOUNTED;
use headwater_tests::needs_mounts;

fn fixture() -> Fixture {
    let fixture = Fixture::new("maps");
    for (name, bytes) in [("two-pages", 8192), ("odd", 100_001), ("large", 20 << 20)] {
        fixture.file(&format!("data/{name}"), Content::noise(bytes, bytes).read(0, bytes), 0o644);
    }
    fixture.build("maps.c", "bin/maps", &[]);
    fixture.build("maps.c", "bin/maps-static", &["-static"]);
    fixture
}

#[test]
fn files_are_mapped_in_every_mode() {
    needs_mounts!();
    let fixture = fixture();
    for via in MOUNTED {
        for (program, file) in [("maps", "two-pages"), ("maps-static", "odd"), ("maps", "large")] {
            let program = Program::new(fixture.path("bin").join(program)).arg(fixture.path("data").join(file));
            fixture.headwater().via(via).option("--stored-file-max=1G").same(&program);
            // Of the large one a node that is alone stores nothing.
            fixture.headwater().via(via).same_output(&program);
        }
    }
}

#[test]
fn a_shared_map_writes_to_the_source_file_in_a_namespace() {
    needs_mounts!();
    let fixture = fixture();
    fixture.build("mapwrite.c", "bin/mapwrite", &[]);
    let program = Program::new(fixture.path("bin/mapwrite")).arg(fixture.path("data/odd"));
    let session = fixture.headwater().via(Mechanism::Namespace).run(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    let content = std::fs::read(fixture.path("data/odd")).expect("it is there");
    assert_eq!(&content[50_000..50_007], b"written", "through the map, in the source file");
    assert_eq!(content.len(), 100_001);
}

/// The next program sees the name in `/proc/self/maps` and in `/proc/self/exe`.
#[test]
fn the_kernel_knows_files_by_their_original_names() {
    needs_mounts!();
    let fixture = fixture();
    fixture.build("tool.c", "bin/tool", &[]);
    fixture.library("lib/libx.so", "x", &[]);
    fixture.build("loader.c", "bin/loader", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let script = format!(
        "cp /bin/cat {0}/bin/cat 2>/dev/null; {0}/bin/cat /proc/self/maps | awk '{{print $2, $6}}' | grep {0} | sort -u; \
         cd {0}/bin && ./cat {0}/data/two-pages | cksum; readlink /proc/self/cwd; exec 3<{0}/data/odd; \
         readlink /proc/self/fd/3 /proc/$$/fd/3",
        fixture.shared().display()
    );
    std::fs::copy("/bin/cat", fixture.path("bin/cat")).expect("an own directory");
    for via in MOUNTED {
        let session = fixture.headwater().via(via).same_output(&Program::shell(&script));
        assert!(session.output.stdout.contains(&fixture.path("bin/cat").display().to_string()), "{:?}", session.output);
        assert!(!session.output.stdout.contains("/dev/shm"), "{:?}", session.output);
    }
}

#[test]
fn a_mapped_file_is_read_once() {
    needs_mounts!();
    let fixture = fixture();
    let view = View::of(&fixture.shared());
    let program = Program::new(view.join("bin/maps")).arg(view.join("data/odd"));
    let first = program.run();
    assert_eq!(first.status, 0, "{first:?}");
    let before = view.fuse_requests();
    program.run().assert_same(&first);
    let more = view.fuse_requests() - before;
    // O_DIRECT makes a request each time; nothing else does.
    assert!(more <= 4, "{more} FUSE requests for a second run");
    view.unmount();
}
