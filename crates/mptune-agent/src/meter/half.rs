//! The common parts of both halves: a clock, commands while they measure, an ending, and a report of
//! what they saw of the connection.

use crate::control::{Control, Input};
use crate::kernel::sys::{self, Watch};
use crate::meter::clock::Handshake;
use crate::meter::counters::{Counters, Moved};
use crate::meter::load::Load;
use crate::meter::socket::Buffers;
use crate::meter::subflows::SubflowReport;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};

/// Longest time without checking for commands of a half that is never short of work.
const UNHEARD_NS: u64 = 5_000_000;
/// Longest wait for anything.
const TICK: Duration = Duration::from_millis(100);

/// Reason of the end of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "reason", rename_all = "lowercase")]
pub enum Ending {
    /// The duration passed, or the last byte arrived.
    Complete,
    /// It was ordered to stop.
    Stopped,
    /// It gave no usable number: the reason.
    Failed(String),
    /// There was no connection: the reason.
    Unreachable(String),
    /// The deadline came before the last byte: the reason.
    Incomplete(String),
    /// The payload is not what was sent: the reason.
    Corrupt(String),
    /// The other half, or the network, ended the connection: what was observed.
    Lost(String),
    /// The receiver got nothing for too long: the reason.
    Stalled(String),
    /// The connection became plain TCP: the reason.
    Fallback(String),
}

/// A line on standard input after the first.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
enum Command {
    /// The measurement is over now.
    Stop,
    /// The opener is connected.
    Connected(Handshake),
}

/// The part of a result that both halves have.
#[derive(Debug, Clone, Serialize)]
pub struct Seen {
    /// Its effective buffers, bytes.
    pub buffers: Buffers,
    /// The subflows as it saw them.
    pub subflows: Vec<SubflowReport>,
    /// Counters of its host that increased.
    pub counters: Counters,
    /// The same since the connection last made progress.
    pub counters_since_progress: Counters,
    /// Reason of the end.
    pub ending: Ending,
    /// Processor time it used, nanoseconds.
    pub cpu_ns: u64,
    /// Share of all processors of its host that were busy; none if the host does not report it.
    pub busy_share: Option<f64>,
}

/// One half of a running measurement.
pub struct Half<'a> {
    control: &'a mut Control,
    start: Instant,
    cpu_before_ns: u64,
    load_before: Option<Load>,
    /// Time of the last wait.
    heard_ns: u64,
    ending: Option<Ending>,
}

impl<'a> Half<'a> {
    /// A half that begins now.
    pub fn new(control: &'a mut Control) -> Self {
        let start = Instant::now();
        let (cpu_before_ns, load_before) = (sys::cpu_ns(), Load::now());
        Self { control, start, cpu_before_ns, load_before, heard_ns: 0, ending: None }
    }

    /// Restarts its clock.
    pub fn restart(&mut self) {
        self.begin_load();
        self.start = Instant::now();
        self.heard_ns = 0;
    }

    /// Its clock counts from what is `origin_ns` on it now.
    pub fn begin_at(&mut self, origin_ns: u64) {
        self.start += Duration::from_nanos(origin_ns);
        self.heard_ns = self.heard_ns.saturating_sub(origin_ns);
    }

    /// The connection was requested so much earlier than was assumed.
    pub fn begin_earlier(&mut self, by_ns: u64) {
        self.start = self.start.checked_sub(Duration::from_nanos(by_ns)).unwrap_or(self.start);
    }

    /// The load of its host counts from now on.
    pub fn begin_load(&mut self) {
        self.load_before = Load::now();
    }

    /// Nanoseconds since it began.
    pub fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Ends it; the first reason counts.
    pub fn end(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
    }

    /// A report for who accepts the connection came to who opens it.
    pub fn refuse_report(&mut self) {
        let at = seconds(self.now_ns());
        self.end(Ending::Failed(format!(
            "received a command for who accepts the connection at {at}"
        )));
    }

    /// Reason of the end; none while it measures.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Writes a line of output.
    pub fn tell(&mut self, message: &impl Serialize) {
        self.control.tell(message);
    }

    /// Waits until one of `watches` is ready, `until_ns` is reached or a command arrives; returns what
    /// the opener reports about its handshake. `now_ns` is the time, as the caller has just read it: in a guest of
    /// the testbed virtual every reading is a system call.
    ///
    /// # Errors
    /// Waiting is not possible.
    pub fn wait(
        &mut self,
        watches: &mut [Watch<'_>],
        until_ns: u64,
        now_ns: u64,
    ) -> io::Result<Option<Handshake>> {
        let timeout = Duration::from_nanos(until_ns.saturating_sub(now_ns)).min(TICK);
        self.heard_ns = now_ns;
        match self.control.wait(watches, timeout)? {
            Some(Input::Line(line)) => match serde_json::from_str(&line) {
                Ok(Command::Connected(handshake)) => return Ok(Some(handshake)),
                Ok(Command::Stop) => self.end(Ending::Stopped),
                Err(error) => self.end(Ending::Failed(format!("expected a command: {error}"))),
            },
            Some(Input::Closed) => self.end(Ending::Failed("standard input was closed".to_owned())),
            Some(Input::Signal(name)) => self.end(Ending::Failed(format!("ended by {name}"))),
            None => {}
        }
        Ok(None)
    }

    /// It has worked long enough without waiting that a command could have arrived.
    pub fn is_deaf(&self, now_ns: u64) -> bool {
        now_ns >= self.heard_ns + UNHEARD_NS
    }

    /// The report of both halves' common part, once it is over.
    pub fn seen(&self, buffers: Buffers, subflows: Vec<SubflowReport>, moved: Moved) -> Seen {
        Seen {
            buffers,
            subflows,
            counters: moved.whole,
            counters_since_progress: moved.since_progress,
            ending: self.ending.clone().expect("asked for after the end"),
            cpu_ns: sys::cpu_ns() - self.cpu_before_ns,
            busy_share: self
                .load_before
                .as_ref()
                .and_then(|before| before.share_until(&Load::now()?)),
        }
    }

    /// Keeps what the process holds open until standard input ends.
    pub fn linger(&mut self) {
        loop {
            match self.control.wait(&mut [], TICK) {
                Ok(Some(Input::Line(_)) | None) => {}
                Ok(Some(Input::Closed | Input::Signal(_))) | Err(_) => return,
            }
        }
    }
}

/// `3.214 s`.
pub fn seconds(span_ns: u64) -> String {
    format!("{:.3} s", span_ns as f64 / 1e9)
}
