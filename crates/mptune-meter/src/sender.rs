//! The sending end: connects, writes the payload as fast as the socket takes it, and tells what the
//! kernel's transport did with it.

use crate::address;
use crate::config::Config;
use crate::counters::{Moved, Recorder};
use crate::diag::Diag;
use crate::pattern::Pattern;
use crate::receiver::Listening;
use crate::session::{Ending, Leaving, News, Session, seconds};
use crate::socket::{self, Buffers, NoStatistics};
use crate::subflows::Ledger;
use crate::sys::{self, Watch};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;

/// Bytes of payload made at a time.
const WRITE_BYTES: usize = 256 * 1024;
/// How often the bytes sent are looked at while a threshold is ahead.
const THRESHOLD_NS: u64 = 2_000_000;

/// What the sending end found.
pub struct Sent {
    /// Its buffers.
    pub buffers: Buffers,
    /// Its congestion control as the kernel names it.
    pub cc: String,
    /// Payload bytes given to another subflow to send again.
    pub reinjected_bytes: u64,
    /// The subflows as it saw them.
    pub subflows: Ledger,
    /// The counters of its namespace that moved.
    pub counters: Moved,
    /// The connection, if there was one: still open, so that the receiver can ask about it too.
    pub stream: Option<TcpStream>,
}

/// Runs the sending end until the measurement is over.
///
/// # Errors
/// What could not be set up; nothing was measured then.
pub fn run(config: &Config, session: &Session, ready: Receiver<Listening>) -> Result<Sent, String> {
    let _leaving = Leaving(session, "sender");
    let result = set_up(config).and_then(|(fd, diag)| {
        let mut sender = Sender::new(config, session, diag);
        // Nothing comes only if the receiver failed, and then the measurement is over.
        if let Ok(listening) = ready.recv() {
            sender.plain_because = listening.plain_because;
            if let Some(stream) = sender.connect(fd, listening.port)? {
                sender.send(&stream)?;
                sender.sample(&stream);
                sender.report_thresholds();
                sender.sent.stream = Some(stream);
            }
        }
        sender.sent.counters = sender.recorder.moved();
        Ok(sender.sent)
    });
    if let Err(reason) = &result {
        session.end(Ending::Impossible(reason.clone()));
    }
    result
}

fn set_up(config: &Config) -> Result<(OwnedFd, Diag), String> {
    let end = &config.sender;
    sys::enter_network_namespace(&end.netns)
        .map_err(|error| format!("sender.netns: {}: {error}", end.netns.display()))?;
    let fd = socket::open(end.address, config.mptcp).map_err(|error| {
        let unsupported = config.mptcp && socket::is_unsupported(&error);
        let hint = if unsupported { "; sysctl net.mptcp.enabled=1 there" } else { "" };
        format!("sender: a socket in its namespace: {error}{hint}")
    })?;
    let local = SocketAddr::new(end.address, 0);
    sys::bind(fd.as_fd(), &address::encode(local))
        .map_err(|error| format!("sender.address: {}: {error}", end.address))?;
    socket::set_congestion_control(fd.as_fd(), &config.cc)?;
    socket::set_buffers(fd.as_fd(), config).map_err(|error| format!("sender: {error}"))?;
    let diag = Diag::open().map_err(|error| format!("sender: socket diagnostics: {error}"))?;
    Ok((fd, diag))
}

struct Sender<'a> {
    config: &'a Config,
    session: &'a Session,
    diag: Diag,
    plain_because: Option<String>,
    sent: Sent,
    recorder: Recorder,
    /// When the subflows are looked at next.
    sample_ns: u64,
    /// When the thresholds are looked at next.
    threshold_ns: u64,
    /// Thresholds passed.
    passed: usize,
}

impl<'a> Sender<'a> {
    fn new(config: &'a Config, session: &'a Session, diag: Diag) -> Self {
        let sent = Sent {
            buffers: Buffers::default(),
            cc: String::new(),
            reinjected_bytes: 0,
            subflows: Ledger::new(config.bin_ns),
            counters: Moved::default(),
            stream: None,
        };
        Self {
            config,
            session,
            diag,
            plain_because: None,
            sent,
            recorder: Recorder::new(),
            sample_ns: config.bin_ns,
            threshold_ns: 0,
            passed: 0,
        }
    }

    /// The connection; none if it failed or the measurement was over before.
    fn connect(&mut self, fd: OwnedFd, port: u16) -> Result<Option<TcpStream>, String> {
        let remote = SocketAddr::new(self.config.receiver.address, port);
        self.session.begin();
        let begun = socket::connect(fd.as_fd(), remote);
        let stream = TcpStream::from(fd);
        if let Err(error) = begun.and_then(|()| self.await_connection(&stream)) {
            let at = seconds(self.session.now_ns());
            let reason = format!("no connection to {remote} at {at}: {error}");
            self.session.end(Ending::Failed(reason));
        }
        if self.session.ending().is_some() {
            return Ok(None);
        }
        let t_ns = self.session.now_ns();
        self.read_back(&stream).map_err(|error| format!("sender: reading back: {error}"))?;
        let local_port = stream.local_addr().map_or(0, |address| address.port());
        self.session.tell(News::Connected { t_ns, local_port, remote_port: port });
        Ok(Some(stream))
    }

    fn await_connection(&self, stream: &TcpStream) -> io::Result<()> {
        let limit_ns = self.config.limit_ns();
        while self.session.ending().is_none() {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            if stream.peer_addr().is_ok() {
                return Ok(());
            }
            if self.session.now_ns() >= limit_ns {
                return Err(ErrorKind::TimedOut.into());
            }
            self.session.wait(Some(Watch::writable(stream)), limit_ns)?;
        }
        Ok(())
    }

    fn read_back(&mut self, stream: &TcpStream) -> io::Result<()> {
        self.sent.buffers = socket::buffers(stream.as_fd())?;
        self.sent.cc = socket::congestion_control(stream.as_fd())?;
        Ok(())
    }

    fn send(&mut self, stream: &TcpStream) -> Result<(), String> {
        let pattern = Pattern::new(self.config.seed);
        let total = self.config.transfer_bytes.unwrap_or(u64::MAX);
        let mut data = vec![0; WRITE_BYTES];
        let (mut made, mut left) = (0u64, 0usize);
        self.sample(stream);
        while self.session.ending().is_none() {
            self.look(stream);
            if left == 0 && made < total {
                data.truncate(usize::try_from(total - made).unwrap_or(WRITE_BYTES));
                pattern.fill(made, &mut data);
                left = data.len();
                made += left as u64;
            }
            if left > 0 {
                match (&*stream).write(&data[data.len() - left..]) {
                    Ok(written) => {
                        left -= written;
                        continue;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => self.fail(format!("sending failed: {error}")),
                }
            }
            let watch = (left > 0).then(|| Watch::writable(stream));
            self.session
                .wait(watch, self.next_ns())
                .map_err(|error| format!("sender: waiting: {error}"))?;
        }
        Ok(())
    }

    fn thresholds_ahead(&self) -> bool {
        self.passed < self.config.thresholds_bytes.len()
    }

    fn next_ns(&self) -> u64 {
        if self.thresholds_ahead() { self.sample_ns.min(self.threshold_ns) } else { self.sample_ns }
    }

    /// Looks at what is due now.
    fn look(&mut self, stream: &TcpStream) {
        let now_ns = self.session.now_ns();
        if now_ns >= self.sample_ns {
            self.sample(stream);
            self.sample_ns = (now_ns / self.config.bin_ns + 1) * self.config.bin_ns;
        }
        if self.thresholds_ahead() && now_ns >= self.threshold_ns {
            self.refresh(stream);
            self.report_thresholds();
            self.threshold_ns = now_ns + THRESHOLD_NS;
        }
    }

    /// What has left, not what waits in the subflows' queues: `mptcpi_bytes_sent` counts that too.
    fn report_thresholds(&mut self) {
        let bytes = self.sent.subflows.sent().saturating_sub(self.sent.reinjected_bytes);
        let passed = self.config.thresholds_bytes.partition_point(|&limit| limit <= bytes);
        for _ in self.passed..passed {
            self.session.tell(News::Sent { t_ns: self.session.now_ns(), bytes });
        }
        self.passed = passed.max(self.passed);
    }

    fn sample(&mut self, stream: &TcpStream) {
        self.refresh(stream);
        let diag = &mut self.diag;
        self.sent.subflows.diagnose(|info| diag.subflow(info.local, info.remote));
        self.recorder.look(self.session.progress_ns());
    }

    fn refresh(&mut self, stream: &TcpStream) {
        match socket::statistics(stream, self.config.mptcp) {
            Ok(statistics) => {
                self.sent.reinjected_bytes = statistics.reinjected;
                self.sent.subflows.update(self.session.now_ns(), &statistics.subflows);
            }
            Err(reason) => self.no_statistics(reason),
        }
    }

    fn no_statistics(&self, reason: NoStatistics) {
        match reason {
            NoStatistics::Fallback => {
                let cause = self.plain_because.as_deref();
                let cause =
                    cause.unwrap_or("the receiver or something between did not answer in MPTCP");
                let at = seconds(self.session.now_ns());
                let reason = format!("the connection is plain TCP at {at}: {cause}");
                self.session.end(Ending::Fallback(reason));
            }
            NoStatistics::Other(reason) => self.fail(reason),
        }
    }

    fn fail(&self, reason: String) {
        let at = seconds(self.session.now_ns());
        self.session.end(Ending::Failed(format!("{reason} at {at}")));
    }
}
