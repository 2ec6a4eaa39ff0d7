//! Connections from the other end, at all addresses on one port. Whoever lacks the token is reset.

use super::mailbox::Outbox;
use super::packet::{TOKEN, Token};
use super::protocol::{Message, View};
use super::stream::{self, GREETING, ORDER, Patience};
use crate::kernel::address;
use crate::kernel::sys::{self, Watch};
use crate::meter::socket;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

const BACKLOG: i32 = 64;
/// Connections at a time that have shown the token; and of those that have not, beyond which the one that has taken
/// longest is reset.
const MOST: usize = 64;
/// Connections that are accepted at a time from one listener: somebody who opens one after another stops nothing else.
const AT_ONCE: usize = 64;
/// Time for the greeting, and the pause until the next order.
const GREETING_NS: u64 = if cfg!(test) { 120_000_000_000 } else { 5_000_000_000 };
const PATIENCE: Patience = Patience::Each(120_000_000_000);

/// Connections that have not shown the token yet, in the order in which they were accepted.
#[derive(Clone, Default)]
struct Strangers(Arc<Mutex<VecDeque<(RawFd, TcpStream)>>>);

impl Strangers {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<(RawFd, TcpStream)>> {
        // A thread that panicked has left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; the one that has taken longest ends if there are too many.
    fn add(&self, stream: &TcpStream) -> io::Result<()> {
        let again = stream.try_clone()?;
        let mut waiting = self.waiting();
        waiting.push_back((stream.as_raw_fd(), again));
        if waiting.len() > MOST
            && let Some((_, oldest)) = waiting.pop_front()
        {
            // Its thread, which waits for it, resets it.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        Ok(())
    }

    /// The one with this descriptor has shown the token, or has ended.
    fn remove(&self, fd: RawFd) {
        self.waiting().retain(|(other, _)| *other != fd);
    }
}

/// The listeners.
pub struct Server {
    listeners: Vec<TcpListener>,
    token: Token,
    /// Counts the connections that have shown the token: one reference for each, and this one.
    greeted: Arc<()>,
    strangers: Strangers,
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
        let open = |ip, mptcp| {
            if both_families { socket::open_for_both(mptcp) } else { socket::open(ip, mptcp) }
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
        let (greeted, strangers) = Default::default();
        Ok(Self { listeners, token, greeted, strangers, port, plain_because })
    }

    /// Descriptors to wait for.
    pub fn watches(&self) -> impl Iterator<Item = Watch<'_>> {
        self.listeners.iter().map(Watch::readable)
    }

    /// Serves new connections, a thread each.
    pub fn accept(&self, outbox: &Outbox) {
        for listener in &self.listeners {
            for _ in 0..AT_ONCE {
                let Ok((stream, from)) = listener.accept() else { break };
                if self.strangers.add(&stream).is_err() {
                    socket::abort(stream);
                    continue;
                }
                let conversation = Conversation {
                    from: address::canonical(from),
                    token: self.token,
                    mptcp: self.plain_because.is_none(),
                    outbox: outbox.clone(),
                    strangers: self.strangers.clone(),
                    greeted: Arc::downgrade(&self.greeted),
                };
                let fd = stream.as_raw_fd();
                // Without a thread the connection ends: the stream is dropped.
                if thread::Builder::new().spawn(move || conversation.serve(stream)).is_err() {
                    self.strangers.remove(fd);
                }
            }
        }
    }
}

/// What the thread of a connection has of the server.
struct Conversation {
    from: SocketAddr,
    token: Token,
    mptcp: bool,
    outbox: Outbox,
    strangers: Strangers,
    greeted: Weak<()>,
}

impl Conversation {
    fn serve(self, mut stream: TcpStream) {
        let _ = self.begin(&mut stream);
        // Nobody may find it there by a descriptor that is another's by then.
        self.strangers.remove(stream.as_raw_fd());
        socket::abort(stream);
    }

    fn begin(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let id = greeted(stream, &self.token)?;
        self.strangers.remove(stream.as_raw_fd());
        // The server has a reference too; without one it has ended.
        match self.greeted.upgrade() {
            Some(counted) if Arc::strong_count(&counted) <= MOST + 1 => self.converse(stream, id),
            _ => Ok(()),
        }
    }

    fn converse(&self, stream: &mut TcpStream, id: u32) -> io::Result<()> {
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
                    let view =
                        View { arrived: arrived.clone(), ..stream::view(stream, self.mptcp) };
                    self.outbox.tell(Message::Served { id, from: self.from, view });
                    stream::write(stream, &order, PATIENCE)?;
                }
                _ => return Err(stream::unexpected()),
            }
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
    fn strangers_that_wait_keep_nobody_out() {
        let (local, token, inbox) =
            (IpAddr::from([127, 0, 0, 1]), [7; TOKEN], Inbox::new().unwrap());
        let server = Server::open(&[local], 0, false, token).unwrap();
        let remote = SocketAddr::new(local, server.port);
        let mut strangers = Vec::new();
        for _ in 0..MOST {
            strangers.push(TcpStream::connect(remote).unwrap());
            server.accept(&inbox.outbox());
        }
        let (both_families, limit_ns) = (false, 120_000_000_000);
        let target = Target { id: 3, local, remote, both_families, mptcp: false, limit_ns, token };
        let asks = client::start(target, inbox.outbox()).unwrap();
        asks.send(Ask { steps: vec![Step::Ping(1)], limit_ns }).unwrap();
        let messages = heard(&server, &inbox, 3);
        let is_asked = |message: &Message| matches!(message, Message::Asked { failed: None, .. });
        assert!(messages.iter().any(is_asked), "{messages:?}");
        let ended = strangers[0].read(&mut [0]);
        assert!(ended.is_err() || ended.is_ok_and(|length| length == 0));
        strangers[1].set_nonblocking(true).unwrap();
        let waits = strangers[1].read(&mut [0]).unwrap_err();
        assert_eq!(waits.kind(), ErrorKind::WouldBlock);
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
