//! A server of one page over HTTP/1.0. It has limits for a request's size and time and for the number of connections,
//! which tiny_http, unreleased since 2022, has not.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::text::CONTENT_TYPE;
use crate::message::log;

/// The path of the page.
pub const PATH: &str = "/metrics";
/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a request may take to arrive, and then the response to be taken.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at once; further ones receive an error.
const CONNECTIONS_MAX: usize = 8;
/// A page that is younger is sent again, so that requests can't load the daemons.
const PAGE_AGE_MAX: Duration = Duration::from_millis(500);
/// Wait after a connection could not be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Bytes that are read and ignored after a response, so that it isn't lost with the connection.
const IGNORED_BYTES_MAX: usize = 64 << 10;
/// How long that may take.
const IGNORED_TIME_MAX: Duration = Duration::from_millis(500);

/// The page, and what makes it.
struct Page<F> {
    make: F,
    last: Mutex<Option<(Instant, Arc<String>)>>,
}

/// What is sent back.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: &'static str,
    /// A field of the head, with its end of line.
    field: &'static str,
    body: Arc<String>,
    has_body: bool,
}

/// A request that the page answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    /// Without the body.
    Head,
}

/// Serves what `make` returns, without end.
pub fn serve(listener: &TcpListener, make: impl Fn() -> String + Send + Sync + 'static) -> ! {
    let (page, connections) = (Arc::new(Page { make, last: Mutex::default() }), Arc::new(AtomicUsize::new(0)));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                log(format_args!(
                    "warning: no connection can be accepted: {error}. Raise the limit of open files (ulimit -n)"
                ));
                thread::sleep(ACCEPT_RETRY);
                continue;
            }
        };
        let taken = Taken::of(&connections);
        let number = connections.load(Ordering::SeqCst);
        // Beyond twice the limit, not even an error is sent.
        if number <= 2 * CONNECTIONS_MAX {
            let page = Some(Arc::clone(&page)).filter(|_| number <= CONNECTIONS_MAX);
            let serve_one = move || {
                // A peer that hangs up or takes too long gets nothing.
                let _ = answer(stream, page.as_deref());
                drop(taken);
            };
            // Without a thread, the connection is closed.
            let _ = thread::Builder::new().name("http".into()).spawn(serve_one);
        }
    }
}

/// One of the connections.
struct Taken(Arc<AtomicUsize>);

impl Taken {
    fn of(connections: &Arc<AtomicUsize>) -> Taken {
        connections.fetch_add(1, Ordering::SeqCst);
        Taken(Arc::clone(connections))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<F: Fn() -> String> Page<F> {
    /// Returns the page, made anew unless it is recent. Requests at the same time share one.
    fn get(&self) -> Arc<String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, page)) = last.as_ref().filter(|(made, _)| made.elapsed() < PAGE_AGE_MAX) {
            return Arc::clone(page);
        }
        let page = Arc::new((self.make)());
        *last = Some((Instant::now(), Arc::clone(&page)));
        page
    }
}

impl Response {
    fn error(status: &'static str, text: &str) -> Response {
        Response { status, field: "", body: Arc::new(format!("{text}\n")), has_body: true }
    }

    fn head(&self) -> String {
        let (status, bytes) = (self.status, self.body.len());
        let kind = if status.starts_with("200") { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
        format!(
            "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n{}Connection: close\r\n\r\n",
            self.field
        )
    }
}

/// Answers the request of a connection; without a page, with an error.
fn answer<F: Fn() -> String>(mut stream: TcpStream, page: Option<&Page<F>>) -> io::Result<()> {
    let response = match page {
        None => Response {
            field: "Retry-After: 1\r\n",
            ..Response::error("503 Service Unavailable", "too many connections; try again in a moment")
        },
        Some(page) => match read_head(&mut stream, Instant::now() + TIMEOUT)?.and_then(|head| understood(&head)) {
            Ok(method) => Response { status: "200 OK", field: "", body: page.get(), has_body: method == Method::Get },
            Err(response) => response,
        },
    };
    let deadline = Instant::now() + TIMEOUT;
    write_within(&mut stream, response.head().as_bytes(), deadline)?;
    if response.has_body {
        write_within(&mut stream, response.body.as_bytes(), deadline)?;
    }
    stream.shutdown(Shutdown::Write)?;
    ignore_rest(&mut stream)
}

/// Reads a request's head; an error response if it is too long or late.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> io::Result<Result<Vec<u8>, Response>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1 << 10]);
    loop {
        let bytes = match read_within(stream, &mut buffer, deadline) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Ok(Err(Response::error("408 Request Timeout", "the request took too long")));
            }
            Err(error) => return Err(error),
        };
        head.extend_from_slice(&buffer[..bytes]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n") {
            return Ok(Ok(head));
        }
        if head.len() > REQUEST_BYTES_MAX {
            return Ok(Err(Response::error("431 Request Header Fields Too Large", "the request is too long")));
        }
    }
}

/// Returns the method of a request for the page, or an error response.
fn understood(head: &[u8]) -> Result<Method, Response> {
    let malformed = || Response::error("400 Bad Request", "this is no request of HTTP");
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = str::from_utf8(line).map_err(|_| malformed())?.trim_end_matches('\r');
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(malformed()) };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Err(malformed());
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => {
            let error = Response::error("405 Method Not Allowed", "use GET");
            return Err(Response { field: "Allow: GET, HEAD\r\n", ..error });
        }
    };
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    if path == PATH { Ok(method) } else { Err(Response::error("404 Not Found", "the metrics are at /metrics")) }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads once.
fn read_within(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(buffer) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            read => return read,
        }
    }
}

fn write_within(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads what the peer still sends, within limits: closing a connection with unread data would discard the response.
fn ignore_rest(stream: &mut TcpStream) -> io::Result<()> {
    let (deadline, mut buffer, mut ignored) = (Instant::now() + IGNORED_TIME_MAX, [0; 4 << 10], 0);
    while ignored < IGNORED_BYTES_MAX {
        match read_within(stream, &mut buffer, deadline)? {
            0 => break,
            bytes => ignored += bytes,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn served() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener, || "headwater_ranks 4\n".to_owned()));
        address
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn exchange(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = connect(address);
        // The server may have answered and closed before it has all.
        let _ = stream.write_all(request);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        String::from_utf8(response).unwrap()
    }

    #[test]
    fn get_and_head_are_answered() {
        let address = served();
        let page = exchange(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = page.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 OK\r\n") && head.contains("\r\nContent-Length: 18\r\n"), "{head}");
        assert!(head.contains("text/plain; version=0.0.4") && head.ends_with("Connection: close"), "{head}");
        assert_eq!(body, "headwater_ranks 4\n");
        let only_head = exchange(address, b"HEAD /metrics?x=1 HTTP/1.0\n\n");
        assert!(only_head.contains("200 OK") && only_head.ends_with("\r\n\r\n"), "{only_head}");
    }

    #[test]
    fn other_requests_are_refused() {
        let address = served();
        let check = |request: &[u8], status: &str| {
            let response = exchange(address, request);
            assert!(response.starts_with(&format!("HTTP/1.0 {status}")), "{response}");
        };
        check(b"GET / HTTP/1.1\r\n\r\n", "404");
        check(b"GET /metrics/../key HTTP/1.1\r\n\r\n", "404");
        check(b"POST /metrics HTTP/1.1\r\n\r\n", "405");
        check(b"GET /metrics\r\n\r\n", "400");
        check(b"GET  /metrics HTTP/1.1\r\n\r\n", "400");
        check(b"GET http://x/metrics HTTP/1.1\r\n\r\n", "400");
        check(b"GET /metrics HTTP/2\r\n\r\n", "400");
        check(b"\r\n\r\n", "400");
        check(b"\xff\xfe /metrics HTTP/1.1\r\n\r\n", "400");
        check(&[b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 2 * REQUEST_BYTES_MAX]].concat(), "431");
        assert_eq!(exchange(address, b"GET /metrics HTTP/1.1\r\n\r\n").matches("200 OK").count(), 1, "it still serves");
    }

    #[test]
    fn no_bytes_make_a_decoder_fail() {
        let mut state = 0x2545_f491_u32;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let valid = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut accepted = 0;
        for _ in 0..20_000 {
            let mut head = valid.to_vec();
            for _ in 0..random() % 4 {
                let at = random() as usize % head.len();
                head[at] = random() as u8;
            }
            head.truncate(random() as usize % (head.len() + 1));
            accepted += usize::from(understood(&head).is_ok());
        }
        assert!((1_000..19_000).contains(&accepted), "{accepted}: both outcomes are tested");
    }

    #[test]
    fn silent_peers_are_bounded_in_number_and_time() {
        let address = served();
        let begun = Instant::now();
        let mut silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect(address)).collect();
        let refused = exchange(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.0 503") && refused.contains("Retry-After"), "{refused}");
        // One byte a second does not keep a connection.
        for _ in 0..4 {
            silent.iter_mut().for_each(|stream| drop(stream.write_all(b"x")));
            thread::sleep(Duration::from_secs(1));
        }
        for stream in &mut silent {
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.0 408"), "{response}");
        }
        assert!(begun.elapsed() < 2 * TIMEOUT);
        drop(silent);
        let is_served = (0..50).any(|_| {
            thread::sleep(Duration::from_millis(50));
            exchange(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK")
        });
        assert!(is_served, "the connections are free again");
    }
}
