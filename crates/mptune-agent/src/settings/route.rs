//! The congestion control of connections that leave by a route, which exists already.
//!
//! A route cannot be changed in place: it is read, and replaced by one that is the same but for this (`kernel::routes::raw`).

use crate::kernel::error::Error;
use crate::kernel::prefix::Prefix;
use crate::kernel::routes::Routes;
use crate::kernel::routes::raw::Raw;
use crate::undo::kind::{Kind, State, words};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};

/// The table that routes are in if nobody says otherwise.
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
    /// Its metric, which tells routes to the same place apart.
    #[serde(default)]
    pub metric: Option<u32>,
    /// The congestion control; none for that of the machine.
    pub congctl: Option<String>,
}

fn main_table() -> u32 {
    MAIN
}

impl Route {
    fn prefix(&self) -> Result<Prefix, String> {
        if self.to == "default" {
            return Ok(Prefix::default_of(self.via.unwrap_or(Ipv4Addr::UNSPECIFIED.into())));
        }
        Prefix::parse(&self.to).map_err(|_| {
            format!("route: to: expected default or a prefix such as 10.0.0.0/8, found {}", self.to)
        })
    }

    fn said(&self, error: &Error) -> String {
        format!("{}: {error}", self.name())
    }

    /// The routes that fit.
    fn found(&self) -> Result<Vec<Raw>, String> {
        let prefix = self.prefix()?;
        let links = Routes::open().and_then(|mut routes| routes.links());
        let links = links.map_err(|error| self.said(&error))?;
        let fits = |(via, device): &(Option<IpAddr>, Option<u32>)| {
            let name = device.and_then(|number| links.get(&number)).map(|link| &link.device);
            (self.via.is_none() || self.via == *via)
                && (self.device.is_none() || self.device.as_ref() == name)
        };
        let metric = |route: &Raw| self.metric.is_none_or(|metric| metric == route.metric());
        let all = Raw::all(&prefix, self.table).map_err(|error| self.said(&error))?;
        Ok(all.into_iter().filter(|route| metric(route) && route.hops().iter().any(fits)).collect())
    }

    /// The only route that fits; none if there is none.
    fn only(&self) -> Result<Option<Raw>, String> {
        let mut found = self.found()?;
        if found.len() > 1 {
            return Err(format!(
                "{}: expected one route, found {}: say via, device or metric",
                self.name(),
                found.len()
            ));
        }
        Ok(found.pop())
    }

    /// The same with all that tells the route apart, as long as there is one.
    ///
    /// # Errors
    /// One line: there is none, or there are several, or it is the kernel's own business.
    pub fn resolved(&self) -> Result<Self, String> {
        let route =
            self.only()?.ok_or_else(|| format!("{}: there is no such route", self.name()))?;
        if route.is_learned() {
            return Err(format!(
                "{}: it was learned from a router, and the kernel renews it: make a static one",
                self.name()
            ));
        }
        let alike = Raw::all(&self.prefix()?, self.table).map_err(|error| self.said(&error))?;
        let alike = alike
            .iter()
            .filter(|one| one.metric() == route.metric() && one.service() == route.service());
        if alike.count() > 1 {
            return Err(format!(
                "{}: there are several with its metric, and the kernel would replace the first",
                self.name()
            ));
        }
        let (mut via, mut device) = (None, None);
        if let [(router, number)] = route.hops()[..] {
            let links = Routes::open().and_then(|mut routes| routes.links());
            let mut links = links.map_err(|error| self.said(&error))?;
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
    fn replace(&self, congestion: Option<&str>) -> Result<(), String> {
        let before =
            self.only()?.ok_or_else(|| format!("{}: there is no such route", self.name()))?;
        let wanted = before.asked().with(congestion);
        self.send(&wanted)?;
        steps::changed();
        let after = self.only()?.map(|route| route.asked());
        if after.as_ref() == Some(&wanted) {
            return Ok(());
        }
        self.send(&before.asked())?;
        steps::changed();
        Err(format!("{}: the kernel made something else of it", self.name()))
    }

    fn send(&self, route: &Raw) -> Result<(), String> {
        route.replace(&self.name()).map_err(|error| error.to_string())
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

    fn check(&self) -> Result<(), String> {
        self.prefix()?;
        match &self.congctl {
            Some(name) if name.is_empty() || name.len() > NAME_BYTES => {
                Err(format!("{}: congctl: expected a name, found {name:?}", self.name()))
            }
            _ => Ok(()),
        }
    }

    fn read(&self) -> Result<State, String> {
        Ok(match self.only()? {
            None => State::Gone,
            Some(route) => route.congestion().map_or(State::Absent, State::Text),
        })
    }

    fn wanted(&self, _present: &State, _known: &[State]) -> Result<State, String> {
        Ok(self.congctl.clone().map_or(State::Absent, State::Text))
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), String> {
        match to {
            State::Text(name) => self.replace(Some(name)),
            State::Absent => self.replace(None),
            _ => Err(format!("{}: expected a name, found {}", self.name(), words(to))),
        }
    }

    fn shown(&self, state: &State) -> Value {
        let mut shown = json!({
            "kind": "route", "to": self.to, "table": self.table, "via": self.via,
            "device": self.device, "metric": self.metric, "congctl": null,
        });
        match state {
            State::Text(name) => shown["congctl"] = json!(name),
            State::Gone => shown["absent"] = json!(true),
            _ => {}
        }
        shown
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
            let reason = route(wrong).check().unwrap_err();
            assert!(reason.contains("expected default or a prefix"), "{reason}");
        }
    }
}
