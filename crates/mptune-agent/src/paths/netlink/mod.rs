//! The kernel's side of path management over netlink: events and commands of the generic family
//! `mptcp_pm`, and the statistics of subflows over sock_diag.
//!
//! The codecs are those of the rust-netlink crates; what these lack (the commands and events of
//! userspace path managers, the attributes of a subflow) is added on top of them. Nothing is decided
//! here.

pub mod commands;
pub mod diag;
pub mod error;
pub mod events;
pub mod family;
pub mod socket;
#[cfg(test)]
mod testing;
