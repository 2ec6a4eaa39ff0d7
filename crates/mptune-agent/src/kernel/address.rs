//! Socket addresses in the kernel's layout (`sockaddr_in`, `sockaddr_in6`), both ways.

use std::net::{IpAddr, SocketAddr};

/// The address family of `ip`.
pub fn family(ip: IpAddr) -> i32 {
    if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

/// The bytes of an address, in the order of the network: 4 or 16.
pub fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The bytes of a `sockaddr_in` (16) or `sockaddr_in6` (28, without flow label and scope).
pub fn encode(address: SocketAddr) -> Vec<u8> {
    let mut bytes = (family(address.ip()) as u16).to_ne_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    // Zeros follow the address of IPv4; the flow label is before that of IPv6, the scope after it.
    let (before, size) = if address.is_ipv4() { (0, 16) } else { (4, 28) };
    bytes.resize(bytes.len() + before, 0);
    bytes.extend(octets(address.ip()));
    bytes.resize(size, 0);
    bytes
}

/// The address, converted back if it is one of IPv4 inside IPv6.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The address as a socket of IPv6 takes it: one of IPv4 inside IPv6 (RFC 4291 section 2.5.5.2).
pub fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(_) => ip,
    }
}

/// The address at the start of `bytes`; none for another family or too few bytes.
pub fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match i32::from(family) {
        libc::AF_INET => <[u8; 4]>::try_from(bytes.get(4..8)?).ok()?.into(),
        libc::AF_INET6 => <[u8; 16]>::try_from(bytes.get(8..24)?).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_a_round_trip() {
        for text in ["10.64.0.1:5001", "[fd64:0:1::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(decode(&encode(address)), Some(address));
        }
    }

    #[test]
    fn ports_and_addresses_are_in_network_order() {
        let bytes = encode("1.2.3.4:258".parse().unwrap());
        assert_eq!(bytes[2..8], [1, 2, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_not_an_address_is_none() {
        assert_eq!(decode(&[0; 128]), None);
        assert_eq!(decode(&encode("1.2.3.4:5".parse().unwrap())[..7]), None);
    }
}
