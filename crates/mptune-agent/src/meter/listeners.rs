//! Listening sockets of the half that accepts the connection: at the address of the trial, and where subflows may join, on one
//! port.
//!
//! Linux accepts a further subflow only where a socket listens on the port (net/mptcp/subflow.c,
//! `subflow_check_req` is the listener's), so those sockets stay as long as the connection. They
//! serve no one else: any other connection is reset, and without joins nothing listens any more
//! once the connection exists.

use crate::kernel::address;
use crate::kernel::sys::{self, Watch};
use crate::meter::config::{AcceptorConfig, Side};
use crate::meter::error::Error;
use crate::meter::socket;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// Connections that may wait to be accepted: the trial's, strangers', and joins in progress. The system
/// allows as many by default (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// Connections that are turned away before something else has its turn.
const AT_ONCE: usize = 64;
/// Free ports to try until one is free at all addresses.
const ATTEMPTS: usize = 16;

/// The sockets that listen.
pub struct Listeners {
    /// Listener of the connection; none once it has arrived, unless subflows may also join there.
    initial: Option<TcpListener>,
    /// Subflows may join there.
    join_initial: bool,
    /// Listeners of subflows only.
    joins: Vec<TcpListener>,
    /// The port of all sockets.
    pub port: u16,
    /// The reason why this half cannot do MPTCP; none if it can or need not.
    pub plain_because: Option<String>,
}

impl Listeners {
    /// Opens them.
    ///
    /// # Errors
    /// One of them cannot be set up.
    pub fn open(config: &AcceptorConfig, side: Side) -> Result<Self, Error> {
        let (mptcp, plain_because) = capability(config, side)?;
        let joins: Vec<_> = config.joins.iter().filter(|_| mptcp).copied().collect();
        let elsewhere: Vec<_> =
            joins.iter().filter(|join| **join != config.address).copied().collect();
        let (initial, joined) = together(config, side, mptcp, &elsewhere)?;
        let port = initial.local_addr().map_err(|error| Error::System(side.name(), error))?.port();
        let join_initial = joins.contains(&config.address);
        Ok(Self { initial: Some(initial), join_initial, joins: joined, port, plain_because })
    }

    /// A connection that has arrived, if there is one.
    pub fn accept(&self) -> io::Result<Option<TcpStream>> {
        let Some(listener) = &self.initial else { return Ok(None) };
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The trial has its connection.
    pub fn connected(&mut self) {
        if !self.join_initial {
            self.initial = None;
        }
    }

    /// Resets connections where only subflows may join, and all others once the trial has its connection;
    /// returns how many.
    pub fn turn_away(&self, connected: bool) -> u64 {
        let mut strangers = 0;
        let initial = self.initial.as_ref().filter(|_| connected);
        for listener in self.joins.iter().chain(initial) {
            for _ in 0..AT_ONCE {
                let Ok((stream, _)) = listener.accept() else { break };
                socket::abort(stream);
                strangers += 1;
            }
        }
        strangers
    }

    /// Something to wait for.
    pub fn watches(&self) -> impl Iterator<Item = Watch<'_>> {
        self.initial.iter().chain(&self.joins).map(Watch::readable)
    }
}

/// True if MPTCP is used, and the reason if it should be but is not: a host without it answers in plain TCP,
/// and the opener reports what becomes of the connection.
fn capability(config: &AcceptorConfig, side: Side) -> Result<(bool, Option<String>), Error> {
    match socket::open_for(&config.job, config.address, config.job.mptcp) {
        Ok(_) => Ok((config.job.mptcp, None)),
        Err(error) if config.job.mptcp && socket::is_unsupported(&error) => {
            Ok((false, Some(format!("the {}'s host has no MPTCP ({error})", side.name()))))
        }
        Err(error) => Err(Error::Socket { half: side.name(), error }),
    }
}

/// All listeners on one port. A port chosen at one address may be taken at another.
fn together(
    config: &AcceptorConfig,
    side: Side,
    mptcp: bool,
    elsewhere: &[IpAddr],
) -> Result<(TcpListener, Vec<TcpListener>), Error> {
    let mut attempts = if config.port == 0 { ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let initial = listen(config, side, mptcp, (config.address, config.port))?;
        let port = initial.local_addr().map_err(|error| Error::System(side.name(), error))?.port();
        let joins: Result<Vec<_>, _> =
            elsewhere.iter().map(|&ip| listen(config, side, mptcp, (ip, port))).collect();
        match joins {
            Ok(joins) => return Ok((initial, joins)),
            Err(_) if attempts > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// One listener; what it accepts has its buffers, and the sender's congestion control, from the start.
fn listen(
    config: &AcceptorConfig,
    side: Side,
    mptcp: bool,
    (ip, port): (IpAddr, u16),
) -> Result<TcpListener, Error> {
    let job = &config.job;
    let at = job.socket_address(ip, port);
    let listening = |error| Error::Listening { half: side.name(), at, error };
    let fd = socket::open_for(job, ip, mptcp).map_err(listening)?;
    socket::set_buffers(fd.as_fd(), side.buffer_bytes(job), side.name())?;
    sys::bind(fd.as_fd(), &address::encode(at)).map_err(listening)?;
    if let Some(cc) = job.cc.as_ref().filter(|_| side == Side::Sender) {
        socket::set_congestion_control(fd.as_fd(), cc)?;
    }
    sys::listen(fd.as_fd(), BACKLOG).map_err(listening)?;
    Ok(TcpListener::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Duration;

    fn config(joins: &str) -> AcceptorConfig {
        let line = format!(
            r#"{{"job": {{"cc": "cubic", "buffer_bytes": 65536,
                "workload": {{"kind": "bulk", "duration_ns": 1}},
                "stall_ns": 1, "mptcp": true}}, "address": "127.0.0.1", "joins": {joins}}}"#
        );
        serde_json::from_str(&line).unwrap()
    }

    fn open(config: &AcceptorConfig) -> Result<Listeners, Error> {
        Listeners::open(config, Side::Receiver)
    }

    /// Waits for the connection.
    fn accepted(listeners: &mut Listeners) -> TcpStream {
        loop {
            if let Some(stream) = listeners.accept().unwrap() {
                listeners.connected();
                return stream;
            }
            let mut watches: Vec<_> = listeners.watches().collect();
            sys::wait(&mut watches, Duration::from_secs(10)).unwrap();
        }
    }

    fn refused(port: u16, ip: &str) -> bool {
        TcpStream::connect((ip, port))
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    #[test]
    fn nothing_listens_any_more_once_the_connection_exists() {
        let mut listeners = open(&config("[]")).unwrap();
        assert!(refused(listeners.port, "127.0.0.2"));
        let _client = TcpStream::connect(("127.0.0.1", listeners.port)).unwrap();
        let _stream = accepted(&mut listeners);
        assert_eq!(listeners.watches().count(), 0);
        assert!(refused(listeners.port, "127.0.0.1"));
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let refused = open(&AcceptorConfig { port, ..config("[]") }).err().unwrap();
        let reason = refused.to_string();
        assert!(reason.contains(&format!("127.0.0.1:{port}")), "{reason}");
    }

    #[test]
    fn where_subflows_join_no_one_else_is_served() {
        let Ok(mut listeners) = open(&config(r#"["127.0.0.1", "127.0.0.2"]"#)) else {
            panic!("expected two listeners");
        };
        if listeners.plain_because.is_some() {
            return; // without MPTCP there are no subflows, and nothing listens for them
        }
        let _client = TcpStream::connect(("127.0.0.1", listeners.port)).unwrap();
        let _stream = accepted(&mut listeners);
        for ip in ["127.0.0.1", "127.0.0.2"] {
            let mut stranger = TcpStream::connect((ip, listeners.port)).unwrap();
            let mut watches: Vec<_> = listeners.watches().collect();
            sys::wait(&mut watches, Duration::from_secs(10)).unwrap();
            assert_eq!(listeners.turn_away(true), 1);
            assert!(
                stranger
                    .read(&mut [0])
                    .is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
            );
        }
    }
}
