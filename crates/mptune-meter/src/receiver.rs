//! The receiving end: accepts, reads, checks every byte, counts them over time, and decides when
//! the measurement is over.

use crate::address;
use crate::bins::Bins;
use crate::config::Config;
use crate::counters::{Moved, Recorder};
use crate::pattern::Pattern;
use crate::session::{Ending, Leaving, Session, seconds};
use crate::socket::{self, Buffers};
use crate::subflows::Ledger;
use crate::sys::{self, Watch};
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;

/// Connections that may wait to be accepted: the one, and joins on their way to it.
const BACKLOG: i32 = 128;
/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// What the receiver tells the sender before it connects.
pub struct Listening {
    /// The port it listens on.
    pub port: u16,
    /// Why it cannot do MPTCP; none if it can, or need not.
    pub plain_because: Option<String>,
}

/// What the receiving end found.
pub struct Received {
    /// When it stopped counting.
    pub end_ns: u64,
    /// Payload bytes in order.
    pub in_order_bytes: u64,
    /// The same over time.
    pub bins: Bins,
    /// When the last byte of a transfer arrived.
    pub completion_ns: Option<u64>,
    /// First byte that was not the one sent.
    pub corrupt_at: Option<u64>,
    /// Its buffers.
    pub buffers: Buffers,
    /// The subflows as it saw them.
    pub subflows: Ledger,
    /// The counters of its namespace that moved.
    pub counters: Moved,
    /// The connection, if there was one: still open, so that the sender can ask about it too.
    pub stream: Option<TcpStream>,
}

/// Runs the receiving end until the measurement is over.
///
/// # Errors
/// What could not be set up; nothing was measured then.
pub fn run(
    config: &Config,
    session: &Session,
    ready: Sender<Listening>,
) -> Result<Received, String> {
    let _leaving = Leaving(session, "receiver");
    let result = set_up(config).and_then(|(listener, listening)| {
        // The sender is gone only if it failed, and then the measurement is over.
        let _ = ready.send(listening);
        let mut receiver = Receiver::new(config, session);
        if let Some(stream) = receiver.accept(&listener)? {
            receiver.receive(stream)?;
        }
        receiver.received.counters = receiver.recorder.moved();
        Ok(receiver.received)
    });
    if let Err(reason) = &result {
        session.end(Ending::Impossible(reason.clone()));
    }
    result
}

/// A listener on every address of the namespace: subflows join at its other ones.
fn set_up(config: &Config) -> Result<(TcpListener, Listening), String> {
    let end = &config.receiver;
    sys::enter_network_namespace(&end.netns)
        .map_err(|error| format!("receiver.netns: {}: {error}", end.netns.display()))?;
    let (fd, plain_because) = match socket::open(end.address, config.mptcp) {
        Ok(fd) => (fd, None),
        // A host without MPTCP answers in plain TCP; the sender reports what becomes of it.
        Err(error) if config.mptcp && socket::is_unsupported(&error) => {
            let fd = socket::open(end.address, false)
                .map_err(|error| format!("receiver: socket: {error}"))?;
            (fd, Some(format!("the receiver's namespace has no MPTCP ({error})")))
        }
        Err(error) => return Err(format!("receiver: socket: {error}")),
    };
    socket::set_buffers(fd.as_fd(), config).map_err(|error| format!("receiver: {error}"))?;
    let any = SocketAddr::new(address::any(end.address), 0);
    sys::bind(fd.as_fd(), &address::encode(any))
        .and_then(|()| sys::listen(fd.as_fd(), BACKLOG))
        .map_err(|error| format!("receiver: listening on {any}: {error}"))?;
    let listener = TcpListener::from(fd);
    let port = listener.local_addr().map_err(|error| format!("receiver: {error}"))?.port();
    Ok((listener, Listening { port, plain_because }))
}

struct Receiver<'a> {
    config: &'a Config,
    session: &'a Session,
    pattern: Pattern,
    received: Received,
    recorder: Recorder,
    /// When the subflows are looked at next.
    sample_ns: u64,
}

impl<'a> Receiver<'a> {
    fn new(config: &'a Config, session: &'a Session) -> Self {
        let received = Received {
            end_ns: 0,
            in_order_bytes: 0,
            bins: Bins::new(config.bin_ns),
            completion_ns: None,
            corrupt_at: None,
            buffers: Buffers::default(),
            subflows: Ledger::new(config.bin_ns),
            counters: Moved::default(),
            stream: None,
        };
        let pattern = Pattern::new(config.seed);
        let recorder = Recorder::new();
        Self { config, session, pattern, received, recorder, sample_ns: config.bin_ns }
    }

    /// The connection; none if the measurement was over before it came.
    fn accept(&mut self, listener: &TcpListener) -> Result<Option<TcpStream>, String> {
        let failed = |error: io::Error| format!("receiver: accepting: {error}");
        listener.set_nonblocking(true).map_err(failed)?;
        while self.session.ending().is_none() {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true).map_err(failed)?;
                    self.session.progressed(self.session.now_ns());
                    return Ok(Some(stream));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let patience = self.session.now_ns() + self.config.bin_ns;
                    self.session.wait(Some(Watch::readable(listener)), patience).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        self.received.end_ns = self.session.now_ns();
        Ok(None)
    }

    fn receive(&mut self, stream: TcpStream) -> Result<(), String> {
        self.received.buffers = socket::buffers(stream.as_fd())
            .map_err(|error| format!("receiver: reading back the buffers: {error}"))?;
        let mut data = vec![0; READ_BYTES];
        while self.session.ending().is_none() {
            let now_ns = self.session.now_ns();
            self.check_time(now_ns);
            if now_ns >= self.sample_ns {
                self.sample(&stream, now_ns / self.config.bin_ns * self.config.bin_ns);
                self.sample_ns = (now_ns / self.config.bin_ns + 1) * self.config.bin_ns;
            }
            match (&stream).read(&mut data) {
                Ok(0) => self.fail("the sender closed the connection"),
                Ok(length) => {
                    self.take(&data[..length]);
                    if length == READ_BYTES {
                        continue; // there may be more
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => self.fail(&format!("receiving failed: {error}")),
            }
            self.session
                .wait(Some(Watch::readable(&stream)), self.next_ns())
                .map_err(|error| format!("receiver: waiting: {error}"))?;
        }
        self.finish(&stream);
        self.received.stream = Some(stream);
        Ok(())
    }

    /// When something is due even if nothing arrives.
    fn next_ns(&self) -> u64 {
        let stall_ns = self.session.progress_ns().saturating_add(self.config.stall_ns);
        self.sample_ns.min(stall_ns).min(self.config.limit_ns())
    }

    fn check_time(&mut self, now_ns: u64) {
        let (config, bytes) = (self.config, self.received.in_order_bytes);
        if config.duration_ns.is_some_and(|duration_ns| now_ns >= duration_ns) {
            self.session.end(Ending::Complete);
        } else if now_ns >= config.deadline_ns {
            self.fail("the deadline passed");
        } else if now_ns >= self.session.progress_ns().saturating_add(config.stall_ns) {
            self.session.end(Ending::Stalled(format!(
                "stalled at {}: no byte in order for {} after {bytes} bytes",
                seconds(self.session.progress_ns()),
                seconds(config.stall_ns),
            )));
        }
    }

    fn fail(&self, reason: &str) {
        let expected = self.config.transfer_bytes.map(|bytes| format!(" of {bytes}"));
        let bytes = self.received.in_order_bytes;
        let at = seconds(self.session.now_ns());
        let expected = expected.unwrap_or_default();
        self.session
            .end(Ending::Failed(format!("{reason} at {at}, after {bytes}{expected} bytes")));
    }

    /// Counts and checks what was read; a saturated measurement leaves out what came after its end.
    fn take(&mut self, data: &[u8]) {
        let now_ns = self.session.now_ns();
        if self.config.duration_ns.is_some_and(|duration_ns| now_ns > duration_ns) {
            return;
        }
        let offset = self.received.in_order_bytes;
        let room = self.config.transfer_bytes.map_or(u64::MAX, |bytes| bytes - offset);
        let within = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let beyond = (within < data.len()).then_some(offset + within as u64);
        self.received.in_order_bytes += within as u64;
        self.received.bins.add(now_ns, within as u64);
        self.session.progressed(now_ns);
        if let Some(at) = self.pattern.first_wrong(offset, &data[..within]).or(beyond) {
            self.received.corrupt_at = Some(at);
            self.session
                .end(Ending::Failed(format!("payload differs from what was sent at byte {at}")));
        } else if self.config.transfer_bytes == Some(self.received.in_order_bytes) {
            self.received.completion_ns = Some(now_ns);
            self.session.end(Ending::Complete);
        }
    }

    fn sample(&mut self, stream: &TcpStream, at_ns: u64) {
        self.recorder.look(self.session.progress_ns());
        // Whatever keeps them from being read the sender sees too, and tells.
        if let Ok(statistics) = socket::statistics(stream, self.config.mptcp) {
            self.received.subflows.update(at_ns, &statistics.subflows);
        }
    }

    fn finish(&mut self, stream: &TcpStream) {
        let now_ns = self.session.now_ns();
        let whole = self.config.duration_ns.filter(|&duration_ns| now_ns >= duration_ns);
        self.received.end_ns = self.received.completion_ns.or(whole).unwrap_or(now_ns);
        self.sample(stream, self.received.end_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn config(goal: &str) -> Config {
        let end = r#"{"netns": "/proc/self/ns/net", "address": "127.0.0.1"}"#;
        let line = format!(
            r#"{{"sender": {end}, "receiver": {end}, "cc": "cubic", "buffer_bytes": 65536, "seed": 7,
                {goal}, "deadline_ns": 60000000000, "stall_ns": 5000000000}}"#
        );
        Config::parse(&line).unwrap()
    }

    /// What a receiver makes of `stream`, read in pieces of `piece` bytes.
    fn taken(goal: &str, stream: &[u8], piece: usize) -> (Received, Option<Ending>) {
        let (config, session) = (config(goal), Session::new().unwrap());
        let mut receiver = Receiver::new(&config, &session);
        session.begin();
        for data in stream.chunks(piece) {
            if session.ending().is_none() {
                receiver.take(data);
            }
        }
        (receiver.received, session.ending().cloned())
    }

    fn payload(bytes: usize) -> Vec<u8> {
        let mut payload = vec![0; bytes];
        Pattern::new(7).fill(0, &mut payload);
        payload
    }

    #[test]
    fn a_transfer_ends_with_its_last_byte() {
        let transfer = r#""transfer_bytes": 10000"#;
        let (received, ending) = taken(transfer, &payload(9_999), 1_460);
        assert_eq!((received.completion_ns, ending), (None, None));
        let (received, ending) = taken(transfer, &payload(10_000), 1_460);
        assert_eq!((received.in_order_bytes, received.corrupt_at), (10_000, None));
        assert_eq!(ending, Some(Ending::Complete));
        assert_eq!(
            received.bins.until(received.completion_ns.unwrap()).iter().sum::<u64>(),
            10_000
        );
    }

    #[test]
    fn a_wrong_byte_ends_it() {
        let mut stream = payload(10_000);
        stream[7_000] ^= 1;
        for goal in [r#""transfer_bytes": 10000"#, r#""duration_ns": 60000000000"#] {
            let (received, ending) = taken(goal, &stream, 77);
            assert_eq!(received.corrupt_at, Some(7_000));
            assert!(matches!(ending, Some(Ending::Failed(reason)) if reason.contains("7000")));
        }
    }

    #[test]
    fn what_comes_after_the_duration_does_not_count() {
        let (received, ending) = taken(r#""duration_ns": 1"#, &payload(10_000), 10_000);
        assert_eq!((received.in_order_bytes, ending), (0, None));
    }

    #[test]
    fn a_byte_too_many_is_wrong() {
        let (received, ending) = taken(r#""transfer_bytes": 9000"#, &payload(9_001), 9_001);
        assert_eq!((received.corrupt_at, received.in_order_bytes), (Some(9_000), 9_000));
        assert!(matches!(ending, Some(Ending::Failed(_))));
    }

    /// The ending at `now_ns` of a connection on which bytes came last at 1 s.
    fn checked(goal: &str, now_ns: u64) -> Option<Ending> {
        let (config, session) = (config(goal), Session::new().unwrap());
        session.progressed(SECOND);
        Receiver::new(&config, &session).check_time(now_ns);
        session.ending().cloned()
    }

    #[test]
    fn a_stall_is_told_with_its_beginning() {
        let goal = r#""duration_ns": 30000000000"#;
        assert_eq!(checked(goal, 6 * SECOND - 1), None);
        let ending = checked(goal, 6 * SECOND);
        assert!(
            matches!(ending, Some(Ending::Stalled(reason)) if reason.starts_with("stalled at 1.000 s"))
        );
    }

    #[test]
    fn the_end_of_the_duration_comes_before_a_stall() {
        assert_eq!(checked(r#""duration_ns": 6000000000"#, 6 * SECOND), Some(Ending::Complete));
    }

    #[test]
    fn a_transfer_has_a_deadline() {
        let ending = checked(r#""transfer_bytes": 5"#, 60 * SECOND);
        assert!(matches!(ending, Some(Ending::Failed(reason)) if reason.contains("deadline")));
    }
}
