//! Links that are authenticated and not encrypted: programs read the right bytes.

use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, skipped};
use headwater_tests::model::Content;

const NODES: usize = 4;
/// Small files, and one that travels in blocks.
const FILES: [(&str, u64); 3] = [("empty", 0), ("small", 700), ("large", 40 << 20)];

fn reads_the_same(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let fixture = Fixture::new("protection");
    for (seed, (name, bytes)) in FILES.into_iter().enumerate() {
        fixture.file(name, Content::noise(seed as u64, bytes).read(0, bytes), 0o644);
    }
    let program = Program::new("cksum").args(FILES.map(|(name, _)| fixture.path(name)));
    let plain = program.run();
    for protection in ["encrypt", "authenticate"] {
        // Nodes read nothing past the trees.
        let options = ["--link-protection", protection, "--stored-file-max=1G", "--push"];
        let headwater = options.into_iter().fold(Headwater::new(&fixture.shared()), Headwater::option);
        let session = headwater.via(via).on(NODES, 1).run(&program);
        assert_eq!(session.output.status, 0, "{protection}: {:?}", session.output);
        for sum in plain.stdout.lines() {
            assert_eq!(session.output.stdout.matches(sum).count(), NODES, "{protection}, {sum}: {:?}", session.output);
        }
        let bytes: u64 = FILES.map(|(_, bytes)| bytes).iter().sum();
        let carried = session.number("overlay.bytes");
        assert!(carried > bytes, "{protection}: {carried} bytes over links: {:#}", session.summary);
    }
}

#[test]
fn of_links_by_audit() {
    reads_the_same(Mechanism::Audit);
}

#[test]
fn of_links_by_namespace() {
    reads_the_same(Mechanism::Namespace);
}
