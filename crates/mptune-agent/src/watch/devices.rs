//! By which device the packets of a subflow leave, as the routes are now.

use crate::kernel::error::Error;
use crate::kernel::pair::Pair;
use crate::kernel::routes::Routes;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Routes change; nanoseconds until they are asked for again.
const VALID_NS: u64 = 10_000_000_000;

/// The devices of the current namespace.
pub struct Devices {
    routes: Routes,
    asked_ns: u64,
    names: BTreeMap<u32, String>,
    leaving: HashMap<(IpAddr, IpAddr), Option<u32>>,
}

impl Devices {
    /// Of the current namespace.
    pub fn open() -> Result<Self, Error> {
        let (names, leaving) = (BTreeMap::new(), HashMap::new());
        Ok(Self { routes: Routes::open()?, asked_ns: 0, names, leaving })
    }

    /// Lets go of what is too old at `now_ns`.
    pub fn refresh(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.asked_ns) < VALID_NS && self.asked_ns > 0 {
            return;
        }
        self.asked_ns = now_ns;
        self.leaving.clear();
        // Without names there are none in the report.
        let links = self.routes.links().unwrap_or_default();
        self.names = links.into_iter().map(|(number, link)| (number, link.device)).collect();
    }

    /// The name of a subflow's device: the one it is bound to, or that of its route; none if there is no
    /// route.
    pub fn of(&mut self, pair: &Pair, bound: u32) -> Option<String> {
        let number = if bound > 0 { Some(bound) } else { self.route(pair.addresses()) };
        self.names.get(&number?).cloned()
    }

    fn route(&mut self, (from, to): (IpAddr, IpAddr)) -> Option<u32> {
        let routes = &mut self.routes;
        // A refusal (no route, an address that is gone) is an answer too.
        let ask = || routes.leaves_by(from, to).unwrap_or(None);
        *self.leaving.entry((from, to)).or_insert_with(ask)
    }
}
