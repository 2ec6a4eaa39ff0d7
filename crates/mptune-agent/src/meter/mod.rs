//! Saturated and fixed-size traffic, messages, requests and responses over MPTCP sockets, measured: the roles
//! `sender` and `receiver`.
//!
//! Two processes, perhaps on two machines, that share nothing but the network. What one must know
//! about the other passes through the controller, which started both, as lines of JSON:
//!
//! ```text
//! acceptor  in   {"job": {...}, "address": "10.65.0.1", "port": 0, "joins": ["10.65.0.1", ...]}
//!           out  {"event": "listening", "port": 40123, "plain_because": null}
//!           out  {"event": "accepted"}
//!           in   {"action": "connected", "handshake_ns": ..., "rtt_ns": ...}
//! opener    in   {"job": {...}, "local": "10.64.0.1", "remote": "10.65.0.1", "port": 40123}
//!           out  {"event": "connected", "handshake_ns": ..., "rtt_ns": ..., ...}
//! sender    out  {"event": "sent", "t_ns": ..., "bytes": ...} at each threshold
//! both      out  {"event": "result", "ending": {"kind": "complete"}, ...}
//!           in   {"action": "stop"}
//!           out  {"event": "error", "reason": "..."} instead of any of them, and status 1
//! ```
//!
//! The job is `config::Job`, the same for both. The sender is the opener and the receiver the acceptor, but where there
//! are requests: the receiver is the client then and the sender the server, and either may be told to be the opener.
//! The receiver measures: the payload in order over time, when a transfer is complete, and the delay of each message. Its
//! times count from the opener's `connect` call, although no clocks are compared (`clock`). What responses take is measured
//! on the client's clock alone. Messages both ways are timed by the half
//! at which they arrive, and the receiver ends them when its own are acknowledged, too. A saturated sender ends after the
//! duration, or before if the receiver ended early and the controller passed that on; any other when ordered to stop.
//! Each half keeps its socket until its standard input ends, because the other may not have read the connection's
//! statistics for the last time; then the connection is reset.
//!
//! The connection begins with the job's token, from its opener, which is no payload: by it the acceptor knows the trial's
//! connection among those of strangers (`candidates`).
//!
//! Not here: namespaces and addresses, the network (mptune-emulator), subflows (path managers open
//! them; the halves count what there is), combining both results (the controller).

mod beginning;
mod bins;
mod candidates;
mod client;
mod clock;
mod config;
mod counters;
mod error;
mod half;
mod listeners;
mod load;
mod messages;
mod opposite;
pub(crate) mod pattern;
pub mod receiver;
mod samples;
pub mod sender;
mod server;
pub(crate) mod socket;
mod subflows;
