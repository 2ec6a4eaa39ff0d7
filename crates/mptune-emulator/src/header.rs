//! The part of an IP header that the network reads, addresses, flow and ECN field, and the mark that it sets.
//!
//! IPv4 as in RFC 791, IPv6 as in RFC 8200, the ECN field as in RFC 3168 section 5.

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// The ECN codepoint CE (congestion experienced).
const CE: u8 = 0b11;

/// Source and destination of a packet, as in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    V4([u8; 8]),
    V6([u8; 32]),
}

/// The parts of a header that determine the packet's treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub addresses: Addresses,
    /// Addresses, protocol and ports as one number.
    pub flow: u32,
    /// It may be marked instead of dropped, or is already marked.
    pub is_ect: bool,
}

/// Reads the header of a complete packet; none if it is not one.
pub(crate) fn parse(packet: &[u8]) -> Option<Header> {
    match packet.first()? >> 4 {
        4 => parse_ipv4(packet),
        6 => parse_ipv6(packet),
        _ => None,
    }
}

fn parse_ipv4(packet: &[u8]) -> Option<Header> {
    let header = usize::from(packet[0] & 0xF) * 4;
    if header < IPV4_HEADER || word(packet, 2)? != packet.len() || packet.len() < header {
        return None;
    }
    // Only the first fragment has ports (more fragments: 0x2000, offset: 0x1FFF), and all fragments are one
    // flow.
    let whole = word(packet, 6)? & 0x3FFF == 0;
    let addresses: [u8; 8] = packet[12..20].try_into().ok()?;
    let ports = if whole { ports(packet[9], &packet[header..]) } else { &[] };
    let flow = Hash::new().add(&addresses).add(&packet[9..10]).add(ports).finish();
    let is_ect = packet[1] & CE != 0;
    Some(Header { addresses: Addresses::V4(addresses), flow, is_ect })
}

/// Ports after extension headers are not read.
fn parse_ipv6(packet: &[u8]) -> Option<Header> {
    if word(packet, 4)? + IPV6_HEADER != packet.len() {
        return None;
    }
    let addresses: [u8; 32] = packet[8..IPV6_HEADER].try_into().ok()?;
    let ports = ports(packet[6], &packet[IPV6_HEADER..]);
    let flow = Hash::new().add(&addresses).add(&packet[6..7]).add(ports).finish();
    let is_ect = packet[1] >> 4 & CE != 0;
    Some(Header { addresses: Addresses::V6(addresses), flow, is_ect })
}

/// A 16-bit number of a header.
fn word(packet: &[u8], at: usize) -> Option<usize> {
    let bytes = packet.get(at..at + 2)?.try_into().ok()?;
    Some(usize::from(u16::from_be_bytes(bytes)))
}

/// Both ports, if the protocol has ports.
fn ports(protocol: u8, payload: &[u8]) -> &[u8] {
    let known = matches!(protocol, TCP | UDP) && payload.len() >= 4;
    if known { &payload[..4] } else { &[] }
}

/// Sets the ECN field to CE; the packet must be one that [`parse`] read.
pub(crate) fn mark_ce(packet: &mut [u8]) {
    if packet[0] >> 4 == 6 {
        packet[1] |= CE << 4;
        return;
    }
    let word = u16::from_be_bytes([packet[0], packet[1] | CE]);
    replace(packet, 0, word, 10);
}

/// Sets a word and updates the checksum that covers it.
pub(crate) fn replace(bytes: &mut [u8], at: usize, new: u16, checksum_at: usize) {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let checksum = u16::from_be_bytes([bytes[checksum_at], bytes[checksum_at + 1]]);
    bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
    bytes[checksum_at..checksum_at + 2].copy_from_slice(&updated(checksum, old, new).to_be_bytes());
}

/// The checksum after one of the words it covers changed (RFC 1624, equation 3).
pub(crate) fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    // Three 16-bit numbers carry at most 2, so one fold may leave another carry.
    let sum = (sum & 0xFFFF) + (sum >> 16);
    !((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// FNV-1a: queues that separate flows mix it again with their own salt.
struct Hash(u32);

impl Hash {
    fn new() -> Self {
        Self(0x811C_9DC5)
    }

    fn add(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, &b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193)))
    }

    fn finish(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// A UDP packet with a correct IPv4 header checksum and `payload` bytes of `fill`.
    pub(crate) fn udp(
        source: IpAddr,
        destination: IpAddr,
        port: u16,
        ecn: u8,
        fill: u8,
        payload: usize,
    ) -> Vec<u8> {
        let length = 8 + payload;
        let mut packet = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = (IPV4_HEADER + length) as u16;
                let mut header = vec![0x45, ecn];
                header.extend(total.to_be_bytes());
                header.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
                header.extend(source.octets().into_iter().chain(destination.octets()));
                let checksum = !sum(&header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = vec![0x60, ecn << 4, 0, 0];
                header.extend((length as u16).to_be_bytes());
                header.extend([UDP, 64]);
                header.extend(source.octets().into_iter().chain(destination.octets()));
                header
            }
            _ => panic!("addresses of one family"),
        };
        packet.extend(port.to_be_bytes());
        packet.extend([0, 7, 0, 0, 0, 0]);
        packet.resize(packet.len() + payload, fill);
        packet
    }

    /// One's complement sum of 16-bit words (RFC 1071), the plain way.
    pub(crate) fn sum(bytes: &[u8]) -> u16 {
        let low = |pair: &[u8]| pair.get(1).copied().unwrap_or(0);
        let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(low(pair)));
        let mut sum: u64 = words.sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        sum as u16
    }

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([10, 64, 0, last])
    }

    #[test]
    fn ports_separate_flows_unless_they_are_fragments() {
        let flow = |port, fragment: u16| {
            let mut packet = udp(v4(1), v4(2), port, 0, 0, 10);
            packet[6..8].copy_from_slice(&fragment.to_be_bytes());
            parse(&packet).expect("a packet").flow
        };
        assert_ne!(flow(1, 0x4000), flow(2, 0x4000));
        assert_eq!(flow(1, 0x2000), flow(2, 0x0001));
        let reverse = parse(&udp(v4(2), v4(1), 1, 0, 0, 10)).expect("a packet").flow;
        assert_ne!(flow(1, 0x4000), reverse);
    }

    #[test]
    fn a_packet_that_is_cut_off_is_none() {
        for (source, destination) in
            [(v4(1), v4(2)), (IpAddr::from([1u16; 8]), IpAddr::from([2u16; 8]))]
        {
            let packet = udp(source, destination, 1, 0, 0, 30);
            assert!(parse(&packet).is_some());
            for length in 0..packet.len() {
                assert_eq!(parse(&packet[..length]), None);
            }
        }
    }

    fn address_pair() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        prop_oneof![
            any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (a.into(), b.into())),
            any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (a.into(), b.into())),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_was_written_is_read((source, destination) in address_pair(), ecn in 0u8..4, payload in 0usize..1400) {
            let packet = udp(source, destination, 9, ecn, 3, payload);
            let header = parse(&packet).expect("a packet");
            let expected = match (source, destination) {
                (IpAddr::V4(a), IpAddr::V4(b)) => [a.octets(), b.octets()].concat(),
                (IpAddr::V6(a), IpAddr::V6(b)) => [a.octets(), b.octets()].concat(),
                _ => unreachable!("addresses of one family"),
            };
            let found = match header.addresses {
                Addresses::V4(bytes) => bytes.to_vec(),
                Addresses::V6(bytes) => bytes.to_vec(),
            };
            prop_assert_eq!(found, expected);
            prop_assert_eq!(header.is_ect, ecn != 0);
        }

        #[test]
        fn a_mark_changes_the_field_and_the_checksum_stays_right(
            (source, destination) in address_pair(), dscp in 0u8..64, ecn in 1u8..4,
        ) {
            let mut packet = udp(source, destination, 9, ecn, 3, 20);
            if packet[0] >> 4 == 4 {
                packet[1] |= dscp << 2;
                packet[10..12].fill(0);
                let checksum = !sum(&packet[..IPV4_HEADER]);
                packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            } else {
                packet[0] |= dscp >> 2;
                packet[1] |= dscp << 6;
            }
            let before = packet.clone();
            mark_ce(&mut packet);
            let class = |p: &[u8]| if p[0] >> 4 == 4 { p[1] } else { p[0] << 4 | p[1] >> 4 };
            prop_assert_eq!(class(&packet), dscp << 2 | CE);
            if packet[0] >> 4 == 4 {
                prop_assert_eq!(sum(&packet[..IPV4_HEADER]), 0xFFFF);
            }
            prop_assert_eq!(&packet[12..], &before[12..]);
            let once = packet.clone();
            mark_ce(&mut packet);
            prop_assert_eq!(packet, once);
        }
    }
}
