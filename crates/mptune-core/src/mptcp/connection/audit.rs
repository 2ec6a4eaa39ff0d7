//! Whether the books of both ends agree: what was sent, delivered, acknowledged, held and is in flight.

use super::Connection;
use crate::mptcp::accounting::Miscount;

impl Connection {
    /// What contradicts itself, if anything. The sums are taken anew, so it is for the end of a trial; what
    /// would fall below zero before is noted when it happens.
    pub fn miscount(&self) -> Option<Miscount> {
        let brought = self.subflows.iter().map(|subflow| subflow.series.total()).sum();
        let delivered = self.receiver.delivered().series.total();
        let mut subflows = self.subflows.iter();
        let in_flight =
            subflows.all(|one| one.sender.is_consistent() && one.receiver.is_consistent());
        self.receiver
            .miscount(brought)
            .or_else(|| self.sender.miscount(self.receiver.next(), delivered))
            .or_else(|| (!in_flight).then_some(Miscount::InFlight))
    }
}
