//! Waiting for the processes of a launch, signals passed on.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::launch::Processes;
use crate::rendezvous::events::NodeEvent;
use crate::session::events::Event;
use crate::session::signals;

/// Waits for the launcher, passing signals on; gives its exit status. `handle` is told what becomes of nodes.
pub fn wait(launcher: Processes, events: &Receiver<Event>, mut handle: impl FnMut(NodeEvent)) -> Result<u8> {
    wait_for(launcher, events, |event| {
        if let Event::Node(event) = event {
            handle(event);
        }
    })
}

/// As [`wait`], with all other events.
pub fn wait_for(mut processes: Processes, events: &Receiver<Event>, mut handle: impl FnMut(Event)) -> Result<u8> {
    let launched = Instant::now();
    let mut stopping = false;
    while !processes.reap() {
        // Only after its processes: whether they stop at all is theirs to say, and the kernel's, which
        // stops no process that nobody could continue.
        if stopping && processes.are_stopped() {
            signals::stop_here();
            stopping = false;
        }
        match events.recv().context("signals are no longer watched")? {
            Event::Signal(signal) => {
                stopping = signal.stops() || stopping && !signal.continues();
                // What the kernel sends to the foreground group reaches the processes that are there.
                let has_come = signal.from_kernel && signal.at > launched;
                if !signal.is_child() && !has_come {
                    processes.signal(signal.number);
                }
            }
            event => handle(event),
        }
    }
    Ok(processes.status())
}
