//! The sender's messages: which of them may be written, and how late they were. The receiver's delays are the core's
//! (`mptune_core::workload::Delays`).
//!
//! A program that sends messages writes each as it comes, in a call of its own, and waits while there is no room. Of a message
//! that found room when it was due, the time from then to its write is this machine's fault: it is the lateness by which
//! a trial is judged. What waits for room, or behind a message that does, is late by the connection's fault, and that is measured.

use mptune_core::workload::{Schedule, Workload};

/// A lost SYN is repeated after a second (RFC 6298 2.1): a handshake that took so much longer than the round trip was repeated.
const REPEATED_NS: u64 = 1_000_000_000;

/// The messages of a sender. Times are on its clock.
#[derive(Debug)]
pub struct DueTimes {
    schedule: Schedule,
    /// The first is due: the connection was established.
    begun_ns: u64,
    /// Messages that were written.
    written: u64,
    /// Bytes of the next one that were not.
    left: u64,
    /// Bytes in front of the first, in a segment of their own: in one with it they would be the largest segment that the
    /// receiver ever sees, and it takes shorter ones of a constant length for full ones, whose ACKs it may delay (Linux
    /// `tcp_measure_rcv_mss`).
    leading: u64,
    /// The next one waits for room.
    blocked: bool,
    /// Messages that were due by then waited behind one that found no room.
    excused_ns: Option<u64>,
    late_ns: u64,
}

impl DueTimes {
    /// Those of a workload, if it is a series of messages; `leading` bytes are sent in front of the first.
    pub fn new(workload: &Workload, leading: u64) -> Option<Self> {
        let schedule = workload.schedule()?;
        Some(Self {
            left: schedule.bytes(0),
            schedule,
            begun_ns: 0,
            written: 0,
            leading,
            blocked: false,
            excused_ns: None,
            late_ns: 0,
        })
    }

    /// The connection is established, after a handshake whose round trip took `rtt_ns`, 0 if that is not known: what the
    /// handshake took beyond it passed until this half ran again, and the receiver cannot tell it from a delay.
    pub fn begin(&mut self, handshake_ns: u64, rtt_ns: u64) {
        self.begun_ns = handshake_ns;
        let late_ns = handshake_ns.saturating_sub(rtt_ns);
        if rtt_ns > 0 && late_ns < REPEATED_NS {
            self.late_ns = late_ns;
        }
    }

    /// The same of a half that knows of the connection from `now_ns` on: those that were due before waited for that.
    pub fn begin_behind(&mut self, begun_ns: u64, now_ns: u64) {
        self.begun_ns = begun_ns;
        self.excused_ns = Some(now_ns);
    }

    /// Time at which the next one is due; never after the last.
    fn due_ns(&self) -> u64 {
        let is_over = self.written == self.schedule.count();
        if is_over { u64::MAX } else { self.begun_ns + self.schedule.due(self.written) }
    }

    /// Time of the next one that is not due yet, if the next one is.
    pub fn next_ns(&self, now_ns: u64) -> u64 {
        Some(self.due_ns()).filter(|&due_ns| due_ns > now_ns).unwrap_or(u64::MAX)
    }

    /// Bytes that may be written in one call: the rest of the next message, if it is due.
    pub fn left(&self, now_ns: u64) -> u64 {
        match self.leading {
            _ if now_ns < self.due_ns() => 0,
            0 => self.left,
            leading => leading,
        }
    }

    /// So many of the bytes that might be were written at `now_ns`; `whole` if there was room for all that was asked for.
    pub fn wrote(&mut self, now_ns: u64, bytes: u64, whole: bool) {
        if self.leading > 0 {
            self.leading -= bytes;
            return;
        }
        self.left -= bytes;
        self.blocked |= !whole;
        if self.left > 0 {
            return;
        }
        let due_ns = self.due_ns();
        if self.blocked {
            self.excused_ns = Some(now_ns);
        } else if self.excused_ns.is_none_or(|excused_ns| due_ns > excused_ns) {
            self.late_ns = self.late_ns.max(now_ns - due_ns);
        }
        self.written += 1;
        if self.written < self.schedule.count() {
            self.left = self.schedule.bytes(self.written);
        }
        self.blocked = false;
    }

    /// The largest lateness of those that found room.
    pub fn late_ns(&self) -> u64 {
        self.late_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mptune_core::workload::{Bulk, Messages};

    const MS: u64 = 1_000_000;

    /// Three messages of 100 bytes, 20 ms apart, behind 16 bytes, on a connection that was established at 30 ms.
    fn begun() -> DueTimes {
        let (interval_ns, duration_ns) = (20 * MS, 60 * MS);
        let messages =
            Messages { bytes: 100, interval_ns, duration_ns, patience_ns: MS, both_ways: false };
        let mut times = DueTimes::new(&Workload::Messages(messages), 16).unwrap();
        times.begin(30 * MS, 30 * MS);
        assert_eq!(times.left(30 * MS), 16);
        write(&mut times, 30 * MS);
        times
    }

    /// Writes all that may be.
    fn write(times: &mut DueTimes, now_ns: u64) {
        times.wrote(now_ns, times.left(now_ns), true);
    }

    #[test]
    fn each_is_due_at_its_time_and_never_before() {
        let mut times = begun();
        assert_eq!(times.left(30 * MS), 100);
        write(&mut times, 30 * MS);
        assert_eq!((times.left(50 * MS - 1), times.next_ns(50 * MS - 1)), (0, 50 * MS));
        assert_eq!((times.left(50 * MS), times.next_ns(50 * MS)), (100, u64::MAX));
        write(&mut times, 50 * MS);
        write(&mut times, 70 * MS);
        assert_eq!((times.left(u64::MAX - 1), times.next_ns(70 * MS)), (0, u64::MAX));
        assert_eq!(times.late_ns(), 0);
    }

    #[test]
    fn what_waits_for_room_is_not_late_and_neither_is_what_waits_behind_it() {
        let mut times = begun();
        times.wrote(30 * MS, 0, false);
        times.wrote(40 * MS, 50, false);
        assert_eq!((times.left(60 * MS), times.next_ns(60 * MS)), (50, u64::MAX));
        write(&mut times, 60 * MS);
        assert_eq!(times.left(60 * MS), 100);
        write(&mut times, 61 * MS);
        assert_eq!(times.late_ns(), 0);
        write(&mut times, 73 * MS);
        assert_eq!(times.late_ns(), 3 * MS);
    }

    #[test]
    fn the_largest_lateness_counts_also_that_of_the_first() {
        let mut times = begun();
        write(&mut times, 31 * MS);
        write(&mut times, 55 * MS);
        write(&mut times, 72 * MS);
        assert_eq!(times.late_ns(), 5 * MS);
        let late_ns = |handshake_ns, rtt_ns| {
            let mut times = begun();
            times.begin(handshake_ns, rtt_ns);
            times.late_ns()
        };
        assert_eq!(late_ns(33 * MS, 30 * MS), 3 * MS);
        assert_eq!((late_ns(33 * MS, 0), late_ns(1030 * MS, 30 * MS)), (0, 0));
    }

    #[test]
    fn a_message_in_several_pieces_does_not_wait() {
        let mut times = begun();
        times.wrote(30 * MS, 60, true);
        assert_eq!(times.left(30 * MS), 40);
        write(&mut times, 31 * MS);
        assert_eq!((times.late_ns(), times.left(31 * MS)), (MS, 0));
    }

    #[test]
    fn other_workloads_have_none() {
        let bulk = Workload::Bulk(Bulk { duration_ns: 1, ends_early: false });
        assert!(DueTimes::new(&bulk, 0).is_none());
    }
}
