//! The lines of JSON of role `probe`; `mod` has them as text.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The first line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// 32 hexadecimal digits.
    pub token: String,
    /// The addresses it may use, each once.
    pub addresses: Vec<IpAddr>,
    /// The port at all of them; 0 for any free one.
    #[serde(default)]
    pub port: u16,
    /// TCP connections arrive here.
    #[serde(default)]
    pub listens: bool,
    /// TCP connections may have subflows of both address families.
    #[serde(default)]
    pub both_families: bool,
}

/// A path as one end sees it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEnd {
    /// Number of its local address.
    pub local: usize,
    /// The other end; none if it is learned from what arrives (behind an address translation).
    #[serde(default)]
    pub peer: Option<SocketAddr>,
}

/// Datagrams of one size on one path.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Number of the path.
    pub path: usize,
    /// Number of packets.
    pub packets: u32,
    /// Size of each, with the headers of IP and UDP.
    pub bytes: usize,
    /// Time from one to the next; 0 for as fast as possible.
    #[serde(default)]
    pub interval_ns: u64,
    /// Time of the first packet, since the order.
    #[serde(default)]
    pub start_ns: u64,
    /// Each is to be answered.
    #[serde(default)]
    pub answer: bool,
    /// Arrival times are recorded, not only their number.
    #[serde(default)]
    pub timed: bool,
}

/// A step on a TCP connection; steps are carried out in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// This many requests of a few bytes, one after the other, each answered.
    Ping(u32),
    /// This many bytes to the server.
    Upload(u64),
    /// This many bytes from the server.
    Download(u64),
}

/// A later line.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum Action {
    /// The paths, by number from now on.
    Paths {
        /// In order.
        paths: Vec<PathEnd>,
    },
    /// Send datagrams.
    Send {
        /// Number of the order.
        id: u32,
        /// Flows, side by side or one after the other, depending on their times.
        flows: Vec<FlowSpec>,
        /// Time for answers after the last packet.
        #[serde(default)]
        wait_ns: u64,
    },
    /// Report what arrived of an order, once it is complete or nothing has come for a while.
    Collect {
        /// Number of the order.
        id: u32,
        /// Packets of each flow.
        packets: Vec<u32>,
        /// That while.
        quiet_ns: u64,
    },
    /// Open a TCP connection to the other end's listener.
    Connect {
        /// Number of the connection.
        id: u32,
        /// Number of the path.
        path: usize,
        /// The port there.
        port: u16,
        /// Multipath TCP.
        mptcp: bool,
        /// Time to connect.
        limit_ns: u64,
    },
    /// Do something on a connection.
    Ask {
        /// Its number.
        id: u32,
        /// The steps.
        steps: Vec<Step>,
        /// Time for them.
        limit_ns: u64,
    },
    /// Trace the routers of a path to its other end.
    Trace {
        /// Number of the order.
        id: u32,
        /// Number of the path.
        path: usize,
        /// Largest hop limit.
        hops: u8,
        /// Datagrams for a hop that does not answer.
        attempts: u8,
        /// Time in which a hop must answer.
        wait_ns: u64,
    },
    /// End a connection.
    End {
        /// Its number.
        id: u32,
    },
}

/// Report of a flow that was sent.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Packets that left.
    pub sent: u32,
    /// Packets that this machine refused to send.
    pub refused: u32,
    /// The reason of the last refusal.
    pub because: Option<String>,
    /// Time from the first to the last.
    pub span_ns: u64,
    /// Answers.
    pub answered: u32,
    /// Smallest round-trip time, without the time that the other end took.
    pub min_rtt_ns: Option<u64>,
    /// Round-trip times in order of arrival; of many every n-th.
    pub rtt_ns: Vec<u64>,
}

/// Arrivals of a flow. Times in units of `packet::STAMP_NS`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Arrived {
    /// Different packets.
    pub received: u32,
    /// Duplicates.
    pub duplicates: u32,
    /// Numbers of timed packets, in order of arrival.
    pub seq: Vec<u32>,
    /// Sending times, since the flow's first packet, by the sender's clock.
    pub sent: Vec<u32>,
    /// Arrival times, since the first packet of the order, by this machine's clock.
    pub arrived: Vec<u64>,
}

/// A subflow as seen by one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subflow {
    /// Own address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Payload bytes that arrived on it.
    pub received: u64,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Smallest round-trip time.
    pub min_rtt_ns: u64,
}

/// A connection as seen by one end.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    /// It is Multipath TCP at this moment, without the fallback flag.
    pub mptcp: bool,
    /// Its subflows.
    pub subflows: Vec<Subflow>,
    /// Payload of the last transfer to this end: milliseconds since its first byte, and bytes.
    pub arrived: Vec<(u64, u64)>,
}

/// Router on a route, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Its address; none if it did not answer.
    pub address: Option<IpAddr>,
    /// Time from the datagram to its answer.
    pub rtt_ns: Option<u64>,
}

/// A line of output.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Message {
    /// It waits for orders.
    Ready {
        /// Port of every address, for datagrams.
        ports: Vec<u16>,
        /// Port of all addresses for TCP; none if it does not listen.
        tcp: Option<u16>,
        /// The reason for plain TCP connections; none if they need not be.
        plain_because: Option<String>,
    },
    /// An order was carried out.
    Sent {
        /// Its number.
        id: u32,
        /// Its flows.
        flows: Vec<Sent>,
    },
    /// Arrivals of an order of the other end.
    Collected {
        /// Its number.
        id: u32,
        /// Its flows.
        flows: Vec<Arrived>,
        /// Sources of each path's packets.
        sources: Vec<Option<SocketAddr>>,
    },
    /// A connection was opened, or not.
    Connected {
        /// Its number.
        id: u32,
        /// The reason for no connection.
        failed: Option<String>,
        /// Duration of connecting.
        took_ns: u64,
        /// Multipath TCP in the peer's SYN-ACK: "mptcp", "mirrored" (our own option came back)
        /// or "plain"; none if this process may not look.
        syn_ack: Option<&'static str>,
        /// The connection as seen from here.
        view: View,
    },
    /// Everything was done on a connection, or not.
    Asked {
        /// Its number.
        id: u32,
        /// The reason of an early end.
        failed: Option<String>,
        /// Durations of the requests.
        pings_ns: Vec<u64>,
        /// The connection as seen from here.
        view: View,
    },
    /// A route was traced.
    Traced {
        /// Number of the order.
        id: u32,
        /// Reason of its early end.
        failed: Option<String>,
        /// It leads to the other end.
        reached: bool,
        /// Its hops from the first router on; the last is the other end, if it was reached.
        hops: Vec<Hop>,
    },
    /// A connection as seen by its acceptor, after each `Ask` of the other end.
    Served {
        /// Its number.
        id: u32,
        /// Its source.
        from: SocketAddr,
        /// Its view.
        view: View,
    },
}
