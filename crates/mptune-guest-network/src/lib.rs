//! The emulation as a part of a guest's kernel (testbed `virtual`), which is a User Mode Linux: a program of this
//! machine, to which a static library can be linked.
//!
//! The driver `mptune_network.c` (`python/mptune/guest`) has the devices and the timer; [`boundary`] is what it calls,
//! [`model`] what that does. Kernel code has no heap that may be used everywhere, so [`arena`] takes memory from the
//! machine. Nothing here starts a thread, opens a file, or reads a clock.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

pub mod arena;
pub mod boundary;
pub mod model;

#[cfg(not(test))]
#[global_allocator]
static ARENA: arena::Arena = arena::Arena::new();
