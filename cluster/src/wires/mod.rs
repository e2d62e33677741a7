//! Wires: links that delay packets where the kernel can't. In the place of a pair of virtual Ethernet
//! devices stand two TAP devices, `eth0` in the node and the switch's port, and a thread of this process
//! carries each frame from one to the other: what the node sends after the delay, what the switch sends at
//! once. The devices, and all else but the place of the thread, are as those of a pair.

mod carrier;
mod tap;
mod wire;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{LinkNameSpaceType, gettid, move_into_link_name_space};

use self::carrier::Carrier;
use self::tap::Tap;
use self::wire::Wire;
use crate::run;

pub use self::tap::check;

/// The thread that carries frames. Dropped, it ends, and the devices go.
#[derive(Debug)]
pub struct Wires {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The name of the device that becomes this node's `eth0` when it is moved there.
pub fn end_of(node: &str) -> String {
    format!("{node}-eth0")
}

/// Makes the devices of these nodes' links in the network of the process `switch`, where the node's end has
/// the name [`end_of`] it, and the port the node's.
pub fn make<'a>(switch: u32, nodes: impl Iterator<Item = &'a str> + Send) -> io::Result<Vec<Wire>> {
    let make = || {
        let network = File::open(format!("/proc/{switch}/ns/net"))?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        nodes.map(|node| Ok(Wire { node: Tap::make(&end_of(node))?, switch: Tap::make(node)? })).collect()
    };
    // A thread has a network namespace of its own, and takes it along when it ends.
    thread::scope(|scope| scope.spawn(make).join().expect("making devices doesn't panic"))
}

impl Wires {
    /// Begins to carry frames.
    pub fn begin(wires: Vec<Wire>, delay: Duration) -> io::Result<Wires> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let carrier = Carrier::new(wires, delay, stop.try_clone()?)?;
        let work = move || {
            // A device's work is done before any program's. Without that privilege, delays are longer while
            // the processors are busy.
            let _ = run::with_input("chrt", &["--fifo", "--pid", "1", &gettid().to_string()], "");
            carrier.run();
        };
        let thread = thread::Builder::new().name("wires".to_owned()).spawn(work)?;
        Ok(Wires { stop, thread: Some(thread) })
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        let told = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        let thread = self.thread.take().filter(|_| told.is_ok());
        let _ = thread.map(JoinHandle::join);
    }
}
