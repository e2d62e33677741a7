//! Wires: links that delay packets where the kernel can't. Two TAP devices replace the pair of virtual
//! Ethernet devices: `eth0` in the node, and the switch's port. A thread of this process carries each frame from one to
//! the other: frames of the node after the delay, frames of the switch at once.

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

/// The thread that carries frames. When this is dropped, the thread ends, and the devices are removed.
#[derive(Debug)]
pub struct Wires {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// Returns the name of the device that becomes this node's `eth0`.
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
    // Only this thread changes its network namespace.
    thread::scope(|scope| scope.spawn(make).join().expect("making devices doesn't panic"))
}

impl Wires {
    /// Starts to carry frames.
    pub fn begin(wires: Vec<Wire>, delay: Duration) -> io::Result<Wires> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let carrier = Carrier::new(wires, delay, stop.try_clone()?)?;
        let work = move || {
            // The kernel handles devices before programs. Without this priority, delays would be longer while the
            // processors are busy.
            let _ = run::with_input("chrt", &["--fifo", "--pid", "1", &gettid().to_string()], "");
            carrier.run();
        };
        let thread = thread::Builder::new().name("wires".to_owned()).spawn(work)?;
        Ok(Wires { stop, thread: Some(thread) })
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        let written = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        let thread = self.thread.take().filter(|_| written.is_ok());
        let _ = thread.map(JoinHandle::join);
    }
}
