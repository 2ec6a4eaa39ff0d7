//! Routers between the two ends of a path, one datagram per hop limit, as "Paris traceroute" (Augustin et al.,
//! IMC 2006, section 3): all datagrams of a route have the same addresses and ports, so that routers that
//! balance flows send them the same way. Needs no privilege: reports arrive in the socket's error queue.
//!
//! Connections of a trial have other ports than these datagrams; a router that balances flows may send them
//! another way.

use super::mailbox::Outbox;
use super::packet::{HEAD, Head, Token};
use super::protocol::{Hop, Message};
use crate::kernel::address;
use crate::kernel::sys::{self, ErrorReport, Watch};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

/// Largest hop limit: longer routes do not occur in the Internet.
pub const MOST_HOPS: u8 = 64;
/// Silent hops in a row after which a route to an end that does not answer is given up.
const MOST_SILENT: usize = 4;
/// ICMP types of "time exceeded in transit" (RFC 792, RFC 4443 section 3.3).
const EXCEEDED: [(u8, u8); 2] = [(libc::SO_EE_ORIGIN_ICMP, 11), (libc::SO_EE_ORIGIN_ICMP6, 3)];

/// A route to be traced.
pub struct Target {
    /// Number of the order.
    pub id: u32,
    /// Number of the path.
    pub path: u8,
    /// Own address.
    pub local: IpAddr,
    /// The other end's socket for datagrams, which answers those with the token.
    pub remote: SocketAddr,
    /// Largest hop limit.
    pub hops: u8,
    /// Datagrams for a hop that does not answer.
    pub attempts: u8,
    /// Time in which a hop must answer.
    pub wait_ns: u64,
    /// Token of the probe.
    pub token: Token,
}

/// Source of an answer to a datagram.
#[derive(Clone, Copy)]
enum Answer {
    /// A router that discarded it because of its hop limit.
    Router(IpAddr),
    /// The other end.
    End,
    /// A router or host that cannot deliver it.
    Refused(IpAddr),
}

/// Traces a route in a thread that reports it by `outbox`.
pub fn start(target: Target, outbox: Outbox) -> io::Result<()> {
    thread::Builder::new().spawn(move || {
        let mut hops = Vec::new();
        let result = route(&target, &mut hops);
        let failed = result.as_ref().err().map(ToString::to_string);
        outbox.tell(Message::Traced {
            id: target.id,
            failed,
            reached: result.unwrap_or(false),
            hops,
        });
    })?;
    Ok(())
}

/// The route, hop by hop; true if it leads to the other end.
fn route(target: &Target, hops: &mut Vec<Hop>) -> io::Result<bool> {
    let socket = open(target)?;
    let answers = matches!(ask(&socket, target, MOST_HOPS)?, Some((Answer::End, _)));
    for limit in 1..=target.hops {
        let answer = ask(&socket, target, limit)?;
        let (from, reached) = match answer {
            None => (None, None),
            Some((Answer::Router(from), _)) => (Some(from), None),
            Some((Answer::End, _)) => (Some(target.remote.ip()), Some(true)),
            Some((Answer::Refused(from), _)) => (Some(from), Some(false)),
        };
        hops.push(Hop { address: from, rtt_ns: answer.map(|(_, rtt_ns)| rtt_ns) });
        if let Some(reached) = reached {
            return Ok(reached);
        }
        let silent = hops.iter().rev().take_while(|hop| hop.address.is_none()).count();
        if silent == MOST_SILENT && !answers {
            hops.truncate(hops.len() - MOST_SILENT);
            break;
        }
    }
    Ok(false)
}

/// Answer to a datagram with this hop limit, and the time until it; none after all attempts.
fn ask(socket: &UdpSocket, target: &Target, limit: u8) -> io::Result<Option<(Answer, u64)>> {
    for attempt in 0..target.attempts {
        let seq = u32::from(limit) << 8 | u32::from(attempt);
        let sent_ns = send(socket, target, limit, seq)?;
        if let Some(answer) = answer(socket, target, seq, sent_ns)? {
            return Ok(Some((answer, sys::monotonic_ns() - sent_ns)));
        }
    }
    Ok(None)
}

fn open(target: &Target) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(target.local, 0))?;
    socket.connect(target.remote)?;
    socket.set_nonblocking(true)?;
    let (level, name) = match target.local {
        IpAddr::V4(_) => (libc::SOL_IP, libc::IP_RECVERR),
        IpAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_RECVERR),
    };
    sys::set_option(socket.as_fd(), level, name, &1_i32.to_ne_bytes())?;
    Ok(socket)
}

/// Sends a datagram with a hop limit; when, CLOCK_MONOTONIC.
fn send(socket: &UdpSocket, target: &Target, limit: u8, seq: u32) -> io::Result<u64> {
    let (level, name) = match target.local {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    };
    sys::set_option(socket.as_fd(), level, name, &i32::from(limit).to_ne_bytes())?;
    let head = Head {
        reply: false,
        answer: true,
        timed: false,
        path: target.path,
        flow: 0,
        id: target.id,
        seq,
        stamp: 0,
    };
    let mut packet = [0; HEAD];
    head.write(&target.token, &mut packet);
    let sent_ns = sys::monotonic_ns();
    match socket.send(&packet) {
        // The error of an earlier datagram is reported here once more; it is in the queue too.
        Err(error) if error.raw_os_error() == Some(libc::EHOSTUNREACH) => socket.send(&packet)?,
        result => result?,
    };
    Ok(sent_ns)
}

/// Answer to a datagram; none if nothing came in time. Late answers to earlier datagrams are passed over, and whatever
/// else arrives takes none of the time.
fn answer(
    socket: &UdpSocket,
    target: &Target,
    seq: u32,
    sent_ns: u64,
) -> io::Result<Option<Answer>> {
    let mut data = [0; 1500];
    loop {
        let report = sys::receive_error(socket.as_fd(), &mut data).ok();
        if let Some(answer) = report.and_then(|report| reported(&report, target, seq, &data)) {
            return Ok(Some(answer));
        }
        let received = socket.recv(&mut data);
        let head = received.as_ref().ok().map(|length| &data[..*length]);
        let head = head.and_then(|packet| Head::read(&target.token, packet));
        if head.is_some_and(|head| head.reply && head.seq == seq) {
            return Ok(Some(Answer::End));
        }
        let left_ns = (sent_ns + target.wait_ns).saturating_sub(sys::monotonic_ns());
        if left_ns == 0 {
            return Ok(None);
        }
        // Any other error is that of a report once more.
        if received.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            let mut watches = [Watch::readable(socket)];
            sys::wait(&mut watches, Duration::from_nanos(left_ns))?;
        }
    }
}

/// The answer that a report is; none if it is about another datagram.
fn reported(report: &ErrorReport, target: &Target, seq: u32, data: &[u8]) -> Option<Answer> {
    let from = address::decode(&report.from)?.ip();
    let quoted = Head::read(&target.token, &data[..report.quoted.min(data.len())]);
    // A report may quote too little to show which datagram it is about; then it is about the last one.
    if quoted.is_some_and(|head| head.seq != seq) {
        return None;
    }
    let is_exceeded = EXCEEDED.contains(&(report.origin, report.kind.0));
    Some(if is_exceeded { Answer::Router(from) } else { Answer::Refused(from) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_takes_no_more_than_the_time() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let end = UdpSocket::bind((local, 0)).unwrap();
        let (remote, token) = (end.local_addr().unwrap(), [7; 16]);
        let wait_ns = 0;
        let mut target =
            Target { id: 1, path: 0, local, remote, hops: 1, attempts: 1, wait_ns, token };
        let socket = open(&target).unwrap();
        let own = socket.local_addr().unwrap();
        let mut right = [0; HEAD];
        let (reply, answers, timed, flow, stamp) = (true, false, false, 0, 0);
        let head = Head { reply, answer: answers, timed, path: 0, flow, id: 1, seq: 5, stamp };
        head.write(&token, &mut right);
        for packet in [&b"something else"[..], &right] {
            end.send_to(packet, own).unwrap();
        }
        let now_ns = sys::monotonic_ns();
        assert!(answer(&socket, &target, 5, now_ns).unwrap().is_none());
        target.wait_ns = 120_000_000_000;
        assert!(matches!(answer(&socket, &target, 5, now_ns).unwrap(), Some(Answer::End)));
    }
}
