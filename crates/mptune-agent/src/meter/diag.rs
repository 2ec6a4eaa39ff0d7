//! Priority, address numbers and congestion control of one subflow, over the kernel's socket diagnostics
//! (sock_diag).
//!
//! `MPTCP_FULL_INFO` has neither. Layouts: Linux `include/uapi/linux/netlink.h`, `sock_diag.h`,
//! `inet_diag.h` and `mptcp.h`. The kernel answers within the request's system call.

use crate::kernel::address;
use crate::kernel::sys;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_ULP_INFO_MPTCP: u16 = 3;
const MPTCP_SUBFLOW_ATTR_FLAGS: u16 = 8;
const MPTCP_SUBFLOW_ATTR_ID_REM: u16 = 9;
const MPTCP_SUBFLOW_ATTR_ID_LOC: u16 = 10;
/// `MPTCP_SUBFLOW_FLAG_BKUP_REM` and `_LOC`: the peer, or this end, made the subflow a backup;
/// either keeps this end's scheduler off it (net/mptcp/protocol.c, `mptcp_subflow_get_send`).
const FLAGS_BACKUP: u32 = 1 << 4 | 1 << 5;
/// `struct nlmsghdr`, bytes.
const HEADER: usize = 16;
/// `struct inet_diag_msg`, bytes.
const MESSAGE: usize = 72;
/// The two bits of an attribute type that are not the type.
const TYPE_MASK: u16 = 0x3fff;

/// What sock_diag reports about a subflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubflowDiag {
    /// Carries no data while a non-backup subflow is alive; none for plain TCP.
    pub backup: Option<bool>,
    /// Name of its congestion control.
    pub cc: Option<String>,
    /// The number of its local address; none for plain TCP.
    pub local_id: Option<u8>,
    /// The number of its remote address, which the peer gave it.
    pub remote_id: Option<u8>,
}

/// A connection to sock_diag in the namespace of the thread that opened it.
pub struct Diag {
    netlink: File,
}

impl Diag {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        let netlink = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG)?;
        Ok(Self { netlink: netlink.into() })
    }

    /// The TCP socket between `local` and `remote`; none if there is none, or if it does not
    /// answer.
    pub fn subflow(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<SubflowDiag> {
        self.netlink.write_all(&request(local, remote)).ok()?;
        let mut answer = [0; 8192];
        let length = self.netlink.read(&mut answer).ok()?;
        parse(&answer[..length])
    }
}

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let extensions = 1u8 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    let family = address::family(local.ip()) as u8;
    let mut body = vec![family, libc::IPPROTO_TCP as u8, extensions, 0];
    body.extend(u32::MAX.to_ne_bytes()); // any state
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    for ip in [local.ip(), remote.ip()] {
        let start = body.len();
        match ip {
            IpAddr::V4(ip) => body.extend(ip.octets()),
            IpAddr::V6(ip) => body.extend(ip.octets()),
        }
        body.resize(start + 16, 0);
    }
    body.extend(0u32.to_ne_bytes()); // any device
    body.extend(u64::MAX.to_ne_bytes()); // no cookie
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence number and port: one request at a time
    message.extend(body);
    message
}

fn parse(answer: &[u8]) -> Option<SubflowDiag> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind != SOCK_DIAG_BY_FAMILY {
        return None; // an error, such as ENOENT for a socket that is gone
    }
    let attributes = answer.get(HEADER + MESSAGE..)?;
    let cc = attribute(attributes, INET_DIAG_CONG);
    let mptcp = attribute(attributes, INET_DIAG_ULP_INFO)
        .and_then(|ulp| attribute(ulp, INET_ULP_INFO_MPTCP));
    let flags = mptcp
        .and_then(|mptcp| attribute(mptcp, MPTCP_SUBFLOW_ATTR_FLAGS))
        .and_then(|flags| Some(u32::from_ne_bytes(flags.try_into().ok()?)));
    let id = |kind| mptcp.and_then(|mptcp| attribute(mptcp, kind)?.first().copied());
    Some(SubflowDiag {
        backup: flags.map(|flags| flags & FLAGS_BACKUP != 0),
        cc: cc.map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()),
        local_id: id(MPTCP_SUBFLOW_ATTR_ID_LOC),
        remote_id: id(MPTCP_SUBFLOW_ATTR_ID_REM),
    })
}

/// The payload of the first attribute of a type.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?) & TYPE_MASK;
        let payload = attributes.get(4..length)?;
        if kind == wanted {
            return Some(payload);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + payload.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn answer(flags: u32) -> Vec<u8> {
        let mptcp = [
            encoded(1, &[9; 4]),
            encoded(MPTCP_SUBFLOW_ATTR_FLAGS, &flags.to_ne_bytes()),
            encoded(MPTCP_SUBFLOW_ATTR_ID_REM, &[3]),
            encoded(MPTCP_SUBFLOW_ATTR_ID_LOC, &[2]),
        ];
        let nested = encoded(INET_ULP_INFO_MPTCP, &mptcp.concat());
        let ulp = [encoded(1, b"mptcp\0"), nested].concat();
        let mut bytes = vec![0; HEADER + MESSAGE];
        bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes.extend(encoded(INET_DIAG_INFO, &[0; 248]));
        bytes.extend(encoded(INET_DIAG_CONG, b"cubic\0"));
        bytes.extend(encoded(INET_DIAG_ULP_INFO, &ulp));
        bytes
    }

    #[test]
    fn either_end_can_make_a_subflow_a_backup() {
        for (flags, backup) in [(0x1cf, false), (1 << 4, true), (1 << 5, true)] {
            let found = parse(&answer(flags)).unwrap();
            let (cc, local_id, remote_id) = (Some("cubic".into()), Some(2), Some(3));
            assert_eq!(found, SubflowDiag { backup: Some(backup), cc, local_id, remote_id });
        }
    }

    #[test]
    fn truncated_answers_are_harmless() {
        let whole = answer(0);
        for length in 0..whole.len() {
            let cut = parse(&whole[..length]);
            assert!(cut.is_none_or(|found| found.local_id.is_none()), "{length}");
        }
        assert_eq!(attribute(&[0; 64], 1), None);
    }
}
