//! Saturated and fixed-size traffic over MPTCP sockets, measured.
