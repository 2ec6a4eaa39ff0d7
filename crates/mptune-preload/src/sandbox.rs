//! Detection of a sandbox of the program's own: a filter of system calls (seccomp(2)) may kill it for a call
//! that it does not make itself.
//!
//! Asking the kernel is such a call too. So what there is when the program begins is read where the loader has
//! just made the same calls, and what is installed later is seen where the C library is asked for it (`enter`).
//!
//! Of a filter installed past the C library only the kernel knows: `PR_GET_SECCOMP` reports it, unless a filter was
//! there from the beginning, as in a container.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// A process's memory.
pub struct Sandbox {
    /// Ways into a sandbox that were taken, or are just being tried.
    entered: AtomicU32,
    /// A filter from outside is there, and the kernel's answer is of no use any more.
    filtered: AtomicBool,
}

impl Sandbox {
    /// Of a process that just began.
    pub const fn new() -> Self {
        Self { entered: AtomicU32::new(0), filtered: AtomicBool::new(false) }
    }

    /// Filters in /proc/self/status as the process begins; `before` filters are not of the program or of what
    /// has started it.
    pub fn begin(&self, status: &[u8], before: u32) {
        let mode = field(status, b"Seccomp:").unwrap_or(0);
        // Before Linux 5.9 they are not counted.
        let count =
            field(status, b"Seccomp_filters:").unwrap_or(if before > 0 { before } else { mode });
        self.filtered.store(mode != 0, SeqCst);
        if mode != 0 && count > before {
            self.entered.store(1, SeqCst);
        }
    }

    /// Does what leads into a sandbox; `failed` decides by the result whether it did not.
    pub fn enter<T>(&self, enter: impl FnOnce() -> T, failed: impl FnOnce(&T) -> bool) -> T {
        // Other threads stop calling before, not after.
        self.entered.fetch_add(1, SeqCst);
        let result = enter();
        if failed(&result) {
            self.entered.fetch_sub(1, SeqCst);
        }
        result
    }

    /// True if there is one, as far as that is known without asking.
    pub fn is_known(&self) -> bool {
        self.entered.load(SeqCst) != 0
    }

    /// True if there is none; `mode` asks the kernel.
    pub fn is_absent(&self, mode: impl FnOnce() -> c_long) -> bool {
        if self.is_known() {
            return false;
        }
        let free = self.filtered.load(SeqCst) || mode() == 0;
        if !free {
            self.entered.store(1, SeqCst);
        }
        free
    }
}

/// True if a system call leads into a sandbox.
pub fn leads_in(number: c_long, first: c_long) -> bool {
    let prctl = number == libc::SYS_prctl && first == c_long::from(libc::PR_SET_SECCOMP);
    // The other operations only ask.
    let modes = [libc::SECCOMP_SET_MODE_STRICT, libc::SECCOMP_SET_MODE_FILTER].map(c_long::from);
    prctl || number == libc::SYS_seccomp && modes.contains(&first)
}

/// True if an option of `prctl()` does.
pub fn option_leads_in(option: c_int) -> bool {
    option == libc::PR_SET_SECCOMP
}

/// The number in a line of /proc/self/status.
fn field(status: &[u8], name: &[u8]) -> Option<u32> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::panic, reason = "tests may fail")]
mod tests {
    use super::*;

    fn begun(status: &str, before: u32) -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.begin(status.as_bytes(), before);
        sandbox
    }

    fn never() -> c_long {
        panic!("nobody is to be asked")
    }

    #[test]
    fn filters_count_that_came_after_the_start() {
        let sandbox = begun("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n", 0);
        assert!(sandbox.is_absent(|| 0));
        assert!(!sandbox.is_absent(|| 2));
        assert!(!sandbox.is_absent(never), "it is for good");
        assert!(!begun("Seccomp:\t2\nSeccomp_filters:\t1\n", 0).is_absent(never));
        // In a container.
        assert!(begun("Seccomp:\t2\nSeccomp_filters:\t1\n", 1).is_absent(never));
        assert!(!begun("Seccomp:\t2\nSeccomp_filters:\t2\n", 1).is_absent(never));
        // Before Linux 5.9.
        assert!(!begun("Seccomp:\t2\n", 0).is_absent(never));
        assert!(begun("Seccomp:\t2\n", 1).is_absent(never));
        // Without /proc.
        assert!(begun("", 0).is_absent(|| 0));
    }

    #[test]
    fn a_way_in_that_failed_leads_nowhere() {
        let sandbox = begun("", 0);
        let inside = |result| {
            sandbox.enter(
                || {
                    assert!(sandbox.is_known());
                    result
                },
                |&result: &i32| result < 0,
            )
        };
        assert_eq!(inside(-1), -1);
        assert!(sandbox.is_absent(|| 0));
        assert_eq!(inside(0), 0);
        assert!(!sandbox.is_absent(never));
    }

    #[test]
    fn what_only_asks_is_no_way_in() {
        let seccomp = |operation| leads_in(libc::SYS_seccomp, operation);
        assert!(seccomp(0) && seccomp(1) && !seccomp(2) && !seccomp(3));
        assert!(leads_in(libc::SYS_prctl, 22) && option_leads_in(22));
        assert!(!leads_in(libc::SYS_prctl, 21) && !leads_in(libc::SYS_read, 0));
    }
}
