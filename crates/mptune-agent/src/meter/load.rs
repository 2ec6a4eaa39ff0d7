//! Load of this host's processors by work that does not give way (/proc/stat, proc_stat(5)).

use std::fs;

/// Time of all processors since the machine started, in the kernel's ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    busy: u64,
    total: u64,
}

impl Load {
    /// Reads it; none if the host does not report it.
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The times of guests, the last two, are in those of users already.
        let fields = stat.lines().next()?.split_whitespace().skip(1).take(8);
        let times: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
        let total: u64 = times.iter().sum();
        // Programs of low priority (nice, the second) give way to others.
        let idle = times.get(1)? + times.get(3)? + times.get(4)?;
        Some(Self { busy: total - idle, total })
    }

    /// The busy share from now to later, 0 to 1; none if no time has passed.
    pub fn share_until(&self, later: &Self) -> Option<f64> {
        let ticks = later.total.checked_sub(self.total).filter(|ticks| *ticks > 0)?;
        Some(later.busy.saturating_sub(self.busy) as f64 / ticks as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_and_low_priorities_are_idle_and_guests_count_once() {
        let before = Load::parse("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 2 3 4").unwrap();
        let after = Load::parse("cpu  20 5 25 100 20 5 5 20 15 5\n").unwrap();
        assert_eq!(before, Load { busy: 20, total: 100 });
        assert_eq!(before.share_until(&after), Some(0.55));
        assert_eq!(before.share_until(&before), None);
    }

    #[test]
    fn this_machine_reports_its_load() {
        assert!(Load::now().is_some_and(|load| load.busy > 0 && load.busy <= load.total));
        assert_eq!(Load::parse(""), None);
    }
}
