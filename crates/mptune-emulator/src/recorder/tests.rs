//! A connection on the relay, recorded: every packet once, positions from the first byte of payload.

use super::*;
use crate::segment::tests::tcp;
use mptune_core::network::Fate;

const LOCAL: [u8; 4] = [10, 64, 0, 1];
const REMOTE: [u8; 4] = [10, 65, 0, 1];
/// Initial sequence numbers of the sender's and the receiver's subflow, and of the data: all soon wrap.
const ISN: [u32; 2] = [u32::MAX - 500, 77];
const DATA: u32 = u32::MAX - 99;

fn passage(at: u64, route: RouteId) -> Passage<()> {
    Passage {
        entered: at,
        left: at + 5,
        route,
        size: 1500,
        fate: Fate::Arrived,
        link: 0,
        marked: false,
        payload: (),
    }
}

/// The DSS option with a DATA_ACK of 4 bytes, or a mapping of 8.
fn dss(data_ack: Option<u32>, mapping: Option<(u32, u32)>) -> Vec<u8> {
    let flags = u8::from(data_ack.is_some()) | if mapping.is_some() { 0b1100 } else { 0 };
    let mut option = vec![0x20, flags];
    option.extend(data_ack.into_iter().flat_map(u32::to_be_bytes));
    if let Some((data, subflow)) = mapping {
        option.extend((7u64 << 32 | u64::from(data)).to_be_bytes());
        option.extend(subflow.to_be_bytes());
        option.extend([0, 9, 0, 0]);
    }
    [vec![30, option.len() as u8 + 2], option].concat()
}

struct Talk {
    recorder: Recorder,
    passages: Vec<Passage<()>>,
}

impl Talk {
    fn send(&mut self, route: RouteId, segment: Segment, options: &[u8], payload: usize) {
        let ports = if route.is_multiple_of(2) { [4000, 5000] } else { [5000, 4000] };
        let ends = if route.is_multiple_of(2) { [LOCAL, REMOTE] } else { [REMOTE, LOCAL] };
        self.recorder.enter(&tcp(ends, &Segment { ports, ..segment }, options, payload));
        self.passages.push(passage(self.passages.len() as u64, route));
    }
}

#[test]
fn positions_count_from_the_first_byte_on_every_subflow_and_of_the_data() {
    let mut talk = Talk { recorder: Recorder::new(100), passages: Vec::new() };
    let segment = |seq: u32, ack: u32, flags: u8| Segment {
        seq,
        ack,
        flags: flags | flag::ACK,
        window: 10,
        ..Segment::default()
    };
    let at = |base: u32, offset: u32| base.wrapping_add(1 + offset);
    let scaled = [1, 3, 3, 4];
    let syn = Segment { seq: ISN[0], flags: flag::SYN, window: 10, ..Segment::default() };
    talk.send(0, syn, &scaled, 0);
    talk.send(1, segment(ISN[1], at(ISN[0], 0), flag::SYN), &scaled, 0);
    // The first bytes have no mapping; then two segments of one mapping.
    let capable = [30, 4, 0x01, 0x01];
    talk.send(0, segment(at(ISN[0], 0), at(ISN[1], 0), 0), &capable, 1000);
    let mapping = dss(None, Some((DATA.wrapping_add(1000), 1001)));
    for offset in [1000, 2000] {
        talk.send(0, segment(at(ISN[0], offset), at(ISN[1], 0), 0), &mapping, 1000);
    }
    // The second subflow, whose handshake is elsewhere, and an acknowledgement with a hole.
    talk.send(2, Segment { seq: 7, flags: flag::SYN, ..Segment::default() }, &[], 0);
    let elsewhere = dss(None, Some((DATA.wrapping_add(3000), 1)));
    talk.send(2, segment(8, 0, 0), &elsewhere, 500);
    let mut ack = segment(at(ISN[1], 0), at(ISN[0], 1000), 0);
    ack.flags = flag::ACK;
    let mut options = dss(Some(DATA.wrapping_add(1000)), None);
    options.extend([1, 1, 5, 10]);
    options.extend(at(ISN[0], 2000).to_be_bytes());
    options.extend(at(ISN[0], 3000).to_be_bytes());
    options.resize(options.len().div_ceil(4) * 4, 1);
    talk.send(1, ack, &options, 0);

    let mut positions = Positions::default();
    let segments = talk.recorder.segments.iter().flatten();
    let records: Vec<_> =
        talk.passages.iter().zip(segments).map(|(p, s)| positions.record(p, s)).collect();
    let placed: Vec<_> = records.iter().map(|r| (r.flow, r.seq, r.data, r.length)).collect();
    let expected = [
        (0, 0, NONE, 0),
        (0, 0, NONE, 0),
        (0, 0, 0, 1000),
        (0, 1000, 1000, 1000),
        (0, 2000, 2000, 1000),
        (1, 0, NONE, 0),
        (1, 0, 3000, 500),
        (0, 0, NONE, 0),
    ];
    assert_eq!(placed, expected);
    let last = records[7];
    assert_eq!((last.ack, last.data_ack, last.window), (1000, 1000, 10 << 4));
    assert_eq!(last.sack, [(1000, 2000), (0, 0), (0, 0)]);
    assert_eq!((records[0].window, records[0].options), (10, 0));
    assert_eq!(records[2].options, option::CAPABLE);
}
