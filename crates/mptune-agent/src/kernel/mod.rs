//! The interfaces of the kernel, each once: the ground of the crate, below all roles.
//!
//! | module | |
//! |---|---|
//! | `sys`, `signals`, `seccomp` | system calls that `std` lacks; with `libbpf` the only files with unsafe code |
//! | `libbpf` | the machine's own libbpf, which registers a congestion control |
//! | `netlink` | a netlink socket: questions, dumps, commands, events |
//! | `mptcp_pm` | its generic family of path management: commands, events, endpoints and limits |
//! | `diag` | sockets as sock_diag reports them |
//! | `info`, `apart` | `struct tcp_info` and `struct mptcp_info`; what older kernels give of them |
//! | `routes` | devices, addresses, routes and rules |
//! | `release` | the kernel's release |
//! | `offloads` | segmentation and aggregation by devices |
//! | `address`, `pair`, `prefix` | addresses in the kernel's layout; the two ends of a subflow; prefixes |
//!
//! The codecs are those of the rust-netlink crates; what these lack (the commands and events of
//! userspace path managers, the attributes of a subflow) is added on top of them. Nothing is decided
//! here, and nothing here knows a role.

pub mod address;
/// One text serves the library of `exec`, which depends on nothing, and the agent.
#[path = "../../../mptune-preload/src/apart.rs"]
pub mod apart;
pub mod diag;
pub mod error;
pub mod info;
pub mod libbpf;
pub mod mptcp_pm;
pub mod netlink;
pub mod offloads;
pub mod pair;
pub mod prefix;
pub mod release;
pub mod routes;
pub mod seccomp;
pub mod signals;
pub mod sys;
pub mod sysctl;
#[cfg(test)]
pub mod testing;
