//! Proportional Rate Reduction: cwnd during fast recovery (RFC 6937, as in Linux `net/ipv4/tcp_input.c`,
//! `tcp_cwnd_reduction`).

/// The state of one fast recovery. All counts are segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prr {
    /// cwnd at the start of the recovery (RFC 6937 `RecoverFS`, which is the flight size; Linux takes cwnd).
    pub prior_window: u32,
    /// Delivered during the recovery (`prr_delivered`).
    pub delivered: u32,
    /// Sent during the recovery (`prr_out`).
    pub sent: u32,
}

/// The input of PRR from an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrrInput {
    /// Segments the ACK newly delivered (`DeliveredData`).
    pub delivered: u32,
    /// Segments in flight after it (`pipe`).
    pub in_flight: u32,
    /// The target of cwnd.
    pub ssthresh: u32,
    /// It advanced SND.UNA and showed no new loss, so that the slow-start part of the reduction bound applies
    /// (`SafeACK` of draft-ietf-tcpm-prr-rfc6937bis).
    pub safe: bool,
}

impl Prr {
    /// The start of a recovery.
    pub fn new(prior_window: u32) -> Self {
        Self { prior_window: prior_window.max(1), delivered: 0, sent: 0 }
    }

    /// cwnd after an ACK: the flight plus the quota of RFC 6937 section 3.1.
    pub fn window(&mut self, ack: PrrInput) -> u32 {
        self.delivered += ack.delivered;
        let quota = if ack.in_flight > ack.ssthresh {
            // Proportional part: sent/delivered follows ssthresh/prior window, rounded up.
            let share = u64::from(ack.ssthresh) * u64::from(self.delivered);
            let target = share.div_ceil(u64::from(self.prior_window)) as u32;
            target.saturating_sub(self.sent)
        } else {
            // Conservative bound, one segment more while the path is safe.
            let bound = self.delivered.saturating_sub(self.sent).max(ack.delivered);
            (bound + u32::from(ack.safe)).min(ack.ssthresh - ack.in_flight)
        };
        // The first retransmission is sent whatever the quota.
        let quota = if self.sent == 0 { quota.max(1) } else { quota };
        ack.in_flight + quota
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of `window` segments loses `lost`; one ACK per delivered segment; every allowed
    /// segment is sent. Returns the segments sent during the recovery and the final flight.
    fn recover(window: u32, lost: u32, ssthresh: u32) -> (u32, u32) {
        let mut prr = Prr::new(window);
        let mut in_flight = window - lost;
        for _ in 0..window - lost {
            in_flight -= 1;
            let input = PrrInput { delivered: 1, in_flight, ssthresh, safe: false };
            let allowed = prr.window(input);
            while in_flight < allowed {
                in_flight += 1;
                prr.sent += 1;
            }
        }
        (prr.sent, in_flight)
    }

    #[test]
    fn a_light_loss_ends_at_ssthresh_with_evenly_spaced_sending() {
        // RFC 6937 section 1: the window converges to ssthresh by the end of recovery.
        for (window, ssthresh) in [(100, 50), (100, 70), (33, 16)] {
            let (_, in_flight) = recover(window, 1, ssthresh);
            assert!(in_flight.abs_diff(ssthresh) <= 1, "{window}: {in_flight} not {ssthresh}");
        }
    }

    #[test]
    fn a_heavy_loss_sends_no_more_than_was_delivered() {
        // RFC 6937 section 3.1, conservative reduction bound: strict packet conservation.
        let (sent, _) = recover(100, 80, 50);
        assert!(sent <= 20 + 1, "{sent}");
    }

    #[test]
    fn the_first_retransmission_is_always_allowed() {
        let mut prr = Prr::new(10);
        let input = PrrInput { delivered: 0, in_flight: 9, ssthresh: 5, safe: false };
        assert_eq!(prr.window(input), 10);
    }
}
