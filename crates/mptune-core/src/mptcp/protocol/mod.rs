//! What the ends of a connection speak: MPTCP or plain TCP, one small type each.
//!
//! Both are made of the same parts: data in segments, subflows, buffers. A connection asks [`Rules`] when it
//! is made; what follows from them is then in its parts, of which none asks for the protocol.

mod mptcp;
mod rules;
mod tcp;

pub use rules::Rules;

use serde::Deserialize;

/// What the two ends speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Multipath TCP.
    #[default]
    Mptcp,
    /// Plain TCP: one subflow, no options of MPTCP, and nothing at the level of the connection.
    Tcp,
}

impl Protocol {
    /// What it means for a connection.
    pub fn rules(self) -> &'static dyn Rules {
        match self {
            Self::Mptcp => &mptcp::Mptcp,
            Self::Tcp => &tcp::Tcp,
        }
    }
}
