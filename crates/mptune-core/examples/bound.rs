//! The bound of the simulator's speed: NewReno (RFC 6582) on two paths and nothing else. It has the benchmark's
//! network, one ring of packets and one of ACKs for each path, two events per packet, a window and a cumulative
//! ACK.
//!
//! Not a transport: no SACK, no data level, no receive window, no delayed ACKs, no RTT, no timer except a
//! restart when nothing is in flight; one loss is repaired per round trip. `benchmarks/speed/breakdown.py` shows what
//! the complete transport costs above it.
//!
//! Usage: bound SECONDS prints, as JSON, packets delivered in order and events.

use mptune_core::engine::Ring;
use mptune_core::units::{NEVER, Nanos, SECOND, Seq};

/// Segments that may be out of order at the receiver, a power of two above any window here.
const HELD: usize = 1 << 14;

struct Path {
    /// Nanoseconds to send a packet, one-way delay, longest time in the queue.
    packet: Nanos,
    delay: Nanos,
    limit: Nanos,
    busy_until: Nanos,
    data: Ring<(Nanos, Seq)>,
    acks: Ring<(Nanos, Seq)>,
    /// Arrivals of the next packet and of the next ACK.
    heads: [Nanos; 2],
    cwnd: f64,
    ssthresh: f64,
    una: Seq,
    next: Seq,
    duplicates: u32,
    /// Recovery ends when everything below is acknowledged.
    recover: Seq,
    expected: Seq,
    held: Vec<bool>,
}

impl Path {
    fn new(mbps: u64, delay_ms: u64) -> Self {
        Self {
            packet: 1500 * 8 * 1000 / mbps,
            delay: delay_ms * 1_000_000,
            limit: 2 * delay_ms * 1_000_000,
            busy_until: 0,
            data: Ring::new(),
            acks: Ring::new(),
            heads: [NEVER; 2],
            cwnd: 10.0,
            ssthresh: f64::INFINITY,
            una: 0,
            next: 0,
            duplicates: 0,
            recover: 0,
            expected: 0,
            held: vec![false; HELD],
        }
    }

    #[inline]
    fn transmit(&mut self, now: Nanos, seq: Seq) {
        let start = self.busy_until.max(now);
        if start - now <= self.limit {
            self.busy_until = start + self.packet;
            let at = self.busy_until + self.delay;
            self.heads[0] = self.heads[0].min(at);
            self.data.push((at, seq));
        }
    }

    #[inline]
    fn fill(&mut self, now: Nanos) {
        // In recovery each duplicate stands for a segment that left the network.
        let window = self.cwnd as Seq + self.duplicates;
        while self.next - self.una < window {
            self.transmit(now, self.next);
            self.next += 1;
        }
    }

    #[inline]
    fn on_data(&mut self, now: Nanos, seq: Seq) {
        self.held[seq as usize % HELD] = true;
        while std::mem::take(&mut self.held[self.expected as usize % HELD]) {
            self.expected += 1;
        }
        self.heads[1] = self.heads[1].min(now + self.delay);
        self.acks.push((now + self.delay, self.expected));
    }

    #[inline]
    fn on_ack(&mut self, now: Nanos, ack: Seq) {
        if ack > self.una {
            let acked = f64::from(ack - self.una);
            self.una = ack;
            if ack < self.recover {
                self.duplicates = self.duplicates.saturating_sub(acked as u32 - 1);
                self.transmit(now, ack);
            } else {
                self.duplicates = 0;
                self.recover = 0;
                self.cwnd += if self.cwnd < self.ssthresh { acked } else { acked / self.cwnd };
            }
        } else {
            self.duplicates += 1;
            if self.duplicates == 3 && self.recover == 0 {
                self.ssthresh = (self.cwnd / 2.0).max(2.0);
                self.cwnd = self.ssthresh;
                self.recover = self.next;
                self.transmit(now, ack);
            }
        }
        if self.recover > 0 || self.duplicates == 0 {
            self.fill(now);
        }
    }

    /// Handles its next packet, or its next ACK.
    #[inline]
    fn advance(&mut self) {
        let head = |ring: &Ring<(Nanos, Seq)>| ring.front().map_or(NEVER, |&(at, _)| at);
        if self.heads[1] < self.heads[0] {
            let Some((now, ack)) = self.acks.pop() else { return };
            self.heads[1] = head(&self.acks);
            self.on_ack(now, ack);
            if self.data.is_empty() && self.acks.is_empty() {
                // All segments in flight are lost.
                (self.cwnd, self.duplicates, self.recover, self.next) = (1.0, 0, 0, self.una);
                self.fill(now);
            }
        } else if let Some((now, seq)) = self.data.pop() {
            self.heads[0] = head(&self.data);
            self.on_data(now, seq);
        }
    }
}

fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(600);
    let mut paths = [Path::new(100, 10), Path::new(50, 20)];
    for path in &mut paths {
        path.fill(0);
    }
    let mut events = 0_u64;
    loop {
        let [first, second] = [0, 1].map(|number: usize| paths[number].heads);
        let [first, second] = [first[0].min(first[1]), second[0].min(second[1])];
        if first.min(second) >= seconds * SECOND {
            break;
        }
        paths[usize::from(second < first)].advance();
        events += 1;
    }
    let packets: u64 = paths.iter().map(|path| u64::from(path.expected)).sum();
    println!("{{\"packets\": {packets}, \"events\": {events}}}");
}
