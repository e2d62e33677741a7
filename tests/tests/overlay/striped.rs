//! Large files that several readers read: each its part, once.

use headwater_cluster::{Cluster, Options};
use headwater_tests::harness::nodes::{self, Nodes, Plan};
use headwater_tests::harness::{Fixture, Program, skipped};
use headwater_tests::model::Content;
use headwater_topology::Shape;

const NODES: usize = 8;
const READERS: u64 = 4;
const MIB: u64 = 1 << 20;
/// The last block is not a whole one.
const FILE_BYTES: u64 = 96 * MIB + 12_345;
/// What the file's own reader reads of it alone.
const FIRST_BYTES: u64 = 16 * MIB;
/// Of this, one reader reads all.
const MIDDLE_BYTES: u64 = 12 * MIB;

#[test]
fn readers_share_a_large_file() {
    let fixture = Fixture::new("striped");
    let large = fixture.file("large", Content::noise(1, FILE_BYTES).read(0, FILE_BYTES), 0o644);
    let middle = fixture.file("middle", Content::noise(2, MIDDLE_BYTES).read(0, MIDDLE_BYTES), 0o644);
    let shares = vec![nodes::project().to_path_buf(), fixture.shared()];
    let cluster = match Cluster::up(NODES, &Options { shares, ..Options::default() }) {
        Ok(cluster) => cluster,
        Err(reason) if headwater_cluster::check().is_err() => return skipped(reason),
        Err(error) => panic!("{error}"),
    };
    let shape = Shape::Striped { trees: 4, readers: READERS as u32 };
    let read_on_all = |file: &std::path::Path| {
        let nodes = Nodes::start(&cluster, &Plan::of(&[&fixture.shared()]).shape(shape));
        let program = Program::new("cksum").arg(file);
        let expected = program.run();
        let running: Vec<_> = (0..NODES).map(|rank| nodes.program(rank, &program).start()).collect();
        for (rank, running) in running.into_iter().enumerate() {
            assert_eq!(running.finish(), expected, "on rank {rank}");
        }
        let reports = nodes.stop();
        assert_eq!(Nodes::sum(&reports, "clients.fallbacks"), 0);
        let read = |report: &Option<serde_json::Value>| {
            report.as_ref().and_then(|report| report["shared_fs"]["bytes_read"].as_u64()).expect("it is reported")
        };
        reports.iter().map(read).collect::<Vec<u64>>()
    };
    let read = read_on_all(&large);
    assert_eq!(read.iter().sum::<u64>(), FILE_BYTES, "{read:?}");
    let share = (FILE_BYTES - FIRST_BYTES) / READERS;
    assert!(read[..READERS as usize].iter().all(|&bytes| bytes + MIB >= share), "{read:?}");
    let read = read_on_all(&middle);
    assert_eq!(read.iter().filter(|&&bytes| bytes > 0).copied().collect::<Vec<u64>>(), [MIDDLE_BYTES]);
}
