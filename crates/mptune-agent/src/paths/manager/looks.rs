//! Looks of the manager: glances at all connections, close looks at some, and samples.

use super::{GLANCE_NS, Manager};
use crate::kernel::diag::{Families, Glance};
use crate::kernel::error::Error;
use crate::kernel::sys;
use crate::paths::connection::Connection;
use crate::paths::sampling::Look;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

/// Glances take no more than this fraction of the time: with many connections they are less frequent.
const GLANCE_SHARE: u64 = 50;
/// The same for all connections of a host, whose other programs need the time.
const HOST_GLANCE_SHARE: u64 = 400;
/// Connections that get a close look at every glance, in turn. A glance does not show everything:
/// neither a priority changed by another program nor what was acknowledged.
const IN_TURN: usize = 8;

impl Manager {
    /// All subflows in one dump, and a close look at those that show something new; in addition, the
    /// connections take turns getting a close look.
    pub(super) fn glance(&mut self) -> Result<(), Error> {
        let began_ns = sys::thread_cpu_ns();
        let mut news = self.next_in_turn();
        let looks_at_all = news.len() == self.live.len();
        if !looks_at_all {
            let families = self.live_families();
            let (tokens, live, sampling) = (&self.tokens, &self.live, &mut self.sampling);
            self.diag.glance(families, |Glance { pair, timeouts, queued }| {
                let token = tokens.get(&pair);
                let connection = token.and_then(|token| Some((token, live.get(token)?)));
                let Some((&token, connection)) = connection else { return };
                if connection.is_news(&pair, timeouts) {
                    news.insert(token);
                }
                if connection.sampling().is_some() {
                    sampling.weigh(token, queued);
                }
            })?;
        }
        self.look_closely(news)?;
        if looks_at_all {
            self.weigh_all();
        }
        let now_ns = sys::monotonic_ns();
        self.sampling.choose(now_ns);
        let share = if self.host.is_some() { HOST_GLANCE_SHARE } else { GLANCE_SHARE };
        self.glance_at_ns = now_ns + GLANCE_NS.max((sys::thread_cpu_ns() - began_ns) * share);
        Ok(())
    }

    /// Every connection was looked at closely.
    fn weigh_all(&mut self) {
        let sampled = self.live.iter().filter(|(_, connection)| connection.sampling().is_some());
        sampled.for_each(|(token, connection)| self.sampling.weigh(*token, connection.queued()));
    }

    /// Samples of the connections whose policy wants some, as far as the time allows.
    pub(super) fn sample(&mut self) -> Result<(), Error> {
        let due = self.sampling.begin(sys::monotonic_ns());
        if due.is_empty() {
            return Ok(());
        }
        let began_ns = sys::thread_cpu_ns();
        let live = |&token| Some((token, self.live.get(&token)?.established()));
        let chosen: Vec<_> = due.iter().filter_map(live).collect();
        let looks = Look::take(&mut self.diag, &chosen)?;
        for ((token, _), look) in chosen.iter().zip(&looks) {
            self.with(*token, |connection, now_ns| connection.on_sampled(look.as_ref(), now_ns))?;
        }
        self.sampling.end(due.len(), sys::thread_cpu_ns() - began_ns);
        Ok(())
    }

    /// The connections whose turn it is.
    fn next_in_turn(&mut self) -> BTreeSet<u32> {
        let after = self.live.range((Excluded(self.turn), Unbounded)).map(|(token, _)| *token);
        let turn: Vec<u32> = after.chain(self.live.keys().copied()).take(IN_TURN).collect();
        self.turn = turn.last().copied().unwrap_or_default();
        turn.into_iter().collect()
    }

    fn live_families(&self) -> Families {
        let all = self.live.values().map(|connection| connection.families);
        all.fold(Families::default(), Families::and)
    }

    /// Polls the subflows of connections and acts on the result.
    pub(super) fn look_closely(&mut self, tokens: BTreeSet<u32>) -> Result<(), Error> {
        self.note(tokens.iter().copied())?;
        tokens.into_iter().try_for_each(|token| self.with(token, Connection::on_looked))
    }

    /// Updates what is known about the subflows of connections.
    pub(super) fn note(&mut self, tokens: impl IntoIterator<Item = u32>) -> Result<(), Error> {
        let (mut pairs, mut owners) = (Vec::new(), Vec::new());
        for token in tokens.into_iter().filter(|token| !self.ending.contains_key(token)) {
            for (id, pair) in self.live.get(&token).map(Connection::established).unwrap_or_default()
            {
                pairs.push(pair);
                owners.push((token, id));
            }
        }
        let live = &mut self.live;
        self.diag.look_at_all(&pairs, |place, seen| {
            let (token, id) = owners[place];
            if let Some(connection) = live.get_mut(&token) {
                connection.note(id, seen, sys::monotonic_ns());
            }
        })
    }
}
