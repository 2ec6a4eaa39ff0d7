//! The most endpoints, and the most of either limit, that this kernel takes.
//!
//! It tells neither: 8 of each until Linux 6.18, 255 and 64 in 7.3 (net/mptcp/pm_kernel.c). They are tried in a
//! network namespace of our own, which ends with the thread that is in it.

use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::endpoints::{Endpoint, Limits, PathManager, SUBFLOW};
use crate::kernel::sys;
use serde::Serialize;
use std::net::Ipv4Addr;
use std::thread;

/// Number of each that every kernel takes.
pub const EVERY: u32 = 8;

/// Largest numbers that the kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Most {
    /// Endpoints of a network namespace.
    pub endpoints: u32,
    /// Subflows beyond the first, and addresses accepted.
    pub subflows: u32,
}

/// Tries; none where this process may not have a namespace of its own, or there is no MPTCP.
pub fn read() -> Option<Most> {
    thread::spawn(|| {
        sys::unshare(libc::CLONE_NEWNET).ok()?;
        tried(&mut PathManager::open().ok()?).ok()
    })
    .join()
    .ok()?
}

fn tried(manager: &mut PathManager) -> Result<Most, Error> {
    // The limits are a byte each; whoever refuses one refuses all above it.
    let (mut least, mut most) = (0, u32::from(u8::MAX));
    while least < most {
        let middle = (least + most).div_ceil(2);
        let limits = Limits { subflows: middle, add_addr_accepted: middle };
        match manager.set_limits(limits) {
            Ok(()) => least = middle,
            Err(Error::Refused(_)) => most = middle - 1,
            Err(error) => return Err(error),
        }
    }
    let mut endpoints = 0;
    for id in 1..=u8::MAX {
        let ip = Ipv4Addr::new(10, 0, 0, id).into();
        match manager.add(&Endpoint { id, ip, port: 0, flags: SUBFLOW, device: 0 }) {
            Ok(()) => endpoints += 1,
            Err(Error::Refused(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Most { endpoints, subflows: least })
}
