//! The transfer of an ordinary program: the role `transfer`, one end of a connection that sets nothing.
//!
//! Unlike the meter it asks for no buffer, no congestion control and no path, and binds to no address: the
//! machine chooses all of them, as it does for programs. It asks for MPTCP if ordered to, and takes TCP
//! where there is none, as programs under mptcpize do.
//!
//! ```text
//! listens   in   {"listen": "0.0.0.0", "mptcp": true, "sends": false, "duration_ns": ..., "most_bytes": ...,
//!                 "token": "<32 hexadecimal digits>"}
//!           out  {"event": "listening", "port": 40123}
//! connects  in   {"connect": "10.9.0.1", "port": 40123, "mptcp": true, "sends": true, ...}
//! both      out  {"event": "result", "bytes": ..., "elapsed_ns": ..., "mptcp": true, "subflows": [...], ...}
//!           out  {"event": "error", "reason": "..."} instead of any of them, and status 1
//! ```
//!
//! The connecting end sends the token first, by which it is recognised. The receiving end counts arrivals in
//! order, until the time or the number of bytes is over, and then resets the connection; its time begins when it
//! asks for the connection, or has it. Whose input ends, ends. Not here: whose settings are good ones, and what
//! several transfers mean together (the controller knows).

use crate::control::{self, Control, Input};
use crate::kernel::address;
use crate::kernel::sys::{self, Watch};
use crate::meter::pattern::Pattern;
use crate::meter::socket::{self, Buffers};
use crate::role;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use thiserror::Error;

/// Bytes of the token.
const TOKEN: usize = 16;
/// Bytes read or written at a time.
const PIECE: usize = 256 * 1024;
/// Connections that may wait, joins in progress included.
const BACKLOG: i32 = 128;
/// Strangers that may be silent at once; a further one displaces the first.
const STRANGERS: usize = 64;
/// Interval of queries about the connection.
const LOOK_NS: u64 = 100_000_000;
/// Time for the sending end to go on after its duration: the other end resets the connection.
const GRACE_NS: u64 = 10_000_000_000;

/// The order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Address to wait for the connection at.
    #[serde(default)]
    listen: Option<IpAddr>,
    /// Address to connect to.
    #[serde(default)]
    connect: Option<IpAddr>,
    /// The port; 0 for any free one.
    #[serde(default)]
    port: u16,
    /// Ask for MPTCP.
    mptcp: bool,
    /// Data go from here to the other end.
    sends: bool,
    /// For this long.
    duration_ns: u64,
    /// No more than this.
    most_bytes: u64,
    /// First bytes of the connection.
    token: String,
}

/// A subflow as this end sees it.
#[derive(Debug, Clone, Serialize)]
struct Subflow {
    local: IpAddr,
    remote: IpAddr,
    /// Bytes sent, or received.
    bytes: u64,
}

/// The last line.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "event", rename = "result")]
struct Report {
    /// Received in order; of who sends, what the socket took.
    bytes: u64,
    elapsed_ns: u64,
    /// It was MPTCP to the end.
    mptcp: bool,
    /// The congestion control of the first subflow.
    cc: String,
    /// As the kernel counts them.
    buffers: Buffers,
    subflows: Vec<Subflow>,
    /// The reason for no result.
    failed: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename = "listening")]
struct Listening {
    port: u16,
}

/// Failure of the role.
#[derive(Debug, Error)]
enum Error {
    /// The configuration is wrong here.
    #[error("configuration: {0}")]
    Configuration(&'static str),
    #[error("a socket: {0}")]
    Socket(io::Error),
    #[error("listen: {0}: {1}")]
    Listen(IpAddr, io::Error),
    #[error(transparent)]
    Control(#[from] control::Error),
}

/// The role.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    let config: Config = control.configuration()?;
    let token = token(&config.token)?;
    let mut end = End { control, config: &config, stopped: false, report: Report::default() };
    match (config.listen, config.connect) {
        (Some(here), None) => end.serve(here, &token),
        (None, Some(there)) => end.open(SocketAddr::new(there, config.port), &token),
        _ => Err(Error::Configuration("expected one of listen and connect")),
    }
}

/// The bytes of a token.
fn token(text: &str) -> Result<[u8; TOKEN], Error> {
    let expected = || Error::Configuration("token: expected 32 hexadecimal digits");
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let bytes: Vec<u8> = digits
        .filter(|digits| digits.len() == 2 * TOKEN)
        .ok_or_else(expected)?
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8))
        .collect();
    bytes.try_into().map_err(|_| expected())
}

fn opened(ip: IpAddr, mptcp: bool) -> Result<OwnedFd, Error> {
    socket::either(mptcp, |mptcp| socket::open(ip, mptcp)).map_err(Error::Socket)
}

/// One end.
struct End<'a> {
    control: &'a mut Control,
    config: &'a Config,
    /// Nobody wants to know any more.
    stopped: bool,
    report: Report,
}

impl End<'_> {
    /// Waits until a watch is ready, or at most this long.
    fn wait(&mut self, watches: &mut [Watch<'_>], most_ns: u64) -> Result<(), Error> {
        let heard = self.control.wait(watches, Duration::from_nanos(most_ns));
        match heard.map_err(control::Error::from)? {
            Some(Input::Closed | Input::Signal(_)) => self.stopped = true,
            Some(Input::Line(_)) | None => {}
        }
        Ok(())
    }

    /// As who waits for the connection.
    fn serve(&mut self, here: IpAddr, token: &[u8; TOKEN]) -> Result<(), Error> {
        let socket = opened(here, self.config.mptcp)?;
        let named = |error: io::Error| Error::Listen(here, error);
        let address = address::encode(SocketAddr::new(here, self.config.port));
        sys::bind(socket.as_fd(), &address).map_err(named)?;
        sys::listen(socket.as_fd(), BACKLOG).map_err(named)?;
        let listener = TcpListener::from(socket);
        let port = listener.local_addr().map_err(named)?.port();
        self.control.tell(&Listening { port });
        // It stays as long as the connection, whose subflows join where it listens.
        match self.accepted(&listener, token)? {
            Some((stream, since_ns)) => self.carry(stream, since_ns),
            None => Ok(()),
        }
    }

    /// The connection with the token, and its time; none if it was stopped before.
    fn accepted(
        &mut self,
        listener: &TcpListener,
        token: &[u8; TOKEN],
    ) -> Result<Option<(TcpStream, u64)>, Error> {
        let mut strangers: Vec<(TcpStream, u64, Vec<u8>)> = Vec::new();
        while !self.stopped {
            let mut watches = vec![Watch::readable(listener)];
            watches.extend(strangers.iter().map(|(stream, _, _)| Watch::readable(stream)));
            self.wait(&mut watches, LOOK_NS)?;
            if let Ok((stream, _)) = listener.accept()
                && stream.set_nonblocking(true).is_ok()
            {
                if strangers.len() == STRANGERS {
                    strangers.remove(0);
                }
                strangers.push((stream, sys::monotonic_ns(), Vec::new()));
            }
            let mut number = 0;
            while number < strangers.len() {
                let (stream, _, received) = &mut strangers[number];
                if !greeted(stream, received) || !token.starts_with(received) {
                    strangers.remove(number);
                } else if received.len() == TOKEN {
                    let (stream, since_ns, _) = strangers.remove(number);
                    return Ok(Some((stream, since_ns)));
                } else {
                    number += 1;
                }
            }
        }
        Ok(None)
    }

    /// As who opens it.
    fn open(&mut self, there: SocketAddr, token: &[u8; TOKEN]) -> Result<(), Error> {
        let socket = opened(there.ip(), self.config.mptcp)?;
        let since_ns = sys::monotonic_ns();
        let begun = socket::connect(socket.as_fd(), there);
        let mut stream = TcpStream::from(socket);
        let end_ns = since_ns + self.config.duration_ns;
        let mut tried = begun;
        while tried.is_ok() && !self.stopped && sys::monotonic_ns() < end_ns {
            let mut watches = [Watch::writable(&stream)];
            self.wait(&mut watches, LOOK_NS)?;
            if watches[0].ready {
                tried = stream.take_error().and_then(|error| error.map_or(Ok(()), Err));
                break;
            }
        }
        // The socket's buffer is larger than a token.
        match tried.and_then(|()| stream.write_all(token)) {
            Ok(()) => self.carry(stream, since_ns),
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::NotConnected => "no answer".to_owned(),
                    _ => error.to_string(),
                };
                self.report.failed = Some(format!("no connection to {there}: {why}"));
                self.conclude(None)
            }
        }
    }

    /// Sends or receives to the end.
    fn carry(&mut self, mut stream: TcpStream, since_ns: u64) -> Result<(), Error> {
        let (sends, most) = (self.config.sends, self.config.most_bytes);
        let mut piece = vec![0; PIECE];
        Pattern::new(since_ns).fill(0, &mut piece);
        let own_ns = since_ns + self.config.duration_ns;
        let end_ns = if sends { own_ns + GRACE_NS } else { own_ns };
        let mut look_ns = 0;
        loop {
            let now_ns = sys::monotonic_ns();
            if now_ns >= look_ns {
                look_ns = now_ns + LOOK_NS;
                self.look(&stream);
            }
            let full = self.report.bytes >= most;
            if self.stopped || now_ns >= end_ns || (full && !sends) {
                break;
            }
            let room =
                usize::try_from(most - self.report.bytes.min(most)).unwrap_or(PIECE).min(PIECE);
            let done = match (sends, full) {
                (true, true) => match stream.read(&mut [0; 1]) {
                    Ok(0) => Err(ErrorKind::ConnectionReset.into()),
                    read => read.map(|_| 0),
                },
                (true, false) => stream.write(&piece[..room]),
                (false, _) => stream.read(&mut piece[..room]),
            };
            match done {
                Ok(0) if !full => break,
                Ok(length) => self.report.bytes += length as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let watch = if sends && !full {
                        Watch::writable(&stream)
                    } else {
                        Watch::readable(&stream)
                    };
                    let left_ns = end_ns.min(look_ns).saturating_sub(now_ns);
                    self.wait(&mut [watch], left_ns)?;
                }
                // The other end has what it wants, or is gone; who receives knows which.
                Err(error) => {
                    if !sends {
                        self.report.failed = Some(format!("the connection broke: {error}"));
                    }
                    break;
                }
            }
        }
        self.look(&stream);
        self.report.elapsed_ns = sys::monotonic_ns() - since_ns;
        if !sends && self.report.bytes == 0 {
            self.report.failed.get_or_insert_with(|| "nothing arrived".to_owned());
        }
        self.conclude(Some(stream))
    }

    /// Reads the kernel's figures of the connection; those that it no longer has stay as they are.
    fn look(&mut self, stream: &TcpStream) {
        let fd = stream.as_fd();
        let asked = |mptcp| {
            socket::statistics(stream, mptcp).ok().filter(|subflow| !subflow.subflows.is_empty())
        };
        let statistics =
            asked(true).map(|subflow| (true, subflow)).or_else(|| Some((false, asked(false)?)));
        let Some((mptcp, statistics)) = statistics else { return };
        self.report.mptcp = mptcp;
        self.report.subflows = statistics
            .subflows
            .iter()
            .map(|subflow| Subflow {
                local: subflow.local.ip(),
                remote: subflow.remote.ip(),
                bytes: if self.config.sends {
                    subflow.tcp.bytes_acked
                } else {
                    subflow.tcp.bytes_received
                },
            })
            .collect();
        if let Ok(cc) = socket::congestion_control(fd) {
            self.report.cc = cc;
        }
        if let Ok(buffers) = socket::buffers(fd) {
            self.report.buffers = buffers;
        }
    }

    /// Reports, and resets the connection, by which the other end knows that it is over.
    fn conclude(&mut self, stream: Option<TcpStream>) -> Result<(), Error> {
        let report = std::mem::take(&mut self.report);
        self.control.tell(&report);
        if let Some(stream) = stream {
            socket::abort(stream);
        }
        Ok(())
    }
}

/// Reads on in a stranger's first bytes; false if it has gone.
fn greeted(stream: &mut TcpStream, received: &mut Vec<u8>) -> bool {
    let mut rest = vec![0; TOKEN - received.len()];
    match stream.read(&mut rest) {
        Ok(0) => false,
        Ok(length) => {
            received.extend(&rest[..length]);
            true
        }
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_32_digits() {
        let digits = "00ff1a2b00000000000000000000007f";
        let bytes = token(digits).unwrap();
        assert_eq!((&bytes[..4], bytes[15]), (&[0, 255, 0x1a, 0x2b][..], 0x7f));
        for wrong in ["", &digits[1..], &format!("{digits}0"), &digits.replace('f', "g")] {
            assert!(token(wrong).unwrap_err().to_string().contains("expected 32"), "{wrong}");
        }
    }

    #[test]
    fn a_configuration_has_every_key() {
        let line = r#"{"connect": "10.9.0.1", "port": 5, "mptcp": true, "sends": false,
            "duration_ns": 1, "most_bytes": 2, "token": ""}"#;
        let config: Config = serde_json::from_str(line).unwrap();
        assert_eq!((config.port, config.listen, config.sends), (5, None, false));
        assert!(serde_json::from_str::<Config>(&line.replace("sends", "cc")).is_err());
    }
}
