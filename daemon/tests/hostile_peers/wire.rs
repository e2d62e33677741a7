//! An attacker in the middle, which sees all records between a child and its parent and may change them.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::peer::read_record;

/// A record's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its connection, from 0.
    pub connection: usize,
    /// Whether the child sent it.
    pub is_childs: bool,
    /// Its number in this direction, from 0; the first one is of the handshake.
    pub number: usize,
}

/// What the wire does with a record.
pub enum Fate {
    /// Forwards these bytes in its place.
    Goes(Vec<u8>),
    /// Returns these bytes to its sender.
    Returns(Vec<u8>),
    /// Forwards these bytes and then closes the connection.
    Ends(Vec<u8>),
}

type Decide = dyn FnMut(Seen, Vec<u8>) -> Fate + Send;

/// The connection from a child to its parent.
pub struct Wire {
    /// The address that the child dials.
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Wire {
    /// Forwards each connection to the address that `to` returns; `decide` decides about each record.
    pub fn new(
        to: impl Fn(usize) -> SocketAddr + Send + 'static,
        decide: impl FnMut(Seen, Vec<u8>) -> Fate + Send + 'static,
    ) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let decide: Arc<Mutex<Decide>> = Arc::new(Mutex::new(decide));
        let counter = Arc::clone(&connections);
        std::thread::spawn(move || {
            for child in listener.incoming() {
                let (Ok(child), connection) = (child, counter.fetch_add(1, Ordering::SeqCst)) else { return };
                let Ok(parent) = TcpStream::connect(to(connection)) else { continue };
                for (from, to, is_childs) in [(&child, &parent, true), (&parent, &child, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (decide, seen) = (Arc::clone(&decide), Seen { connection, is_childs, number: 0 });
                    std::thread::spawn(move || lead(from, to, seen, &decide));
                }
            }
        });
        Wire { address, connections }
    }

    /// Returns how often the child has dialled.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn lead(mut from: TcpStream, mut to: TcpStream, mut seen: Seen, decide: &Mutex<Decide>) {
    while let Some(record) = read_record(&mut from) {
        let fate = decide.lock().unwrap()(seen, record);
        let written = match fate {
            Fate::Goes(bytes) => to.write_all(&bytes),
            Fate::Returns(bytes) => from.write_all(&bytes),
            Fate::Ends(bytes) => {
                let _ = to.write_all(&bytes);
                break;
            }
        };
        if written.is_err() {
            break;
        }
        seen.number += 1;
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
