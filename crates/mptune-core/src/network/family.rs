//! The version of IP, and what it adds to a packet.

use serde::Deserialize;

/// IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4, without options.
    #[default]
    Ipv4,
    /// IPv6, without extension headers.
    Ipv6,
}

impl Family {
    /// Bytes by which its header is longer than that of IPv4 (RFC 8200 section 3: 40 instead of 20).
    pub fn longer_header(self) -> u32 {
        match self {
            Self::Ipv4 => 0,
            Self::Ipv6 => 20,
        }
    }
}
