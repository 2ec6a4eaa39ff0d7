//! The two ends of a subflow.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::net::{IpAddr, SocketAddr};

/// The two ends of a subflow, seen from this side, as the kernel stores them: an IPv4 address inside
/// an IPv6 socket is an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// This side's.
    pub local: SocketAddr,
    /// The other side's.
    pub remote: SocketAddr,
}

impl Pair {
    /// Local and remote address; IPv4 addresses mapped into IPv6 are converted back.
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        (self.local.ip().to_canonical(), self.remote.ip().to_canonical())
    }

    /// IPv4 addresses inside an IPv6 socket.
    pub fn is_mapped(&self) -> bool {
        self.local.is_ipv6() && self.addresses().0.is_ipv4()
    }
}

impl Serialize for Pair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_struct("Pair", 2)?;
        pair.serialize_field("local", &End(self.local))?;
        pair.serialize_field("remote", &End(self.remote))?;
        pair.end()
    }
}

/// An address and a port in a report.
struct End(SocketAddr);

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut end = serializer.serialize_struct("Endpoint", 2)?;
        end.serialize_field("address", &self.0.ip().to_canonical())?;
        end.serialize_field("port", &self.0.port())?;
        end.end()
    }
}
