//! A trial with a record of every packet, and samples of its senders at equal intervals.
//!
//! The outcome is that of the same trial without a recording, but for the number of events.

use super::outcome::{Outcome, Span};
use super::spec::TrialSpec;
use crate::error::SpecError;
use crate::mptcp::{Ack, Answered, Connection, Content, Packet};
use crate::network::Passage;
use crate::recording::{NONE, RECORD_BYTES, Record, SACKS, flag, option};
use crate::simulation::Simulation;
use crate::transport::{Sample, Transport};
use crate::units::{Bytes, Nanos, Seq};
use std::collections::BTreeMap;

/// The extent of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recording {
    /// Most packets.
    pub packets: usize,
    /// Time between two samples of the senders.
    pub spacing: Nanos,
}

/// The recording of a trial.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Every packet of the measured connection, in order of entry ([`Record`]).
    pub records: Vec<u8>,
    /// Packets beyond the limit.
    pub omitted: u64,
    /// Samples of all subflows.
    pub samples: Vec<Sample>,
}

impl TrialSpec {
    /// Runs and records the trial.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_recorded(&self, recording: Recording) -> Result<(Outcome, Recorded), SpecError> {
        if self.workload.ends_early() {
            return Err(SpecError::new(
                "workload.ends_early",
                "expected a trial that is not recorded",
            ));
        }
        if self.is_many() {
            return Err(SpecError::new("starts_ns", "expected a single connection to record"));
        }
        if recording.spacing == 0 {
            return Err(SpecError::new("spacing", "expected more than 0"));
        }
        let (mut simulation, number) = self.prepare()?;
        simulation.watch(recording.packets);
        let (end, mut samples, mut alive) = (self.workload.limit(), Vec::new(), true);
        let mut at = 0;
        while alive && at < end && simulation.connection(number).completed_at().is_none() {
            at = (at + recording.spacing).min(end);
            alive = simulation.run(at, number);
            simulation.connection(number).add_samples(at, &mut samples);
        }
        let outcome = self.outcome(&simulation, number, &Span { end, alive, expected: None });
        let records = self.records(&simulation, number);
        Ok((outcome, Recorded { records, omitted: simulation.network().unrecorded(), samples }))
    }

    fn records(&self, simulation: &Simulation<Connection>, number: usize) -> Vec<u8> {
        let passages = simulation.network().passages();
        let own = |passage: &&Passage<Packet>| {
            simulation.owner(passage.payload.flow).is_none_or(|owner| owner == number)
        };
        let full = simulation.connection(number).full_segment();
        let places = Places::new(passages.iter().filter(own), full);
        let mut bytes = Vec::with_capacity(passages.len() * RECORD_BYTES);
        let mut flows = Vec::new();
        for passage in passages.iter().filter(own) {
            let flow = index(&mut flows, passage.payload.flow);
            self.record(passage, &places, flow).encode(&mut bytes);
        }
        bytes
    }

    fn record(&self, passage: &Passage<Packet>, places: &Places, flow: u16) -> Record {
        let packet = &passage.payload;
        let mut record = Record {
            entered: passage.entered,
            left: passage.left,
            seq: 0,
            ack: 0,
            data: NONE,
            data_ack: NONE,
            window: 0,
            sack: [(0, 0); SACKS],
            length: 0,
            size: passage.size,
            flow,
            route: passage.route as u8,
            flags: flag::ACK,
            options: u8::from(passage.marked) * option::MARKED,
            fate: passage.fate,
            link: passage.link as u8,
        };
        let is_first = flow == 0;
        let handshake = if is_first { option::CAPABLE } else { option::JOIN };
        match &packet.content {
            Content::Syn(_) => (record.flags, record.options) = (flag::SYN, handshake),
            Content::SynAck(_) => {
                (record.flags, record.options) = (flag::SYN | flag::ACK, handshake)
            }
            Content::HandshakeAck | Content::JoinAck => record.options |= handshake,
            Content::JoinConfirmed => {}
            Content::Data(segment) => {
                let lengths = &places.flows[&packet.flow];
                record.seq = lengths.start(segment.seq);
                record.length = lengths.length(segment.seq) as u16;
                record.data = places.data.start(segment.mapping.data);
                record.flags |= u8::from(segment.reduced) * flag::CWR;
            }
            Content::Ack(ack) => {
                let lengths = &places.flows[&packet.flow];
                places.acknowledge(ack, lengths, self.counts_segments(), &mut record);
            }
        }
        record
    }

    /// Windows are edges in segments, not sizes in bytes.
    fn counts_segments(&self) -> bool {
        self.accounting == "payload"
    }
}

/// The index of a flow in order of first packets.
fn index(flows: &mut Vec<u32>, flow: u32) -> u16 {
    let place = flows.iter().position(|&known| known == flow).unwrap_or_else(|| {
        flows.push(flow);
        flows.len() - 1
    });
    place as u16
}

/// Byte positions of segments: the simulator numbers segments, and most of them are full.
#[derive(Debug, Default)]
struct Lengths {
    full: u32,
    /// Length of each segment; 0 if not sent.
    lengths: Vec<u32>,
    /// Start of each segment, then the end.
    starts: Vec<Bytes>,
}

impl Lengths {
    fn new(full: u32) -> Self {
        Self { full, ..Self::default() }
    }

    /// Records the first transmission of a segment.
    fn record(&mut self, number: Seq, length: u32) {
        let number = number as usize;
        if number >= self.lengths.len() {
            self.lengths.resize(number + 1, 0);
        }
        let known = &mut self.lengths[number];
        *known = if *known == 0 { length } else { *known };
    }

    fn finish(&mut self) {
        let full = self.full;
        let lengths =
            self.lengths.iter().map(|&sent| Bytes::from(if sent == 0 { full } else { sent }));
        self.starts = std::iter::once(0)
            .chain(lengths.scan(0, |end, length| {
                *end += length;
                Some(*end)
            }))
            .collect();
    }

    fn start(&self, number: Seq) -> Bytes {
        let unsent = (number as usize).saturating_sub(self.lengths.len());
        let known = self.starts[(number as usize).min(self.lengths.len())];
        known + unsent as Bytes * Bytes::from(self.full)
    }

    fn length(&self, number: Seq) -> u32 {
        self.lengths[number as usize]
    }
}

/// The positions of all segments.
struct Places {
    flows: BTreeMap<u32, Lengths>,
    data: Lengths,
}

impl Places {
    fn new<'a>(passages: impl Iterator<Item = &'a Passage<Packet>>, full: u32) -> Self {
        let mut places = Self { flows: BTreeMap::new(), data: Lengths::new(full) };
        for Passage { payload: packet, .. } in passages {
            let flow = places.flows.entry(packet.flow).or_insert_with(|| Lengths::new(full));
            if let Content::Data(segment) = &packet.content {
                let length = segment.mapping.length.into();
                flow.record(segment.seq, length);
                places.data.record(segment.mapping.data, length);
            }
        }
        places.flows.values_mut().for_each(Lengths::finish);
        places.data.finish();
        places
    }

    fn acknowledge(
        &self,
        ack: &Ack,
        lengths: &Lengths,
        counts_segments: bool,
        record: &mut Record,
    ) {
        record.ack = lengths.start(ack.next);
        record.data_ack = self.data.start(ack.data);
        let window = if counts_segments {
            self.data.start(ack.window.max(ack.data)) - record.data_ack
        } else {
            Bytes::from(ack.window)
        };
        record.window = u32::try_from(window).unwrap_or(u32::MAX);
        let relative = |seq| (lengths.start(seq) as i64 - record.ack as i64) as i32;
        for (to, &(from, end)) in record.sack.iter_mut().zip(&ack.sack) {
            *to = if end > 0 { (relative(from), relative(end)) } else { (0, 0) };
        }
        record.flags |= u8::from(ack.ecn_echo) * flag::ECE;
        record.options |= u8::from(ack.answers == Answered::Duplicate) * option::DUPLICATE;
    }
}
