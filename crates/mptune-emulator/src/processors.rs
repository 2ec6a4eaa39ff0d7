//! The processors of the emulator, and the one that it leaves to the receiving stack.
//!
//! The thread that writes a packet to a TUN device also receives it at once: at high rates TCP, MPTCP and their
//! answers take most of this thread's time and delay packets that are due meanwhile. Receive packet steering
//! (Documentation/networking/scaling.rst in the kernel) moves that to another processor, in the same order: one
//! processor only, so the order across flows is kept too.
//!
//! Not used at low rates, where it gains nothing: emulators side by side must be free to move.

use crate::sys;
use mptune_core::units::BitsPerSecond;
use std::fs;
use std::path::Path;

/// Capacity from which steering is used. Trials that fast do not fit side by side on two processors.
const FAST: BitsPerSecond = 300_000_000;
/// The initial setting of a namespace's new devices, since Linux 6.3.
const STEERING: &str = "/proc/sys/net/core/rps_default_mask";

/// Reserves a processor for receiving: excludes this thread, and those it starts, from it. None with a single
/// processor, without steering in the kernel, or for a network of lower capacity.
pub(crate) fn reserve_receiving(capacity: Option<BitsPerSecond>) -> Option<usize> {
    if capacity.is_some_and(|capacity| capacity < FAST) || !Path::new(STEERING).exists() {
        return None;
    }
    let allowed = sys::allowed_processors().ok()?;
    // This thread stays where the scheduler has put it.
    let own = sys::current_processor()?;
    let receiving = next_after(&allowed, own)?;
    let others: Vec<_> = allowed.into_iter().filter(|&processor| processor != receiving).collect();
    sys::allow_processors(&others).ok()?;
    Some(receiving)
}

/// The next processor in a circle, unless it is the same.
fn next_after(allowed: &[usize], own: usize) -> Option<usize> {
    let next = allowed.iter().find(|&&processor| processor > own).or(allowed.first());
    next.copied().filter(|&processor| processor != own)
}

/// Makes devices created from now on in this thread's namespace receive on a processor; without effect if the kernel
/// refuses.
pub(crate) fn receive_on(processor: usize) {
    let _ = fs::write(STEERING, mask(processor));
}

/// One bit as the kernel reads it: 32-bit hexadecimal numbers, the highest first.
fn mask(processor: usize) -> String {
    format!("{:x}{}", 1_u32 << (processor % 32), ",00000000".repeat(processor / 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiving_processor_is_another_one_that_is_allowed() {
        assert_eq!(next_after(&[0, 1], 0), Some(1));
        assert_eq!(next_after(&[0, 1], 1), Some(0));
        assert_eq!(next_after(&[2, 5, 7], 5), Some(7));
        assert_eq!(next_after(&[2, 5, 7], 7), Some(2));
        assert_eq!(next_after(&[3], 3), None);
        assert_eq!(next_after(&[], 0), None);
    }

    #[test]
    fn masks_are_as_the_kernel_reads_them() {
        assert_eq!(mask(0), "1");
        assert_eq!(mask(31), "80000000");
        assert_eq!(mask(32), "1,00000000");
        assert_eq!(mask(69), "20,00000000,00000000");
    }
}
