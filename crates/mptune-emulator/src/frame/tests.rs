//! Segments, checked as by a receiver: they add up to the packet, and every checksum is right once the device has
//! finished it.

use super::*;
use crate::header::parse;
use crate::header::tests::sum;
use proptest::prelude::*;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;

/// A TSO packet.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub v6: bool,
    pub ecn: u8,
    pub identification: u16,
    pub sequence: u32,
    pub flags: u8,
    /// Bytes of TCP options, a multiple of 4 up to 40.
    pub options: usize,
    pub payload: Vec<u8>,
    /// Payload of a segment.
    pub segment: u16,
}

impl Sent {
    /// As a device provides it: from the sender's first interface to the receiver's first.
    pub fn bytes(&self) -> Vec<u8> {
        let mut tcp = vec![0x30, 0x39, 0, 7];
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend([0, 0, 0, 1, (5 + self.options as u8 / 4) << 4, self.flags, 1, 0, 0, 0, 0, 0]);
        tcp.resize(TCP_HEADER + self.options, 1);
        tcp.extend(&self.payload);
        let mut ip = self.ip(tcp.len());
        let pseudo = sum(&pseudo_header(&ip, tcp.len()));
        tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&pseudo.to_be_bytes());
        let mut bytes = vec![NEEDS_CHECKSUM, if self.v6 { TCP_V6 } else { TCP_V4 }];
        if self.flags & CWR != 0 {
            bytes[1] |= ECN;
        }
        let headers = ip.len() + TCP_HEADER + self.options;
        for number in [headers as u16, self.segment, ip.len() as u16, CHECKSUM as u16] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.append(&mut ip);
        bytes.append(&mut tcp);
        bytes
    }

    fn ip(&self, length: usize) -> Vec<u8> {
        if self.v6 {
            let mut ip = vec![0x60, self.ecn << 4, 0, 0];
            ip.extend((length as u16).to_be_bytes());
            ip.extend([6, 64]);
            ip.extend("fd64:0:0::1".parse::<std::net::Ipv6Addr>().expect("an address").octets());
            ip.extend("fd65:0:0::1".parse::<std::net::Ipv6Addr>().expect("an address").octets());
            return ip;
        }
        let mut ip = vec![0x45, self.ecn];
        ip.extend((20 + length as u16).to_be_bytes());
        ip.extend(self.identification.to_be_bytes());
        ip.extend([0x40, 0, 64, 6, 0, 0, 10, 64, 0, 1, 10, 65, 0, 1]);
        let checksum = !sum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip
    }
}

/// TCP's pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
fn pseudo_header(ip: &[u8], length: usize) -> Vec<u8> {
    let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
    let mut header = addresses.to_vec();
    header.extend((length as u32).to_be_bytes());
    header.extend([0, 0, 0, 6]);
    header
}

/// All packets of a frame as they are given to a device.
pub(crate) fn written(bytes: &[u8]) -> Vec<Vec<u8>> {
    let frame = Frame::parse(bytes).expect("a frame");
    let packet = |number| {
        // From an earlier packet; must not show.
        let mut slot = vec![0xEE; PREFIX + frame.largest()];
        let length = frame.write(number, &mut slot);
        slot.truncate(PREFIX + length);
        slot
    };
    (0..frame.count()).map(packet).collect()
}

/// The packet once the device has finished its checksum: it covers everything from `start`, and is stored at
/// `offset`.
fn finished(written: &[u8]) -> Vec<u8> {
    let number = |at: usize| usize::from(u16::from_ne_bytes([written[at], written[at + 1]]));
    let (length, start, offset) = (number(2), number(6), number(8));
    let mut packet = written[PREFIX..].to_vec();
    assert_eq!((written[0], written[1], number(4), length), (NEEDS_CHECKSUM, 0, 0, packet.len()));
    let checksum = !sum(&packet[start..]);
    packet[start + offset..start + offset + 2].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn sent() -> impl Strategy<Value = Sent> {
    let headers = (any::<bool>(), 0u8..4, any::<u16>(), any::<u32>(), any::<u8>(), 0usize..=10);
    (headers, prop::collection::vec(any::<u8>(), 1..9000), 1u16..2000).prop_map(
        |((v6, ecn, identification, sequence, flags, options), payload, segment)| Sent {
            v6,
            ecn,
            identification,
            sequence,
            flags,
            options: 4 * options,
            payload,
            segment,
        },
    )
}

proptest! {
    #[test]
    fn segments_are_what_was_sent(sent in sent()) {
        let segments = written(&sent.bytes());
        let (ip, segment) = (if sent.v6 { 40 } else { 20 }, usize::from(sent.segment));
        let headers = ip + TCP_HEADER + sent.options;
        prop_assert_eq!(segments.len(), sent.payload.len().div_ceil(segment));
        let mut payload: Vec<u8> = Vec::new();
        for (number, written) in segments.iter().enumerate() {
            let packet = finished(written);
            let tcp = &packet[ip..];
            prop_assert!(parse(&packet).is_some_and(|header| header.is_ect == (sent.ecn != 0)));
            let sequence = sent.sequence.wrapping_add(payload.len() as u32);
            prop_assert_eq!(&tcp[SEQUENCE..SEQUENCE + 4], &sequence.to_be_bytes());
            let is_last = number + 1 == segments.len();
            let absent = if is_last { 0 } else { FIN | PSH } | if number > 0 { CWR } else { 0 };
            prop_assert_eq!(tcp[FLAGS], sent.flags & !absent);
            prop_assert!(is_last || tcp.len() == TCP_HEADER + sent.options + segment);
            // With the checksum in place, everything it covers adds up to all ones.
            let covered = [&pseudo_header(&packet, tcp.len()), tcp].concat();
            prop_assert_eq!(sum(&covered), 0xFFFF);
            if !sent.v6 {
                let identification = sent.identification.wrapping_add(number as u16);
                prop_assert_eq!(&packet[4..6], &identification.to_be_bytes());
                prop_assert_eq!(sum(&packet[..20]), 0xFFFF);
            }
            payload.extend(&packet[headers..]);
        }
        prop_assert_eq!(payload, sent.payload);
    }

    /// Acknowledgements and datagrams: their checksum may be left to the device, or complete.
    #[test]
    fn what_is_not_to_be_cut_stays_as_it_is(sent in sent(), is_left in any::<bool>()) {
        let mut bytes = sent.bytes();
        bytes[1..6].fill(0);
        if !is_left {
            bytes[..PREFIX].fill(0);
        }
        let packets = written(&bytes);
        prop_assert_eq!(packets.len(), 1);
        prop_assert_eq!(&packets[0][PREFIX..], &bytes[PREFIX..]);
        if is_left {
            let finished = finished(&packets[0]);
            let at = if sent.v6 { 40 } else { 20 };
            let covered = [pseudo_header(&finished, finished.len() - at), finished[at..].to_vec()].concat();
            prop_assert_eq!(sum(&covered), 0xFFFF);
        } else {
            prop_assert_eq!(&packets[0], &bytes);
        }
    }

    #[test]
    fn any_bytes_are_cut_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in prop::sample::select(vec![0u8, 1, 4, 0x81]),
        transport in 0u16..100, segment in 0u16..50,
    ) {
        if bytes.len() >= PREFIX {
            bytes[..2].copy_from_slice(&[NEEDS_CHECKSUM, kind]);
            bytes[4..6].copy_from_slice(&segment.to_ne_bytes());
            bytes[6..8].copy_from_slice(&transport.to_ne_bytes());
        }
        if Frame::parse(&bytes).is_some() {
            prop_assert!(!written(&bytes).is_empty());
        }
    }
}

#[test]
fn a_kind_that_was_not_asked_for_is_refused() {
    let sent = Sent {
        v6: false,
        ecn: 0,
        identification: 1,
        sequence: 1,
        flags: ACK,
        options: 12,
        payload: vec![0; 3000],
        segment: 1000,
    };
    let bytes = sent.bytes();
    assert_eq!(Frame::parse(&bytes).map(|frame| frame.count()), Some(3));
    // UDP (VIRTIO_NET_HDR_GSO_UDP, _UDP_L4), and TCP without a place for its checksum.
    for (flags, kind) in [(NEEDS_CHECKSUM, 3), (NEEDS_CHECKSUM, 5), (0, TCP_V4)] {
        let mut other = bytes.clone();
        other[..2].copy_from_slice(&[flags, kind]);
        assert!(Frame::parse(&other).is_none());
    }
}
