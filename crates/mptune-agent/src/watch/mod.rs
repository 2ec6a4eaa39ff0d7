//! All MPTCP connections of this network namespace with their subflows, again and again.
//!
//! Everything comes from the kernel's socket statistics, which show the connections of all programs and
//! change nothing. The role also makes a subflow standby or active on order; it decides nothing itself.
//! `protocol` has the lines of JSON, `census` puts together what the kernel reports.

mod census;
mod devices;
mod owners;
mod protocol;

use self::census::Lookout;
use self::protocol::{Config, Message, Order};
use crate::control::{self, Control, Input};
use crate::kernel::error as kernel;
use crate::kernel::sys;
use crate::role;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// More often would be a load, nanoseconds.
const SHORTEST_NS: u64 = 50_000_000;

/// Failure of the role.
#[derive(Debug, Error)]
enum Error {
    #[error("interval_ns: expected at least {SHORTEST_NS}, found {0}")]
    Interval(u64),
    #[error("expected an order: {0}")]
    Order(#[from] serde_json::Error),
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Reports on standard output; returns the exit status.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    let config: Config = control.configuration()?;
    if config.interval_ns < SHORTEST_NS {
        return Err(Error::Interval(config.interval_ns));
    }
    let mut lookout = Lookout::open()?;
    let mut due_ns = sys::monotonic_ns();
    loop {
        // Whoever does not read gets no more than one report, and later a fresh one.
        if control.pending() == 0 {
            let census = lookout.look()?;
            control.tell(&Message::Connections(&census));
        }
        due_ns = next(due_ns, sys::monotonic_ns(), config.interval_ns);
        if !serve(control, &mut lookout, due_ns)? {
            return Ok(());
        }
    }
}

/// Time of the next census: at a multiple of the interval after the last time, and not before now.
fn next(due_ns: u64, now_ns: u64, interval_ns: u64) -> u64 {
    let missed = now_ns.saturating_sub(due_ns) / interval_ns;
    due_ns + (missed + 1) * interval_ns
}

/// Obeys orders until it is time to look; false when the role should end.
fn serve(control: &mut Control, lookout: &mut Lookout, due_ns: u64) -> Result<bool, Error> {
    loop {
        let now_ns = sys::monotonic_ns();
        if now_ns >= due_ns {
            return Ok(true);
        }
        let pause = Duration::from_nanos(due_ns - now_ns);
        let input = control.wait(&mut [], pause)?;
        match input {
            Some(Input::Line(line)) => match serde_json::from_str(&line)? {
                Order::SetBackup(change) => match lookout.change(&change) {
                    Ok(()) => control.tell(&Message::Changed(&change)),
                    Err(error) => control.tell(&Message::Refused { reason: &error.to_string() }),
                },
                Order::Stop => return Ok(false),
            },
            Some(Input::Closed | Input::Signal(_)) => return Ok(false),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_stay_on_their_grid_and_are_not_made_up_for() {
        assert_eq!(next(1_000, 1_010, 100), 1_100);
        assert_eq!(next(1_000, 1_100, 100), 1_200);
        assert_eq!(next(1_000, 1_350, 100), 1_400);
    }

    #[test]
    fn the_lines_are_read() {
        let config: Config = serde_json::from_str("{}").unwrap();
        assert_eq!(config.interval_ns, 1_000_000_000);
        let line = r#"{"action": "set-backup", "token": 7, "local": "10.0.1.2:5", "remote": "[fd65::1]:6",
            "backup": true}"#;
        let order = |line| serde_json::from_str::<Order>(line).map_err(Error::from);
        let Order::SetBackup(change) = order(line).unwrap() else { panic!("a change") };
        assert_eq!((change.token, change.backup, change.remote.port()), (7, true, 6));
        assert!(matches!(order(r#"{"action": "stop"}"#), Ok(Order::Stop)));
        assert!(
            order(r#"{"action": "jump"}"#).unwrap_err().to_string().contains("unknown variant")
        );
    }

    #[test]
    fn a_change_is_reported_as_it_was_ordered() {
        let order = r#"{"token":7,"local":"10.0.1.2:5","remote":"10.9.0.1:6","backup":false}"#;
        let report =
            serde_json::to_string(&Message::Changed(&serde_json::from_str(order).unwrap()))
                .unwrap();
        assert_eq!(report, order.replacen('{', r#"{"event":"changed","#, 1));
    }
}
