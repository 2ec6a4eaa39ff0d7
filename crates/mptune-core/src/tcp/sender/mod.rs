//! The sending half of a subflow: scoreboard, loss detection and recovery, timers.
//!
//! Loss detection is RACK-TLP (RFC 8985) over SACK, recovery is PRR, the timeout follows RFC 6298,
//! each as in Linux (`net/ipv4/tcp_input.c`, `tcp_recovery.c`, `tcp_output.c`). Growth and reduction of the
//! window belong to the congestion control. Not here: the assignment of data to subflows (`mptcp`).
//!
//! The cost per segment is amortised constant: original transmissions are in order of time, so RACK scans each
//! once, and so is the queue of retransmissions.

mod acknowledgement;
mod audit;
mod congestion;
mod delivery;
mod idle;
mod loss;
mod pace;
mod reduction;
mod timer;
mod undo;

use super::pacing::{self, Lengths, Pacing};
use super::{Prr, RttEstimator, Timing, rate::RateEstimator};
use crate::congestion::{Controller, INFINITE_SSTHRESH, INITIAL_WINDOW, Peer, Window};
use crate::engine::{RangeSet, Ring};
use crate::units::{NEVER, Nanos, Seq};
use reduction::Undo;
use std::collections::VecDeque;

/// Most doublings of the timeout (2^9 * 200 ms is past the longest timeout).
const MAX_BACKOFF: u32 = 10;

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// A retransmission of it is in flight.
const RETRANSMITTED: u8 = 4;
/// Sent more than once: no RTT sample (Karn's algorithm, RFC 6298 section 3).
const AMBIGUOUS: u8 = 8;

/// A segment between SND.UNA and SND.NXT.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    sent_at: Nanos,
    data: Seq,
    flags: u8,
}

/// The recovery state (Linux `TCP_CA_Open`, `_Recovery`, `_Loss`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Recovery,
    Loss,
}

/// The purpose of a subflow's single timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    Off,
    /// RFC 6298.
    Retransmission,
    /// RFC 8985 section 7: tail loss probe.
    Probe,
    /// RFC 8985 section 6.2 step 5: the reordering window.
    Reordering,
}

/// The action of the connection after a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerAction {
    /// Nothing was due, or the window may now allow segments.
    None,
    /// Send the segment of [`Sender::probe`].
    Probe,
    /// The retransmission timer expired: everything outstanding may be lost.
    Timeout,
}

/// The effect of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Segments newly delivered.
    pub delivered: u32,
    /// SND.UNA advanced.
    pub advanced: bool,
}

/// Rare events, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderCounters {
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Reductions undone.
    pub undone: u64,
    /// Reductions because of ECN.
    pub ecn_reductions: u64,
}

/// RACK's view of the most recently sent delivered segment (RFC 8985 section 5.2).
#[derive(Debug, Clone, Copy, Default)]
struct Rack {
    sent_at: Nanos,
    end: Seq,
    rtt: Nanos,
    reordering_seen: bool,
}

/// The sender of one subflow.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Window and slow-start threshold.
    pub window: Window,
    /// RTT statistics.
    pub rtt: RttEstimator,
    controller: Controller,
    /// Reductions and pacing rates are of whole segments.
    whole: bool,
    una: Seq,
    next: Seq,
    board: Ring<Segment>,
    /// From this segment on all were sent once, in order, and are neither lost nor SACKed.
    plain_from: Seq,
    sacked: RangeSet,
    sacked_out: u32,
    lost_out: u32,
    retransmitted_out: u32,
    state: State,
    /// The recovery answers marks alone, and nothing was lost (Linux `TCP_CA_CWR`).
    only_marked: bool,
    /// A recovery ends when SND.UNA reaches it.
    recovery_end: Seq,
    prr: Prr,
    undo: Option<Undo>,
    /// After a timeout, the arrival of an original shows that it was needless (Linux `frto`).
    original_may_tell: bool,
    rack: Rack,
    /// First original transmission that RACK has not checked.
    rack_scan: Seq,
    /// Lost segments to retransmit, in order: originals, then lost retransmissions.
    lost: VecDeque<Seq>,
    lost_retransmissions: VecDeque<Seq>,
    retransmissions: VecDeque<(Seq, Nanos)>,
    timing: Timing,
    timer: Timer,
    deadline: Nanos,
    /// When it was to expire; the tick of the clock's wheel can be later.
    due: Nanos,
    /// Something was delivered.
    heard_at: Nanos,
    backoff: u32,
    /// A tail loss probe is in flight; it ends when this is acknowledged (`TLP.end_seq`).
    probe_end: Option<Seq>,
    /// Linux `is_cwnd_limited`, `max_packets_out`, `cwnd_usage_seq`.
    window_limited: bool,
    largest_flight: u32,
    usage_round_end: Seq,
    last_sent_at: Nanos,
    ecn_signal: bool,
    delivered: u64,
    /// Delivery-rate samples, if they are requested.
    rate: Option<Box<RateEstimator>>,
    pacing: Pacing,
    /// Segments for each RTT of TCP's own pacing rate, of which this sender makes no use ([`Peer::paced`]).
    paced: f64,
    /// Rate above which it does not send whatever the controller asks for, segments/s.
    pace_limit: Option<f64>,
    acked_since_loss: u64,
    acked_between_losses: u64,
    /// Segments and retransmissions that acknowledgements showed to be lost.
    lost_total: u64,
    retransmitted_total: u64,
    timeouts_total: u64,
    counters: SenderCounters,
    /// A count would have fallen below zero.
    miscounted: bool,
}

impl Sender {
    /// A sender that has not sent anything.
    ///
    /// It takes samples of the delivery rate if `sampled`.
    pub fn new(controller: Controller, sampled: bool) -> Self {
        let rate = sampled.then(Box::default);
        Self {
            window: Window::new(),
            rtt: RttEstimator::default(),
            controller,
            whole: false,
            una: 0,
            next: 0,
            board: Ring::new(),
            plain_from: 0,
            sacked: RangeSet::default(),
            sacked_out: 0,
            lost_out: 0,
            retransmitted_out: 0,
            state: State::Open,
            only_marked: false,
            recovery_end: 0,
            prr: Prr::default(),
            undo: None,
            original_may_tell: false,
            rack: Rack::default(),
            rack_scan: 0,
            lost: VecDeque::new(),
            lost_retransmissions: VecDeque::new(),
            retransmissions: VecDeque::new(),
            timing: Timing::EXACT,
            timer: Timer::Off,
            deadline: NEVER,
            due: NEVER,
            heard_at: 0,
            backoff: 0,
            probe_end: None,
            window_limited: false,
            largest_flight: 0,
            usage_round_end: 0,
            last_sent_at: 0,
            ecn_signal: false,
            delivered: 0,
            rate,
            pacing: Pacing::default(),
            paced: pacing::per_rtt(INITIAL_WINDOW, INFINITE_SSTHRESH, 0),
            pace_limit: None,
            acked_since_loss: 0,
            acked_between_losses: 0,
            lost_total: 0,
            retransmitted_total: 0,
            timeouts_total: 0,
            counters: SenderCounters::default(),
            miscounted: false,
        }
    }

    /// With `whole`, reductions and pacing rates are of whole segments, as Linux counts them: with a window of a few segments, which
    /// a program that waits for its next piece never lets grow, the parts that this simulator keeps make a difference.
    pub fn counting_whole(self, whole: bool) -> Self {
        Self { whole, ..self }
    }

    /// The same with segments of these lengths, as the pace counts them, and these timers.
    pub fn of_host(self, lengths: Lengths, timing: Timing) -> Self {
        Self { pacing: Pacing::new(lengths), timing, rtt: RttEstimator::new(&timing), ..self }
    }

    /// The handshake ended with an RTT of `rtt`, none if its segments were retransmitted.
    pub fn on_established(&mut self, now: Nanos, rtt: Option<Nanos>) {
        if let Some(rtt) = rtt {
            self.rtt.on_sample(rtt, self.una, self.next);
        }
        self.controller.on_established(&mut self.window, self.rtt.srtt, now);
        self.last_sent_at = now;
        self.update_pacing();
    }

    /// The receiver must echo ECN marks segment by segment.
    pub fn ecn_per_segment(&self) -> bool {
        self.controller.ecn_per_segment()
    }

    /// The next new segment carries CWR; reading clears it.
    #[inline]
    pub fn take_ecn_signal(&mut self) -> bool {
        std::mem::take(&mut self.ecn_signal)
    }

    /// Segments sent and neither delivered nor lost (RFC 6675 `pipe`).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        (self.next - self.una) + self.retransmitted_out - self.sacked_out - self.lost_out
    }

    /// The first segment that is not acknowledged cumulatively.
    #[inline]
    pub fn una(&self) -> Seq {
        self.una
    }

    /// Segments not cumulatively acknowledged.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.next - self.una
    }

    /// The window in whole segments, at least one.
    #[inline]
    fn whole_window(&self) -> u32 {
        // Saturates at u32::MAX; the window is never NaN.
        (self.window.cwnd as u32).max(1)
    }

    /// The window has room for a segment.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.whole_window()
    }

    /// New data may be sent: cwnd has room, the pace allows it, and no lost segment waits.
    #[inline]
    pub fn ready(&self, now: Nanos) -> bool {
        self.may_send(now) && self.has_room()
    }

    /// The same, regardless of cwnd.
    #[inline]
    fn may_send(&self, now: Nanos) -> bool {
        self.pacing.allows(now) && !self.has_lost()
    }

    /// This subflow, as a coupled congestion control sees it.
    #[inline]
    pub fn summary(&self, usable: bool) -> Peer {
        let recovering = self.state == State::Recovery;
        Peer {
            usable: usable && self.rtt.srtt > 0,
            cwnd: if recovering { self.window.ssthresh } else { self.window.cwnd },
            srtt: self.rtt.srtt,
            min_rtt: self.rtt.min,
            acked_since_loss: self.acked_since_loss,
            acked_between_losses: self.acked_between_losses,
            ssthresh: self.window.ssthresh,
            outstanding: self.outstanding(),
            memory: 0.0,
            rtt_variation: self.rtt.variation(),
            window: self.counted_window(),
            sent: self.outstanding(),
            paced: self.paced,
            pace: self.pacing.rate(),
            delivers: self.delivery_rate().unwrap_or(0.0),
            held: false,
            timed_out: false,
            rank: 0,
        }
    }

    /// Delivery rate, segments per ns, as the kernel remembers it (see [`RateEstimator::kept`]); none before a sample.
    pub fn delivery_rate(&self) -> Option<f64> {
        self.rate.as_ref()?.kept()
    }

    /// Segments sent so far, counting each transmission.
    pub fn sent(&self) -> u64 {
        u64::from(self.next) + self.retransmitted_total
    }

    /// Departure of the first outstanding segment.
    pub fn oldest_sent_at(&self) -> Option<Nanos> {
        self.board.front().map(|segment| segment.sent_at)
    }

    /// Departure of the last segment, or establishment.
    pub fn last_sent_at(&self) -> Nanos {
        self.last_sent_at
    }

    /// Segments delivered, cumulatively or selectively.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Segments retransmitted so far.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted_total
    }

    /// Retransmission timeouts so far.
    pub fn timeouts(&self) -> u64 {
        self.timeouts_total
    }

    /// Rare events so far.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Neither recovering nor after a timeout.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Nothing is being repaired: neither a recovery nor a timeout, or a reduction after marks alone.
    fn repairs_nothing(&self) -> bool {
        self.state == State::Open || self.only_marked
    }

    /// The state as Linux numbers it (`tcp_ca_state`): 0 open, 2 reduced after marks, 3 recovery, 4 loss.
    pub fn state_number(&self) -> u8 {
        match self.state {
            State::Open => 0,
            State::Recovery if self.only_marked => 2,
            State::Recovery => 3,
            State::Loss => 4,
        }
    }

    /// Outstanding segments marked lost.
    pub fn lost(&self) -> u32 {
        self.lost_out
    }

    /// Outstanding segments that are SACKed.
    pub fn sacked(&self) -> u32 {
        self.sacked_out
    }

    /// Room in cwnd, segments.
    pub fn room(&self) -> u32 {
        self.whole_window().saturating_sub(self.in_flight())
    }

    /// Timeouts in a row without progress in between.
    pub fn consecutive_timeouts(&self) -> u32 {
        self.backoff
    }

    /// Data sequence numbers of all outstanding segments, SACKed ones included: the receiver delivers these only
    /// after the gap before them is closed, which may be never.
    pub fn undelivered(&self) -> impl Iterator<Item = Seq> {
        (self.una..self.next).map(|seq| self.board.at(seq).data)
    }

    /// Expiry of the timer (retransmission, loss probe, reordering; Linux `tcp_timeout_expires`), or [`NEVER`].
    #[inline]
    pub fn timer(&self) -> Nanos {
        self.deadline
    }

    /// Time to call [`Self::on_timer`]: the timer expires, or the pace allows the next segment; or [`NEVER`].
    #[inline]
    pub fn deadline(&self, now: Nanos) -> Nanos {
        if !self.pacing.allows(now) && self.has_room() {
            return self.deadline.min(self.pacing.until());
        }
        self.deadline
    }

    /// Sends a new segment carrying `data`. Returns its number, and true if another may follow ([`Self::ready`]).
    #[inline]
    pub fn send(&mut self, now: Nanos, data: Seq) -> (Seq, bool) {
        let seq = self.next;
        if let Some(rate) = &mut self.rate {
            rate.on_send(now, self.next - self.una);
        }
        self.board.push(Segment { sent_at: now, data, flags: 0 });
        self.next += 1;
        self.note_departure(now);
        if self.state == State::Recovery {
            self.prr.sent += 1;
        }
        let (flight, window) = (self.in_flight(), self.whole_window());
        self.note_window_use(flight, window);
        // The second segment removes the delayed ACK from the probe timeout; later ones would only shift it, as
        // every ACK does.
        if self.timer == Timer::Off || self.outstanding() == 2 {
            self.arm(now);
        } else if now.saturating_sub(self.heard_at) > self.rtt.srtt {
            self.shift_probe(now);
        }
        (seq, flight < window && self.may_send(now))
    }

    #[inline]
    fn note_departure(&mut self, now: Nanos) {
        self.last_sent_at = now;
        self.pacing.on_departure(now);
    }

    /// The scheduler had nothing for this subflow although it was ready.
    pub fn note_app_limited(&mut self) {
        let in_flight = self.in_flight();
        if let Some(rate) = &mut self.rate {
            rate.note_app_limited(in_flight);
        }
    }

    /// cwnd has room, but a burst waits for more.
    pub fn note_deferred(&mut self) {
        self.window_limited = true;
        self.largest_flight = self.in_flight();
        self.usage_round_end = self.next;
    }

    /// Linux `tcp_cwnd_validate`: records for a round trip whether cwnd limited sending.
    #[inline]
    fn note_window_use(&mut self, flight: u32, window: u32) {
        let limited = flight >= window;
        let grew = !self.window_limited && flight > self.largest_flight;
        if limited || grew || self.una >= self.usage_round_end {
            self.window_limited = limited;
            self.largest_flight = flight;
            self.usage_round_end = self.next;
        }
    }

    /// Linux `tcp_is_cwnd_limited`: in slow start half the window is enough, so that it may double.
    #[inline]
    pub(super) fn is_window_limited(&self) -> bool {
        self.window_limited
            || (self.window.in_slow_start()
                && self.window.cwnd < 2.0 * f64::from(self.largest_flight))
    }

    /// Lost segments may wait for retransmission.
    #[inline]
    pub fn has_lost(&self) -> bool {
        !(self.lost.is_empty() && self.lost_retransmissions.is_empty())
    }

    /// Retransmits the next lost segment if cwnd and pace allow: its number and data. The lowest goes first (Linux
    /// `tcp_verify_retransmit_hint`), so that SND.UNA can advance.
    pub fn next_retransmission(&mut self, now: Nanos) -> Option<(Seq, Seq)> {
        loop {
            let from_retransmissions = match (self.lost.front(), self.lost_retransmissions.front())
            {
                (None, None) => return None,
                (Some(original), Some(retransmission)) => retransmission < original,
                (original, _) => original.is_none(),
            };
            let has_room = self.has_room() && self.pacing.allows(now);
            let queue =
                if from_retransmissions { &mut self.lost_retransmissions } else { &mut self.lost };
            let seq = *queue.front()?;
            let waits = seq >= self.una
                && self.board.at(seq).flags & (LOST | SACKED | RETRANSMITTED) == LOST;
            if waits && !has_room {
                return None;
            }
            queue.pop_front();
            if waits {
                return Some((seq, self.retransmit(now, seq)));
            }
        }
    }

    /// The segment, for a change of its flags.
    #[inline]
    fn mark(&mut self, seq: Seq) -> &mut Segment {
        self.plain_from = self.plain_from.max(seq + 1);
        self.board.at_mut(seq)
    }

    fn retransmit(&mut self, now: Nanos, seq: Seq) -> Seq {
        let segment = self.mark(seq);
        segment.sent_at = now;
        segment.flags |= RETRANSMITTED | AMBIGUOUS;
        let data = segment.data;
        self.retransmitted_out += 1;
        self.retransmitted_total += 1;
        self.retransmissions.push_back((seq, now));
        if let Some(rate) = &mut self.rate {
            rate.on_resend(now, seq);
        }
        if let Some(undo) = &mut self.undo {
            undo.note_retransmission();
        }
        self.note_departure(now);
        if self.state == State::Recovery {
            self.prr.sent += 1;
        }
        if self.timer == Timer::Off {
            self.arm(now);
        }
        data
    }

    /// Penalises a subflow whose data blocks a faster one: halves cwnd in the open state, and `ssthresh` after slow
    /// start (v0.9x kernels `mptcp_rcv_buf_optimization`). False in other states.
    pub fn penalise(&mut self) -> bool {
        if self.state != State::Open {
            return false;
        }
        if !self.window.in_slow_start() {
            self.window.ssthresh = (self.window.ssthresh / 2.0).max(2.0);
        }
        self.window.cwnd = (self.window.cwnd / 2.0).max(1.0);
        true
    }
}

#[cfg(test)]
mod tests;
