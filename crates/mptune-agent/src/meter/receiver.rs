//! The receiving half: reads, checks every byte, counts them over time, and decides when the measurement is
//! over. It accepts the connection, or opens it where it is a client.

use crate::control::Control;
use crate::kernel::diag::Diag;
use crate::kernel::sys::{self, Watch};
use crate::meter::beginning::{self, Accepted, Listening};
use crate::meter::bins::Bins;
use crate::meter::candidates::Chosen;
use crate::meter::client::Asking;
use crate::meter::clock::{Clock, Handshake};
use crate::meter::config::{AcceptorConfig, HalfConfig, Job, OpenerConfig, Side, TOKEN_BYTES};
use crate::meter::counters::Recorder;
use crate::meter::error::Error;
use crate::meter::half::{Ending, Half, Seen, seconds};
use crate::meter::listeners::Listeners;
use crate::meter::opposite::Outgoing;
use crate::meter::pattern::Pattern;
use crate::meter::socket;
use crate::meter::subflows::Ledger;
use crate::role;
use mptune_core::early_end::{EarlyEnd, Ended};
use mptune_core::workload::{Delays, Piece};
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;
/// Time for the opener's report of its handshake to arrive once everything else has.
const ALIGN_PATIENCE_NS: u64 = 10_000_000_000;
/// Interval of asking for acknowledgements of the last messages that go back.
const ACKNOWLEDGED_NS: u64 = 1_000_000;

/// The last line. Times count from the opener's `connect` call.
#[derive(Serialize)]
#[serde(tag = "event", rename = "result")]
struct Report<'a> {
    /// There was a connection.
    connected: bool,
    /// End of counting; without a connection the time that was spent to open one, 0 where the sender opens it.
    duration_ns: u64,
    /// Payload bytes in order.
    in_order_bytes: u64,
    /// The same over time.
    bins: Vec<u64>,
    /// `in_order_bytes` expected after the whole duration, if it ended early.
    expected_bytes: Option<u64>,
    /// Arrival of the last byte of a transfer.
    completion_ns: Option<u64>,
    /// Of each message that arrived, in their order: the time from when it was due to its last byte in order; or of each
    /// response or page, from its request.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    delays_ns: &'a [u64],
    /// Record of each segment of a video beside its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pieces: Vec<Piece>,
    /// First byte that differs from what was sent.
    corrupt_at: Option<u64>,
    /// Connections of others, which were reset.
    strangers: u64,
    /// Of messages that go back: the largest lateness of a write that found room.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ns: Option<u64>,
    #[serde(flatten)]
    seen: Seen,
}

/// The role `receiver`.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    match control.configuration::<HalfConfig>()?.checked(Side::Receiver)? {
        HalfConfig::Opens(config) => open(control, &config),
        HalfConfig::Accepts(config) => accept(control, &config),
    }
}

/// It opens the connection.
fn open(control: &mut Control, config: &OpenerConfig) -> Result<(), Error> {
    let fd = beginning::socket(config, Side::Receiver)?;
    let bytes = Side::Receiver.buffer_bytes(&config.job);
    socket::set_buffers(fd.as_fd(), bytes, Side::Receiver.name())?;
    let stream = TcpStream::from(fd);
    set_no_delay(&stream)?;
    let mut receiver = Receiver::new(&config.job, Half::new(control));
    receiver.opens = true;
    let connection = receiver.connect(config, &stream).then_some(&stream);
    if connection.is_some() {
        receiver.receive(&stream, None)?;
    }
    receiver.report(connection)?;
    receiver.half.linger();
    socket::abort(stream);
    Ok(())
}

/// It accepts the connection.
fn accept(control: &mut Control, config: &AcceptorConfig) -> Result<(), Error> {
    let mut listeners = Listeners::open(config, Side::Receiver)?;
    let (port, plain_because) = (listeners.port, listeners.plain_because.as_deref());
    control.tell(&Listening { port, plain_because });
    let mut receiver = Receiver::new(&config.job, Half::new(control));
    let connection = receiver.accept(&mut listeners)?;
    if let Some(stream) = &connection {
        if config.job.workload.purpose().is_some() || receiver.outgoing.is_some() {
            set_no_delay(stream)?;
        }
        receiver.half.tell(&Accepted {});
        receiver.receive(stream, Some(&listeners))?;
    }
    drop(listeners);
    receiver.report(connection.as_ref())?;
    receiver.half.linger();
    connection.into_iter().for_each(socket::abort);
    Ok(())
}

/// As programs do that ask, or send messages.
fn set_no_delay(stream: &TcpStream) -> Result<(), Error> {
    socket::set_no_delay(stream.as_fd())
        .map_err(|error| Error::System("receiver: setting TCP_NODELAY", error))
}

struct Receiver<'a> {
    job: &'a Job,
    half: Half<'a>,
    /// It opens the connection.
    opens: bool,
    clock: Clock,
    pattern: Pattern,
    /// Payload that arrived and has been checked.
    arrived_bytes: u64,
    /// Arrivals on this half's clock, until the time of the connection's request is known.
    early: Vec<(u64, u64)>,
    /// Payload that counts: a saturated measurement leaves out what arrived after its end.
    in_order_bytes: u64,
    bins: Bins,
    /// Of messages, if the workload is a series of them.
    delays: Option<Delays>,
    /// The client, if one asks.
    asking: Option<Asking>,
    /// The messages that go back, if they go both ways; their last one was acknowledged.
    outgoing: Option<Outgoing>,
    acknowledged: bool,
    /// Last arrival of bytes, or of the connection, on this half's clock.
    progress_ns: u64,
    /// Arrival of the last byte of a transfer, on this half's clock.
    last_byte_ns: Option<u64>,
    corrupt_at: Option<u64>,
    /// The looks that can end a saturated measurement early.
    early_end: Option<EarlyEnd>,
    /// One of them ended it.
    ended_early: Option<Ended>,
    subflows: Ledger,
    recorder: Recorder,
    /// Of the namespace; none without socket diagnostics, or where they do not answer.
    diag: Option<Diag>,
    /// Connections of others so far.
    strangers: u64,
    /// Time of the next poll of the subflows, since the connection was requested.
    sample_ns: u64,
}

impl<'a> Receiver<'a> {
    fn new(job: &'a Job, half: Half<'a>) -> Self {
        Self {
            job,
            half,
            opens: false,
            clock: Clock::new(0, 0),
            pattern: Pattern::new(job.seed),
            arrived_bytes: 0,
            early: Vec::new(),
            in_order_bytes: 0,
            bins: Bins::new(job.bin_ns),
            delays: job.workload.schedule().map(Delays::new),
            asking: Asking::new(job),
            outgoing: Outgoing::new(job),
            acknowledged: false,
            progress_ns: 0,
            last_byte_ns: None,
            corrupt_at: None,
            early_end: job
                .workload
                .ends_early()
                .then(|| EarlyEnd::new(job.workload.limit(), job.bin_ns)),
            ended_early: None,
            subflows: Ledger::new(job.bin_ns),
            recorder: Recorder::new(),
            diag: Some(job.mptcp).filter(|mptcp| *mptcp).and_then(|_| Diag::open().ok()),
            strangers: 0,
            sample_ns: job.bin_ns,
        }
    }

    /// Opens the connection; false if there is none. It is the client's, which asks at once.
    fn connect(&mut self, config: &OpenerConfig, stream: &TcpStream) -> bool {
        if !beginning::connect(&mut self.half, config, stream) {
            return false;
        }
        let handshake_ns = self.half.now_ns();
        let initial = socket::initial_for(self.job, stream);
        let rtt_ns = initial.map_or(0, |flow| flow.tcp.srtt_ns);
        let handshake = Handshake { handshake_ns, rtt_ns };
        beginning::tell_connected(&mut self.half, handshake, stream);
        self.clock = Clock::of_opener(handshake);
        self.progress_ns = handshake_ns;
        if let Some(asking) = &mut self.asking {
            asking.begin(handshake_ns, self.job.token.as_ref().map_or(&[], |token| token));
        }
        true
    }

    /// The connection; none if ordered to stop before one arrived.
    fn accept(&mut self, listeners: &mut Listeners) -> Result<Option<TcpStream>, Error> {
        let arrived = beginning::accept(&mut self.half, self.job, Side::Receiver, listeners)?;
        self.strangers += arrived.strangers;
        let connection = arrived.chosen.map(|chosen| self.begin(chosen));
        if connection.is_some() {
            arrived.handshake.into_iter().for_each(|report| self.align(report));
        }
        Ok(connection)
    }

    /// The clock runs from when the connection was accepted.
    fn begin(&mut self, chosen: Chosen) -> TcpStream {
        let Chosen { stream, accepted_ns } = chosen;
        let initial = socket::initial_for(self.job, &stream);
        // The round-trip time of the handshake is the only one this end ever measures.
        let rtt_ns = initial.map_or(0, |flow| flow.tcp.srtt_ns);
        if let Some(flow) = initial.filter(|_| self.job.token.is_some()) {
            self.subflows.leave_out(&flow, TOKEN_BYTES as u64);
        }
        self.half.begin_load();
        self.progress_ns = accepted_ns;
        self.clock = Clock::new(accepted_ns, rtt_ns);
        if let Some(asking) = &mut self.asking {
            asking.begin(self.half.now_ns(), &[]);
        }
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.begin(accepted_ns, self.half.now_ns());
        }
        stream
    }

    /// Takes what arrives until it is over.
    fn receive(&mut self, stream: &TcpStream, listeners: Option<&Listeners>) -> Result<(), Error> {
        let mut data = vec![0; READ_BYTES];
        while self.half.ending().is_none() {
            let now_ns = self.half.now_ns();
            self.look(stream, now_ns);
            self.ask(stream);
            self.send_back(stream);
            match (&mut &*stream).read(&mut data) {
                Ok(0) => self.lose("the sender closed the connection"),
                Ok(length) => {
                    let is_timed = self.delays.is_some() || self.asking.is_some();
                    let at_ns = if is_timed { self.half.now_ns() } else { now_ns };
                    self.take(at_ns, &data[..length]);
                    if length == READ_BYTES && !self.half.is_deaf(now_ns) {
                        continue; // there may be more
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => self.lose(&format!("receiving failed: {error}")),
            }
            self.send_back(stream);
            self.wait(stream, listeners, now_ns)?;
        }
        Ok(())
    }

    fn wait(
        &mut self,
        stream: &TcpStream,
        listeners: Option<&Listeners>,
        now_ns: u64,
    ) -> Result<(), Error> {
        let mut watches = vec![Watch::readable(stream)];
        watches.extend(listeners.into_iter().flat_map(Listeners::watches));
        let of_listeners = 1..watches.len();
        let is_waiting = self.outgoing.as_ref().is_some_and(|own| own.is_waiting(now_ns));
        if is_waiting || self.asking.as_ref().is_some_and(Asking::is_writing) {
            watches.push(Watch::writable(stream));
        }
        let report = self
            .half
            .wait(&mut watches, self.next_ns(now_ns), now_ns)
            .map_err(|error| Error::System("receiver: waiting", error))?;
        if watches[of_listeners].iter().any(|watch| watch.ready) {
            self.strangers += listeners.map_or(0, |listeners| listeners.turn_away(true));
        }
        match report {
            Some(_) if self.opens => self.half.refuse_report(),
            Some(handshake) => self.align(handshake),
            None => {}
        }
        Ok(())
    }

    /// The client makes the requests that are due, and writes what it can.
    fn ask(&mut self, stream: &TcpStream) {
        let now_ns = self.half.now_ns();
        let Some(asking) = &mut self.asking else { return };
        asking.make(now_ns);
        while asking.is_writing() {
            match (&mut &*stream).write(asking.unwritten()) {
                Ok(written) => asking.wrote(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.lose(&format!("asking failed: {error}")),
            }
        }
    }

    /// Writes the messages that are due, and notes when the last was acknowledged.
    fn send_back(&mut self, stream: &TcpStream) {
        let Some(outgoing) = &mut self.outgoing else { return };
        let now_ns = self.half.now_ns();
        while outgoing.is_waiting(now_ns) {
            match (&mut &*stream).write(outgoing.due(now_ns)) {
                Ok(written) => outgoing.wrote(now_ns, written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    outgoing.wrote(now_ns, 0);
                    return;
                }
                Err(error) => return self.lose(&format!("sending back failed: {error}")),
            }
        }
        if outgoing.is_over() && self.has_arrived() && !self.acknowledged {
            self.acknowledged = sys::unacknowledged(stream.as_fd()).is_ok_and(|bytes| bytes == 0);
            self.check_whole(now_ns);
        }
    }

    /// Everything that the sender sends has arrived.
    fn has_arrived(&self) -> bool {
        match &self.asking {
            Some(asking) => asking.is_over(),
            None => self.job.workload.length() == Some(self.arrived_bytes),
        }
    }

    /// Ends it if everything has arrived, at the other half too.
    fn check_whole(&mut self, now_ns: u64) {
        if self.has_arrived() && (self.outgoing.is_none() || self.acknowledged) {
            self.last_byte_ns.get_or_insert(now_ns);
            self.check_time(now_ns);
        }
    }

    /// The opener has reported how long its handshake took: earlier arrivals go into their bins.
    fn align(&mut self, handshake: Handshake) {
        self.clock.align(handshake);
        for (at_ns, bytes) in std::mem::take(&mut self.early) {
            self.count(at_ns, bytes);
        }
    }

    /// Time of the next task even if nothing arrives, on this half's clock.
    fn next_ns(&self, now_ns: u64) -> u64 {
        let ask_ns = self.asking.as_ref().map_or(u64::MAX, Asking::next_ns);
        let send_ns = self.outgoing.as_ref().map_or(u64::MAX, |own| match own.is_over() {
            true if self.has_arrived() => now_ns + ACKNOWLEDGED_NS,
            _ => own.next_ns(now_ns),
        });
        let stalled_ns =
            self.progress_ns.saturating_add(self.job.stall_ns).min(ask_ns).min(send_ns);
        if !self.clock.aligned() {
            // Nothing is sampled or complete before the handshake is known, which wakes this half.
            return stalled_ns.min(
                self.clock.at_ns(self.job.workload.limit()).saturating_add(ALIGN_PATIENCE_NS),
            );
        }
        self.clock.at_ns(self.sample_ns.min(self.job.workload.limit())).min(stalled_ns)
    }

    /// Handles what is due now.
    fn look(&mut self, stream: &TcpStream, now_ns: u64) {
        self.check_time(now_ns);
        let since_ns = self.clock.since_connect_ns(now_ns);
        if self.clock.aligned() && since_ns >= self.sample_ns {
            let bin = since_ns / self.job.bin_ns;
            self.sample(stream, bin * self.job.bin_ns);
            self.sample_ns = (bin + 1) * self.job.bin_ns;
            self.check_early_end(since_ns);
        }
    }

    /// Ends it if its throughput is known well enough. Looks are at ends of bins, as samples are.
    fn check_early_end(&mut self, since_ns: u64) {
        let Some(early) = self.early_end.as_mut() else { return };
        // Several looks are due only if this half was held up.
        while let Some(look_ns) = early.next().filter(|&look_ns| look_ns <= since_ns) {
            if let Some(ended) = early.look(&self.bins.until(look_ns)) {
                self.ended_early = Some(ended);
                self.half.end(Ending::Complete);
                return;
            }
        }
    }

    fn check_time(&mut self, now_ns: u64) {
        let due_ns = self.job.workload.duration().map(|duration_ns| self.clock.at_ns(duration_ns));
        if let Some(over_ns) = self.last_byte_ns.or(due_ns.filter(|due_ns| now_ns >= *due_ns)) {
            if self.clock.aligned() {
                self.half.end(Ending::Complete);
            } else if now_ns >= over_ns.saturating_add(ALIGN_PATIENCE_NS) {
                self.fail("the opener's handshake was never reported");
            }
        } else if self.clock.since_connect_ns(now_ns) >= self.job.workload.limit() {
            let passed = match self.has_arrived() {
                true => "the deadline passed before all that goes back was acknowledged",
                false => "the deadline passed",
            };
            let reason = self.placed(passed);
            self.half.end(Ending::Incomplete(reason));
        } else if now_ns >= self.progress_ns.saturating_add(self.job.stall_ns) {
            self.half.end(Ending::Stalled(format!(
                "stalled at {}: no byte in order for {} after {} bytes",
                seconds(self.clock.since_connect_ns(self.progress_ns)),
                seconds(self.job.stall_ns),
                self.arrived_bytes,
            )));
        }
    }

    fn lose(&mut self, reason: &str) {
        let reason = self.placed(reason);
        self.half.end(Ending::Lost(reason));
    }

    fn fail(&mut self, reason: &str) {
        let reason = self.placed(reason);
        self.half.end(Ending::Failed(reason));
    }

    /// A reason with the time and the progress made.
    fn placed(&self, reason: &str) -> String {
        let expected = self.job.workload.length().map(|bytes| format!(" of {bytes}"));
        let expected = expected.unwrap_or_default();
        let at = seconds(self.clock.since_connect_ns(self.half.now_ns()));
        let bytes = self.arrived_bytes;
        format!("{reason} at {at}, after {bytes}{expected} bytes")
    }

    /// Checks and counts what was read.
    fn take(&mut self, now_ns: u64, data: &[u8]) {
        let offset = self.arrived_bytes;
        let room = self.job.workload.length().map_or(u64::MAX, |bytes| bytes - offset);
        let within = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let surplus = (within < data.len()).then_some(offset + within as u64);
        self.arrived_bytes += within as u64;
        self.progress_ns = now_ns;
        if self.clock.aligned() {
            self.count(now_ns, within as u64);
        } else {
            self.early.push((now_ns, within as u64));
        }
        if let Some(at) = self.pattern.first_wrong(offset, &data[..within]).or(surplus) {
            self.corrupt_at = Some(at);
            let reason = format!("payload differs from what was sent at byte {at}");
            self.half.end(Ending::Corrupt(reason));
            return;
        }
        if let Some(asking) = &mut self.asking {
            asking.arrived(now_ns, self.arrived_bytes);
        }
        self.check_whole(now_ns);
    }

    /// Counts bytes that arrived at `at_ns` on this half's clock.
    fn count(&mut self, at_ns: u64, bytes: u64) {
        let since_ns = self.clock.since_connect_ns(at_ns);
        if self.job.workload.duration().is_none_or(|duration_ns| since_ns <= duration_ns) {
            self.in_order_bytes += bytes;
            self.bins.add(since_ns, bytes);
            if let Some(delays) = &mut self.delays {
                delays.on_arrival(self.clock.since_established_ns(at_ns), self.in_order_bytes);
            }
        }
    }

    fn sample(&mut self, stream: &TcpStream, at_ns: u64) {
        self.recorder.look(self.progress_ns);
        // Whatever prevents reading them, the sender sees and reports too.
        if let Ok(statistics) = socket::statistics_for(self.job, stream) {
            self.subflows.update(at_ns, &statistics.subflows);
        }
        if let Some(diag) = &mut self.diag {
            self.subflows.identify(diag);
        }
    }

    /// End of counting, since the connection was requested.
    fn end_ns(&self) -> u64 {
        let now_ns = self.clock.since_connect_ns(self.half.now_ns());
        let whole_ns = self.job.workload.duration().filter(|duration_ns| now_ns >= *duration_ns);
        let early_ns = self.ended_early.map(|ended| ended.at);
        self.completion_ns().or(early_ns).or(whole_ns).unwrap_or(now_ns)
    }

    fn completion_ns(&self) -> Option<u64> {
        self.last_byte_ns.map(|at_ns| self.clock.since_connect_ns(at_ns))
    }

    /// Records of segments or bursts beside their times.
    fn pieces(&self) -> Vec<Piece> {
        match &self.asking {
            Some(asking) => asking.pieces().to_vec(),
            None => self
                .job
                .workload
                .pieces(self.delays.as_ref().map_or(0, |delays| delays.all().len())),
        }
    }

    /// Reports what it found.
    fn report(&mut self, connection: Option<&TcpStream>) -> Result<(), Error> {
        for (at_ns, bytes) in std::mem::take(&mut self.early) {
            self.count(at_ns, bytes);
        }
        let end_ns = if connection.is_some() || self.opens { self.end_ns() } else { 0 };
        let bins = self.bins.until(end_ns);
        if self.ended_early.is_some() {
            // Without what was read between the look and now.
            self.in_order_bytes = bins.iter().sum();
        }
        if let Some(stream) = connection {
            self.sample(stream, end_ns);
        }
        let buffers = connection.map(|stream| socket::buffers(stream.as_fd())).transpose();
        let buffers =
            buffers.map_err(|error| Error::System("receiver: reading buffers back", error))?;
        let seen = self.half.seen(
            buffers.unwrap_or_default(),
            self.subflows.reports(end_ns),
            self.recorder.moved(),
        );
        self.half.tell(&Report {
            connected: connection.is_some(),
            duration_ns: end_ns,
            in_order_bytes: self.in_order_bytes,
            bins,
            expected_bytes: self.ended_early.map(|ended| ended.expected),
            completion_ns: self.completion_ns(),
            delays_ns: match &self.asking {
                Some(asking) => asking.times(),
                None => self.delays.as_ref().map_or(&[][..], Delays::all),
            },
            pieces: self.pieces(),
            corrupt_at: self.corrupt_at,
            strangers: self.strangers,
            late_ns: self.outgoing.as_ref().map(Outgoing::late_ns),
            seen,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
