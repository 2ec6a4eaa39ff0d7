//! The kernel's generic netlink family `mptcp_pm`: what all its commands share (`family`), commands and events of
//! userspace path managers, endpoints and limits of the kernel's own, and how many of these it takes.

pub mod commands;
pub mod endpoints;
pub mod events;
pub mod family;
pub mod most;
