//! A subflow as part of its connection, as sock_diag reports it (include/uapi/linux/mptcp.h).

use netlink_packet_core::{DecodeError, NlaBuffer, NlasIterator, parse_u8, parse_u32};

/// The attribute of the protocol above TCP that is MPTCP's.
pub const INET_ULP_INFO_MPTCP: u16 = 3;
// MPTCP_SUBFLOW_FLAG_*: what this side asked for in the handshake and since.
const FLAG_CAPABLE_THERE: u32 = 1 << 0;
const FLAG_CAPABLE_HERE: u32 = 1 << 1;
const FLAG_JOIN_THERE: u32 = 1 << 2;
const FLAG_JOIN_HERE: u32 = 1 << 3;
const FLAG_BACKUP_THERE: u32 = 1 << 4;
const FLAG_BACKUP_HERE: u32 = 1 << 5;
const FLAG_FULLY_ESTABLISHED: u32 = 1 << 6;

/// A subflow as part of an MPTCP connection, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mptcp {
    /// The connection's token here; 0 if the kernel does not report it.
    pub token: u32,
    /// The connection's token at the peer.
    pub remote_token: u32,
    /// The number of its local address.
    pub local_id: u8,
    /// The number of its remote address.
    pub remote_id: u8,
    /// This side made it standby.
    pub backup: bool,
    /// The peer made it standby.
    pub backup_by_peer: bool,
    /// This side opened it as the first of its connection.
    pub opened_connection: bool,
    /// The peer opened it as the first of its connection.
    pub accepted_connection: bool,
    /// This side opened it as a further one.
    pub joined: bool,
    /// Its connection is fully established (RFC 8684 section 3.1), and may have further subflows.
    pub fully_established: bool,
}

impl Mptcp {
    /// From the attribute for the protocol above TCP; none if that is not MPTCP.
    pub fn parse(ulp: &NlaBuffer<&[u8]>) -> Result<Option<Self>, DecodeError> {
        for attribute in NlasIterator::new(ulp.value()) {
            let attribute = attribute?;
            if attribute.kind() == INET_ULP_INFO_MPTCP {
                return Self::parse_subflow(attribute.value()).map(Some);
            }
        }
        Ok(None)
    }

    /// enum MPTCP_SUBFLOW_ATTR_*
    fn parse_subflow(buffer: &[u8]) -> Result<Self, DecodeError> {
        let mut subflow = Self::default();
        for attribute in NlasIterator::new(buffer) {
            let attribute = attribute?;
            let value = attribute.value();
            match attribute.kind() {
                1 => subflow.remote_token = parse_u32(value)?,
                2 => subflow.token = parse_u32(value)?,
                8 => subflow.note_flags(parse_u32(value)?),
                9 => subflow.remote_id = parse_u8(value)?,
                10 => subflow.local_id = parse_u8(value)?,
                _ => {}
            }
        }
        Ok(subflow)
    }

    fn note_flags(&mut self, flags: u32) {
        self.backup = flags & FLAG_BACKUP_HERE != 0;
        self.backup_by_peer = flags & FLAG_BACKUP_THERE != 0;
        // One that asked, and was not answered by MPTCP, is plain TCP.
        let capable = FLAG_CAPABLE_HERE | FLAG_CAPABLE_THERE;
        self.opened_connection = flags & capable == capable;
        let others = FLAG_CAPABLE_HERE | FLAG_JOIN_HERE | FLAG_JOIN_THERE;
        self.accepted_connection = flags & (FLAG_CAPABLE_THERE | others) == FLAG_CAPABLE_THERE;
        self.joined = flags & FLAG_JOIN_HERE != 0;
        let further = FLAG_FULLY_ESTABLISHED | FLAG_JOIN_HERE | FLAG_JOIN_THERE;
        self.fully_established = flags & further != 0;
    }
}
