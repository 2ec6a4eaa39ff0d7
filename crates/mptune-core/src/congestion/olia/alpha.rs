//! OLIA's alpha: which subflows are the largest, which the best, and how much window moves between them.

use crate::congestion::{Peer, Peers};

/// The window in whole segments.
#[inline]
pub fn segments(peer: &Peer) -> u32 {
    peer.cwnd as u32
}

/// l / rtt^2, where l estimates the segments sent from one loss to the next.
#[inline]
fn quality(peer: &Peer) -> f64 {
    let rtt = peer.srtt as f64;
    peer.acked_since_loss.max(peer.acked_between_losses) as f64 / (rtt * rtt)
}

/// alpha as a fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alpha {
    /// 1, 0 or -1.
    pub sign: i32,
    /// Subflows among which it is shared out.
    pub parts: u32,
}

impl Alpha {
    /// As a number.
    pub fn value(self) -> f64 {
        f64::from(self.sign) / f64::from(self.parts)
    }
}

/// alpha of the controller's own subflow: over all subflows they add up to 0.
#[inline]
pub fn alpha(peers: Peers<'_>) -> Alpha {
    let largest = peers.usable().map(segments).max().unwrap_or(0);
    let best = peers.usable().map(quality).fold(0.0, f64::max);
    let is_largest = |peer: &Peer| segments(peer) == largest;
    let is_collected = |peer: &Peer| !is_largest(peer) && quality(peer) >= best;

    let (mut paths, mut max_w_paths, mut collected_paths) = (0u32, 0u32, 0u32);
    for peer in peers.usable() {
        paths += 1;
        max_w_paths += u32::from(is_largest(peer));
        collected_paths += u32::from(is_collected(peer));
    }
    if collected_paths == 0 {
        Alpha { sign: 0, parts: 1 }
    } else if is_collected(peers.mine()) {
        Alpha { sign: 1, parts: paths * collected_paths }
    } else if is_largest(peers.mine()) {
        Alpha { sign: -1, parts: paths * max_w_paths }
    } else {
        Alpha { sign: 0, parts: 1 }
    }
}
