//! The sending half: opens the connection, or accepts a client's, writes the payload as fast as the socket accepts it, or each message when it is due, and
//! reports what the kernel's transport did with it.

use crate::control::Control;
use crate::kernel::diag::Diag;
use crate::kernel::sys::Watch;
use crate::meter::beginning::{self, Accepted, Listening};
use crate::meter::candidates::Chosen;
use crate::meter::clock::{Clock, Handshake};
use crate::meter::config::{AcceptorConfig, HalfConfig, Job, OpenerConfig, Side, TOKEN_BYTES};
use crate::meter::counters::Recorder;
use crate::meter::error::Error;
use crate::meter::half::{Ending, Half, Seen, seconds};
use crate::meter::listeners::Listeners;
use crate::meter::messages::DueTimes;
use crate::meter::opposite::Incoming;
use crate::meter::pattern::Pattern;
use crate::meter::samples::{Sample, Samples};
use crate::meter::server::Answers;
use crate::meter::socket::{self, NoStatistics};
use crate::meter::subflows::Ledger;
use crate::role;
use serde::Serialize;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Bytes of payload generated at a time.
const WRITE_BYTES: usize = mptune_core::workload::WRITE_BYTES as usize;
/// Bytes of requests, or of messages that come back, read at a time.
const HEARD_BYTES: usize = 16 * 1024;
/// Interval of checking the bytes sent while a threshold is ahead.
const THRESHOLD_NS: u64 = 2_000_000;

/// Reports while the measurement runs. Times count from the `connect` call.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum News {
    /// A threshold was passed.
    Sent {
        /// Time of the observation.
        t_ns: u64,
        /// The bytes sent by then.
        bytes: u64,
    },
}

/// The last line.
#[derive(Serialize)]
#[serde(tag = "event", rename = "result")]
struct Report<'a> {
    /// From the `connect` call to the end; without a connection the time that was spent to open one.
    duration_ns: u64,
    /// The congestion control as the kernel names it; none without a connection that this half would accept.
    cc: Option<String>,
    /// Payload bytes reinjected on another subflow; none if the kernel does not count them (before Linux 6.5).
    reinjected_bytes: Option<u64>,
    /// It became TCP, which the job takes.
    plain: bool,
    /// Samples of the subflows, if they were asked for.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    samples: &'a [Sample],
    /// Of messages: the largest lateness of a write that found room.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ns: Option<u64>,
    /// Of messages both ways: the delay of each that came back.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    delays_ns: &'a [u64],
    /// Connections of others, which were reset.
    strangers: u64,
    #[serde(flatten)]
    seen: Seen,
}

/// The role `sender`.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    match control.configuration::<HalfConfig>()?.checked(Side::Sender)? {
        HalfConfig::Opens(config) => open(control, &config),
        HalfConfig::Accepts(config) => accept(control, &config),
    }
}

/// It opens the connection.
fn open(control: &mut Control, config: &OpenerConfig) -> Result<(), Error> {
    let job = &config.job;
    let stream = TcpStream::from(beginning::socket(config, Side::Sender)?);
    if let Some(cc) = &job.cc {
        socket::set_congestion_control(stream.as_fd(), cc)?;
    }
    let bytes = Side::Sender.buffer_bytes(job);
    socket::set_buffers(stream.as_fd(), bytes, Side::Sender.name())?;
    set_no_delay(job, &stream)?;
    let diag = Diag::open().map_err(Error::Diagnostics)?;
    // Generated before the clock runs, which begins with the `connect` call.
    let mut payload = Payload::new(job);
    payload.lead(job);
    let mut sender = Sender::new(job, token_bytes(job), Half::new(control), diag);
    sender.plain_because.clone_from(&config.plain_because);
    if sender.connect(config, &stream) {
        sender.send(&stream, &mut payload, None)?;
        sender.conclude(&stream);
    }
    sender.report(Some(&stream))?;
    sender.half.linger();
    socket::abort(stream);
    Ok(())
}

/// It accepts the connection, which the client opens.
fn accept(control: &mut Control, config: &AcceptorConfig) -> Result<(), Error> {
    let job = &config.job;
    let mut listeners = Listeners::open(config, Side::Sender)?;
    let diag = Diag::open().map_err(Error::Diagnostics)?;
    let mut payload = Payload::new(job);
    let (port, plain_because) = (listeners.port, listeners.plain_because.as_deref());
    control.tell(&Listening { port, plain_because });
    let mut sender = Sender::new(job, 0, Half::new(control), diag);
    sender.plain_because.clone_from(&listeners.plain_because);
    let connection = sender.accept(&mut listeners)?;
    if let Some(stream) = &connection {
        set_no_delay(job, stream)?;
        sender.half.tell(&Accepted {});
        sender.send(stream, &mut payload, Some(&listeners))?;
        sender.conclude(stream);
    }
    drop(listeners);
    sender.report(connection.as_ref())?;
    sender.half.linger();
    connection.into_iter().for_each(socket::abort);
    Ok(())
}

/// As programs do that answer, or send messages.
fn set_no_delay(job: &Job, stream: &TcpStream) -> Result<(), Error> {
    if !job.workload.offers_pieces() {
        return Ok(());
    }
    socket::set_no_delay(stream.as_fd())
        .map_err(|error| Error::System("sender: setting TCP_NODELAY", error))
}

/// Payload still to be sent, generated a piece at a time; the opener's token comes before the first.
struct Payload {
    pattern: Pattern,
    data: Vec<u8>,
    /// Bytes of `data` that were sent.
    sent: usize,
    /// Bytes generated so far, and in total.
    made: u64,
    total: u64,
    /// Bytes of a piece: whole messages, so that each is written in one call.
    piece: usize,
}

impl Payload {
    /// All of it, with the first piece generated.
    fn new(job: &Job) -> Self {
        let total = job.workload.bytes();
        let message = job.workload.schedule().and_then(|all| usize::try_from(all.bytes(0)).ok());
        let split = message.map_or(0, |bytes| WRITE_BYTES % bytes);
        let piece = if split < WRITE_BYTES { WRITE_BYTES - split } else { WRITE_BYTES };
        let (pattern, data) = (Pattern::new(job.seed), vec![0; piece]);
        let mut payload = Self { pattern, sent: data.len(), data, made: 0, total, piece };
        payload.refill();
        payload
    }

    /// Puts the token of the job before the first piece: in one with the payload, which would otherwise follow a small
    /// segment; messages do.
    fn lead(&mut self, job: &Job) {
        self.data.splice(0..0, job.token.into_iter().flatten());
    }

    /// Generates the next piece, as long as possible, if nothing is left of the last one.
    fn refill(&mut self) {
        if self.sent == self.data.len() {
            let rest = usize::try_from(self.total - self.made).unwrap_or(self.piece);
            self.data.truncate(rest.min(self.piece));
            self.pattern.fill(self.made, &mut self.data);
            self.made += self.data.len() as u64;
            self.sent = 0;
        }
    }

    /// As many of the next bytes as a piece can have are in one: a server writes a response in one call.
    fn join(&mut self, bytes: u64) {
        let rest = self.data.len() - self.sent;
        if rest as u64 >= bytes.min(self.piece as u64) {
            return;
        }
        self.made -= (self.data.len() - self.sent) as u64;
        self.data.resize(self.piece, 0);
        self.sent = self.piece;
        self.refill();
    }

    /// The next bytes, `most` at most; empty at the end.
    fn next(&self, most: u64) -> &[u8] {
        let rest = &self.data[self.sent..];
        &rest[..usize::try_from(most).map_or(rest.len(), |most| rest.len().min(most))]
    }

    /// This much of it was sent.
    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        self.refill();
    }
}

struct Sender<'a> {
    job: &'a Job,
    half: Half<'a>,
    diag: Diag,
    /// Bytes that it sends in front of the payload.
    leading: u64,
    /// The reason why the acceptor cannot do MPTCP; none if it can or need not.
    plain_because: Option<String>,
    /// The times of a connection that it accepted, on the clock of its acceptance.
    accepted: Option<Clock>,
    /// Connections of others so far.
    strangers: u64,
    reinjected_bytes: Option<u64>,
    /// It is TCP, which the job takes.
    plain: bool,
    /// Payload the receiver has acknowledged, and when that last grew.
    acknowledged: u64,
    progress_ns: u64,
    subflows: Ledger,
    recorder: Recorder,
    /// Time of the next poll of the subflows.
    sample_ns: u64,
    /// Time of the next check of the thresholds.
    threshold_ns: u64,
    /// Thresholds passed.
    passed: usize,
    samples: Option<Samples>,
    /// The messages of the workload, if it is a series of them.
    messages: Option<DueTimes>,
    /// The responses, if a client asks.
    answers: Option<Answers>,
    /// The messages that come back, if they go both ways.
    incoming: Option<Incoming>,
}

impl<'a> Sender<'a> {
    fn new(job: &'a Job, leading: u64, half: Half<'a>, diag: Diag) -> Self {
        Self {
            job,
            half,
            diag,
            leading,
            plain_because: None,
            accepted: None,
            strangers: 0,
            reinjected_bytes: Some(0),
            plain: false,
            acknowledged: 0,
            progress_ns: 0,
            subflows: Ledger::new(job.bin_ns),
            recorder: Recorder::new(),
            sample_ns: job.bin_ns,
            threshold_ns: 0,
            passed: 0,
            samples: job.samples_ns.map(Samples::new),
            messages: DueTimes::new(&job.workload, leading),
            answers: Answers::new(job, leading),
            incoming: Incoming::new(job),
        }
    }

    /// Opens the connection; false if there is none.
    fn connect(&mut self, config: &OpenerConfig, stream: &TcpStream) -> bool {
        if !beginning::connect(&mut self.half, config, stream) {
            return false;
        }
        let handshake_ns = self.half.now_ns();
        self.sample(stream);
        let rtt_ns = self.subflows.first().map_or(0, |info| info.tcp.srtt_ns);
        let handshake = Handshake { handshake_ns, rtt_ns };
        beginning::tell_connected(&mut self.half, handshake, stream);
        if let Some(messages) = &mut self.messages {
            messages.begin(handshake_ns, rtt_ns);
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.begin(handshake);
        }
        true
    }

    /// The connection that a client opened; none if ordered to stop before one arrived.
    fn accept(&mut self, listeners: &mut Listeners) -> Result<Option<TcpStream>, Error> {
        let arrived = beginning::accept(&mut self.half, self.job, Side::Sender, listeners)?;
        self.strangers += arrived.strangers;
        Ok(arrived.chosen.map(|chosen| self.begin(chosen, arrived.handshake)))
    }

    /// Its clock counts from the client's `connect` call.
    fn begin(&mut self, chosen: Chosen, handshake: Option<Handshake>) -> TcpStream {
        let Chosen { stream, accepted_ns } = chosen;
        let initial = socket::initial_for(self.job, &stream);
        let mut clock = Clock::new(accepted_ns, initial.map_or(0, |flow| flow.tcp.srtt_ns));
        handshake.into_iter().for_each(|report| clock.align(report));
        self.half.begin_load();
        self.half.begin_at(clock.at_ns(0));
        self.accepted = Some(clock);
        self.sample(&stream);
        stream
    }

    /// The opener has reported how long its handshake took: a repeated request was made earlier than was assumed.
    fn align(&mut self, handshake: Handshake) {
        let Some(clock) = &mut self.accepted else { return self.half.refuse_report() };
        if !clock.aligned() {
            let assumed_ns = clock.at_ns(0);
            clock.align(handshake);
            self.half.begin_earlier(assumed_ns.saturating_sub(clock.at_ns(0)));
        }
    }

    fn wait(&mut self, watches: &mut [Watch<'_>], until_ns: u64, now_ns: u64) -> io::Result<()> {
        let report = self.half.wait(watches, until_ns, now_ns)?;
        report.into_iter().for_each(|handshake| self.align(handshake));
        Ok(())
    }

    fn send(
        &mut self,
        stream: &TcpStream,
        payload: &mut Payload,
        listeners: Option<&Listeners>,
    ) -> Result<(), Error> {
        let failed = |error| Error::System("sender: waiting", error);
        while self.half.ending().is_none() {
            let mut now_ns = self.half.now_ns();
            self.look(stream, now_ns);
            let mut most = u64::MAX;
            if let Some(messages) = &self.messages {
                now_ns = self.half.now_ns(); // the look may have taken its time
                most = messages.left(now_ns);
            }
            if self.is_listening() {
                self.hear(stream);
                if let Some(answers) = &self.answers {
                    most = answers.left();
                    if answers.begins() {
                        payload.join(most);
                    }
                }
            }
            let rest = payload.next(most);
            let is_writing = !rest.is_empty();
            if is_writing {
                match (&*stream).write(rest) {
                    Ok(written) => {
                        let whole = written == rest.len();
                        payload.advance(written);
                        self.wrote(now_ns, written, whole);
                        if whole {
                            if self.half.is_deaf(now_ns) {
                                self.wait(&mut [], 0, now_ns).map_err(failed)?; // only for a command
                            }
                            continue;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.wrote(now_ns, 0, false);
                    }
                    Err(error) => self.lose(format!("sending failed: {error}")),
                }
            }
            let watches = [
                is_writing.then(|| Watch::writable(stream)),
                self.is_listening().then(|| Watch::readable(stream)),
            ];
            let mut watches: Vec<_> = watches.into_iter().flatten().collect();
            let own = watches.len();
            watches.extend(listeners.into_iter().flat_map(Listeners::watches));
            self.wait(&mut watches, self.next_ns(now_ns), now_ns).map_err(failed)?;
            if watches[own..].iter().any(|watch| watch.ready) {
                self.strangers += listeners.map_or(0, |listeners| listeners.turn_away(true));
            }
        }
        if self.incoming.is_some() {
            self.hear(stream); // what was acknowledged before the order to stop
        }
        Ok(())
    }

    /// The receiver sends, too.
    fn is_listening(&self) -> bool {
        self.answers.is_some() || self.incoming.is_some()
    }

    /// Reads requests, or messages that come back.
    fn hear(&mut self, stream: &TcpStream) {
        let mut data = [0; HEARD_BYTES];
        loop {
            match (&mut &*stream).read(&mut data) {
                Ok(0) => self.lose("the receiver closed the connection".to_owned()),
                Ok(length) => {
                    let Some(at) = self.heard(&data[..length]) else { continue };
                    let reason = format!("what came back differs from what was sent at byte {at}");
                    self.half.end(Ending::Corrupt(reason));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => self.lose(format!("receiving failed: {error}")),
            }
            return;
        }
    }

    /// The first byte that is not what may be sent, if one is not.
    fn heard(&mut self, data: &[u8]) -> Option<u64> {
        let now_ns = self.half.now_ns();
        match &mut self.incoming {
            Some(incoming) => incoming.read(now_ns, data),
            None => self.answers.as_mut()?.read(data),
        }
    }

    fn lose(&mut self, reason: String) {
        let at = seconds(self.half.now_ns());
        self.half.end(Ending::Lost(format!("{reason} at {at}")));
    }

    fn wrote(&mut self, now_ns: u64, bytes: usize, whole: bool) {
        if let Some(answers) = &mut self.answers {
            answers.wrote(bytes as u64);
        }
        if let Some(messages) = &mut self.messages {
            messages.wrote(now_ns, bytes as u64, whole);
        }
    }

    fn thresholds_ahead(&self) -> bool {
        self.passed < self.job.thresholds_bytes.len()
    }

    /// Time of the next task even if nothing can be sent.
    fn next_ns(&self, now_ns: u64) -> u64 {
        let due_ns = self.sample_ns.min(self.job.workload.duration().unwrap_or(u64::MAX));
        let message_ns = self.messages.as_ref().map(|messages| messages.next_ns(now_ns));
        let due_ns = message_ns.map_or(due_ns, |message_ns| due_ns.min(message_ns));
        let due_ns = self.samples.as_ref().map_or(due_ns, |samples| due_ns.min(samples.due_ns()));
        if self.thresholds_ahead() { due_ns.min(self.threshold_ns) } else { due_ns }
    }

    /// Handles what is due now. The receiver ends a transfer: only it knows when everything arrived.
    fn look(&mut self, stream: &TcpStream, now_ns: u64) {
        if self.job.workload.duration().is_some_and(|duration_ns| now_ns >= duration_ns) {
            self.half.end(Ending::Complete);
            return;
        }
        if now_ns >= self.sample_ns {
            self.sample(stream);
            self.sample_ns = (now_ns / self.job.bin_ns + 1) * self.job.bin_ns;
        }
        if self.samples.as_ref().is_some_and(|samples| now_ns >= samples.due_ns()) {
            self.refresh(stream);
            if let Some(samples) = &mut self.samples {
                samples.take(now_ns, self.subflows.open());
            }
        }
        if self.thresholds_ahead() && now_ns >= self.threshold_ns {
            self.refresh(stream);
            self.report_thresholds();
            self.threshold_ns = now_ns + THRESHOLD_NS;
        }
    }

    /// Bytes that have left, without those in the subflows' queues, which `mptcpi_bytes_sent` counts too.
    fn report_thresholds(&mut self) {
        // Where they are not counted they are taken for none: the first thresholds have one subflow.
        let repeated = self.reinjected_bytes.unwrap_or(0);
        let bytes = self.subflows.sent().saturating_sub(repeated + self.leading);
        let passed = self.job.thresholds_bytes.partition_point(|&limit| limit <= bytes);
        for _ in self.passed..passed {
            let t_ns = self.half.now_ns();
            self.half.tell(&News::Sent { t_ns, bytes });
        }
        self.passed = passed.max(self.passed);
    }

    /// A last look.
    fn conclude(&mut self, stream: &TcpStream) {
        self.sample(stream);
        self.report_thresholds();
    }

    fn sample(&mut self, stream: &TcpStream) {
        self.refresh(stream);
        self.subflows.diagnose(&mut self.diag);
        self.recorder.look(self.progress_ns);
    }

    fn refresh(&mut self, stream: &TcpStream) {
        let now_ns = self.half.now_ns();
        match socket::statistics_for(self.job, stream) {
            Ok(statistics) => {
                self.plain = statistics.plain;
                self.reinjected_bytes = statistics.reinjected;
                if statistics.acknowledged != self.acknowledged {
                    (self.acknowledged, self.progress_ns) = (statistics.acknowledged, now_ns);
                }
                self.subflows.update(now_ns, &statistics.subflows);
            }
            Err(reason) => self.no_statistics(reason),
        }
    }

    fn no_statistics(&mut self, reason: NoStatistics) {
        match reason {
            NoStatistics::Fallback => {
                let cause = self.plain_because.as_deref().unwrap_or(match self.accepted {
                    None => "the receiver or something between did not answer in MPTCP",
                    Some(_) => "the receiver or something between did not ask in MPTCP",
                });
                let at = seconds(self.half.now_ns());
                let reason = format!("the connection is plain TCP at {at}: {cause}");
                self.half.end(Ending::Fallback(reason));
            }
            NoStatistics::Other(reason) => self.fail(reason),
        }
    }

    fn fail(&mut self, reason: String) {
        let at = seconds(self.half.now_ns());
        self.half.end(Ending::Failed(format!("{reason} at {at}")));
    }

    /// Reports what it found.
    fn report(&mut self, stream: Option<&TcpStream>) -> Result<(), Error> {
        let failed = |error| Error::System("sender: reading back", error);
        let duration_ns = self.half.now_ns();
        let buffers = stream.map(|stream| socket::buffers(stream.as_fd())).transpose();
        let buffers = buffers.map_err(failed)?.unwrap_or_default();
        let cc = stream.map(|stream| socket::congestion_control(stream.as_fd())).transpose();
        let cc = cc.map_err(failed)?;
        let subflows = self.subflows.reports(0); // it receives nothing: no bins
        let seen = self.half.seen(buffers, subflows, self.recorder.moved());
        let (reinjected_bytes, plain) = (self.reinjected_bytes, self.plain && self.job.mptcp);
        let samples = self.samples.as_ref().map_or(&[][..], Samples::all);
        let late_ns = self.messages.as_ref().map(DueTimes::late_ns);
        self.half.tell(&Report {
            duration_ns,
            cc,
            reinjected_bytes,
            plain,
            samples,
            late_ns,
            delays_ns: self.incoming.as_ref().map_or(&[][..], Incoming::delays),
            strangers: self.strangers,
            seen,
        });
        Ok(())
    }
}

/// Bytes that an opener sends in front of the payload.
fn token_bytes(job: &Job) -> u64 {
    job.token.map_or(0, |_| TOKEN_BYTES as u64)
}

#[cfg(test)]
mod tests;
