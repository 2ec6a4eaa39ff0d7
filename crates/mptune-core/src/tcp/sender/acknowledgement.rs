//! What an acknowledgement does to a sender: scoreboard, RTT sample, RACK, congestion control.

use super::{AMBIGUOUS, LOST, Progress, RETRANSMITTED, SACKED, Segment, Sender, State};
use crate::congestion::{Ack, Peer, Peers};
use crate::tcp::Acknowledgement;
use crate::units::{Nanos, Seq};

impl Sender {
    /// An acknowledgement arrived; `all` are the connection's subflows, `me` this one's index.
    pub fn on_ack(
        &mut self,
        now: Nanos,
        ack: &Acknowledgement,
        all: &[Peer],
        me: usize,
    ) -> Progress {
        let peers = Peers { all, me };
        let prior_in_flight = self.in_flight();
        let lost_before = self.lost_total;
        let mut round = Round::new(now, self.rtt.min);
        let advanced = ack.next > self.una;
        if advanced {
            self.acknowledge_to(ack.next.min(self.next), &mut round);
        }
        for &(start, end) in &ack.sack {
            if end > start && end > self.una {
                self.acknowledge_selectively(start.max(self.una), end.min(self.next), &mut round);
            }
        }
        let rtt = self.take_rtt_sample(now, &round);
        if round.delivered > 0 {
            self.acked_since_loss += u64::from(round.delivered);
            self.delivered += u64::from(round.delivered);
            self.update_rack(now, &round);
            self.backoff = 0;
        }
        self.undo_if_spurious(now, ack.duplicate, &round);
        let retransmission_lost = if self.sacked_out > 0 || self.state != State::Open {
            self.detect_losses(now)
        } else {
            false
        };
        self.end_probe(now, ack, peers);
        self.change_state(now, retransmission_lost, peers);
        if round.delivered > 0 {
            let facts = Ack {
                now,
                acked: round.delivered,
                rtt,
                srtt: self.rtt.srtt,
                min_rtt: self.rtt.min,
                una: self.una,
                next: self.next,
                prior_in_flight,
                in_flight: self.in_flight(),
                lost: (self.lost_total - lost_before) as u32,
                delivered: self.delivered,
                cwnd_limited: self.is_window_limited(),
                open: self.state == State::Open,
                ecn_echo: ack.ecn_echo,
                rate: self.rate.as_mut().and_then(|rate| rate.take_sample(self.rtt.min)),
            };
            self.controller.on_delivered(&mut self.window, &facts, peers);
            // After the controller counted the marks (RFC 8257 section 3.3).
            if ack.ecn_echo {
                self.on_ecn_echo(now, peers);
            }
            if self.state != State::Recovery {
                self.controller.on_ack(&mut self.window, &facts, peers);
            }
        }
        if round.delivered > 0 {
            if self.state == State::Recovery {
                self.reduce(round.delivered, advanced && self.lost_total == lost_before);
            }
            self.update_pacing();
            self.arm(now);
        }
        Progress { delivered: round.delivered, advanced }
    }

    /// Cumulative acknowledgement of everything below `next`.
    #[inline]
    fn acknowledge_to(&mut self, next: Seq, round: &mut Round) {
        while self.una < next {
            let Some(segment) = self.board.pop() else { break };
            let seq = self.una;
            self.una += 1;
            if let Some(rate) = &mut self.rate {
                if segment.flags & SACKED == 0 {
                    rate.on_delivered(round.now, seq);
                }
                rate.pop();
            }
            if segment.flags == 0 && self.sacked_out == 0 {
                round.note_unambiguous(segment.sent_at, seq);
                continue;
            }
            self.uncount(segment.flags);
            if segment.flags & SACKED == 0 {
                self.note_delivery(segment, seq, round);
            } else {
                self.sacked_out -= 1;
            }
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(self.una);
        }
        self.rack_scan = self.rack_scan.max(self.una);
    }

    fn acknowledge_selectively(&mut self, start: Seq, end: Seq, round: &mut Round) {
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.insert(start..end, |part| {
            for seq in part {
                let segment = *self.board.at(seq);
                self.uncount(segment.flags);
                self.board.at_mut(seq).flags = SACKED | (segment.flags & AMBIGUOUS);
                self.sacked_out += 1;
                if let Some(rate) = &mut self.rate {
                    rate.on_delivered(round.now, seq);
                }
                self.note_delivery(segment, seq, round);
            }
        });
        self.sacked = sacked;
    }

    /// The segment no longer counts as lost or retransmitted.
    #[inline]
    fn uncount(&mut self, flags: u8) {
        self.lost_out -= u32::from(flags & LOST != 0);
        self.retransmitted_out -= u32::from(flags & RETRANSMITTED != 0);
    }

    fn note_delivery(&mut self, segment: Segment, seq: Seq, round: &mut Round) {
        if segment.flags & AMBIGUOUS != 0 {
            round.note_ambiguous(segment.sent_at, seq);
            return;
        }
        round.original_of_lost |= segment.flags & LOST != 0;
        // RFC 8985 section 6.2 step 3: delivered although something sent later was before.
        self.rack.reordering_seen |= segment.sent_at < self.rack.sent_at && seq < self.rack.end;
        round.note_unambiguous(segment.sent_at, seq);
    }

    /// RFC 6298: one sample per ACK, from the first segment it newly acknowledges; the congestion
    /// control gets that of the last one (Linux `seq_rtt_us` and `ca_rtt_us`).
    #[inline]
    fn take_rtt_sample(&mut self, now: Nanos, round: &Round) -> Option<Nanos> {
        let first = round.first_sent_at?;
        self.rtt.on_sample(now - first, self.una, self.next);
        Some(now - round.last_sent_at)
    }

    /// RFC 8985 section 6.2 step 2.
    #[inline]
    fn update_rack(&mut self, now: Nanos, round: &Round) {
        if (round.newest_sent_at, round.newest_end) > (self.rack.sent_at, self.rack.end) {
            self.rack.sent_at = round.newest_sent_at;
            self.rack.end = round.newest_end;
            self.rack.rtt = now - round.newest_sent_at;
        }
    }
}

/// What one ACK newly delivered.
#[derive(Debug)]
pub(super) struct Round {
    now: Nanos,
    min_rtt: Nanos,
    delivered: u32,
    /// A segment counted as lost was delivered without having been sent again.
    pub(super) original_of_lost: bool,
    /// Latest transmission among the delivered segments, and the segment's number plus 1.
    newest_sent_at: Nanos,
    newest_end: Seq,
    /// Transmission of the first and the last delivered segment that was sent only once.
    first_sent_at: Option<Nanos>,
    last_sent_at: Nanos,
}

impl Round {
    fn new(now: Nanos, min_rtt: Nanos) -> Self {
        Self {
            now,
            min_rtt,
            delivered: 0,
            original_of_lost: false,
            newest_sent_at: 0,
            newest_end: 0,
            first_sent_at: None,
            last_sent_at: 0,
        }
    }

    #[inline]
    fn note_unambiguous(&mut self, sent_at: Nanos, seq: Seq) {
        self.delivered += 1;
        self.first_sent_at.get_or_insert(sent_at);
        self.last_sent_at = self.last_sent_at.max(sent_at);
        self.note_newest(sent_at, seq);
    }

    /// RFC 8985 section 6.2 step 2: an ACK that comes sooner than any round trip cannot be for the
    /// retransmission, so it says nothing about when the delivered copy was sent.
    fn note_ambiguous(&mut self, sent_at: Nanos, seq: Seq) {
        self.delivered += 1;
        if self.now - sent_at >= self.min_rtt {
            self.note_newest(sent_at, seq);
        }
    }

    #[inline]
    fn note_newest(&mut self, sent_at: Nanos, seq: Seq) {
        if (sent_at, seq + 1) > (self.newest_sent_at, self.newest_end) {
            self.newest_sent_at = sent_at;
            self.newest_end = seq + 1;
        }
    }
}
