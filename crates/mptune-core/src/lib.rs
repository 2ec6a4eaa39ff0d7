//! Packet-level MPTCP: network model, TCP, MPTCP, congestion control, schedulers and path managers.
//!
//! Pure: no I/O, no operating-system clock, no unseeded randomness. `now` is always an argument, and
//! the same trial with the same seed gives the same bytes on every machine (floating point is limited
//! to IEEE 754 basic operations and the `libm` crate).
//!
//! Not here: Python (see `mptune-python`), topology files, statistics, decisions (see `python/mptune`).
//! Start reading at [`trial`], a run's input and output, and [`simulation`], which drives it.

#![forbid(unsafe_code)]

pub mod congestion;
pub mod early_end;
pub mod engine;
pub mod error;
mod exchange;
pub mod limits;
pub mod mptcp;
pub mod network;
pub mod pathmanager;
pub mod recording;
pub mod simulation;
pub mod tcp;
pub mod transport;
pub mod trial;
pub mod units;
pub mod workload;
