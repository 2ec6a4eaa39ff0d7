//! Arrivals of the orders of the other end.

use super::packet::{Head, STAMP_NS};
use super::protocol::Arrived;
use std::collections::BTreeMap;

/// Limits of the flows of an order and the packets of a flow; a sender of more breaks the protocol.
const MAX_FLOWS: usize = 4096;
const MAX_PACKETS: u32 = 1 << 20;
/// Orders that are remembered, the newest.
const MAX_ORDERS: usize = 64;

/// The arrivals of one order.
#[derive(Default)]
struct Order {
    flows: Vec<Flow>,
    first_ns: Option<u64>,
    last_ns: u64,
}

#[derive(Default)]
struct Flow {
    seen: Vec<u64>,
    report: Arrived,
}

impl Flow {
    /// Notes a packet; false if it is a duplicate.
    fn mark(&mut self, seq: u32) -> bool {
        let (word, bit) = (seq as usize / 64, 1_u64 << (seq % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }
}

/// The arrivals of all orders.
#[derive(Default)]
pub struct Arrivals {
    orders: BTreeMap<u32, Order>,
}

impl Arrivals {
    /// A packet arrived.
    pub fn add(&mut self, head: &Head, at_ns: u64) {
        if usize::from(head.flow) >= MAX_FLOWS || head.seq >= MAX_PACKETS {
            return;
        }
        let order = self.orders.entry(head.id).or_default();
        let first_ns = *order.first_ns.get_or_insert(at_ns);
        order.last_ns = order.last_ns.max(at_ns);
        if order.flows.len() <= usize::from(head.flow) {
            order.flows.resize_with(usize::from(head.flow) + 1, Flow::default);
        }
        let flow = &mut order.flows[usize::from(head.flow)];
        if !flow.mark(head.seq) {
            flow.report.duplicates += 1;
            return;
        }
        flow.report.received += 1;
        if head.timed {
            flow.report.seq.push(head.seq);
            flow.report.sent.push(head.stamp);
            flow.report.arrived.push(at_ns.saturating_sub(first_ns) / STAMP_NS);
        }
        while self.orders.len() > MAX_ORDERS {
            self.orders.pop_first();
        }
    }

    /// True if all packets of all flows have arrived.
    pub fn complete(&self, id: u32, packets: &[u32]) -> bool {
        let received = |number: usize| {
            let order = self.orders.get(&id)?;
            Some(order.flows.get(number)?.report.received)
        };
        packets.iter().enumerate().all(|(number, &all)| received(number).unwrap_or(0) >= all)
    }

    /// Arrival of the last packet of an order; none if none arrived.
    pub fn last_ns(&self, id: u32) -> Option<u64> {
        self.orders.get(&id).map(|order| order.last_ns)
    }

    /// Takes the flows of an order, which is then forgotten.
    pub fn take(&mut self, id: u32, count: usize) -> Vec<Arrived> {
        let flows = self.orders.remove(&id).unwrap_or_default().flows;
        let mut reports: Vec<_> = flows.into_iter().map(|flow| flow.report).collect();
        reports.resize_with(count, Arrived::default);
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(flow: u16, seq: u32) -> Head {
        Head {
            reply: false,
            answer: false,
            timed: flow == 0,
            path: 0,
            flow,
            id: 7,
            seq,
            stamp: seq,
        }
    }

    #[test]
    fn what_arrives_is_counted_once_and_dated() {
        let mut arrivals = Arrivals::default();
        for (flow, seq, at_ns) in [(0, 0, 1000), (0, 2, 3000), (1, 70, 3500), (0, 2, 4000)] {
            arrivals.add(&head(flow, seq), at_ns);
        }
        assert!(arrivals.complete(7, &[2, 1]) && !arrivals.complete(7, &[2, 1, 1]));
        assert_eq!(arrivals.last_ns(7), Some(4000));
        let flows = arrivals.take(7, 3);
        let first = Arrived {
            received: 2,
            duplicates: 1,
            seq: vec![0, 2],
            sent: vec![0, 2],
            arrived: vec![0, 20],
        };
        assert_eq!(flows[0], first);
        assert_eq!(flows[1], Arrived { received: 1, ..Arrived::default() });
        assert_eq!(flows[2], Arrived::default());
        assert_eq!(arrivals.last_ns(7), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut arrivals = Arrivals::default();
        for id in 0..1000 {
            arrivals.add(&Head { id, ..head(0, 0) }, 1);
        }
        arrivals.add(&Head { id: 1001, ..head(0, MAX_PACKETS) }, 1);
        assert_eq!(arrivals.orders.len(), MAX_ORDERS);
        assert_eq!(arrivals.last_ns(1001), None);
    }
}
