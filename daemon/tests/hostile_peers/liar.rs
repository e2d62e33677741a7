//! A rank that knows the session's key, and alters the content that it forwards.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use headwater_abi::wire::Message;

use crate::peer::{Peer, TRUE, answer_hands, frame, hello_in, parents_hello_in, shake_hands};
use crate::support::CHAIN;

/// Its counts.
pub struct Liar {
    listener: TcpListener,
    lies: Arc<AtomicU64>,
}

impl Liar {
    /// Binds its sockets; no peer has connected yet.
    pub fn prepare() -> Liar {
        Liar { listener: TcpListener::bind("127.0.0.1:0").unwrap(), lies: Arc::default() }
    }

    /// Runs it as `rank` of a chain of `ranks` below the daemon at `parent`. Returns the address for its
    /// children.
    pub fn between(&self, parent: SocketAddr, rank: u32, ranks: u32) -> SocketAddr {
        let (listener, lies) = (self.listener.try_clone().unwrap(), Arc::clone(&self.lies));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, lies) = (stream.unwrap(), Arc::clone(&lies));
                // A silent connection must not block others.
                std::thread::spawn(move || relay_between(stream, parent, rank, ranks, &lies));
            }
        });
        self.listener.local_addr().unwrap()
    }

    /// Returns how many contents and chunks it has altered.
    pub fn lies(&self) -> u64 {
        self.lies.load(Ordering::SeqCst)
    }
}

/// Acts as `rank` for one child.
fn relay_between(stream: TcpStream, parent: SocketAddr, rank: u32, ranks: u32, lies: &Arc<AtomicU64>) {
    let (Some(mut child), Some(mut above)) = (answer_hands(stream), shake_hands(parent, &TRUE)) else { return };
    child.send_plain(&frame(&parents_hello_in(CHAIN, rank, ranks), b""));
    above.send_plain(&frame(&hello_in(CHAIN, rank, ranks), b""));
    let ends = [child, above].map(|end| (end.stream.try_clone().unwrap(), Arc::new(Mutex::new(end))));
    for (from, to, lies) in [(0, 1, None), (1, 0, Some(Arc::clone(lies)))] {
        let (stream, from) = (ends[from].0.try_clone().unwrap(), Arc::clone(&ends[from].1));
        let to = Arc::clone(&ends[to].1);
        std::thread::spawn(move || pass_on(stream, &from, &to, lies.as_deref()));
    }
}

/// Forwards frames except greetings; with `lies`, each piece of content with one bit changed.
fn pass_on(mut stream: TcpStream, from: &Mutex<Peer>, to: &Mutex<Peer>, lies: Option<&AtomicU64>) {
    let mut plain = Vec::new();
    while let Some(record) = crate::peer::read_record(&mut stream) {
        let Some(more) = from.lock().unwrap().open(&record) else { break };
        plain.extend(more);
        while let Some(length) = plain.first_chunk() {
            let end = 4 + u32::from_le_bytes(*length) as usize;
            if plain.len() < end {
                break;
            }
            let mut frame: Vec<u8> = plain.drain(..end).collect();
            match (Message::decode(&frame[4..]), lies) {
                (Ok((Message::Hello { .. }, _)), _) => continue,
                (Ok((Message::Chunk { .. } | Message::Content { .. }, _)), Some(lies)) => {
                    lies.fetch_add(1, Ordering::SeqCst);
                    *frame.last_mut().unwrap() ^= 1;
                }
                _ => {}
            }
            to.lock().unwrap().send_long(&frame);
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    let _ = to.lock().unwrap().stream.shutdown(Shutdown::Both);
}
