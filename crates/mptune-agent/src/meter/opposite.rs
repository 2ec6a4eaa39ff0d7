//! Messages that go back where they go both ways: the receiving half sends them, the sending half times them.
//!
//! They are due from when the connection was accepted, which is half a round trip after it was established at the
//! sender: so their delays need no comparison of clocks either, with the same error (`clock`). They have the bytes of the
//! job's pattern from its beginning.

use crate::meter::clock::Handshake;
use crate::meter::config::Job;
use crate::meter::messages::DueTimes;
use crate::meter::pattern::Pattern;
use mptune_core::workload::{Delays, Schedule, WRITE_BYTES};

fn schedule(job: &Job) -> Option<Schedule> {
    job.workload.schedule().filter(|_| job.workload.both_ways())
}

/// The messages of the receiving half. Times are on its clock.
pub struct Outgoing {
    times: DueTimes,
    pattern: Pattern,
    /// Bytes that were written, and in all.
    written: u64,
    total: u64,
    /// Those that are to be written next.
    data: Vec<u8>,
}

impl Outgoing {
    /// Those of a workload, if its messages go both ways.
    pub fn new(job: &Job) -> Option<Self> {
        schedule(job)?;
        let (times, pattern) = (DueTimes::new(&job.workload, 0)?, Pattern::new(job.seed));
        Some(Self { times, pattern, written: 0, total: job.workload.bytes(), data: Vec::new() })
    }

    /// The connection was accepted, and is known as the trial's from `now_ns` on.
    pub fn begin(&mut self, accepted_ns: u64, now_ns: u64) {
        self.times.begin_behind(accepted_ns, now_ns);
    }

    /// Bytes to be written in one call; empty if none are due.
    pub fn due(&mut self, now_ns: u64) -> &[u8] {
        let length = self.times.left(now_ns).min(WRITE_BYTES);
        self.data.resize(length as usize, 0);
        self.pattern.fill(self.written, &mut self.data);
        &self.data
    }

    /// So many of them were written at `now_ns`.
    pub fn wrote(&mut self, now_ns: u64, bytes: usize) {
        self.times.wrote(now_ns, bytes as u64, bytes == self.data.len());
        self.written += bytes as u64;
    }

    /// Some are due, and wait for room.
    pub fn is_waiting(&self, now_ns: u64) -> bool {
        self.times.left(now_ns) > 0
    }

    /// Time at which the next is due; never if one waits or none is left.
    pub fn next_ns(&self, now_ns: u64) -> u64 {
        self.times.next_ns(now_ns)
    }

    /// All were written.
    pub fn is_over(&self) -> bool {
        self.written == self.total
    }

    /// The largest lateness of those that found room.
    pub fn late_ns(&self) -> u64 {
        self.times.late_ns()
    }
}

/// The messages that arrive at the sending half. Times are on its clock.
pub struct Incoming {
    delays: Delays,
    pattern: Pattern,
    arrived: u64,
    /// The first was due.
    begun_ns: u64,
}

impl Incoming {
    /// Those of a workload, if its messages go both ways.
    pub fn new(job: &Job) -> Option<Self> {
        let delays = Delays::new(schedule(job)?);
        Some(Self { delays, pattern: Pattern::new(job.seed), arrived: 0, begun_ns: 0 })
    }

    /// The connection is established here after this handshake.
    pub fn begin(&mut self, handshake: Handshake) {
        self.begun_ns = handshake.handshake_ns + handshake.rtt_ns / 2;
    }

    /// Bytes were read at `now_ns`. The first one that is not what was sent, if one is not.
    pub fn read(&mut self, now_ns: u64, data: &[u8]) -> Option<u64> {
        let wrong = self.pattern.first_wrong(self.arrived, data);
        self.arrived += data.len() as u64;
        self.delays.on_arrival(now_ns.saturating_sub(self.begun_ns), self.arrived);
        wrong
    }

    /// Of each message that arrived: the time from when it was due.
    pub fn delays(&self) -> &[u64] {
        self.delays.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn job(both_ways: bool) -> Job {
        let line = format!(
            r#"{{"cc": "cubic", "stall_ns": 1, "seed": 7, "workload": {{"kind": "messages", "bytes": 300,
            "interval_ns": 20000000, "duration_ns": 60000000, "patience_ns": 9, "both_ways": {both_ways}}}}}"#
        );
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn what_one_half_writes_the_other_times_by_its_own_clock() {
        let mut outgoing = Outgoing::new(&job(true)).unwrap();
        let mut incoming = Incoming::new(&job(true)).unwrap();
        // The clock of the receiving half is 1 s ahead; the connection was established at 40 ms at the other, and accepted
        // half a round trip later.
        let ahead = 1000 * MS;
        outgoing.begin(ahead + 60 * MS, ahead + 62 * MS);
        incoming.begin(Handshake { handshake_ns: 40 * MS, rtt_ns: 40 * MS });
        for (due, arrives) in [(62, 82), (80, 105), (100, 120)] {
            let (due, arrives) = (due * MS, arrives * MS);
            let data = outgoing.due(ahead + due).to_vec();
            assert_eq!(data.len(), 300);
            outgoing.wrote(ahead + due, 300);
            assert!(!outgoing.is_waiting(ahead + due));
            assert_eq!(incoming.read(arrives - 1, &data[..299]), None);
            assert_eq!(incoming.read(arrives, &data[299..]), None);
        }
        assert_eq!(incoming.delays(), [22 * MS, 25 * MS, 20 * MS]);
        assert!(outgoing.is_over());
        assert_eq!(outgoing.late_ns(), 0, "the first waited for the connection to be known");
    }

    #[test]
    fn what_finds_no_room_is_written_later_and_what_differs_is_noticed() {
        let mut outgoing = Outgoing::new(&job(true)).unwrap();
        outgoing.begin(0, 0);
        outgoing.due(0);
        outgoing.wrote(0, 200);
        assert!(outgoing.is_waiting(MS) && outgoing.next_ns(MS) == u64::MAX);
        let mut rest = outgoing.due(5 * MS).to_vec();
        assert_eq!(rest.len(), 100);
        outgoing.wrote(5 * MS, 100);
        assert_eq!((outgoing.next_ns(5 * MS), outgoing.late_ns()), (20 * MS, 0));
        rest[7] ^= 1;
        let mut incoming = Incoming::new(&job(true)).unwrap();
        let mut first = vec![0; 200];
        Pattern::new(7).fill(0, &mut first);
        assert_eq!(incoming.read(MS, &first), None);
        assert_eq!(incoming.read(MS, &rest), Some(207));
    }

    #[test]
    fn messages_that_go_one_way_have_none() {
        assert!(Outgoing::new(&job(false)).is_none() && Incoming::new(&job(false)).is_none());
    }
}
