//! Consistency of the accounts of both ends: data sent, delivered, acknowledged, out of order and in flight.

use super::Connection;
use crate::mptcp::accounting::Miscount;

impl Connection {
    /// A contradiction of the accounts. It sums everything again, so it is for the end of a trial; underflows are
    /// recorded when they happen.
    pub fn miscount(&self) -> Option<Miscount> {
        let brought = self.subflows.iter().map(|subflow| subflow.series.total()).sum();
        let delivered = self.receiver.delivered().series.total();
        let mut subflows = self.subflows.iter();
        let in_flight = subflows
            .all(|subflow| subflow.sender.is_consistent() && subflow.receiver.is_consistent());
        self.receiver
            .miscount(brought)
            .or_else(|| self.sender.miscount(self.receiver.next(), delivered))
            .or_else(|| (!in_flight).then_some(Miscount::InFlight))
    }
}
