//! Segmentation and aggregation by devices, which change the packets on the wire (ethtool(8)).

use crate::kernel::sys;
use std::os::fd::AsFd;

/// By their commands (include/uapi/linux/ethtool.h).
const OFFLOADS: [(&str, u32); 3] = [("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b)];

/// The offloads of a device that are on.
pub fn of(device: &str) -> Vec<&'static str> {
    let Ok(socket) = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return Vec::new() };
    let on = |command| sys::ethtool(socket.as_fd(), device, command).is_ok_and(|value| value != 0);
    OFFLOADS.iter().filter(|(_, command)| on(*command)).map(|(name, _)| *name).collect()
}
