//! Resynchronisation: a manager's beliefs about its connections, made equal to the kernel's state.
//!
//! Events report changes, and the kernel drops them when nobody reads them in time. A survey of the
//! namespace, one dump of TCP's sockets for each family, shows every subflow with the token of its connection,
//! and whether that is fully established. All of it is compared: connections that are gone or were not known,
//! those whose beginning was missed, subflows, joins, and roles. When, `survey.rs` decides. What the peer announced
//! among lost events cannot be made up for: the kernel does not keep it.
//!
//! It mends and counts; what is to be done about a connection its policy decides.

use super::Manager;
use crate::kernel::diag::{ESTABLISHED, Mptcp, Single, Surveyed};
use crate::kernel::error::Error;
use crate::kernel::pair::Pair;
use crate::kernel::sys;
use crate::paths::policies::Opened;
use crate::paths::survey::Resynced;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Connections that begin between two looks at the events: each opens a subflow or a few, whose events need room.
const AT_ONCE: usize = 256;

/// The kernel's state of a connection.
#[derive(Debug, Default)]
struct There {
    established: Vec<(Pair, Mptcp)>,
    opening: Vec<Pair>,
    /// A program has it; one that is closed takes no more subflows.
    has_program: bool,
}

impl There {
    fn is_established(&self, pair: &Pair) -> bool {
        self.established.iter().any(|(established, _)| established == pair)
    }

    fn has_begun(&self) -> bool {
        self.established.iter().any(|(_, mptcp)| mptcp.fully_established)
    }
}

/// The subflows of a namespace, by the tokens of their connections.
type Survey = BTreeMap<u32, There>;

impl Manager {
    /// Lost events, and what was made up for.
    pub fn resynced(&self) -> Resynced {
        self.resync.figures
    }

    /// Everything is looked at soon.
    pub fn resynchronise(&mut self) {
        self.resync.ask();
    }

    /// Time of the next task without any event.
    pub(super) fn resync_at_ns(&self) -> Option<u64> {
        if self.to_begin.is_empty() { self.resync.at_ns() } else { Some(0) }
    }

    pub(super) fn resynchronise_if_due(&mut self) -> Result<(), Error> {
        let now_ns = sys::monotonic_ns();
        // Whatever was missed is begun before the next one finds it missing.
        if !self.to_begin.is_empty() || self.resync.at_ns().is_none_or(|at_ns| now_ns < at_ns) {
            return Ok(());
        }
        let lost = std::mem::take(&mut self.resync.lost);
        self.resync.asked = false;
        let survey = self.survey()?;
        // What happens meanwhile is no mistake of anybody; where events were lost it is mended too, as the
        // events that report the same do no harm later.
        let changing = if lost { HashSet::new() } else { self.take_events()? };
        let began_ns = sys::cpu_ns();
        self.mend(survey, &changing)?;
        self.resync.figures.survey_ns += sys::cpu_ns() - began_ns;
        self.resync.ended_ns = sys::monotonic_ns();
        Ok(())
    }

    /// All connections that there are, at once.
    pub(super) fn take_over(&mut self) -> Result<(), Error> {
        let survey = self.survey()?;
        let before = self.resync.figures;
        self.mend(survey, &HashSet::new())?;
        self.resync.figures.mended = before.mended;
        while !self.to_begin.is_empty() {
            self.begin_some()?;
            self.take_events()?;
        }
        Ok(())
    }

    /// Begins some of the connections whose beginning was missed.
    pub(super) fn begin_some(&mut self) -> Result<(), Error> {
        let count = self.to_begin.len().min(AT_ONCE);
        for token in self.to_begin.drain(..count).collect::<Vec<_>>() {
            self.establish(token, false)?;
        }
        Ok(())
    }

    fn survey(&mut self) -> Result<Survey, Error> {
        let began_ns = sys::cpu_ns();
        let mut survey = Survey::new();
        self.diag.survey(|Surveyed { pair, mptcp, is_established, has_program }| {
            if mptcp.token == 0 {
                return;
            }
            let there = survey.entry(mptcp.token).or_default();
            there.has_program |= has_program;
            match is_established {
                true => there.established.push((pair, mptcp)),
                false => there.opening.push(pair),
            }
        })?;
        let figures = &mut self.resync.figures;
        figures.times += 1;
        figures.survey_ns = sys::cpu_ns() - began_ns;
        self.resync.ended_ns = sys::monotonic_ns();
        Ok(survey)
    }

    /// Compares everything; connections that are `changing` are left for the next time.
    fn mend(&mut self, mut survey: Survey, changing: &HashSet<u32>) -> Result<(), Error> {
        self.keep_what_is_there(&mut survey, changing)?;
        for token in self.closed(&survey, changing)? {
            self.resync.figures.mended.connections_gone +=
                u64::from(self.live.contains_key(&token));
            self.close(token);
            survey.remove(&token);
        }
        let nothing = There::default();
        for token in self.live.keys().copied().collect::<Vec<_>>() {
            if !changing.contains(&token) {
                self.mend_known(token, survey.get(&token).unwrap_or(&nothing))?;
            }
        }
        self.left_alone.retain(|token| survey.contains_key(token));
        for (token, there) in survey {
            if !changing.contains(&token) {
                self.mend_unknown(token, there)?;
            }
        }
        Ok(())
    }

    /// A dump may miss a socket while others come and go: what seems to be gone is asked for by name.
    fn keep_what_is_there(
        &mut self,
        survey: &mut Survey,
        changing: &HashSet<u32>,
    ) -> Result<(), Error> {
        let mut missing = Vec::new();
        for (&token, connection) in self.live.iter().filter(|(token, _)| !changing.contains(token))
        {
            let there = survey.get(&token);
            let is_missing =
                |pair: &Pair| there.is_none_or(|connection| !connection.is_established(pair));
            let known = connection.established().into_iter().map(|(_, pair)| pair);
            missing.extend(known.filter(is_missing).map(|pair| (token, pair)));
        }
        let sockets: Vec<_> = missing.iter().map(|(_, pair)| Single::Subflow(*pair)).collect();
        self.diag.count(&sockets, |place, counted| {
            let (token, pair) = missing[place];
            if let Some(mptcp) = counted.mptcp.filter(|mptcp| mptcp.token == token)
                && counted.state == ESTABLISHED
            {
                survey.entry(token).or_default().established.push((pair, mptcp));
            }
        })
    }

    /// Connections that their programs have closed, whose last bytes are still on their way: they are over, and no
    /// event comes any more. Their subflows do not show it: since Linux 6.16 these keep their inode.
    fn closed(&mut self, survey: &Survey, changing: &HashSet<u32>) -> Result<Vec<u32>, Error> {
        let tokens: BTreeSet<u32> = self.live.keys().chain(survey.keys()).copied().collect();
        let tokens: Vec<u32> =
            tokens.into_iter().filter(|token| !changing.contains(token)).collect();
        let sockets: Vec<_> = tokens.iter().copied().map(Single::Connection).collect();
        let mut closed = Vec::new();
        let asked = self.diag.count(&sockets, |place, counted| {
            if counted.state != ESTABLISHED && counted.inode == 0 {
                closed.push(tokens[place]);
            }
        });
        match asked {
            // This kernel does not count connections.
            Err(Error::Refused(_)) => Ok(Vec::new()),
            asked => asked.map(|()| closed),
        }
    }

    /// A connection that is known.
    fn mend_known(&mut self, token: u32, there: &There) -> Result<(), Error> {
        let known =
            self.live.get(&token).map(|connection| connection.established()).unwrap_or_default();
        let gone: Vec<_> =
            known.iter().filter(|(_, pair)| !there.is_established(pair)).copied().collect();
        if gone.len() == known.len() && !self.is_alive(token)? {
            self.close(token);
            self.resync.figures.mended.connections_gone += 1;
            return Ok(());
        }
        // Before anything new is opened.
        let is_new = |pair: &&Pair| self.tokens.get(*pair) != Some(&token);
        let new = there.established.iter().map(|(pair, _)| pair).filter(is_new);
        let opening: Vec<Pair> = there.opening.iter().chain(new).copied().collect();
        let mut mended = self.resync.figures.mended;
        self.with(token, |connection, now_ns| {
            mended.joins_failed += connection.on_opening(&opening, there.has_program, now_ns);
        })?;
        for (id, pair) in gone {
            self.forget_pair(token, &pair);
            mended.subflows_gone += 1;
            self.with(token, |connection, now_ns| connection.on_gone(id, now_ns))?;
        }
        self.with(token, |connection, now_ns| {
            for (pair, mptcp) in &there.established {
                if let Some(id) = connection.subflow_at(pair) {
                    mended.roles += u64::from(connection.on_role(id, mptcp.backup, now_ns));
                }
            }
        })?;
        self.resync.figures.mended = mended;
        Ok(())
    }

    /// A connection without subflows is still there, and may get some.
    fn is_alive(&mut self, token: u32) -> Result<bool, Error> {
        let mut is_established = false;
        let single = [Single::Connection(token)];
        let asked =
            self.diag.count(&single, |_, counted| is_established = counted.state == ESTABLISHED);
        match asked {
            // This kernel does not count connections.
            Err(Error::Refused(_)) => Ok(false),
            asked => asked.map(|()| is_established),
        }
    }

    /// Missing parts of a connection, with the roles and numbers that its subflows have; the whole of it if
    /// it was there before this, or if its events were lost.
    fn mend_unknown(&mut self, token: u32, there: There) -> Result<(), Error> {
        if !self.all && self.only != Some(token) || self.left_alone.contains(&token) {
            return Ok(());
        }
        let has_begun = there.has_begun();
        let mut unknown = there.established;
        unknown.retain(|(pair, _)| self.tokens.get(pair) != Some(&token));
        let begins = |mptcp: &Mptcp| mptcp.opened_connection || mptcp.accepted_connection;
        unknown.sort_by_key(|(pair, mptcp)| {
            (!begins(mptcp), (mptcp.local_id, mptcp.remote_id), *pair)
        });
        let Some(is_new) = self.may_take(token, &unknown)? else { return Ok(()) };
        for (pair, mptcp) in unknown {
            self.take(token, pair, mptcp)?;
        }
        let Some(connection) = self.live.get(&token) else { return Ok(()) };
        if has_begun && !connection.has_begun() {
            self.resync.figures.mended.connections_begun += u64::from(!is_new);
            self.to_begin.push_back(token);
        }
        Ok(())
    }

    /// True if these subflows are those of a new connection, false for further ones; none if they do not concern this.
    fn may_take(&mut self, token: u32, unknown: &[(Pair, Mptcp)]) -> Result<Option<bool>, Error> {
        if self.live.contains_key(&token) {
            return Ok(Some(false));
        }
        let Some((first, mptcp)) = unknown.first() else { return Ok(None) };
        let takes = if self.host.is_some() {
            let begins = mptcp.opened_connection || mptcp.accepted_connection;
            (begins || mptcp.fully_established) && self.kernel.is_managed(token, first)?
        } else {
            mptcp.opened_connection
        };
        if !takes {
            self.left_alone.insert(token);
        }
        Ok(takes.then_some(true))
    }

    fn take(&mut self, token: u32, pair: Pair, mptcp: Mptcp) -> Result<(), Error> {
        if self.live.contains_key(&token) {
            self.join(token, pair)?;
            let joined = self.tokens.get(&pair) == Some(&token);
            self.resync.figures.mended.subflows_found += u64::from(joined);
        } else {
            let server_side = !mptcp.opened_connection && !mptcp.joined;
            self.create(token, &Opened { pair, server_side });
            let created = self.live.contains_key(&token);
            self.resync.figures.mended.connections_found += u64::from(created);
        }
        let of_host = self.host.is_some();
        if let Some(connection) = self.live.get_mut(&token) {
            connection.learn_numbers(&pair, mptcp.local_id, mptcp.remote_id);
            let known = connection.subflow_at(&pair).filter(|_| of_host);
            if let Some(id) = known.filter(|_| !connection.has_begun()) {
                connection.on_found(id, mptcp.backup);
            }
        }
        Ok(())
    }
}
