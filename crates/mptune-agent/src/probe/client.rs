//! Connections to the other end, a thread each, which mostly waits.

use super::mailbox::Outbox;
use super::packet::Token;
use super::protocol::{Message, Step, View};
use super::sniff::Sniffer;
use super::stream::{self, ORDER, Patience};
use crate::kernel::address;
use crate::kernel::sys::{self, Watch};
use crate::meter::socket;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Destination of a connection.
pub struct Target {
    /// Its number.
    pub id: u32,
    /// Its own address.
    pub local: IpAddr,
    /// The listener.
    pub remote: SocketAddr,
    /// The connection may have subflows of both address families.
    pub both_families: bool,
    /// Multipath TCP.
    pub mptcp: bool,
    /// Time to connect.
    pub limit_ns: u64,
    /// The token, which the listener expects first.
    pub token: Token,
}

/// Something to do on a connection.
pub struct Ask {
    /// The steps.
    pub steps: Vec<Step>,
    /// Time for them.
    pub limit_ns: u64,
}

/// Opens a connection; it ends when the returned sender is dropped.
pub fn start(target: Target, outbox: Outbox) -> io::Result<Sender<Ask>> {
    let (asks, asked) = channel();
    thread::Builder::new().spawn(move || run(&target, &outbox, &asked))?;
    Ok(asks)
}

fn run(target: &Target, outbox: &Outbox, asked: &Receiver<Ask>) {
    let began_ns = sys::monotonic_ns();
    let sniffer = if target.mptcp { Sniffer::open(target.local, target.remote.ip()) } else { None };
    let result = connect(target, began_ns + target.limit_ns);
    let took_ns = sys::monotonic_ns() - began_ns;
    let (id, failed) = (target.id, result.as_ref().err().map(stream::reason));
    let port = result.as_ref().ok().and_then(|stream| Some(stream.local_addr().ok()?.port()));
    let syn_ack =
        sniffer.zip(port).and_then(|(sniffer, to)| sniffer.syn_ack(target.remote.port(), to));
    let view = result.as_ref().map(|result| stream::view(result, target.mptcp)).unwrap_or_default();
    outbox.tell(Message::Connected { id, failed, took_ns, syn_ack, view });
    let Ok(mut connection) = result else { return };
    while let Ok(ask) = asked.recv() {
        outbox.tell(answer(id, &mut connection, target.mptcp, &ask));
    }
    socket::abort(connection);
}

/// The connection, after the greeting.
fn connect(target: &Target, end_ns: u64) -> io::Result<TcpStream> {
    let (local, remote) = (target.local, target.remote);
    let (fd, local, to) = match target.both_families {
        true => {
            let (local, to) = (address::mapped(local), address::mapped(remote.ip()));
            (socket::open_for_both(target.mptcp)?, local, to)
        }
        false => (socket::open(local, target.mptcp)?, local, remote.ip()),
    };
    sys::bind(fd.as_fd(), &address::encode(SocketAddr::new(local, 0)))?;
    socket::connect(fd.as_fd(), SocketAddr::new(to, remote.port()))?;
    let mut watches = [Watch::writable(&fd)];
    let left_ns = end_ns.saturating_sub(sys::monotonic_ns());
    sys::wait(&mut watches, Duration::from_nanos(left_ns))?;
    if !watches[0].ready {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut stream = TcpStream::from(fd);
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let greeting = [&target.token[..], &target.id.to_be_bytes()].concat();
    stream::write(&mut stream, &greeting, Patience::Until(end_ns))?;
    Ok(stream)
}

fn answer(id: u32, connection: &mut TcpStream, mptcp: bool, ask: &Ask) -> Message {
    let patience = Patience::Until(sys::monotonic_ns() + ask.limit_ns);
    let (mut pings_ns, mut arrived) = (Vec::new(), Vec::new());
    let result = steps(connection, ask, patience, &mut pings_ns, &mut arrived);
    let failed = result.err().map(|error| stream::reason(&error));
    let view = View { arrived, ..stream::view(connection, mptcp) };
    Message::Asked { id, failed, pings_ns, view }
}

fn steps(
    connection: &mut TcpStream,
    ask: &Ask,
    patience: Patience,
    pings_ns: &mut Vec<u64>,
    arrived: &mut Vec<(u64, u64)>,
) -> io::Result<()> {
    for step in &ask.steps {
        match *step {
            Step::Ping(count) => {
                for number in 0..count {
                    let began_ns = sys::monotonic_ns();
                    request(connection, stream::order(b'P', u64::from(number)), patience)?;
                    pings_ns.push(sys::monotonic_ns() - began_ns);
                }
            }
            Step::Upload(bytes) => {
                stream::write(connection, &stream::order(b'U', bytes), patience)?;
                stream::send(connection, bytes, patience)?;
                expect(connection, stream::order(b'U', bytes), patience)?;
            }
            Step::Download(bytes) => {
                request(connection, stream::order(b'D', bytes), patience)?;
                *arrived = stream::receive(connection, bytes, patience)?;
            }
        }
    }
    request(connection, stream::order(b'I', 0), patience)
}

fn request(connection: &mut TcpStream, order: [u8; ORDER], patience: Patience) -> io::Result<()> {
    stream::write(connection, &order, patience)?;
    expect(connection, order, patience)
}

/// The server answers an order by repeating it.
fn expect(connection: &mut TcpStream, order: [u8; ORDER], patience: Patience) -> io::Result<()> {
    let mut echo = [0; ORDER];
    stream::read(connection, &mut echo, patience)?;
    if echo == order { Ok(()) } else { Err(stream::unexpected()) }
}
