//! Messages over a connection with the front end, and a blocking client.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use headwater_overlay::channel::{Channel, ChannelError};
use mio::{Events, Interest, Poll, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::file::Job;
use super::messages::{FromNode, ToNode};

/// Timeout of a connection to the front end.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Sends a message as a line.
pub fn send(channel: &mut Channel, message: &impl Serialize) -> Result<(), ChannelError> {
    channel.send_line(&serde_json::to_string(message).expect("a message is text"));
    channel.flush().map(drop)
}

/// Receives a message; `None` if none is complete.
///
/// # Errors
/// The connection is closed, or the message is malformed.
pub fn receive<M: DeserializeOwned>(channel: &mut Channel) -> Result<Option<M>, ChannelError> {
    let received = channel.next_line();
    let flushed = channel.flush();
    let line = received.and_then(|line| flushed.map(|_| line))?;
    line.map(|line| serde_json::from_str(&line)).transpose().map_err(|_| ChannelError::Line)
}

/// A connection to a front end.
#[derive(Debug)]
pub struct FrontClient {
    channel: Channel,
    poll: Poll,
}

impl FrontClient {
    /// Connects to a job's front end.
    pub fn new(job: &Job) -> anyhow::Result<FrontClient> {
        let stream = connect(&job.front)?;
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        let poll = Poll::new()?;
        poll.registry().register(&mut stream, Token(0), Interest::READABLE | Interest::WRITABLE)?;
        Ok(FrontClient { channel: Channel::connect(stream, job.session, &job.key.decoded(job.session)?)?, poll })
    }

    /// Sends a message and waits for the answer.
    pub fn ask(&mut self, message: &FromNode, timeout: Duration) -> anyhow::Result<ToNode> {
        self.channel.send_line(&serde_json::to_string(message)?);
        let deadline = Instant::now() + timeout;
        let mut ready = Events::with_capacity(4);
        loop {
            self.channel.flush()?;
            if let Some(line) = self.channel.next_line()? {
                return serde_json::from_str(&line)
                    .context("the session's front end sent a message that this version does not know");
            }
            self.channel.flush()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("the session's front end does not answer");
            }
            match self.poll.poll(&mut ready, Some(left)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
        }
    }
}

/// Connects to the address that answers first; to a loopback address only if no other one answers.
pub fn connect(addresses: &[SocketAddr]) -> anyhow::Result<TcpStream> {
    let (own, others): (Vec<SocketAddr>, Vec<_>) = addresses.iter().partition(|address| address.ip().is_loopback());
    Ok(connect_any(others).or_else(|failure| connect_any(own).map_err(|_| failure))?)
}

fn connect_any(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let (found, connections) = channel();
    for address in addresses {
        let found = found.clone();
        thread::spawn(move || found.send(TcpStream::connect_timeout(&address, CONNECT_MAX)));
    }
    drop(found);
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for connection in connections {
        match connection {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
