//! The network model of `mptune-core` in real time: a TUN device per interface of two sites, and every packet between
//! them delayed, queued, dropped or marked by the model.
//!
//! Not a second model: links, queues and losses are those of the simulator, so only the transport differs between the
//! two testbeds. Not a router: it carries only packets between pairs of addresses, each of which is a path.
//!
//! Start reading at [`run`], the process from its configuration to its report, and [`relay`], a packet's way from one
//! device to the other. `sys` (system calls, the only unsafe code), `device`, `driver`, `inputs`, `processors` and `run`
//! use the operating system; the rest are functions of time, which [`Emulation`] puts together. In a guest of the
//! testbed `virtual` they are a part of the kernel (`mptune-guest-network`), and `driver` is all that is left to do.

#![cfg(target_os = "linux")]

mod clock;
mod config;
mod control;
mod device;
mod driver;
mod emulation;
mod error;
mod frame;
mod header;
mod inputs;
mod lateness;
mod processors;
mod recorder;
mod rejoin;
mod relay;
mod report;
mod routes;
mod run;
mod segment;
mod slab;
mod sys;

pub use emulation::{Effect, Emulation};
pub use error::Error;
pub use run::main;
