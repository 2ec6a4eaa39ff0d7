//! OLIA's growth as the fork computes it (v0.9x kernels, `net/mptcp/mptcp_olia.c`): in whole 1/1024 of a segment, once for
//! each ACK.
//!
//! Growth of less than a unit is lost, so windows stop growing: n equal subflows at 1024 / n^2 segments each, one at
//! 1024, and a subflow whose siblings carry nearly everything at once.

use super::alpha::{Alpha, segments};
use crate::congestion::{Peer, Peers};

/// Units of a segment.
const SCALE: u64 = 1 << 10;
/// Units from which the window changes by a segment.
const SEGMENT: i64 = SCALE as i64 - 1;

/// (sum of w_p rtt_r / rtt_p)^2, the windows in units.
fn squared_sum(peers: Peers<'_>) -> u64 {
    let rtt = peers.mine().srtt;
    let of_peer = |peer: &Peer| {
        let product = u128::from(u64::from(segments(peer)) * SCALE) * u128::from(rtt);
        (product / u128::from(peer.srtt.max(1))) as u64
    };
    // Never 0, as it divides.
    let sum = peers.usable().map(of_peer).fold(1, u64::wrapping_add);
    sum.wrapping_mul(sum)
}

/// Units by which a window of `cwnd` segments grows for an ACK. 64 bits wrap, as in the fork.
fn growth(cwnd: u64, alpha: Alpha, peers: Peers<'_>) -> i64 {
    let rate = squared_sum(peers);
    let parts = u64::from(alpha.parts);
    let scaled = cwnd * SCALE;
    let linked = parts.wrapping_mul(scaled).wrapping_mul(scaled);
    let whole = parts.wrapping_mul(cwnd).wrapping_mul(rate).max(1);
    let units = |numerator: u64| (numerator.wrapping_mul(SCALE) / whole) as i64;
    match alpha.sign {
        -1 if linked < rate => -units(rate - linked),
        -1 => units(linked - rate),
        0 => units(linked),
        _ => units(rate.wrapping_add(linked)),
    }
}

/// Growth since the window last changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Integers {
    units: i64,
}

impl Integers {
    /// An ACK in congestion avoidance, with a window of `cwnd` segments: by how many it changes. A window that shrinks below
    /// `ssthresh` comes back by slow start.
    pub fn on_ack(&mut self, cwnd: u64, alpha: Alpha, peers: Peers<'_>) -> f64 {
        self.units += growth(cwnd, alpha, peers);
        if self.units.abs() < SEGMENT {
            return 0.0;
        }
        std::mem::take(&mut self.units).signum() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::peer;
    use super::*;
    use crate::congestion::testing::{ack, avoiding};
    use crate::congestion::{CongestionControl, Window, olia::Olia};

    /// ACKs until the first of equal subflows has grown by a segment; none within 10,000.
    fn acks_for_a_segment(all: &[Peer]) -> Option<u32> {
        let mut olia = Olia::in_integers();
        let mut window = avoiding(all[0].cwnd);
        (1..=10_000).find(|_| {
            olia.on_ack(&mut window, &ack(2), Peers { all, me: 0 });
            window.cwnd > all[0].cwnd
        })
    }

    #[test]
    fn growth_is_cut_to_whole_units_and_counts_acks() {
        // 1024 / (4 w) units: 2 of 2.56, 1 of 1.28, 0 of 0.98. A segment is 1023 units.
        let equal = |cwnd| [peer(cwnd, 20, 100, 0); 2];
        assert_eq!(acks_for_a_segment(&equal(100.0)), Some(512));
        assert_eq!(acks_for_a_segment(&equal(200.0)), Some(1023));
        assert_eq!(acks_for_a_segment(&equal(260.0)), None);
    }

    #[test]
    fn alone_a_subflow_grows_until_1024_segments() {
        assert_eq!(acks_for_a_segment(&[peer(500.0, 20, 100, 0)]), Some(512));
        assert_eq!(acks_for_a_segment(&[peer(1030.0, 20, 100, 0)]), None);
    }

    #[test]
    fn a_slow_subflow_beside_a_fast_one_does_not_grow_at_all() {
        // w / (w rtt_s / rtt_f)^2 of a segment: 20 / (400 * 10)^2 is far below 1/1024.
        let all = [peer(20.0, 200, 10, 0), peer(400.0, 20, 90_000, 0)];
        assert_eq!(acks_for_a_segment(&all), None);
    }

    #[test]
    fn alpha_moves_window_in_units_as_well() {
        let all = [peer(40.0, 20, 10, 0), peer(20.0, 20, 90, 0)];
        let mut olia = Olia::in_integers();
        let mut window = Window { cwnd: 40.0, ssthresh: 40.0 };
        let grown = |window: &Window| window.cwnd - 40.0;
        // alpha is -1/2: 1024 / 40 (1/2 - (40 / 60)^2) are 1.4 units, so 1 for each ACK.
        let acks = (1..=2000).find(|_| {
            olia.on_ack(&mut window, &ack(2), Peers { all: &all, me: 0 });
            grown(&window) != 0.0
        });
        assert_eq!((acks, grown(&window)), (Some(1023), -1.0));
        assert!(window.in_slow_start(), "it comes back at once");
    }
}
