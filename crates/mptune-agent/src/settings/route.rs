//! The congestion control of connections that leave by a route, which exists already.
//!
//! A route cannot be changed in place: it is read, and replaced by one that is the same but for this (`kernel::routes::raw`).

use crate::kernel::error as kernel;
use crate::kernel::prefix::Prefix;
use crate::kernel::routes::Routes;
use crate::kernel::routes::raw::Raw;
use crate::undo::kind::{Error, Kind, State, words};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};

/// The table of routes without another.
const MAIN: u32 = 254;
/// `TCP_CA_NAME_MAX` without its end.
const NAME_BYTES: usize = 15;

/// A route that exists, and its congestion control. What is not given is whatever the only route has that
/// fits the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// `10.0.0.0/8`, or `default`.
    pub to: String,
    /// Number of its table.
    #[serde(default = "main_table")]
    pub table: u32,
    /// The next router.
    #[serde(default)]
    pub via: Option<IpAddr>,
    /// The device.
    #[serde(default)]
    pub device: Option<String>,
    /// Its metric, which distinguishes routes to the same place.
    #[serde(default)]
    pub metric: Option<u32>,
    /// The congestion control; none for that of the machine.
    pub congctl: Option<String>,
}

fn main_table() -> u32 {
    MAIN
}

impl Route {
    fn prefix(&self) -> Result<Prefix, Error> {
        if self.to == "default" {
            return Ok(Prefix::default_of(self.via.unwrap_or(Ipv4Addr::UNSPECIFIED.into())));
        }
        Prefix::parse(&self.to).map_err(|_| {
            let expected = "default or a prefix such as 10.0.0.0/8";
            Error::unexpected("route: to", expected, &self.to)
        })
    }

    fn impossible(&self, obstacle: impl Into<String>) -> Error {
        Error::impossible(self.name(), obstacle)
    }

    fn unanswered(&self, error: &kernel::Error) -> Error {
        self.impossible(error.to_string())
    }

    /// The routes that fit.
    fn matches(&self) -> Result<Vec<Raw>, Error> {
        let prefix = self.prefix()?;
        let links = Routes::open().and_then(|mut routes| routes.links());
        let links = links.map_err(|error| self.unanswered(&error))?;
        let fits = |(via, device): &(Option<IpAddr>, Option<u32>)| {
            let name = device.and_then(|number| links.get(&number)).map(|link| &link.device);
            (self.via.is_none() || self.via == *via)
                && (self.device.is_none() || self.device.as_ref() == name)
        };
        let metric = |route: &Raw| self.metric.is_none_or(|metric| metric == route.metric());
        let all = Raw::all(&prefix, self.table).map_err(|error| self.unanswered(&error))?;
        Ok(all.into_iter().filter(|route| metric(route) && route.hops().iter().any(fits)).collect())
    }

    /// The only route that fits; none if there is none.
    fn only(&self) -> Result<Option<Raw>, Error> {
        let mut routes = self.matches()?;
        if routes.len() > 1 {
            let found = format!("{}: give via, device or metric", routes.len());
            return Err(Error::unexpected(self.name(), "one route", found));
        }
        Ok(routes.pop())
    }

    /// The same with everything that identifies the route, as long as there is one.
    ///
    /// # Errors
    /// There is none, or there are several, or the kernel manages it.
    pub fn resolved(&self) -> Result<Self, Error> {
        let route = self.only()?.ok_or_else(|| self.impossible("there is no such route"))?;
        if route.is_learned() {
            let obstacle =
                "it was learned from a router, and the kernel renews it: make a static one";
            return Err(self.impossible(obstacle));
        }
        let alike =
            Raw::all(&self.prefix()?, self.table).map_err(|error| self.unanswered(&error))?;
        let alike = alike
            .iter()
            .filter(|other| other.metric() == route.metric() && other.service() == route.service());
        if alike.count() > 1 {
            let obstacle =
                "there are several with its metric, and the kernel would replace the first";
            return Err(self.impossible(obstacle));
        }
        let (mut via, mut device) = (None, None);
        if let [(router, number)] = route.hops()[..] {
            let links = Routes::open().and_then(|mut routes| routes.links());
            let mut links = links.map_err(|error| self.unanswered(&error))?;
            via = router;
            device = number.and_then(|number| links.remove(&number)).map(|link| link.device);
        }
        let prefix = self.prefix()?;
        let is_plain = prefix.address().is_ipv4() || via.is_some_and(|via| via.is_ipv6());
        let is_default = prefix.bits() == 0 && is_plain;
        let to = if is_default { "default".to_owned() } else { prefix.to_string() };
        let (table, metric, congctl) = (self.table, Some(route.metric()), self.congctl.clone());
        Ok(Self { to, table, via, device, metric, congctl })
    }

    /// Replaces the route, and sees that nothing else of it has changed.
    fn replace(&self, congestion: Option<&str>) -> Result<(), Error> {
        let before = self.only()?.ok_or_else(|| self.impossible("there is no such route"))?;
        let target = before.asked().with(congestion);
        target.replace(&self.name())?;
        steps::changed();
        let after = self.only()?.map(|route| route.asked());
        if after.as_ref() == Some(&target) {
            return Ok(());
        }
        before.asked().replace(&self.name())?;
        steps::changed();
        Err(self.impossible("the kernel made something else of it"))
    }
}

impl Kind for Route {
    fn name(&self) -> String {
        let mut name = format!("route {} table {}", self.to, self.table);
        let via = self.via.map(|via| format!(" via {via}"));
        let device = self.device.as_ref().map(|device| format!(" dev {device}"));
        let metric = self.metric.map(|metric| format!(" metric {metric}"));
        name.extend([via, device, metric].into_iter().flatten());
        name
    }

    fn rank(&self) -> u8 {
        6
    }

    fn check(&self) -> Result<(), Error> {
        self.prefix()?;
        match &self.congctl {
            Some(name) if name.is_empty() || name.len() > NAME_BYTES => {
                let place = format!("{}: congctl", self.name());
                Err(Error::unexpected(place, "a name", format!("{name:?}")))
            }
            _ => Ok(()),
        }
    }

    fn read(&self) -> Result<State, Error> {
        Ok(match self.only()? {
            None => State::Gone,
            Some(route) => route.congestion().map_or(State::Absent, State::Text),
        })
    }

    fn target(&self, _present: &State, _known: &[State]) -> Result<State, Error> {
        Ok(self.congctl.clone().map_or(State::Absent, State::Text))
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), Error> {
        match to {
            State::Text(name) => self.replace(Some(name)),
            State::Absent => self.replace(None),
            _ => Err(Error::unexpected(self.name(), "a name", words(to))),
        }
    }

    fn as_order(&self, state: &State) -> Value {
        let mut order = json!({
            "kind": "route", "to": self.to, "table": self.table, "via": self.via,
            "device": self.device, "metric": self.metric, "congctl": null,
        });
        match state {
            State::Text(name) => order["congctl"] = json!(name),
            State::Gone => order["absent"] = json!(true),
            _ => {}
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str) -> Route {
        let to = to.to_owned();
        Route { to, table: MAIN, via: None, device: None, metric: None, congctl: None }
    }

    #[test]
    fn prefixes_of_both_families() {
        let prefix = |to| route(to).prefix().unwrap();
        assert_eq!(prefix("default").to_string(), "0.0.0.0/0");
        assert_eq!(prefix("10.9.0.0/16").to_string(), "10.9.0.0/16");
        assert_eq!(prefix("10.9.0.1").bits(), 32);
        assert!(prefix("fd00::/8").address().is_ipv6() && prefix("::/0").address().is_ipv6());
        let by_v6 = Route { via: Some("fd00::1".parse().unwrap()), ..route("default") };
        assert_eq!(by_v6.prefix().unwrap().to_string(), "::/0");
        for wrong in ["", "10.9.0.0/33", "10.9.0.1/16", "10.9/16", "everywhere", "10.9.0.0/"] {
            let reason = route(wrong).check().unwrap_err().to_string();
            assert!(reason.contains("expected default or a prefix"), "{reason}");
        }
    }
}
