//! The threads on which the reader's calls block.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use headwater_abi::wire::Aspect;
use headwater_store::digest_of;
use mio::Waker;

use crate::jobs::{DigestOrder, FileError, FileNews, News, Opened, Order};
use crate::reader::Reader;
use crate::reader::SharedFs;

/// Threads that read at once; more would only queue at the shared file system's servers.
const THREADS_MAX: usize = 8;
/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 256 << 10;
/// News that wait for the event loop; a reader that is further ahead waits.
const NEWS_MAX: usize = 256;

/// How long news may wait for more while there is more to do, before the event loop is woken.
const NEWS_WAIT_MAX: Duration = Duration::from_micros(300);

/// Takes orders and tells news. Threads are started as orders come, so a rank that is no reader has
/// none.
#[derive(Debug)]
pub struct Pool {
    reader: Arc<Reader>,
    /// Unbounded, because the node bounds what it orders.
    orders: Sender<Order>,
    /// Orders that have not been handed out: see [`Pool::hand_out`].
    pending: Vec<Order>,
    worker: Worker,
    news: Receiver<News>,
    threads: usize,
}

#[derive(Clone, Debug)]
struct Worker {
    reader: Arc<Reader>,
    orders: Receiver<Order>,
    news: Sender<News>,
    waker: Arc<Waker>,
    /// True once the event loop has been woken and has not looked for news since.
    is_told: Arc<AtomicBool>,
    /// Orders that have not been answered to their end.
    open_orders: Arc<AtomicUsize>,
}

impl Pool {
    /// A pool that wakes the event loop for each piece of news. `for_everybody`: reads nothing but what
    /// everybody may read.
    pub fn new(waker: Arc<Waker>, opened: Opened, for_everybody: bool) -> Pool {
        let reader = Arc::new(Reader::new(opened, for_everybody));
        let (orders, orders_out) = unbounded();
        let (news_in, news) = bounded(NEWS_MAX);
        let open_orders = Arc::default();
        let is_told = Arc::default();
        let worker =
            Worker { reader: Arc::clone(&reader), orders: orders_out, news: news_in, waker, is_told, open_orders };
        Pool { reader, orders, pending: Vec::new(), worker, news, threads: 0 }
    }

    /// Takes an order, to be handed out with others.
    pub fn order(&mut self, order: Order) {
        self.pending.push(order);
    }

    /// Has the orders done that were taken: several at a time, since threads that are at work need not
    /// be woken. Fails if there is no thread and none can be started.
    pub fn hand_out(&mut self) -> io::Result<()> {
        for order in std::mem::take(&mut self.pending) {
            self.send(order)?;
        }
        Ok(())
    }

    fn send(&mut self, order: Order) -> io::Result<()> {
        let open_orders = self.worker.open_orders.fetch_add(1, Ordering::Relaxed);
        if open_orders >= self.threads && self.threads < THREADS_MAX {
            let worker = self.worker.clone();
            let builder = std::thread::Builder::new().name("reader".into()).stack_size(STACK_BYTES);
            match builder.spawn(move || worker.run()) {
                Ok(_) => self.threads += 1,
                Err(error) if self.threads == 0 => return Err(error),
                Err(error) => tracing::debug!(%error, "no further reader thread"),
            }
        }
        self.orders.send(order).map_err(io::Error::other)
    }

    /// The next piece of news, if there is one.
    pub fn news(&self) -> Option<News> {
        // Before the look, so that what comes after it is told of.
        self.worker.is_told.store(false, Ordering::SeqCst);
        self.news.try_recv().ok()
    }

    /// True if there is news.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Forgets directories that were looked up, and files that were open from the start: they may have
    /// been replaced.
    pub fn look_anew(&self) {
        self.reader.look_anew();
    }

    /// What has been done so far.
    pub fn counts(&self) -> SharedFs {
        self.reader.counts()
    }
}

impl Drop for Pool {
    /// The threads end after what they are doing; nobody waits for them.
    fn drop(&mut self) {
        self.reader.stopping.store(true, Ordering::Relaxed);
    }
}

impl Worker {
    fn run(self) {
        let (mut buffer, mut untold) = (Vec::new(), None);
        while let Some(order) = self.next(&mut untold) {
            if self.reader.stopping.load(Ordering::Relaxed) {
                return;
            }
            let began = Instant::now();
            let last = self.perform(order, &mut buffer);
            // First, so that who hears the news finds this thread free.
            self.open_orders.fetch_sub(1, Ordering::Relaxed);
            let Some(news) = last else { continue };
            if self.news.send(news).is_err() {
                return;
            }
            // What took long is told at once; the next one may take as long.
            if untold.get_or_insert(began).elapsed() >= NEWS_WAIT_MAX {
                untold = None;
                if !self.wake() {
                    return;
                }
            }
        }
    }

    /// The next order. Before this thread waits for one, it tells what it has not told.
    fn next(&self, untold: &mut Option<Instant>) -> Option<Order> {
        if let Ok(order) = self.orders.try_recv() {
            return Some(order);
        }
        if untold.take().is_some() && !self.wake() {
            return None;
        }
        self.orders.recv().ok()
    }

    /// The last news of the order, if anybody wants to know.
    fn perform(&self, order: Order, buffer: &mut Vec<u8>) -> Option<News> {
        match order {
            Order::Entry(path) => {
                let fact = self.reader.entry(&path);
                Some(News::Fact(path, Aspect::Entry, fact))
            }
            Order::Listing(path) => {
                let fact = self.reader.listing(&path);
                Some(News::Fact(path, Aspect::Listing, fact))
            }
            Order::Details(path, names) => {
                let details = self.reader.details(&path, names);
                Some(News::Details(path, details))
            }
            Order::Digest(DigestOrder { path, aspect, head, copy }) => {
                let digest = digest_of(&head, |bytes, offset| copy.read_exact_at(bytes, offset));
                let digest =
                    digest.inspect_err(|error| tracing::warn!(%path, %error, "the store's copy can't be read"));
                Some(News::Digest(path, aspect, digest.ok()))
            }
            Order::File(order) => {
                let mut tell = |news| {
                    self.tell(News::File(order.clone(), news));
                };
                let news = match self.reader.file(&order, buffer, &mut tell) {
                    Ok(news) => news,
                    Err(FileError::GivenUp) => {
                        // The file may have been made after it was given up.
                        if !order.incoming.is_in_place() {
                            let _ = order.incoming.give_up();
                        }
                        return None;
                    }
                    Err(error) => FileNews::Failed(error),
                };
                Some(News::File(order, news))
            }
        }
    }

    /// False once nobody listens.
    fn tell(&self, news: News) -> bool {
        self.news.send(news).is_ok() && self.wake()
    }

    fn wake(&self) -> bool {
        self.is_told.swap(true, Ordering::SeqCst) || self.waker.wake().is_ok()
    }
}
