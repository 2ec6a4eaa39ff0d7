//! Ports of the receiver, which tell the intended connections from others. Nothing is looked up here.

use serde::Deserialize;
use std::collections::BTreeSet;

/// Ports at which the receiver accepts connections; without any it may be every port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Ports(BTreeSet<u16>);

impl Ports {
    /// Connections that arrive at a port are among those that are meant.
    pub fn have(&self, port: u16) -> bool {
        self.0.is_empty() || self.0.contains(&port)
    }
}
