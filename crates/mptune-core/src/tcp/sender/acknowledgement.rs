//! Processing of an acknowledgement: scoreboard, RTT sample, RACK, congestion control.

use super::delivery::Delivery;
use super::{AMBIGUOUS, LOST, Progress, RETRANSMITTED, SACKED, Segment, Sender, State};
use crate::congestion::{Ack, Peer, Peers};
use crate::tcp::Acknowledgement;
use crate::units::{Nanos, Seq};

// The steps of `on_ack` are inlined by order: as functions of their own they would keep the congestion
// controls from being inlined, at 1 to 2 % of all instructions.
impl Sender {
    /// An acknowledgement arrived; `all` are the connection's subflows, `me` this one's index.
    #[inline]
    pub fn on_ack(
        &mut self,
        now: Nanos,
        ack: &Acknowledgement,
        all: &[Peer],
        me: usize,
    ) -> Progress {
        let peers = Peers { all, me };
        if self.is_plain(ack) {
            return self.on_plain_ack(now, ack.next.min(self.next), peers);
        }
        self.on_any_ack(now, ack, peers)
    }

    /// The fast path applies, as to nearly all: no loss or recovery, and the ACK only advances SND.UNA.
    #[inline]
    fn is_plain(&self, ack: &Acknowledgement) -> bool {
        ack.next > self.una
            && self.una >= self.plain_from
            && ack.sack[0].1 == 0
            && !(ack.duplicate || ack.ecn_echo)
            && self.state == State::Open
            && self.probe_end.is_none()
            && self.rate.is_none()
    }

    /// The fast path of [`Self::on_any_ack`].
    fn on_plain_ack(&mut self, now: Nanos, next: Seq, peers: Peers<'_>) -> Progress {
        let prior_in_flight = self.next - self.una;
        let mut delivery = Delivery::new(now, self.rtt.min, 0);
        let (first, last) = (self.board.at(self.una).sent_at, self.board.at(next - 1).sent_at);
        delivery.note_plain(next - self.una, first, last, next);
        self.board.skip(delivery.delivered);
        self.una = next;
        self.rack_scan = self.rack_scan.max(next);
        let rtt = self.take_rtt_sample(now, &delivery);
        self.note_delivered(now, &delivery);
        let report = Ack {
            now,
            acked: delivery.delivered,
            rtt,
            srtt: self.rtt.srtt,
            min_rtt: self.rtt.min,
            una: next,
            next: self.next,
            prior_in_flight,
            in_flight: self.next - next,
            lost: 0,
            delivered: self.delivered,
            cwnd_limited: self.is_window_limited(),
            open: true,
            ecn_echo: false,
            rate: None,
        };
        self.controller.on_delivered(&mut self.window, &report, peers);
        self.controller.on_ack(&mut self.window, &report, peers);
        self.update_pacing();
        self.note_paced();
        self.arm(now);
        Progress { delivered: delivery.delivered, advanced: true }
    }

    #[inline(never)]
    pub(super) fn on_any_ack(
        &mut self,
        now: Nanos,
        ack: &Acknowledgement,
        peers: Peers<'_>,
    ) -> Progress {
        let (prior_in_flight, lost_before) = (self.in_flight(), self.lost_total);
        let mut delivery = Delivery::new(now, self.rtt.min, self.sacked.end().unwrap_or_default());
        let advanced = self.update_scoreboard(ack, &mut delivery);
        let rtt = self.take_rtt_sample(now, &delivery);
        if delivery.delivered > 0 {
            self.note_delivered(now, &delivery);
        }
        self.undo_if_spurious(now, ack, &delivery, advanced);
        let may_have_lost = self.sacked_out > 0 || self.state != State::Open;
        let retransmission_lost = may_have_lost && self.detect_losses(now);
        self.end_probe(now, ack, peers);
        self.change_state(now, retransmission_lost, peers);
        if delivery.delivered > 0 {
            let lost = (self.lost_total - lost_before) as u32;
            let report = self.ack_summary(&delivery, rtt, prior_in_flight, lost, ack.ecn_echo);
            self.notify_controller(&report, peers);
            if self.state == State::Recovery {
                self.reduce(delivery.delivered, advanced && lost == 0);
            }
            self.update_pacing();
            self.arm(now);
        }
        self.note_paced();
        Progress { delivered: delivery.delivered, advanced }
    }

    /// Removes acknowledged segments from the scoreboard and marks SACKed ones. True if SND.UNA advanced.
    #[inline(always)]
    fn update_scoreboard(&mut self, ack: &Acknowledgement, delivery: &mut Delivery) -> bool {
        let advanced = ack.next > self.una;
        if advanced {
            self.acknowledge_to(ack.next.min(self.next), delivery);
        }
        for &(start, end) in &ack.sack {
            if end > start && end > self.una {
                self.acknowledge_selectively(start.max(self.una), end.min(self.next), delivery);
            }
        }
        advanced
    }

    #[inline(always)]
    fn note_delivered(&mut self, now: Nanos, delivery: &Delivery) {
        self.heard_at = now;
        self.acked_since_loss += u64::from(delivery.delivered);
        self.delivered += u64::from(delivery.delivered);
        self.update_rack(now, delivery);
        self.backoff = 0;
    }

    /// The report of an ACK to the congestion control.
    #[inline(always)]
    fn ack_summary(
        &mut self,
        delivery: &Delivery,
        rtt: Option<Nanos>,
        prior_in_flight: u32,
        lost: u32,
        ecn_echo: bool,
    ) -> Ack {
        Ack {
            now: delivery.now,
            acked: delivery.delivered,
            rtt,
            srtt: self.rtt.srtt,
            min_rtt: self.rtt.min,
            una: self.una,
            next: self.next,
            prior_in_flight,
            in_flight: self.in_flight(),
            lost,
            delivered: self.delivered,
            cwnd_limited: self.is_window_limited(),
            open: self.state == State::Open,
            ecn_echo,
            rate: self.rate.as_mut().and_then(|rate| rate.take_sample(self.rtt.min)),
        }
    }

    #[inline(always)]
    fn notify_controller(&mut self, ack: &Ack, peers: Peers<'_>) {
        self.controller.on_delivered(&mut self.window, ack, peers);
        // After the controller has counted the marks (RFC 8257 section 3.3).
        if ack.ecn_echo {
            self.on_ecn_echo(ack.now, peers);
        }
        if self.state != State::Recovery {
            self.controller.on_ack(&mut self.window, ack, peers);
        }
    }

    /// Cumulative acknowledgement of everything below `next`.
    #[inline]
    fn acknowledge_to(&mut self, next: Seq, delivery: &mut Delivery) {
        while self.una < next {
            let Some(segment) = self.board.pop() else { break };
            let seq = self.una;
            self.una += 1;
            if let Some(rate) = &mut self.rate {
                if segment.flags & SACKED == 0 {
                    rate.on_delivered(delivery.now, seq);
                }
                rate.pop();
            }
            if segment.flags == 0 && self.sacked_out == 0 {
                delivery.note_unambiguous(segment.sent_at, seq);
                continue;
            }
            self.uncount(segment.flags);
            if segment.flags & SACKED == 0 {
                self.note_delivery(segment, seq, delivery);
            } else {
                Self::decrement(&mut self.sacked_out, true, &mut self.miscounted);
            }
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(self.una);
        }
        self.rack_scan = self.rack_scan.max(self.una);
    }

    fn acknowledge_selectively(&mut self, start: Seq, end: Seq, delivery: &mut Delivery) {
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.insert(start..end, |part| {
            for seq in part {
                let segment = *self.board.at(seq);
                self.uncount(segment.flags);
                self.mark(seq).flags = SACKED | (segment.flags & AMBIGUOUS);
                self.sacked_out += 1;
                if let Some(rate) = &mut self.rate {
                    rate.on_delivered(delivery.now, seq);
                }
                self.note_delivery(segment, seq, delivery);
            }
        });
        self.sacked = sacked;
    }

    /// The segment no longer counts as lost or retransmitted.
    #[inline]
    fn uncount(&mut self, flags: u8) {
        let Self { lost_out, retransmitted_out, miscounted, .. } = self;
        Self::decrement(lost_out, flags & LOST != 0, miscounted);
        Self::decrement(retransmitted_out, flags & RETRANSMITTED != 0, miscounted);
    }

    fn note_delivery(&mut self, segment: Segment, seq: Seq, delivery: &mut Delivery) {
        if segment.flags & AMBIGUOUS != 0 {
            delivery.note_ambiguous(segment.sent_at, seq);
            return;
        }
        delivery.original_of_lost |= segment.flags & LOST != 0;
        // RFC 8985 section 6.2 step 3: delivered after something that was sent later (Linux `tcp_check_sack_reordering`).
        self.rack.reordering_seen |= seq < delivery.sacked_until;
        delivery.note_unambiguous(segment.sent_at, seq);
    }

    /// RFC 6298: one sample per ACK, from the first segment it newly acknowledges; the congestion
    /// control gets that of the last one (Linux `seq_rtt_us` and `ca_rtt_us`).
    #[inline]
    fn take_rtt_sample(&mut self, now: Nanos, delivery: &Delivery) -> Option<Nanos> {
        let first = delivery.first_sent_at?;
        self.rtt.on_sample(now - first, self.una, self.next);
        Some(now - delivery.last_sent_at)
    }

    /// RFC 8985 section 6.2 step 2.
    #[inline]
    fn update_rack(&mut self, now: Nanos, delivery: &Delivery) {
        if (delivery.newest_sent_at, delivery.newest_end) > (self.rack.sent_at, self.rack.end) {
            self.rack.sent_at = delivery.newest_sent_at;
            self.rack.end = delivery.newest_end;
            self.rack.rtt = now - delivery.newest_sent_at;
        }
    }
}
