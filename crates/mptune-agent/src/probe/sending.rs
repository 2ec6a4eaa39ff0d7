//! An order to send datagrams, and what was answered.

use super::packet::{self, Head, Token};
use super::protocol::{FlowSpec, PathEnd, Sent};
use super::udp::{Endpoint, Outcome};
use std::mem;

/// Packets of a flow in a row before others get their turn.
const TURN: u32 = 64;
/// Round-trip times of a flow that are reported.
const MAX_RTTS: usize = 1000;

/// A flow of the order.
struct Flow {
    spec: FlowSpec,
    /// Packets that were handed over or refused.
    done: u32,
    /// When each packet was sent, if answers are wanted; 0 once it was answered.
    times: Vec<u64>,
    first_ns: u64,
    last_ns: u64,
    rtts: Vec<u64>,
    report: Sent,
}

/// An order in progress.
pub struct Sending {
    /// Its number.
    pub id: u32,
    began_ns: u64,
    wait_ns: u64,
    flows: Vec<Flow>,
    /// When the last packet was sent.
    all_sent_ns: Option<u64>,
    /// A socket had no room.
    pub blocked: Option<usize>,
}

impl Sending {
    /// Begins now.
    pub fn new(id: u32, flows: Vec<FlowSpec>, wait_ns: u64, now_ns: u64) -> Self {
        let flow = |spec| Flow {
            spec,
            done: 0,
            times: Vec::new(),
            first_ns: 0,
            last_ns: 0,
            rtts: Vec::new(),
            report: Sent::default(),
        };
        let flows = flows.into_iter().map(flow).collect();
        Self { id, began_ns: now_ns, wait_ns, flows, all_sent_ns: None, blocked: None }
    }

    /// When something is due; none if only answers are awaited.
    pub fn due_ns(&self) -> Option<u64> {
        let due = |flow: &Flow| {
            self.began_ns + flow.spec.start_ns + u64::from(flow.done) * flow.spec.interval_ns
        };
        self.flows.iter().filter(|flow| flow.done < flow.spec.packets).map(due).min()
    }

    /// When the order is over at the latest, once all is sent.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.all_sent_ns.map(|at| at + self.wait_ns)
    }

    /// Sends what is due.
    pub fn advance(
        &mut self,
        token: &Token,
        endpoints: &[Endpoint],
        paths: &[PathEnd],
        buffer: &mut [u8],
        now: impl Fn() -> u64,
    ) {
        self.blocked = None;
        for (number, flow) in self.flows.iter_mut().enumerate() {
            let end = paths[flow.spec.path];
            for _ in 0..TURN {
                let now_ns = now();
                let due_ns = self.began_ns
                    + flow.spec.start_ns
                    + u64::from(flow.done) * flow.spec.interval_ns;
                if flow.done == flow.spec.packets || due_ns > now_ns {
                    break;
                }
                if flow.done == 0 {
                    flow.first_ns = now_ns;
                }
                let head = Head {
                    reply: false,
                    answer: flow.spec.answer,
                    timed: flow.spec.timed,
                    path: flow.spec.path as u8,
                    flow: number as u16,
                    id: self.id,
                    seq: flow.done,
                    stamp: packet::stamp(now_ns - flow.first_ns),
                };
                head.write(token, buffer);
                match endpoints[end.local].send(buffer, flow.spec.bytes, end.peer) {
                    Outcome::Sent => {
                        flow.report.sent += 1;
                        flow.last_ns = now_ns;
                        flow.note(now_ns);
                    }
                    Outcome::Full => {
                        self.blocked = Some(end.local);
                        break;
                    }
                    Outcome::Refused(because) => {
                        flow.report.refused += 1;
                        flow.report.because = Some(because);
                        flow.note(0);
                    }
                }
                flow.done += 1;
            }
        }
        if self.all_sent_ns.is_none()
            && self.flows.iter().all(|flow| flow.done == flow.spec.packets)
        {
            self.all_sent_ns = Some(now());
        }
    }

    /// An answer arrived.
    pub fn hear(&mut self, head: &Head, at_ns: u64) {
        let Some(flow) = self.flows.get_mut(usize::from(head.flow)) else { return };
        let Some(time) = flow.times.get_mut(head.seq as usize) else { return };
        let sent_ns = mem::take(time);
        if sent_ns != 0 {
            flow.report.answered += 1;
            let there_ns = u64::from(head.stamp) * packet::STAMP_NS;
            flow.rtts.push(at_ns.saturating_sub(sent_ns).saturating_sub(there_ns));
        }
    }

    /// Whether everything was sent, and answered or given up.
    pub fn over(&self, now_ns: u64) -> bool {
        let answered = |flow: &Flow| !flow.spec.answer || flow.report.answered == flow.report.sent;
        self.deadline_ns().is_some_and(|end| now_ns >= end || self.flows.iter().all(answered))
    }

    /// What it came to.
    pub fn report(self) -> Vec<Sent> {
        self.flows.into_iter().map(Flow::report).collect()
    }
}

impl Flow {
    fn note(&mut self, sent_ns: u64) {
        if self.spec.answer {
            self.times.push(sent_ns);
        }
    }

    fn report(self) -> Sent {
        let step = self.rtts.len().div_ceil(MAX_RTTS).max(1);
        Sent {
            span_ns: self.last_ns.saturating_sub(self.first_ns),
            min_rtt_ns: self.rtts.iter().min().copied(),
            rtt_ns: self.rtts.iter().step_by(step).copied().collect(),
            ..self.report
        }
    }
}
