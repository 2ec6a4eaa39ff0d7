//! Connections from the other end, at all addresses on one port. Whoever lacks the token is reset.

use super::mailbox::Outbox;
use super::packet::{TOKEN, Token};
use super::protocol::{Message, View};
use super::stream::{self, GREETING, ORDER, Patience};
use crate::kernel::address;
use crate::kernel::sys::{self, Watch};
use crate::meter::socket;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;

const BACKLOG: i32 = 64;
/// Connections at a time, strangers included.
const MOST: usize = 64;
/// Time for the greeting, and the pause until the next order.
const GREETING_NS: u64 = if cfg!(test) { 120_000_000_000 } else { 5_000_000_000 };
const PATIENCE: Patience = Patience::Each(120_000_000_000);

/// The listeners.
pub struct Server {
    listeners: Vec<TcpListener>,
    token: Token,
    /// Counts the connections: one reference for each, and this one.
    alive: Arc<()>,
    /// Their port.
    pub port: u16,
    /// The reason for plain TCP connections; none if they need not be.
    pub plain_because: Option<String>,
}

impl Server {
    /// Listens at all addresses.
    pub fn open(
        addresses: &[IpAddr],
        port: u16,
        both_families: bool,
        token: Token,
    ) -> io::Result<Self> {
        let open = |ip, mptcp| match both_families {
            true => socket::open_for_both(mptcp),
            false => socket::open(ip, mptcp),
        };
        let plain_because = match open(addresses[0], true) {
            Err(error) if socket::is_unsupported(&error) => {
                Some(format!("no MPTCP here ({error})"))
            }
            Err(error) => return Err(error),
            Ok(_) => None,
        };
        let mut listeners: Vec<TcpListener> = Vec::new();
        let mut port = port;
        for &ip in addresses {
            let fd = open(ip, plain_because.is_none())?;
            let ip = if both_families { address::mapped(ip) } else { ip };
            sys::bind(fd.as_fd(), &address::encode(SocketAddr::new(ip, port)))?;
            sys::listen(fd.as_fd(), BACKLOG)?;
            let listener = TcpListener::from(fd);
            port = listener.local_addr()?.port();
            listeners.push(listener);
        }
        Ok(Self { listeners, token, alive: Arc::new(()), port, plain_because })
    }

    /// Descriptors to wait for.
    pub fn watches(&self) -> impl Iterator<Item = Watch<'_>> {
        self.listeners.iter().map(Watch::readable)
    }

    /// Serves new connections, a thread each.
    pub fn accept(&self, outbox: &Outbox) {
        for listener in &self.listeners {
            while let Ok((stream, from)) = listener.accept() {
                if Arc::strong_count(&self.alive) > MOST {
                    socket::abort(stream);
                    continue;
                }
                let from = address::canonical(from);
                let (outbox, token, alive) = (outbox.clone(), self.token, Arc::clone(&self.alive));
                let mptcp = self.plain_because.is_none();
                // Without a thread the connection is reset: the stream is dropped.
                let _ = thread::Builder::new().spawn(move || {
                    let _ = serve(stream, from, &token, mptcp, &outbox);
                    drop(alive);
                });
            }
        }
    }
}

fn serve(
    mut stream: TcpStream,
    from: SocketAddr,
    token: &Token,
    mptcp: bool,
    outbox: &Outbox,
) -> io::Result<()> {
    let result = converse(&mut stream, from, token, mptcp, outbox);
    socket::abort(stream);
    result
}

fn converse(
    stream: &mut TcpStream,
    from: SocketAddr,
    token: &Token,
    mptcp: bool,
    outbox: &Outbox,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let id = greeted(stream, token)?;
    let mut arrived = Vec::new();
    loop {
        let mut order = [0; ORDER];
        stream::read(stream, &mut order, PATIENCE)?;
        match stream::parse(order) {
            (b'P', _) => stream::write(stream, &order, PATIENCE)?,
            (b'U', bytes) => {
                arrived = stream::receive(stream, bytes, PATIENCE)?;
                stream::write(stream, &order, PATIENCE)?;
            }
            (b'D', bytes) => {
                stream::write(stream, &order, PATIENCE)?;
                stream::send(stream, bytes, PATIENCE)?;
            }
            (b'I', _) => {
                let view = View { arrived: arrived.clone(), ..stream::view(stream, mptcp) };
                outbox.tell(Message::Served { id, from, view });
                stream::write(stream, &order, PATIENCE)?;
            }
            _ => return Err(stream::unexpected()),
        }
    }
}

/// The number of the connection, if it begins with the token.
fn greeted(stream: &mut TcpStream, token: &Token) -> io::Result<u32> {
    let patience = Patience::Until(sys::monotonic_ns() + GREETING_NS);
    let mut greeting = [0; GREETING];
    stream::read(stream, &mut greeting, patience)?;
    let wrong = greeting[..TOKEN].iter().zip(token).fold(0, |wrong, (a, b)| wrong | (a ^ b));
    if wrong != 0 {
        return Err(stream::unexpected());
    }
    Ok(u32::from_be_bytes(greeting[TOKEN..].try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::client::{self, Ask, Target};
    use crate::probe::mailbox::Inbox;
    use crate::probe::protocol::Step;
    use std::io::{ErrorKind, Read, Write};
    use std::time::Duration;

    /// Messages until there are this many.
    fn heard(server: &Server, inbox: &Inbox, count: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while messages.len() < count {
            let mut watches: Vec<_> = server.watches().collect();
            watches.push(Watch { fd: inbox.fd(), events: libc::POLLIN, ready: false });
            sys::wait(&mut watches, Duration::from_secs(120)).unwrap();
            assert!(watches.iter().any(|watch| watch.ready));
            server.accept(&inbox.outbox());
            messages.extend(inbox.take());
        }
        messages
    }

    #[test]
    fn orders_are_carried_out_and_both_ends_report() {
        let (local, token, inbox) =
            (IpAddr::from([127, 0, 0, 1]), [7; TOKEN], Inbox::new().unwrap());
        let server = Server::open(&[local], 0, false, token).unwrap();
        let remote = SocketAddr::new(local, server.port);
        let (both_families, limit_ns) = (false, 10_000_000_000);
        let target = Target { id: 3, local, remote, both_families, mptcp: false, limit_ns, token };
        let asks = client::start(target, inbox.outbox()).unwrap();
        let messages = heard(&server, &inbox, 1);
        assert!(
            matches!(&messages[..], [Message::Connected { id: 3, failed: None, .. }]),
            "{messages:?}"
        );
        let steps = vec![Step::Ping(2), Step::Upload(100_000), Step::Download(70_000)];
        asks.send(Ask { steps, limit_ns: 10_000_000_000 }).unwrap();
        let sum = |view: &View| view.arrived.iter().map(|(_, bytes)| bytes).sum::<u64>();
        for message in heard(&server, &inbox, 2) {
            match message {
                Message::Served { id: 3, view, .. } => assert_eq!(sum(&view), 100_000),
                Message::Asked { id: 3, failed: None, pings_ns, view } => {
                    assert_eq!((pings_ns.len(), sum(&view)), (2, 70_000));
                    assert!(!view.mptcp);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_stranger_is_reset() {
        let (local, inbox) = (IpAddr::from([127, 0, 0, 1]), Inbox::new().unwrap());
        let server = Server::open(&[local], 0, false, [7; TOKEN]).unwrap();
        let mut stranger = TcpStream::connect((local, server.port)).unwrap();
        stranger.write_all(&[0; GREETING]).unwrap();
        let mut watches: Vec<_> = server.watches().collect();
        sys::wait(&mut watches, Duration::from_secs(120)).unwrap();
        server.accept(&inbox.outbox());
        let error = stranger.read_exact(&mut [0]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof));
        assert!(inbox.take().is_empty());
    }
}
