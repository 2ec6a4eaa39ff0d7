//! A TCP connection of a probe: what both ends send on it, and how each end sees it.
//!
//! The client begins with the token and the number of the connection, then sends orders, each answered by
//! its letter:
//!
//! ```text
//! P and 8 bytes        answered at once, with the same bytes
//! U and a number       that many bytes follow; answered when the last has arrived
//! D and a number       answered by that many bytes
//! I and 8 bytes        the server reports how it sees the connection
//! ```

use super::packet::{TOKEN, padding};
use super::protocol::{Subflow, View};
use crate::kernel::{address, sys};
use crate::meter::socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Token and number of the connection.
pub const GREETING: usize = TOKEN + 4;
/// Bytes of an order.
pub const ORDER: usize = 9;
/// Bytes read or written at a time.
const PIECE: usize = 64 * 1024;

/// The error for a peer that breaks the rules.
pub fn unexpected() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "unexpected bytes")
}

/// An order: a letter and a number.
pub fn order(letter: u8, number: u64) -> [u8; ORDER] {
    let mut order = [letter; ORDER];
    order[1..].copy_from_slice(&number.to_be_bytes());
    order
}

/// The letter and the number of an order.
pub fn parse(order: [u8; ORDER]) -> (u8, u64) {
    let number: [u8; 8] = order[1..].try_into().expect("eight bytes");
    (order[0], u64::from_be_bytes(number))
}

/// Bounds of the waits on a connection.
#[derive(Debug, Clone, Copy)]
pub enum Patience {
    /// All of them together end at this time, CLOCK_MONOTONIC.
    Until(u64),
    /// Each of them ends after this long, nanoseconds: the other end sets the time for the whole.
    Each(u64),
}

impl Patience {
    /// Bounds the next wait, and it alone.
    ///
    /// # Errors
    /// The time is over.
    fn begin(self, stream: &TcpStream) -> io::Result<()> {
        let now_ns = sys::monotonic_ns();
        limit(
            stream,
            match self {
                Self::Until(end_ns) => end_ns,
                Self::Each(ns) => now_ns.saturating_add(ns),
            },
        )
    }
}

/// Writes all of it.
pub fn write(stream: &mut TcpStream, mut bytes: &[u8], patience: Patience) -> io::Result<()> {
    while !bytes.is_empty() {
        patience.begin(stream)?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads as much as there is room for.
pub fn read(stream: &mut TcpStream, mut room: &mut [u8], patience: Patience) -> io::Result<()> {
    while !room.is_empty() {
        let length = read_some(stream, room, patience)?;
        room = &mut room[length..];
    }
    Ok(())
}

fn read_some(stream: &mut TcpStream, room: &mut [u8], patience: Patience) -> io::Result<usize> {
    loop {
        patience.begin(stream)?;
        match stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Sends this many bytes that do not compress.
pub fn send(stream: &mut TcpStream, mut bytes: u64, patience: Patience) -> io::Result<()> {
    let piece = padding(PIECE);
    while bytes > 0 {
        let now = bytes.min(PIECE as u64) as usize;
        write(stream, &piece[..now], patience)?;
        bytes -= now as u64;
    }
    Ok(())
}

/// Receives this many bytes; returns how many arrived in each millisecond since the first.
pub fn receive(
    stream: &mut TcpStream,
    mut bytes: u64,
    patience: Patience,
) -> io::Result<Vec<(u64, u64)>> {
    let mut piece = vec![0; PIECE];
    let mut arrived: Vec<(u64, u64)> = Vec::new();
    let mut first_ns = None;
    while bytes > 0 {
        let most = bytes.min(PIECE as u64) as usize;
        let length = read_some(stream, &mut piece[..most], patience)? as u64;
        bytes -= length;
        let now_ns = sys::monotonic_ns();
        let ms = (now_ns - *first_ns.get_or_insert(now_ns)) / 1_000_000;
        match arrived.last_mut() {
            Some((last, sum)) if *last == ms => *sum += length,
            _ => arrived.push((ms, length)),
        }
    }
    Ok(arrived)
}

/// The connection as seen from here.
pub fn view(stream: &TcpStream, mptcp: bool) -> View {
    let statistics = socket::statistics(stream, mptcp);
    let (mptcp, statistics) = match statistics {
        Ok(statistics) => (mptcp, Some(statistics)),
        Err(_) => (false, socket::statistics(stream, false).ok()),
    };
    let subflows = statistics.map(|statistics| statistics.subflows).unwrap_or_default();
    let subflow = |flow: crate::kernel::info::SubflowInfo| Subflow {
        local: address::canonical(flow.local),
        remote: address::canonical(flow.remote),
        received: flow.tcp.bytes_received,
        retransmitted: flow.tcp.retransmitted,
        min_rtt_ns: flow.tcp.min_rtt_ns,
    };
    View { mptcp, subflows: subflows.into_iter().map(subflow).collect(), arrived: Vec::new() }
}

/// The next wait on the connection ends at `end_ns` (CLOCK_MONOTONIC) at the latest.
fn limit(stream: &TcpStream, end_ns: u64) -> io::Result<()> {
    let left_ns = end_ns.saturating_sub(sys::monotonic_ns());
    if left_ns == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    let left = Some(Duration::from_nanos(left_ns));
    stream.set_read_timeout(left)?;
    stream.set_write_timeout(left)
}

/// A reason in words.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "time-out".to_owned(),
        ErrorKind::ConnectionRefused => "refused".to_owned(),
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => "reset".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_peer_that_sends_now_and_then_does_not_extend_the_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut own, _) = listener.accept().unwrap();
        // Something is there whenever it is read, and the time is over.
        peer.write_all(&[7; 100]).unwrap();
        own.peek(&mut [0]).unwrap();
        let over = Patience::Until(sys::monotonic_ns());
        let failed = receive(&mut own, 100, over).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::TimedOut);
        assert_eq!(read(&mut own, &mut [0; 9], over).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(send(&mut own, 100, over).unwrap_err().kind(), ErrorKind::TimedOut);
        let in_time = Patience::Each(120_000_000_000);
        let arrived = receive(&mut own, 100, in_time).unwrap();
        assert_eq!(arrived.iter().map(|(_, bytes)| bytes).sum::<u64>(), 100);
    }
}
