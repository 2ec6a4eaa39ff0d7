//! What the two ends and the control share: the clock, the end, and the news on the way to stdout.

use crate::sys;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Why a measurement is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The duration passed, or the last byte arrived.
    Complete,
    /// It was told to stop.
    Stopped,
    /// It gave no usable number: the reason.
    Failed(String),
    /// The receiver got nothing for too long: the reason.
    Stalled(String),
    /// The connection became plain TCP: the reason.
    Fallback(String),
    /// It never began: the reason.
    Impossible(String),
}

/// What is told while the measurement runs. Times count from the `connect` call.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum News {
    /// The initial subflow is established.
    Connected {
        /// When.
        t_ns: u64,
        /// The sender's port.
        local_port: u16,
        /// The receiver's port.
        remote_port: u16,
    },
    /// A threshold was passed.
    Sent {
        /// When that was seen.
        t_ns: u64,
        /// The bytes sent by then.
        bytes: u64,
    },
}

/// Shared by all threads of a measurement.
pub struct Session {
    start: OnceLock<Instant>,
    ending: OnceLock<Ending>,
    progress_ns: AtomicU64,
    over: File,
    news: Mutex<Vec<News>>,
    bell: File,
}

impl Session {
    /// Nothing happened yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            start: OnceLock::new(),
            ending: OnceLock::new(),
            progress_ns: AtomicU64::new(0),
            over: sys::event_file()?,
            news: Mutex::default(),
            bell: sys::event_file()?,
        })
    }

    /// The `connect` call is made now; all times count from here.
    pub fn begin(&self) {
        self.start.get_or_init(Instant::now);
    }

    /// Nanoseconds since the `connect` call; 0 before it.
    pub fn now_ns(&self) -> u64 {
        self.start.get().map_or(0, |start| start.elapsed().as_nanos() as u64)
    }

    /// The measurement is over; the first reason counts.
    pub fn end(&self, ending: Ending) {
        let _ = self.ending.set(ending);
        ring(&self.over); // never read: from now on it wakes everyone at once
        ring(&self.bell);
    }

    /// Why the measurement is over; none while it is not.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.get()
    }

    /// The receiver got bytes in order.
    pub fn progressed(&self, now_ns: u64) {
        self.progress_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When the receiver last got bytes in order, or got the connection.
    pub fn progress_ns(&self) -> u64 {
        self.progress_ns.load(Ordering::Relaxed)
    }

    /// Waits until `watch` is ready, `until_ns` has come or the measurement is over.
    pub fn wait(&self, watch: Option<sys::Watch<'_>>, until_ns: u64) -> io::Result<()> {
        let timeout = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        let mut watches = vec![sys::Watch::readable(&self.over)];
        watches.extend(watch);
        sys::wait(&mut watches, timeout)
    }

    /// Tells something.
    pub fn tell(&self, news: News) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news);
        ring(&self.bell);
    }

    /// What was told since the last call.
    pub fn take_news(&self) -> Vec<News> {
        // A counter already at zero is no news, not an error.
        let _ = (&self.bell).read(&mut [0; 8]);
        std::mem::take(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable when there is news, or when a thread or the measurement ended.
    pub fn bell(&self) -> &File {
        &self.bell
    }
}

fn ring(mut bell: &File) {
    // Only a counter about to overflow refuses, and that one is readable anyway.
    let _ = bell.write(&1u64.to_ne_bytes());
}

/// Ends the measurement when an end's thread leaves for whatever reason, a panic included.
pub struct Leaving<'a>(pub &'a Session, pub &'static str);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.end(Ending::Failed(format!("the {} ended unexpectedly", self.1)));
    }
}

/// `3.214 s`.
pub fn seconds(span_ns: u64) -> String {
    format!("{:.3} s", span_ns as f64 / 1e9)
}
