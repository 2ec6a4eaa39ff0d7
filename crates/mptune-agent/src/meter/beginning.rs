//! How a half gets the connection: it opens it, or accepts it.
//!
//! The sender of the payload opens it. Where the workload has a client, the receiver may be told to open it instead. The
//! opener's first bytes are the job's token, by which the acceptor knows the connection. Not here: what the halves do
//! with it.

use crate::kernel::address;
use crate::kernel::sys::{self, Watch};
use crate::meter::candidates::{Candidates, Chosen};
use crate::meter::clock::Handshake;
use crate::meter::config::{Job, OpenerConfig, Side};
use crate::meter::error::Error;
use crate::meter::half::{Ending, Half, seconds};
use crate::meter::listeners::Listeners;
use crate::meter::socket;
use serde::Serialize;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

/// Connections that are accepted before something else has its turn.
const AT_ONCE: usize = 64;

/// The acceptor is ready for the connection.
#[derive(Serialize)]
#[serde(tag = "event", rename = "listening")]
pub struct Listening<'a> {
    /// The port.
    pub port: u16,
    /// The reason why it cannot do MPTCP; none if it can or need not.
    pub plain_because: Option<&'a str>,
}

/// The acceptor has the trial's connection: what was set for its beginning may be put back.
#[derive(Serialize)]
#[serde(tag = "event", rename = "accepted")]
pub struct Accepted {}

/// The opener's initial subflow is established. Times count from the `connect` call.
#[derive(Serialize)]
#[serde(tag = "event", rename = "connected")]
pub struct Connected {
    /// Duration of the handshake, and the round-trip time its TCP measured meanwhile.
    #[serde(flatten)]
    pub handshake: Handshake,
    /// The opener's port.
    pub local_port: u16,
    /// The acceptor's port.
    pub remote_port: u16,
}

/// What a half accepted.
#[derive(Default)]
pub struct Arrived {
    /// The trial's connection; none if it was ordered to stop before.
    pub chosen: Option<Chosen>,
    /// Connections of others, which were reset.
    pub strangers: u64,
    /// The opener's report, if it was there first.
    pub handshake: Option<Handshake>,
}

/// The opener's socket, bound to its address and with its buffers.
///
/// # Errors
/// There is none, or the system refuses the address or the buffers.
pub fn socket(config: &OpenerConfig, side: Side) -> Result<OwnedFd, Error> {
    let (job, half) = (&config.job, side.name());
    let fd = opened(job, config.local.unwrap_or(config.remote), half)?;
    if let Some(local) = config.local {
        let address = job.socket_address(local, 0);
        sys::bind(fd.as_fd(), &address::encode(address))
            .map_err(|error| Error::Local(local, error))?;
    }
    Ok(fd)
}

/// A socket of MPTCP if the job has that, and of TCP if it takes that where there is none.
fn opened(job: &Job, ip: IpAddr, half: &'static str) -> Result<OwnedFd, Error> {
    let open = |mptcp| socket::open_for(job, ip, mptcp);
    let refused = |error| Error::Socket { half, error };
    if job.takes_tcp {
        return socket::either(job.mptcp, open).map_err(refused);
    }
    open(job.mptcp).map_err(|error| match job.mptcp && socket::is_unsupported(&error) {
        true => Error::NoMptcp { half, error },
        false => refused(error),
    })
}

/// Connects the socket; false if that failed or the half was ordered to stop. Its clock runs from here.
pub fn connect(half: &mut Half<'_>, config: &OpenerConfig, stream: &TcpStream) -> bool {
    let remote = config.job.socket_address(config.remote, config.port);
    half.restart();
    let begun = socket::connect(stream.as_fd(), remote);
    match begun.and_then(|()| connected(half, &config.job, stream)) {
        Ok(connected) => connected,
        Err(error) => {
            let (at, remote) = (seconds(half.now_ns()), address::canonical(remote));
            half.end(Ending::Unreachable(format!("no connection to {remote} at {at}: {error}")));
            false
        }
    }
}

fn connected(half: &mut Half<'_>, job: &Job, stream: &TcpStream) -> io::Result<bool> {
    let limit_ns = job.workload.limit();
    while half.ending().is_none() {
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        if stream.peer_addr().is_ok() {
            return Ok(true);
        }
        let now_ns = half.now_ns();
        if now_ns >= limit_ns {
            return Err(ErrorKind::TimedOut.into());
        }
        if half.wait(&mut [Watch::writable(stream)], limit_ns, now_ns)?.is_some() {
            half.refuse_report();
        }
    }
    Ok(false)
}

/// Tells of a connection that this half has opened.
pub fn tell_connected(half: &mut Half<'_>, handshake: Handshake, stream: &TcpStream) {
    let port = |address: io::Result<std::net::SocketAddr>| address.map_or(0, |one| one.port());
    let (local_port, remote_port) = (port(stream.local_addr()), port(stream.peer_addr()));
    half.tell(&Connected { handshake, local_port, remote_port });
}

/// Waits for the trial's connection among those that arrive.
///
/// # Errors
/// Accepting, or waiting, is not possible.
pub fn accept(
    half: &mut Half<'_>,
    job: &Job,
    side: Side,
    listeners: &mut Listeners,
) -> Result<Arrived, Error> {
    let failed = |error| Error::System(side.accepting(), error);
    let mut candidates = Candidates::new(job.token, job.stall_ns);
    let mut arrived = Arrived::default();
    while arrived.chosen.is_none() && half.ending().is_none() {
        let mut watches: Vec<_> = listeners.watches().collect();
        let own = watches.len();
        watches.extend(candidates.watches());
        // The opener is connected a moment before its last acknowledgement arrives here.
        let until_ns = candidates.next_ns();
        let now_ns = half.now_ns();
        let heard = half.wait(&mut watches, until_ns, now_ns).map_err(failed)?;
        arrived.handshake = heard.or(arrived.handshake);
        let ready: Vec<_> = watches[own..].iter().map(|watch| watch.ready).collect();
        arrived.chosen = candidates.hear(&ready, half.now_ns());
        arrived.strangers += listeners.turn_away(false);
        if arrived.chosen.is_none() {
            arrived.chosen = add(half, listeners, &mut candidates).map_err(failed)?;
        }
    }
    arrived.strangers += candidates.dismiss();
    if arrived.chosen.is_some() {
        listeners.connected();
    }
    Ok(arrived)
}

/// Adds connections that have arrived to the candidates, unless one of them is the trial's.
fn add(half: &Half<'_>, from: &Listeners, to: &mut Candidates) -> io::Result<Option<Chosen>> {
    for _ in 0..AT_ONCE {
        match from.accept() {
            Ok(None) => break,
            Ok(Some(stream)) => {
                let chosen = to.add(stream, half.now_ns());
                if chosen.is_some() {
                    return Ok(chosen);
                }
            }
            // It ended before it was accepted.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) if is_shortage(&error) => {
                to.make_room();
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The system has no room for a further connection now.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| shortages.contains(&number))
}
