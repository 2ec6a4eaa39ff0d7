//! The members of a stack that are switches and numbers: one struct of the specification that a connection keeps whole, so that
//! another member is a field here and acts wherever it is read. Its declaration for users has the same name in
//! `python/mptune/trial/stacks.py`. Not here: members that name an algorithm, and the size of a segment, which the connection has in
//! another form than the specification.

use crate::error::SpecError;
use crate::tcp::Timing;
use crate::units::{MICROSECOND, MILLISECOND, Nanos};
use serde::Deserialize;

/// Members of a stack; the defaults are upstream Linux's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Members {
    /// Opportunistic retransmission and penalisation, as in the v0.9x kernels.
    pub opportunistic: bool,
    /// OLIA grows in whole 1/1024 of a segment for each ACK, as in the v0.9x kernels.
    pub olia_integers: bool,
    /// Data is ECN-capable (RFC 3168); on by default, as in the papers.
    pub ecn: bool,
    /// Segments leave in bursts, as with segmentation offload (TSO).
    pub tso: bool,
    /// Silent periods of the connection's timer after which a subflow is stale, with a kernel's accounting; 0 never (Linux
    /// `net.mptcp.stale_loss_cnt`).
    pub stale_loss_cnt: u32,
    /// Least retransmission timeout beyond the smoothed RTT, microseconds (Linux `net.ipv4.tcp_rto_min_us`).
    pub rto_min_us: u64,
    /// Longest retransmission timeout, milliseconds (Linux `net.ipv4.tcp_rto_max_ms`).
    pub rto_max_ms: u64,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            opportunistic: false,
            olia_integers: false,
            ecn: true,
            tso: false,
            stale_loss_cnt: 4,
            rto_min_us: Timing::EXACT.rto_min / MICROSECOND,
            rto_max_ms: Timing::EXACT.rto_max / MILLISECOND,
        }
    }
}

impl Members {
    /// Least and longest retransmission timeout.
    pub fn rto(&self) -> [Nanos; 2] {
        [self.rto_min_us * MICROSECOND, self.rto_max_ms * MILLISECOND]
    }

    /// # Errors
    /// The first member that is out of its bounds.
    pub fn validate(&self) -> Result<(), SpecError> {
        let bounded = [
            ("stale_loss_cnt", u64::from(self.stale_loss_cnt), 0..=255),
            ("rto_min_us", self.rto_min_us, 1_000..=1_000_000),
            ("rto_max_ms", self.rto_max_ms, 1_000..=120_000),
        ];
        match bounded.into_iter().find(|(_, found, bounds)| !bounds.contains(found)) {
            Some((key, found, bounds)) => {
                let (least, most) = bounds.into_inner();
                Err(SpecError::new(key, format!("expected {least} to {most}, found {found}")))
            }
            None => Ok(()),
        }
    }
}
