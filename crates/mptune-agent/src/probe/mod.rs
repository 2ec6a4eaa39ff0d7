//! Datagrams and short connections between two hosts, for finding out what their paths are like: the role
//! `probe`, at both ends.
//!
//! It carries out orders and reports what it saw; conclusions are the controller's business. Clocks are never
//! compared: the end that sent a packet measures its round trip and subtracts the time that the other end
//! reports that it needed, and of arrivals only the spacing is reported. It uses only the addresses it was given,
//! sends only to those of the paths (or to senders of packets with the token), and answers nothing without
//! the 128-bit token.
//!
//! ```text
//! in   {"token": "<32 digits>", "addresses": ["10.65.0.1", ...], "port": 0, "listens": true,
//!       "both_families": false}
//! out  {"event": "ready", "ports": [40123, ...], "tcp": 40123, "plain_because": null}
//! in   {"action": "paths", "paths": [{"local": 0, "peer": "10.64.0.1:4000" or null}, ...]}
//! in   {"action": "send", "id": 1, "wait_ns": 0, "flows": [{"path": 0, "packets": 12, "bytes": 1500,
//!       "interval_ns": 0, "start_ns": 0, "answer": false, "timed": true}, ...]}
//! out  {"event": "sent", "id": 1, "flows": [{"sent": 12, "refused": 0, "rtt_ns": [...], ...}, ...]}
//! in   {"action": "collect", "id": 1, "packets": [12, ...], "quiet_ns": 200000000}      at the other end
//! out  {"event": "collected", "id": 1, "flows": [{"received": 12, "seq": [...], "arrived": [...], ...}],
//!       "sources": ["10.64.0.1:4000", ...]}
//! in   {"action": "connect", "id": 2, "path": 0, "port": 40123, "mptcp": true, "limit_ns": 3000000000}
//! out  {"event": "connected", "id": 2, "failed": null, "took_ns": ..., "syn_ack": "mptcp", "view": {...}}
//! in   {"action": "ask", "id": 2, "steps": [{"ping": 3}, {"upload": 20000}], "limit_ns": 3000000000}
//! out  {"event": "asked", "id": 2, "failed": null, "pings_ns": [...], "view": {...}}
//! out  {"event": "served", "id": 2, "from": "10.64.0.1:4001", "view": {...}}             at the other end
//! in   {"action": "end", "id": 2}
//! in   {"action": "trace", "id": 3, "path": 0, "hops": 30, "attempts": 2, "wait_ns": 500000000}
//! out  {"event": "traced", "id": 3, "failed": null, "reached": true, "hops": [{"address": "10.64.0.254", "rtt_ns": ...}]}
//! out  {"event": "error", "reason": "..."} instead of any of them, and status 1
//! ```

mod arrivals;
mod client;
mod mailbox;
mod packet;
mod protocol;
mod sending;
mod server;
mod sniff;
mod stream;
mod trace;
mod udp;

use self::arrivals::Arrivals;
use self::client::{Ask, Target};
use self::mailbox::Inbox;
use self::packet::{HEAD, Head, LARGEST, Token};
use self::protocol::{Action, Config, FlowSpec, Message, PathEnd};
use self::sending::Sending;
use self::server::Server;
use self::udp::Endpoint;
use crate::control::{self, Control, Input};
use crate::kernel::sys::{self, Watch};
use crate::role;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Sender;
use std::time::Duration;
use thiserror::Error;

/// Longest wait if nothing else limits it.
const TICK_NS: u64 = 1_000_000_000;
/// Packets taken from a socket before others get their turn.
const TURN: usize = 256;
/// Free ports to try until one is free at all addresses, for datagrams and connections.
const ATTEMPTS: usize = 16;
/// Paths, and packets of a flow.
const MAX_PATHS: usize = 256;
const MAX_PACKETS: u32 = 1 << 20;

/// Failure of the role.
#[derive(Debug, Error)]
enum Error {
    /// A key of the configuration has a wrong value.
    #[error("configuration: {0}: expected {1}")]
    Configuration(&'static str, &'static str),
    #[error("expected a command: {0}")]
    Command(#[from] serde_json::Error),
    /// A key of a command has a wrong value.
    #[error("{0}: expected {1}")]
    Key(&'static str, &'static str),
    #[error("flows: bytes: expected {least} to {most}, found {found}")]
    Bytes { least: usize, most: usize, found: usize },
    #[error("flows: packets: expected at most {MAX_PACKETS}, found {0}")]
    Packets(u32),
    /// An order about a connection that has failed.
    #[error("id: the connection failed")]
    Connection,
    #[error("probe: {0}")]
    System(#[from] io::Error),
    #[error("probe: receiving: {0}")]
    Receiving(io::Error),
    #[error(transparent)]
    Control(#[from] control::Error),
}

/// The role.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    let config = control.configuration::<Config>()?;
    let mut prober = Prober::open(&config)?;
    control.tell(&prober.ready()?);
    prober.run(control)
}

/// An order of the other end whose arrivals are to be reported.
struct Collect {
    id: u32,
    packets: Vec<u32>,
    quiet_ns: u64,
    asked_ns: u64,
}

struct Prober {
    token: Token,
    addresses: Vec<IpAddr>,
    both_families: bool,
    endpoints: Vec<Endpoint>,
    server: Option<Server>,
    paths: Vec<PathEnd>,
    sendings: Vec<Sending>,
    arrivals: Arrivals,
    collects: Vec<Collect>,
    connections: BTreeMap<u32, Sender<Ask>>,
    inbox: Inbox,
    buffer: Vec<u8>,
}

impl Prober {
    fn open(config: &Config) -> Result<Self, Error> {
        let token = packet::token(&config.token)
            .ok_or(Error::Configuration("token", "32 hexadecimal digits"))?;
        if config.addresses.is_empty() {
            return Err(Error::Configuration("addresses", "at least one"));
        }
        let mut attempts = if config.port == 0 { ATTEMPTS } else { 1 };
        let (server, endpoints) = loop {
            attempts -= 1;
            match sockets(config, token) {
                Ok(sockets) => break sockets,
                Err(error) if attempts == 0 => return Err(error.into()),
                Err(_) => {}
            }
        };
        Ok(Self {
            token,
            addresses: config.addresses.clone(),
            both_families: config.both_families,
            endpoints,
            server,
            paths: Vec::new(),
            sendings: Vec::new(),
            arrivals: Arrivals::default(),
            collects: Vec::new(),
            connections: BTreeMap::new(),
            inbox: Inbox::new()?,
            buffer: packet::padding(LARGEST),
        })
    }

    fn ready(&self) -> Result<Message, Error> {
        let ports: io::Result<_> = self.endpoints.iter().map(Endpoint::port).collect();
        Ok(Message::Ready {
            ports: ports?,
            tcp: self.server.as_ref().map(|server| server.port),
            plain_because: self.server.as_ref().and_then(|server| server.plain_because.clone()),
        })
    }

    fn run(&mut self, control: &mut Control) -> Result<(), Error> {
        loop {
            match self.wait(control)? {
                Some(Input::Line(line)) => {
                    self.obey(serde_json::from_str(&line)?)?;
                }
                Some(Input::Closed | Input::Signal(_)) => return Ok(()),
                None => {}
            }
            self.receive().map_err(Error::Receiving)?;
            for sending in &mut self.sendings {
                let (token, endpoints, paths) = (&self.token, &self.endpoints, &self.paths);
                sending.advance(token, endpoints, paths, &mut self.buffer, sys::monotonic_ns);
            }
            self.conclude(control);
            if let Some(server) = &self.server {
                server.accept(&self.inbox.outbox());
            }
            for message in self.inbox.take() {
                control.tell(&message);
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, control: &mut Control) -> io::Result<Option<Input>> {
        let blocked: Vec<_> = self.sendings.iter().filter_map(|sending| sending.blocked).collect();
        let mut watches: Vec<_> = (self.endpoints.iter().enumerate())
            .map(|(number, endpoint)| {
                let writing = if blocked.contains(&number) { libc::POLLOUT } else { 0 };
                Watch { fd: endpoint.fd(), events: libc::POLLIN | writing, ready: false }
            })
            .collect();
        watches.push(Watch { fd: self.inbox.fd(), events: libc::POLLIN, ready: false });
        watches.extend(self.server.iter().flat_map(Server::watches));
        let now_ns = sys::monotonic_ns();
        let due_ns = self.due_ns().unwrap_or(u64::MAX).saturating_sub(now_ns).min(TICK_NS);
        control.wait(&mut watches, Duration::from_nanos(due_ns))
    }

    /// Time of the next task even if nothing arrives.
    fn due_ns(&self) -> Option<u64> {
        let sending = |sending: &Sending| match sending.blocked {
            Some(_) => None,
            None => sending.due_ns().or(sending.deadline_ns()),
        };
        let collecting = |collect: &Collect| self.quiet_ns(collect);
        self.sendings.iter().filter_map(sending).chain(self.collects.iter().map(collecting)).min()
    }

    /// End of a collection if nothing more arrives.
    fn quiet_ns(&self, collect: &Collect) -> u64 {
        let last_ns = self.arrivals.last_ns(collect.id).unwrap_or(0);
        last_ns.max(collect.asked_ns) + collect.quiet_ns
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut data = [0; LARGEST];
        for (local, endpoint) in self.endpoints.iter().enumerate() {
            for _ in 0..TURN {
                let Some(packet) = endpoint.receive(&mut data)? else { break };
                let Some(head) = Head::read(&self.token, &data[..packet.length]) else { continue };
                let Some(end) = self.paths.get_mut(usize::from(head.path)) else { continue };
                if end.local != local {
                    continue;
                }
                if head.reply {
                    let sending = self.sendings.iter_mut().find(|sending| sending.id == head.id);
                    sending.into_iter().for_each(|sending| sending.hear(&head, packet.at_ns));
                    continue;
                }
                end.peer = end.peer.or(Some(packet.from));
                self.arrivals.add(&head, packet.at_ns);
                if head.answer {
                    let span_ns = sys::monotonic_ns().saturating_sub(packet.at_ns);
                    let reply = Head { reply: true, stamp: packet::stamp(span_ns), ..head };
                    let mut answer = [0; HEAD];
                    reply.write(&self.token, &mut answer);
                    endpoint.answer(&answer, packet.from);
                }
            }
        }
        Ok(())
    }

    /// Reports orders that are over.
    fn conclude(&mut self, control: &mut Control) {
        let now_ns = sys::monotonic_ns();
        let (over, going): (Vec<_>, Vec<_>) =
            self.sendings.drain(..).partition(|sending| sending.over(now_ns));
        self.sendings = going;
        for sending in over {
            control.tell(&Message::Sent { id: sending.id, flows: sending.report() });
        }
        let collects = std::mem::take(&mut self.collects);
        for collect in collects {
            if self.arrivals.complete(collect.id, &collect.packets)
                || now_ns >= self.quiet_ns(&collect)
            {
                let flows = self.arrivals.take(collect.id, collect.packets.len());
                let sources = self.paths.iter().map(|end| end.peer).collect();
                control.tell(&Message::Collected { id: collect.id, flows, sources });
            } else {
                self.collects.push(collect);
            }
        }
    }

    fn obey(&mut self, action: Action) -> Result<(), Error> {
        let now_ns = sys::monotonic_ns();
        match action {
            Action::Paths { paths } => self.set_paths(paths),
            Action::Send { id, flows, wait_ns } => {
                flows.iter().try_for_each(|flow| self.check(flow))?;
                self.sendings.push(Sending::new(id, flows, wait_ns, now_ns));
                Ok(())
            }
            Action::Collect { id, packets, quiet_ns } => {
                self.collects.push(Collect { id, packets, quiet_ns, asked_ns: now_ns });
                Ok(())
            }
            Action::Connect { id, path, port, mptcp, limit_ns } => {
                let end = self.paths.get(path).ok_or(Error::Key("path", "a known path"))?;
                let peer = end.peer.ok_or(Error::Key("path", "a path with a peer"))?;
                let (local, remote) = (self.addresses[end.local], SocketAddr::new(peer.ip(), port));
                let (both_families, token) = (self.both_families, self.token);
                let target = Target { id, local, remote, both_families, mptcp, limit_ns, token };
                let asks = client::start(target, self.inbox.outbox())?;
                self.connections.insert(id, asks);
                Ok(())
            }
            Action::Ask { id, steps, limit_ns } => {
                let asks = self.connections.get(&id).ok_or(Error::Key("id", "a connection"))?;
                asks.send(Ask { steps, limit_ns }).map_err(|_| Error::Connection)
            }
            Action::Trace { id, path, hops, attempts, wait_ns } => {
                let end = self.paths.get(path).ok_or(Error::Key("path", "a known path"))?;
                let target = trace::Target {
                    id,
                    path: u8::try_from(path).map_err(|_| Error::Key("path", "at most 255"))?,
                    local: self.addresses[end.local],
                    remote: end.peer.ok_or(Error::Key("path", "a path with a peer"))?,
                    hops: hops.min(trace::MOST_HOPS),
                    attempts,
                    wait_ns,
                    token: self.token,
                };
                Ok(trace::start(target, self.inbox.outbox())?)
            }
            Action::End { id } => {
                self.connections.remove(&id);
                Ok(())
            }
        }
    }

    fn set_paths(&mut self, paths: Vec<PathEnd>) -> Result<(), Error> {
        if paths.len() > MAX_PATHS || paths.iter().any(|path| path.local >= self.endpoints.len()) {
            return Err(Error::Key("paths", "at most 256, between known addresses"));
        }
        self.paths = paths;
        Ok(())
    }

    fn check(&self, flow: &FlowSpec) -> Result<(), Error> {
        let path = self.paths.get(flow.path).ok_or(Error::Key("flows: path", "a known path"))?;
        let (least, most) = self.endpoints[path.local].sizes();
        if !(least..=most).contains(&flow.bytes) {
            return Err(Error::Bytes { least, most, found: flow.bytes });
        }
        if flow.packets > MAX_PACKETS {
            return Err(Error::Packets(flow.packets));
        }
        Ok(())
    }
}

/// The listeners, and a socket for datagrams at each address, all on one port if there are listeners.
fn sockets(config: &Config, token: Token) -> io::Result<(Option<Server>, Vec<Endpoint>)> {
    let server = match config.listens {
        true => Some(Server::open(&config.addresses, config.port, config.both_families, token)?),
        false => None,
    };
    let port = server.as_ref().map_or(config.port, |server| server.port);
    let endpoints: io::Result<_> =
        config.addresses.iter().map(|&ip| Endpoint::open(ip, port)).collect();
    Ok((server, endpoints?))
}
