//! The network model of `mptune-core` in real time, between TUN devices.
