//! Execution of the orders of connections by a manager, and the record of their events.

use super::executor::is_there;
use super::{Manager, note_all};
use crate::kernel::error::Error;
use crate::kernel::sys;
use crate::paths::connection::{Act, Connection};
use std::collections::VecDeque;

impl Manager {
    pub(super) fn each(&mut self, act: impl Fn(&mut Connection, u64)) -> Result<(), Error> {
        let tokens: Vec<_> = self.live.keys().copied().collect();
        tokens.into_iter().try_for_each(|token| self.with(token, &act))
    }

    /// Reports something to a connection and carries out what it wants.
    pub(super) fn with(
        &mut self,
        token: u32,
        act: impl FnOnce(&mut Connection, u64),
    ) -> Result<(), Error> {
        if let Some(connection) = self.live.get_mut(&token) {
            act(connection, sys::monotonic_ns());
        }
        self.carry_out(token)
    }

    pub(super) fn carry_out(&mut self, token: u32) -> Result<(), Error> {
        let Some(connection) = self.live.get_mut(&token) else { return Ok(()) };
        let mut acts = VecDeque::from(connection.take_acts());
        if self.ending.contains_key(&token) {
            acts.clear();
        }
        while let Some(act) = acts.pop_front() {
            match self.kernel.obey(&mut self.diag, token, &act) {
                Ok(()) => connection.on_done(&act, sys::monotonic_ns()),
                // It ended meanwhile, and the event of its end is on its way.
                Err(Error::Refused(_))
                    if self.host.is_some() && !is_there(&mut self.diag, token, connection)? =>
                {
                    connection.on_refused_at_end(&act, sys::monotonic_ns());
                }
                Err(Error::Refused(refusal)) => {
                    connection.on_refused(&act, &refusal.to_string(), sys::monotonic_ns());
                }
                Err(error) => return Err(error),
            }
            if let Act::Destroy { pair, .. } = act
                && self.tokens.get(&pair) == Some(&token)
            {
                self.tokens.remove(&pair);
            }
            acts.extend(connection.take_acts());
        }
        note_all(&mut self.happenings, &mut self.told, token, connection);
        if connection.is_troubled(sys::monotonic_ns()) {
            self.troubled.insert(token);
        } else {
            self.troubled.remove(&token);
        }
        Ok(())
    }
}
