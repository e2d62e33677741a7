//! The cost of encryption on a link.
//!
//! The cost is measured beside the daemons: the same bytes over the same link, by
//! the same two threads, as they are and as records of the daemons' cipher. Beside it is the daemons' own rate on that
//! link: their whole overhead, encryption included, is at most its distance from plain TCP.

use std::io::{Read, Write};
use std::thread;
use std::time::Instant;

use headwater_cluster::{Cluster, Node};
use headwater_topology::Shape;
use snow::{Builder, TransportState};

use super::links;
use super::setup::{cluster, everywhere, fixture, noise, shown};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};

const RATE: &str = "1gbit";
const BYTES: usize = 256 << 20;
const ROUNDS: usize = 7;
/// The daemons' choice where the processor has AES.
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
/// Bytes of a record, and of what encryption adds to it.
const RECORD_BYTES: usize = 65535;
const TAG_BYTES: usize = 16;
const PLAIN_BYTES: usize = RECORD_BYTES - TAG_BYTES;
/// Rounds of the measurement without a link, and records of each.
const CIPHER_ROUNDS: usize = 16;
const RECORDS: usize = 256;
/// How far each round's records are from those of the round before. Some processors copy slowly at some offsets.
const ROUND_BYTES: usize = 258;

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading(&format!("The overlay: what encryption costs a link of {RATE}"));
    let (Some(pair), Some(four)) = (cluster(report, 2, Some(RATE)), cluster(report, 4, Some(RATE))) else { return };
    let fixture = fixture("encryption");
    let file = fixture.file("large", noise(BYTES, 1), 0o644);
    let broadcast = |cluster: &Cluster| {
        let shape = Shape::default_of(cluster.nodes().len() as u32);
        let nodes = Nodes::start(cluster, &Plan::of(&[&fixture.shared()]).shape(shape));
        let seconds = everywhere(&nodes, &mut nodes.askers(), &file);
        nodes.stop();
        seconds
    };
    let mut seconds: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let (from, to) = (pair.on(1), pair.on(2));
        seconds[0].push(links::transfers(&[(from, to)], BYTES as u64));
        seconds[1].push(sealed_transfer(from, to, BYTES));
        seconds[2].push(broadcast(&pair));
        seconds[3].push(broadcast(&four));
    }
    let samples = seconds.map(Sample::new);
    let plain = samples[0].median();
    let mut table = Table::new(["", "s (10 to 90 %)", "Mbit/s", "of plain TCP's bandwidth lost, %", "target"]);
    let names = ["plain TCP, 2 nodes", "the same in encrypted records", "the daemons, 2 nodes", "the daemons, 4 nodes"];
    for (name, sample) in names.into_iter().zip(&samples) {
        table.row([
            name.to_string(),
            shown(sample, 3),
            format!("{:.0}", BYTES as f64 * 8.0 / 1e6 / sample.median()),
            format!("{:.1}", (1.0 - plain / sample.median()) * 100.0),
            if name.contains("encrypted") { "≤ 15".into() } else { String::new() },
        ]);
    }
    let (seal, open) = cipher_speed();
    report.line(format!(
        "{} MiB each time, {ROUNDS} rounds in which all take turns. The cost of encryption \
         is that of the second row: the same threads on the same link. What the daemons lose is all that they do, \
         encryption included, and more than that it can't cost them. One thread alone encrypts {seal:.1} and decrypts \
         {open:.1} GB/s in records of {RECORD_BYTES} bytes ({PATTERN}).\n",
        BYTES >> 20
    ));
    report.table(&table);
}

/// Both ends of an encrypted connection.
fn ciphers() -> (TransportState, TransportState) {
    let key = [0x7e; 32];
    let builder = || Builder::new(PATTERN.parse().expect("a pattern")).psk(0, &key).expect("a key of 32 bytes");
    let mut near = builder().build_initiator().expect("the pattern needs no more");
    let mut far = builder().build_responder().expect("the pattern needs no more");
    let (mut message, mut payload) = ([0; 64], [0; 64]);
    let length = near.write_message(&[], &mut message).expect("the first message");
    far.read_message(&message[..length], &mut payload).expect("the key is the same");
    let length = far.write_message(&[], &mut message).expect("the second message");
    near.read_message(&message[..length], &mut payload).expect("the key is the same");
    let over = |state: snow::HandshakeState| state.into_transport_mode().expect("the handshake is over");
    (over(near), over(far))
}

/// Seconds that a transfer of so many bytes in encrypted records takes.
fn sealed_transfer(from: &Node, to: &Node, bytes: usize) -> f64 {
    let (mut near, mut far) = links::connection(from, to);
    let (mut seals, mut opens) = ciphers();
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            let piece = [0x5e; PLAIN_BYTES];
            let mut record = vec![0; 2 + RECORD_BYTES];
            let mut left = bytes;
            while left > 0 {
                let plain = left.min(PLAIN_BYTES);
                let length = seals.write_message(&piece[..plain], &mut record[2..]).expect("records are short enough");
                record[..2].copy_from_slice(&u16::try_from(length).expect("as above").to_be_bytes());
                near.write_all(&record[..2 + length]).expect("the peer reads");
                left -= plain;
            }
        });
        let (mut record, mut plain) = (vec![0; RECORD_BYTES], vec![0; RECORD_BYTES]);
        let mut received = 0;
        while received < bytes {
            let mut length = [0; 2];
            far.read_exact(&mut length).expect("the peer writes");
            let record = &mut record[..usize::from(u16::from_be_bytes(length))];
            far.read_exact(record).expect("the peer writes");
            received += opens.read_message(record, &mut plain).expect("nothing changes it");
        }
    });
    started.elapsed().as_secs_f64()
}

/// Gigabytes that one thread encrypts in a second, and decrypts: the medians of all rounds.
fn cipher_speed() -> (f64, f64) {
    let (mut seals, mut opens) = ciphers();
    let (piece, mut plain) = (vec![0x5e; PLAIN_BYTES], vec![0; RECORD_BYTES]);
    let mut memory = vec![0; RECORD_BYTES + CIPHER_ROUNDS * ROUND_BYTES];
    let mut speeds: [Vec<f64>; 2] = Default::default();
    for round in 0..CIPHER_ROUNDS {
        let record = &mut memory[round * ROUND_BYTES..][..RECORD_BYTES];
        let mut seconds = [0.0; 2];
        for _ in 0..RECORDS {
            let started = Instant::now();
            let length = seals.write_message(&piece, record).expect("records are short enough");
            seconds[0] += started.elapsed().as_secs_f64();
            let started = Instant::now();
            opens.read_message(&record[..length], &mut plain).expect("nothing changes it");
            seconds[1] += started.elapsed().as_secs_f64();
        }
        for (speeds, seconds) in speeds.iter_mut().zip(seconds) {
            speeds.push((RECORDS * PLAIN_BYTES) as f64 / 1e9 / seconds);
        }
    }
    let [seal, open] = speeds.map(|speeds| Sample::new(speeds).median());
    (seal, open)
}
