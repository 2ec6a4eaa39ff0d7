//! A recording of all packets: the header of each at its entry, and its fate after the end.
//!
//! While packets are carried, only numbers are copied to memory; positions are computed after the end.

use crate::segment::{self, Mapping, Segment};
use mptune_core::network::{Passage, RouteId};
use mptune_core::recording::{NONE, Record, SACKS, Unwrapped, flag, option};
use serde::Deserialize;
use std::path::PathBuf;

/// The file and extent of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recording {
    /// The file, which is replaced.
    pub file: PathBuf,
    /// Most packets.
    pub packets: usize,
}

/// The segments of the packets that entered so far, in order; none for other protocols.
#[derive(Debug)]
pub(crate) struct Recorder {
    segments: Vec<Option<Segment>>,
    limit: usize,
}

impl Recorder {
    /// Nothing has entered yet.
    pub fn new(limit: usize) -> Self {
        // Reserved at once, so that nothing is moved while packets wait; untouched memory costs nothing.
        Self { segments: Vec::with_capacity(limit), limit }
    }

    /// A packet enters.
    pub fn enter(&mut self, packet: &[u8]) {
        if self.segments.len() < self.limit {
            self.segments.push(segment::parse(packet));
        }
    }

    /// The next records as bytes, at most `most` of them; none at the end. `passages` are those of the same packets.
    pub fn encode<P: Copy>(
        &self,
        passages: &[Passage<P>],
        done: &mut Encoded,
        most: usize,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (passage, segment) in passages.iter().zip(&self.segments).skip(done.records).take(most)
        {
            let segment = segment.unwrap_or_default();
            done.positions.record(passage, &segment).encode(&mut bytes);
            done.records += 1;
        }
        bytes
    }
}

/// Encoded part of a recording.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    records: usize,
    positions: Positions,
}

/// The subflows so far and the data sequence spaces of both directions.
#[derive(Debug, Default)]
struct Positions {
    flows: Vec<Flow>,
    /// Data sequence number of the first byte of each direction, once known.
    first: [Option<u32>; 2],
    data: [Unwrapped; 2],
}

/// One subflow.
#[derive(Debug)]
struct Flow {
    path: RouteId,
    /// The sender's and the receiver's.
    ports: [u16; 2],
    /// Each direction.
    directions: [Direction; 2],
}

/// One direction of a subflow.
#[derive(Debug, Default, Clone, Copy)]
struct Direction {
    /// Sequence number of the first byte of payload.
    first: u32,
    scale: u8,
    position: Unwrapped,
}

impl Positions {
    fn record<P>(&mut self, passage: &Passage<P>, segment: &Segment) -> Record {
        let direction = passage.route % 2;
        let number = self.flow(passage.route, segment);
        let flow = &mut self.flows[number];
        let is_syn = segment.flags & flag::SYN != 0;
        if is_syn {
            flow.directions[direction] = Direction {
                first: segment.seq.wrapping_add(1),
                scale: segment.window_scale,
                position: Unwrapped::default(),
            };
        }
        let first = flow.directions[direction].first;
        let seq = flow.directions[direction].position.position(segment.seq.wrapping_sub(first));
        let scale = if is_syn { 0 } else { flow.directions[direction].scale };
        let reverse = &mut flow.directions[1 - direction];
        // The peer's SYN takes a sequence number: its acknowledgement is position 0.
        let ack = reverse.position.position(segment.ack.wrapping_sub(reverse.first));
        let mut sack = [(0, 0); SACKS];
        for (to, &(start, end)) in sack.iter_mut().zip(&segment.sack) {
            let relative = |edge: u32| edge.wrapping_sub(segment.ack) as i32;
            *to = if start == end { (0, 0) } else { (relative(start), relative(end)) };
        }
        let has_ack = segment.flags & flag::ACK != 0;
        Record {
            entered: passage.entered,
            left: passage.left,
            seq: if is_syn { 0 } else { seq },
            ack: if has_ack { ack } else { 0 },
            data: self.data(direction, number, seq, segment),
            data_ack: self.data_ack(1 - direction, segment),
            window: u32::from(segment.window) << scale,
            sack,
            length: segment.length,
            size: passage.size,
            flow: number as u16,
            route: passage.route as u8,
            flags: segment.flags,
            options: segment.options | (u8::from(passage.marked) * option::MARKED),
            fate: passage.fate,
            link: passage.link as u8,
        }
    }

    /// Index of the segment's subflow, by path and ports.
    fn flow(&mut self, route: RouteId, segment: &Segment) -> usize {
        let (path, [source, destination]) = (route / 2, segment.ports);
        let ports =
            if route.is_multiple_of(2) { [source, destination] } else { [destination, source] };
        let same = |flow: &Flow| flow.path == path && flow.ports == ports;
        self.flows.iter().position(same).unwrap_or_else(|| {
            self.flows.push(Flow { path, ports, directions: [Direction::default(); 2] });
            self.flows.len() - 1
        })
    }

    /// Position of the payload in the data sequence space. The first bytes come with MP_CAPABLE, without a mapping (RFC
    /// 8684 section 3.1): their position is that on the first subflow, whose first mapping gives the initial number.
    fn data(&mut self, direction: usize, flow: usize, seq: u64, segment: &Segment) -> u64 {
        if segment.length == 0 {
            return NONE;
        }
        let Some(Mapping { data, subflow }) = segment.mapping else {
            return if flow == 0 && self.first[direction].is_none() { seq } else { NONE };
        };
        if flow == 0 && self.first[direction].is_none() {
            self.first[direction] = Some(data.wrapping_sub(subflow.wrapping_sub(1)));
        }
        let Some(first) = self.first[direction] else { return NONE };
        // All segments of a TSO packet have the mapping of the whole.
        let inside = (seq as u32).wrapping_add(1).wrapping_sub(subflow);
        self.data[direction].position(data.wrapping_add(inside).wrapping_sub(first))
    }

    fn data_ack(&mut self, direction: usize, segment: &Segment) -> u64 {
        match (segment.data_ack, self.first[direction]) {
            (Some(ack), Some(first)) => self.data[direction].position(ack.wrapping_sub(first)),
            _ => NONE,
        }
    }
}

#[cfg(test)]
mod tests;
