//! An order to send datagrams, and what was answered.

use super::packet::{self, Head, Token};
use super::protocol::{FlowSpec, PathEnd, Sent};
use super::udp::{Endpoint, Outcome};
use std::mem;

/// Packets of a flow in a row before other flows get their turn.
const TURN: u32 = 64;
/// Round-trip times of a flow that are reported.
const MAX_RTTS: usize = 1000;

/// A flow of the order.
struct Flow {
    spec: FlowSpec,
    /// Packets that were handed over or refused.
    done: u32,
    /// Sending time of each packet, if answers are wanted; 0 once it was answered.
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
    /// Time of the last packet.
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

    /// Time of the next packet; none if only answers are awaited.
    pub fn due_ns(&self) -> Option<u64> {
        let due = |flow: &Flow| {
            self.began_ns + flow.spec.start_ns + u64::from(flow.done) * flow.spec.interval_ns
        };
        self.flows.iter().filter(|flow| flow.done < flow.spec.packets).map(due).min()
    }

    /// Latest end of the order, once all is sent.
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

    /// True if everything was sent, and answered or given up.
    pub fn over(&self, now_ns: u64) -> bool {
        let answered = |flow: &Flow| !flow.spec.answer || flow.report.answered == flow.report.sent;
        self.deadline_ns().is_some_and(|end| now_ns >= end || self.flows.iter().all(answered))
    }

    /// Report of each flow.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::sys::{self, Watch};
    use std::net::{IpAddr, SocketAddr};
    use std::time::Duration;

    const TOKEN: Token = [9; packet::TOKEN];
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// A flow to a socket of this machine.
    fn sending(packets: u32, interval_ns: u64) -> (Vec<Endpoint>, Vec<PathEnd>, Sending) {
        let endpoints = vec![Endpoint::open(HERE, 0).unwrap(), Endpoint::open(HERE, 0).unwrap()];
        let peer = Some(SocketAddr::new(HERE, endpoints[1].port().unwrap()));
        let (start_ns, answer) = (500, true);
        let flow =
            FlowSpec { path: 0, packets, bytes: 100, interval_ns, start_ns, answer, timed: false };
        (endpoints, vec![PathEnd { local: 0, peer }], Sending::new(7, vec![flow], 10_000, 1_000))
    }

    /// The next packet that arrives.
    fn arrived(endpoint: &Endpoint) -> (Head, usize) {
        let mut data = [0; 200];
        loop {
            if let Some(packet) = endpoint.receive(&mut data).unwrap() {
                return (Head::read(&TOKEN, &data[..packet.length]).unwrap(), packet.length);
            }
            let mut watches = [Watch { fd: endpoint.fd(), events: libc::POLLIN, ready: false }];
            sys::wait(&mut watches, Duration::from_secs(10)).unwrap();
            assert!(watches[0].ready);
        }
    }

    #[test]
    fn packets_leave_when_they_are_due_and_answers_are_timed() {
        let (endpoints, paths, mut sending) = sending(2, 300);
        let mut buffer = packet::padding(200);
        assert_eq!(sending.due_ns(), Some(1_500));
        for now_ns in [1_400, 1_600, 1_700, 1_900] {
            sending.advance(&TOKEN, &endpoints, &paths, &mut buffer, || now_ns);
        }
        assert_eq!((sending.due_ns(), sending.deadline_ns()), (None, Some(11_900)));
        for seq in 0..2 {
            let (head, length) = arrived(&endpoints[1]);
            assert_eq!((head.id, head.seq, head.stamp, length), (7, seq, 3 * seq, 72));
            assert!(!sending.over(5_000));
            // It took the other end 200 ns to answer; a second answer does not count.
            for _ in 0..2 {
                sending.hear(&Head { reply: true, stamp: 2, ..head }, 4_000);
            }
        }
        assert!(sending.over(5_000));
        let report = &sending.report()[0];
        assert_eq!((report.sent, report.answered, report.span_ns), (2, 2, 300));
        assert_eq!((report.min_rtt_ns, &report.rtt_ns[..]), (Some(1_900), &[2_200, 1_900][..]));
    }

    #[test]
    fn what_is_never_answered_ends_with_the_patience() {
        let (endpoints, mut paths, mut sending) = sending(1, 0);
        paths[0].peer = None;
        sending.advance(&TOKEN, &endpoints, &paths, &mut packet::padding(200), || 2_000);
        assert_eq!(sending.deadline_ns(), Some(12_000));
        assert!(sending.over(12_000));
        let report = &sending.report()[0];
        assert_eq!((report.sent, report.refused), (0, 1));
        assert!(report.because.is_some());
    }
}
