//! Carries frames from device to device.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, Result};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use super::tap::FRAME_BYTES_MAX;
use super::wire::Wire;

/// Limit of a wire's delayed frames, in bytes with their metadata. Further frames are dropped, as in a switch.
const UNDERWAY_BYTES_MAX: usize = 16 << 20;
/// Frames that are taken from one device in a turn.
const TURN_MAX: usize = 64;
const EVENTS_MAX: usize = 64;
/// epoll's numbers of the descriptors that are not devices. Devices are numbered from 0, two for each wire.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

pub struct Carrier {
    /// `None` if the node has died.
    wires: Vec<Option<Wire>>,
    /// For each wire, the bytes of its frames in `underway`.
    underway_bytes: Vec<usize>,
    /// Delayed frames in the order of arrival, which is that of sending, since all have the same delay.
    underway: VecDeque<Frame>,
    delay: Duration,
    frame: Box<[u8]>,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The time to which the timer is set.
    set_to: Option<Instant>,
    _stop: OwnedFd,
}

struct Frame {
    arrival: Instant,
    wire: usize,
    bytes: Box<[u8]>,
}

impl Frame {
    fn size(&self) -> usize {
        size_of::<Frame>() + self.bytes.len()
    }
}

impl Carrier {
    /// Prepares to carry frames between these devices until `stop` is readable.
    pub fn new(wires: Vec<Wire>, delay: Duration, stop: OwnedFd) -> Result<Carrier> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // A timerfd is exact to the microsecond: it has no timer slack.
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &stop, epoll::EventData::new_u64(STOP), readable)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), readable)?;
        for (wire, number) in wires.iter().zip((0..).step_by(2)) {
            epoll::add(&epoll, &wire.node, epoll::EventData::new_u64(number), readable)?;
            epoll::add(&epoll, &wire.switch, epoll::EventData::new_u64(number + 1), readable)?;
        }
        Ok(Carrier {
            underway_bytes: vec![0; wires.len()],
            wires: wires.into_iter().map(Some).collect(),
            underway: VecDeque::new(),
            delay,
            frame: vec![0; FRAME_BYTES_MAX].into(),
            epoll,
            timer,
            set_to: None,
            _stop: stop,
        })
    }

    pub fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("waiting for frames: {error}"),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    TIMER => {
                        self.set_to = None;
                        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
                    }
                    device => self.take_from(device as usize),
                }
                self.deliver();
            }
            self.set_timer();
        }
    }

    /// Takes frames from a device. A wire has two numbers: the node's end and the switch's.
    fn take_from(&mut self, device: usize) {
        let (number, is_node) = (device / 2, device.is_multiple_of(2));
        let Some(wire) = &self.wires[number] else { return };
        for _ in 0..TURN_MAX {
            let taken = if is_node { &wire.node } else { &wire.switch }.take(&mut self.frame);
            let bytes = match taken {
                Ok(length) => &self.frame[..length],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The node has died, or the switch.
                Err(_) => return self.cut(number),
            };
            if !is_node {
                wire.node.give(bytes);
                continue;
            }
            let frame = Frame { arrival: Instant::now() + self.delay, wire: number, bytes: bytes.into() };
            if self.underway_bytes[number] + frame.size() <= UNDERWAY_BYTES_MAX {
                self.underway_bytes[number] += frame.size();
                self.underway.push_back(frame);
            }
        }
    }

    /// Passes due frames to the switch.
    fn deliver(&mut self) {
        while let Some(frame) = self.underway.pop_front_if(|frame| frame.arrival <= Instant::now()) {
            self.underway_bytes[frame.wire] -= frame.size();
            if let Some(wire) = &self.wires[frame.wire] {
                wire.switch.give(&frame.bytes);
            }
        }
    }

    /// Sets the timer to the next due frame.
    fn set_timer(&mut self) {
        let next = self.underway.front().map(|frame| frame.arrival);
        if next.is_none() || self.set_to == next {
            return;
        }
        self.set_to = next;
        // Zero would turn it off.
        let wait = next.map(|arrival| arrival.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let it_value = Timespec::try_from(wait.unwrap_or_default()).expect("delays are short");
        let it_interval = Timespec::default();
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value });
        set.unwrap_or_else(|error| panic!("setting a timer: {error}"));
    }

    /// Closes a wire's devices.
    fn cut(&mut self, number: usize) {
        if let Some(wire) = self.wires[number].take() {
            // A child between fork and exec may hold the devices a little longer.
            let _ = epoll::delete(&self.epoll, &wire.node);
            let _ = epoll::delete(&self.epoll, &wire.switch);
        }
    }
}
