//! The recorded part of a TCP segment: its header (RFC 9293 section 3.1), its options of MPTCP (RFC 8684 section 3) and
//! SACK (RFC 2018). Numbers are those of the packet; `recorder` converts them to positions.

use mptune_core::recording::{SACKS, option};

const TCP: u8 = 6;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;

/// Kinds of options (IANA).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const WINDOW_SCALE: u8 = 3;
const SACK: u8 = 5;
const MPTCP: u8 = 30;

/// A segment as it was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Ports of source and destination.
    pub ports: [u16; 2],
    pub seq: u32,
    pub ack: u32,
    /// Flags, without the reserved bits.
    pub flags: u8,
    /// As in the header: not scaled.
    pub window: u16,
    /// The option of a SYN.
    pub window_scale: u8,
    /// Selectively acknowledged ranges; empty ones are none.
    pub sack: [(u32, u32); SACKS],
    /// Options of MPTCP.
    pub options: u8,
    /// The lower half of the DATA_ACK.
    pub data_ack: Option<u32>,
    pub mapping: Option<Mapping>,
    /// Bytes of payload.
    pub length: u16,
}

/// A DSS mapping: the position of a part of the subflow in the data sequence space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The lower half of its data sequence number.
    pub data: u32,
    /// Its first byte on the subflow; the one after the SYN is 1.
    pub subflow: u32,
}

/// Reads a complete packet; none if it is not TCP.
pub(crate) fn parse(packet: &[u8]) -> Option<Segment> {
    let (protocol, header) = match packet.first()? >> 4 {
        4 => (*packet.get(9)?, usize::from(packet[0] & 0xF) * 4),
        _ => (*packet.get(6)?, IPV6_HEADER),
    };
    let tcp = packet.get(header..).filter(|tcp| protocol == TCP && tcp.len() >= TCP_HEADER)?;
    let end = usize::from(tcp[12] >> 4) * 4;
    let options = tcp.get(TCP_HEADER..end)?;
    let mut segment = Segment {
        ports: [half(tcp, 0)?, half(tcp, 2)?],
        seq: word(tcp, 4)?,
        ack: word(tcp, 8)?,
        flags: tcp[13],
        window: half(tcp, 14)?,
        length: (tcp.len() - end) as u16,
        ..Segment::default()
    };
    segment.read(options);
    Some(segment)
}

impl Segment {
    /// Reads the options up to the first invalid one.
    fn read(&mut self, mut options: &[u8]) {
        while let Some(&kind) = options.first() {
            let length = match kind {
                END => return,
                NO_OPERATION => 1,
                _ => options.get(1).map_or(0, |&length| usize::from(length)),
            };
            // It counts itself and the kind.
            if kind != NO_OPERATION && length < 2 || length > options.len() {
                return;
            }
            let (option, rest) = options.split_at(length);
            match kind {
                WINDOW_SCALE if length == 3 => self.window_scale = option[2].min(14),
                SACK => self.read_sack(&option[2..]),
                MPTCP if length >= 3 => self.read_mptcp(option),
                _ => {}
            }
            options = rest;
        }
    }

    fn read_sack(&mut self, blocks: &[u8]) {
        for (to, block) in self.sack.iter_mut().zip(blocks.chunks_exact(8)) {
            if let (Some(start), Some(end)) = (word(block, 0), word(block, 4)) {
                *to = (start, end);
            }
        }
    }

    fn read_mptcp(&mut self, option: &[u8]) {
        self.options |= match option[2] >> 4 {
            0 => option::CAPABLE,
            1 => option::JOIN,
            2 => return self.read_dss(option),
            3 | 4 => option::ADDRESS,
            5 => option::PRIORITY,
            _ => option::END,
        };
    }

    /// The DSS option (RFC 8684 section 3.3); its flags determine its fields and their lengths.
    fn read_dss(&mut self, option: &[u8]) {
        let Some(&flags) = option.get(3) else { return };
        let has = |bit: u8| flags & 1 << bit != 0;
        self.options |= u8::from(has(4)) * option::DATA_FIN;
        let mut at = 4;
        if has(0) {
            let upper = if has(1) { 4 } else { 0 };
            self.data_ack = word(option, at + upper);
            at += upper + 4;
        }
        if has(2) {
            let upper = if has(3) { 4 } else { 0 };
            let (data, subflow) = (word(option, at + upper), word(option, at + upper + 4));
            self.mapping = data.zip(subflow).map(|(data, subflow)| Mapping { data, subflow });
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|two| Some(u16::from_be_bytes(two.try_into().ok()?)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|four| Some(u32::from_be_bytes(four.try_into().ok()?)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet between two addresses, with these options, which fill words, and payload.
    pub(crate) fn tcp(
        addresses: [[u8; 4]; 2],
        segment: &Segment,
        options: &[u8],
        payload: usize,
    ) -> Vec<u8> {
        let length = (40 + options.len() + payload) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
        packet.extend(addresses.concat());
        packet.extend(segment.ports.map(u16::to_be_bytes).concat());
        packet.extend(segment.seq.to_be_bytes());
        packet.extend(segment.ack.to_be_bytes());
        packet.extend([((20 + options.len()) as u8 / 4) << 4, segment.flags]);
        packet.extend(segment.window.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(options);
        packet.resize(packet.len() + payload, 7);
        packet
    }

    const ENDS: [[u8; 4]; 2] = [[10, 64, 0, 1], [10, 65, 0, 1]];

    #[test]
    fn a_data_segment_of_linux() {
        // Time stamps with two bytes before them, then DSS with 4 bytes of DATA_ACK and 8 of data sequence number.
        let mut options = vec![1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 30, 24, 0x20, 0x0d];
        options.extend(77u32.to_be_bytes());
        options.extend(0x0102_0304_0506_0708u64.to_be_bytes());
        options.extend(1u32.to_be_bytes());
        options.extend([5, 0xa0, 0, 0]);
        let sent = Segment {
            ports: [4000, 5000],
            seq: 9,
            ack: 8,
            flags: 0x18,
            window: 512,
            ..Segment::default()
        };
        let segment = parse(&tcp(ENDS, &sent, &options, 1420)).expect("TCP");
        let mapping = Some(Mapping { data: 0x0506_0708, subflow: 1 });
        assert_eq!(segment, Segment { data_ack: Some(77), mapping, length: 1420, ..sent });
    }

    #[test]
    fn a_syn_and_a_selective_acknowledgement() {
        let sent = Segment { flags: 2, ..Segment::default() };
        let options = [1, 3, 3, 9, 30, 4, 0x01, 0x01];
        let segment = parse(&tcp(ENDS, &sent, &options, 0)).expect("TCP");
        assert_eq!((segment.window_scale, segment.options), (9, option::CAPABLE));
        let mut options = vec![1, 1, 5, 18];
        for word in [100u32, 200, 300, 400] {
            options.extend(word.to_be_bytes());
        }
        let segment = parse(&tcp(ENDS, &sent, &options, 0)).expect("TCP");
        assert_eq!(segment.sack, [(100, 200), (300, 400), (0, 0)]);
    }

    #[test]
    fn an_option_that_is_shorter_than_its_own_length_ends_the_options() {
        for length in [0, 1] {
            let options = [SACK, length, WINDOW_SCALE, 3, 9, 0, 0, 0];
            let segment = parse(&tcp(ENDS, &Segment::default(), &options, 0)).expect("TCP");
            assert_eq!(segment, Segment::default());
        }
    }

    #[test]
    fn what_is_not_tcp_is_none() {
        let mut packet = tcp(ENDS, &Segment::default(), &[], 0);
        packet[9] = 17;
        assert_eq!(parse(&packet), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_options_are_read_or_left(options in prop::collection::vec(any::<u8>(), 0..10)) {
            let options: Vec<u8> = options.into_iter().flat_map(|byte| [byte, 30, byte, 1]).collect();
            prop_assert!(parse(&tcp(ENDS, &Segment::default(), &options, 3)).is_some());
        }
    }
}
