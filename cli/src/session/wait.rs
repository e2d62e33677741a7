//! Waits for the processes of a launch, and forwards signals.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::launch::Processes;
use crate::rendezvous::events::NodeEvent;
use crate::session::events::Event;
use crate::session::signals;
use crate::status::Ending;

/// Waits for the launcher and forwards signals; returns how it ended. Calls `handle` with each node event.
pub fn wait(launcher: Processes, events: &Receiver<Event>, mut handle: impl FnMut(NodeEvent)) -> Result<Ending> {
    wait_for(launcher, events, |event| {
        if let Event::Node(event) = event {
            handle(event);
        }
    })
}

/// As [`wait`]; `handle` gets all events but signals.
pub fn wait_for(mut processes: Processes, events: &Receiver<Event>, mut handle: impl FnMut(Event)) -> Result<Ending> {
    let launched = Instant::now();
    let mut stopping = false;
    while !processes.reap() {
        // Stops only after its processes: they may ignore the signal, and the kernel stops no orphaned group.
        if stopping && processes.are_stopped() {
            signals::stop_here();
            stopping = false;
        }
        match events.recv().context("signals are no longer watched")? {
            Event::Signal(signal) => {
                stopping = signal.stops() || stopping && !signal.continues();
                // One to the foreground group has reached the processes that existed then.
                let has_come = signal.is_of_terminal() && signal.at > launched;
                if !signal.is_child() && !has_come {
                    processes.signal(signal.number);
                }
            }
            event => handle(event),
        }
    }
    Ok(processes.ending())
}
