//! An endpoint of the kernel's path manager: an address that subflows use, or that is announced.
//!
//! Endpoints with a separate port belong to other programs. The number of a new one is chosen here, not by
//! the kernel, so that the journal has it before the endpoint is there.

use crate::kernel::error as kernel;
use crate::kernel::mptcp_pm::endpoints::{
    self as pm, BACKUP, FULLMESH, IMPLICIT, LAMINAR, PathManager, SIGNAL, SUBFLOW,
};
use crate::kernel::release;
use crate::kernel::routes::Routes;
use crate::undo::kind::{Error, Kind, State, words};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The flags that can be asked for.
const FLAGS: [(&str, u32); 5] = [
    ("signal", SIGNAL),
    ("subflow", SUBFLOW),
    ("backup", BACKUP),
    ("fullmesh", FULLMESH),
    ("laminar", LAMINAR),
];
/// First release that knows `laminar`; earlier ones store the flag without a word, and do nothing with it.
const WITH_LAMINAR: (u32, u32) = (6, 18);
/// The flags that change without the endpoint being removed and made again.
const CHANGEABLE: u32 = BACKUP | FULLMESH;

/// An endpoint, by its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The device that its subflows leave by; none if that is left to the routes.
    #[serde(default)]
    pub device: Option<String>,
    /// Of `FLAGS`.
    #[serde(default)]
    pub flags: Vec<String>,
    /// There should be none.
    #[serde(default)]
    pub absent: bool,
}

impl Endpoint {
    fn flag_bits(&self) -> Result<u32, Error> {
        let bit = |name: &String| {
            let known = FLAGS.iter().find(|(known, _)| known == name).map(|(_, bit)| *bit);
            let names: Vec<_> = FLAGS.iter().map(|(name, _)| *name).collect();
            known.ok_or_else(|| self.expected(&format!("one of {}", names.join(", ")), name))
        };
        self.flags.iter().map(bit).try_fold(0, |sum, bit| Ok(sum | bit?))
    }

    fn expected(&self, expected: &str, found: &str) -> Error {
        Error::unexpected(format!("{}: flags", self.name()), expected, found)
    }

    fn device_number(&self) -> Result<i32, Error> {
        let Some(device) = &self.device else { return Ok(0) };
        let links = Routes::open().and_then(|mut routes| routes.links())?;
        let link = links.iter().find(|(_, link)| &link.device == device);
        let number = link.and_then(|(number, _)| i32::try_from(*number).ok());
        number.ok_or_else(|| Error::impossible(self.name(), format!("there is no device {device}")))
    }

    fn device_name(number: i32) -> Option<String> {
        let links = Routes::open().and_then(|mut routes| routes.links()).ok()?;
        links.get(&u32::try_from(number).ok()?).map(|link| link.device.clone())
    }

    fn command(
        &self,
        act: impl FnOnce(&mut PathManager) -> Result<(), kernel::Error>,
    ) -> Result<(), Error> {
        PathManager::open().and_then(|mut manager| act(&mut manager))?;
        steps::changed();
        Ok(())
    }

    fn of(&self, id: u8, flags: u32, device: i32) -> pm::Endpoint {
        pm::Endpoint { id, ip: self.address, port: 0, flags, device }
    }
}

/// A number that no endpoint has or had: the next one, as long as there is one.
fn free_id(taken: &[u8]) -> Option<u8> {
    let next = taken.iter().max().map_or(Some(1), |most| most.checked_add(1));
    next.or_else(|| (1..=u8::MAX).find(|id| !taken.contains(id)))
}

impl Kind for Endpoint {
    fn name(&self) -> String {
        format!("endpoint {}", self.address)
    }

    /// Those that go make room for those that come.
    fn rank(&self) -> u8 {
        if self.absent { 4 } else { 5 }
    }

    fn check(&self) -> Result<(), Error> {
        let flags = self.flag_bits()?;
        match self.absent {
            true if flags == 0 && self.device.is_none() => Ok(()),
            true => Err(self.expected("none of an endpoint that is absent", "some")),
            false if flags & (SIGNAL | SUBFLOW | LAMINAR) == 0 => {
                Err(self.expected("signal, subflow or laminar", "none of them"))
            }
            false if flags & LAMINAR != 0 && release::release() < WITH_LAMINAR => {
                let (major, minor) = release::release();
                let found = format!("laminar on Linux {major}.{minor}");
                Err(self.expected("signal or subflow: laminar takes Linux 6.18", &found))
            }
            false if flags & SIGNAL != 0 && flags & FULLMESH != 0 => {
                Err(self.expected("signal or fullmesh", "both"))
            }
            false => Ok(()),
        }
    }

    fn read(&self) -> Result<State, Error> {
        let all = PathManager::open().and_then(|mut manager| manager.endpoints())?;
        let own = all.iter().find(|endpoint| endpoint.ip == self.address && endpoint.port == 0);
        Ok(own.map_or(State::Absent, |&pm::Endpoint { id, flags, device, .. }| State::Endpoint {
            id,
            flags,
            device,
        }))
    }

    fn target(&self, present: &State, known: &[State]) -> Result<State, Error> {
        if self.absent {
            return Ok(State::Absent);
        }
        let (flags, device) = (self.flag_bits()?, self.device_number()?);
        if let &State::Endpoint { id, flags: there, .. } = present
            && there & IMPLICIT == 0
        {
            return Ok(State::Endpoint { id, flags, device });
        }
        let present = PathManager::open().and_then(|mut manager| manager.endpoints())?;
        let mut taken: Vec<_> = present.iter().map(|endpoint| endpoint.id).collect();
        taken.extend(known.iter().filter_map(|state| match state {
            State::Endpoint { id, .. } => Some(*id),
            _ => None,
        }));
        let id = free_id(&taken)
            .ok_or_else(|| Error::impossible("endpoints", "every number is taken"))?;
        Ok(State::Endpoint { id, flags, device })
    }

    fn way(&self, from: &State, to: &State) -> Vec<State> {
        let (to_there, from_there) = match (from, to) {
            _ if self.same(from, to) => return Vec::new(),
            (
                State::Endpoint { id, flags, device },
                State::Endpoint { id: i, flags: f, device: d },
            ) => {
                let direct = id == i && device == d && (flags ^ f) & !CHANGEABLE == 0;
                if direct {
                    return vec![to.clone()];
                }
                (true, true)
            }
            (from, to) => {
                (matches!(to, State::Endpoint { .. }), matches!(from, State::Endpoint { .. }))
            }
        };
        // One that the kernel has made by itself has to go, and comes back by itself.
        let mut way = Vec::new();
        way.extend(from_there.then_some(State::Absent));
        way.extend(to_there.then(|| to.clone()));
        way
    }

    fn step(&self, from: &State, to: &State) -> Result<(), Error> {
        match (from, to) {
            (State::Endpoint { .. }, &State::Endpoint { id, flags, device }) => {
                self.command(|manager| manager.set_flags(&self.of(id, flags, device)))
            }
            (_, &State::Endpoint { id, flags, device }) => {
                self.command(|manager| manager.add(&self.of(id, flags, device)))
            }
            (&State::Endpoint { id, flags, device }, State::Absent) => {
                self.command(|manager| manager.delete(&self.of(id, flags, device)))
            }
            (from, to) => {
                let obstacle = format!("no way from {} to {}", words(from), words(to));
                Err(Error::impossible(self.name(), obstacle))
            }
        }
    }

    /// One that the kernel has made by itself counts as none: no order can name it.
    fn same(&self, state: &State, other: &State) -> bool {
        let none = |state: &State| {
            matches!(state, State::Absent)
                || matches!(state, State::Endpoint { flags, .. } if flags & IMPLICIT != 0)
        };
        state == other || none(state) && none(other)
    }

    fn as_order(&self, state: &State) -> Value {
        let address = self.address;
        match state {
            State::Endpoint { flags, device, .. } => {
                let names: Vec<_> = FLAGS.iter().filter(|(_, bit)| flags & bit != 0).collect();
                let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
                let device = Self::device_name(*device);
                json!({"kind": "endpoint", "address": address, "device": device, "flags": names})
            }
            _ => json!({"kind": "endpoint", "address": address, "absent": true}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(flags: &[&str], absent: bool) -> Endpoint {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        Endpoint { address: "10.0.1.2".parse().unwrap(), device: None, flags, absent }
    }

    fn state(id: u8, flags: u32, device: i32) -> State {
        State::Endpoint { id, flags, device }
    }

    #[test]
    fn flags_that_exclude_each_other_or_mean_nothing_are_refused() {
        for flags in
            [&["subflow"][..], &["signal"], &["subflow", "backup"], &["subflow", "fullmesh"]]
        {
            endpoint(flags, false).check().unwrap();
        }
        // Where the kernel knows it.
        let laminar = endpoint(&["laminar"], false).check();
        assert_eq!(laminar.is_ok(), release::release() >= WITH_LAMINAR);
        for flags in [&[][..], &["backup"], &["signal", "fullmesh"], &["subflows"]] {
            let reason = endpoint(flags, false).check().unwrap_err().to_string();
            assert!(reason.starts_with("endpoint 10.0.1.2: flags: expected "), "{reason}");
        }
        endpoint(&[], true).check().unwrap();
        assert!(endpoint(&["subflow"], true).check().is_err());
    }

    #[test]
    fn only_backup_and_fullmesh_change_in_place() {
        let setting = endpoint(&["subflow"], false);
        let before = state(1, SUBFLOW, 2);
        for to in [state(1, SUBFLOW | BACKUP, 2), state(1, SUBFLOW | FULLMESH, 2)] {
            assert_eq!(setting.way(&before, &to), vec![to]);
        }
        for to in [state(1, SIGNAL, 2), state(1, SUBFLOW, 3), state(2, SUBFLOW, 2)] {
            assert_eq!(setting.way(&before, &to), [State::Absent, to.clone()]);
        }
        assert_eq!(setting.way(&before, &State::Absent), [State::Absent]);
        assert_eq!(setting.way(&State::Absent, &before), vec![before.clone()]);
        assert_eq!(setting.way(&before, &before), []);
        let implicit = state(1, SUBFLOW | IMPLICIT, 0);
        assert_eq!(setting.way(&implicit, &State::Absent), []);
        assert_eq!(setting.way(&implicit, &before), [State::Absent, before]);
    }

    #[test]
    fn a_number_is_not_used_again_while_there_are_others() {
        assert_eq!(free_id(&[]), Some(1));
        assert_eq!(free_id(&[1, 9]), Some(10));
        assert_eq!(free_id(&[2, 255]), Some(1));
        assert_eq!(free_id(&(1..=255).collect::<Vec<_>>()), None);
    }
}
