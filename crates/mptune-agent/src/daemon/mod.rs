//! Every MPTCP connection of a network namespace under the policy of its destination.

pub mod endpoints;
pub mod hosting;
pub mod noted;
pub mod steering;
