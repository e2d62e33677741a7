//! The threads on which the reader's calls block.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use headwater_abi::wire::Aspect;
use mio::Waker;

use super::{FileError, FileNews, News, Opened, Order, Reader};
use crate::report::SharedFs;

/// Threads that read at once; more would only queue at the shared file system's servers.
const THREADS_MAX: usize = 8;
/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 256 << 10;
/// News that wait for the event loop; a reader that is further ahead waits.
const NEWS_MAX: usize = 256;

/// Takes orders and tells news. Threads are started as orders come, so a rank that is no reader has
/// none.
#[derive(Debug)]
pub(crate) struct Pool {
    reader: Arc<Reader>,
    /// Unbounded, because the node bounds what it orders.
    orders: Sender<Order>,
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
    /// Orders that have not been answered to their end.
    open_orders: Arc<AtomicUsize>,
}

impl Pool {
    /// A pool that wakes the event loop for each piece of news.
    pub(crate) fn new(waker: Arc<Waker>, opened: Opened) -> Pool {
        let reader = Arc::new(Reader { opened: opened.into(), ..Reader::default() });
        let (orders, orders_out) = unbounded();
        let (news_in, news) = bounded(NEWS_MAX);
        let open_orders = Arc::default();
        let worker = Worker { reader: Arc::clone(&reader), orders: orders_out, news: news_in, waker, open_orders };
        Pool { reader, orders, worker, news, threads: 0 }
    }

    /// Has `order` done. Fails if there is no thread and none can be started.
    pub(crate) fn order(&mut self, order: Order) -> io::Result<()> {
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
    pub(crate) fn news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// True if there is news.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// What has been done so far.
    pub(crate) fn counts(&self) -> SharedFs {
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
        let mut buffer = Vec::new();
        while let Ok(order) = self.orders.recv() {
            if self.reader.stopping.load(Ordering::Relaxed) {
                return;
            }
            let last = self.perform(order, &mut buffer);
            // First, so that who hears the news finds this thread free.
            self.open_orders.fetch_sub(1, Ordering::Relaxed);
            if let Some(news) = last
                && !self.tell(news)
            {
                return;
            }
        }
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
            Order::File(order) => {
                let mut tell = |news| {
                    self.tell(News::File(order.clone(), news));
                };
                let news = match self.reader.file(&order, buffer, &mut tell) {
                    Ok(position) => FileNews::Read(position),
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
        self.news.send(news).is_ok() && self.waker.wake().is_ok()
    }
}
