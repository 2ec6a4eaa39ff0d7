//! The protocols of a connection, MPTCP and plain TCP: one small type each.
//!
//! Both consist of the same parts: segments, subflows, buffers. A new connection takes their differences from [`Rules`];
//! its parts do not know the protocol.

mod mptcp;
mod rules;
mod tcp;

pub use rules::Rules;

use serde::Deserialize;

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Multipath TCP.
    #[default]
    Mptcp,
    /// Plain TCP: one subflow, no options of MPTCP, no connection level.
    Tcp,
}

impl Protocol {
    /// Its rules.
    pub fn rules(self) -> &'static dyn Rules {
        match self {
            Self::Mptcp => &mptcp::Mptcp,
            Self::Tcp => &tcp::Tcp,
        }
    }
}
