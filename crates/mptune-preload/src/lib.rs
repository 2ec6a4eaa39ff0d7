//! The library that `mptune exec` preloads: TCP sockets of the program become MPTCP sockets, with
//! the congestion control and the buffers that were asked for.
//!
//! It is configured by environment variables (`settings.rs`), so children inherit it. What cannot
//! be done is left out: the program gets what it would have got without the library. UDP, UNIX and
//! SCTP sockets stay as they are, and so do those that the program itself makes MPTCP sockets.
//!
//! It allocates no memory, takes no lock, starts no thread and keeps no file open. Not the command
//! (`python/mptune/apply/exec.py`), and it knows no agent: it must work wherever a program runs.

mod apart;
mod hooks;
mod info;
mod libc_calls;
mod line;
mod report;
mod sandbox;
mod settings;
mod system;
#[cfg(test)]
mod testing;
