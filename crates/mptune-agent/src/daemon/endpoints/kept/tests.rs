//! Endpoints and limits on a stand-in for the kernel's path manager: what it is asked for, and what is left in it.

use super::*;
use crate::kernel::mptcp_pm::endpoints::SUBFLOW;
use crate::undo::directory::Directory;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The state of a kernel's path manager.
#[derive(Debug)]
struct State {
    endpoints: Vec<Endpoint>,
    limits: Limits,
    /// The most of a limit that it takes.
    most: u32,
    /// It dies when its limits are set next: before that, or after it.
    dies: Option<bool>,
    /// Somebody else removes what is to be removed, just before that.
    rival: bool,
    /// Endpoints that were to be removed, whose subflows end with them.
    removed: usize,
}

/// A kernel that others look into too.
#[derive(Debug, Clone)]
struct Fake(Rc<RefCell<State>>);

fn refusal(number: i32) -> Error {
    Error::Refused(Refusal::new("it", number, None))
}

impl Kernel for Fake {
    fn endpoints(&mut self) -> Result<Vec<Endpoint>, Error> {
        Ok(self.0.borrow().endpoints.clone())
    }

    fn add(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let mut state = self.0.borrow_mut();
        let there = &mut state.endpoints;
        if let Some(other) = there.iter_mut().find(|one| one.ip == endpoint.ip) {
            if other.flags & IMPLICIT == 0 || endpoint.id != 0 {
                return Err(refusal(libc::EINVAL));
            }
            *other = Endpoint { id: other.id, ..*endpoint };
            return Ok(());
        }
        if there.iter().any(|one| one.id == endpoint.id) {
            return Err(refusal(libc::EINVAL));
        }
        there.push(*endpoint);
        Ok(())
    }

    fn delete(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let mut state = self.0.borrow_mut();
        state.removed += 1;
        if state.rival {
            state.endpoints.retain(|one| one.id != endpoint.id);
        }
        let before = state.endpoints.len();
        state.endpoints.retain(|one| one.id != endpoint.id);
        if state.endpoints.len() < before { Ok(()) } else { Err(refusal(libc::EINVAL)) }
    }

    fn set_flags(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let mut state = self.0.borrow_mut();
        let own = state.endpoints.iter_mut().find(|one| one.id == endpoint.id);
        own.map(|own| own.flags = endpoint.flags).ok_or_else(|| refusal(libc::EINVAL))
    }

    fn limits(&mut self) -> Result<Limits, Error> {
        Ok(self.0.borrow().limits)
    }

    fn set_limits(&mut self, limits: Limits) -> Result<(), Error> {
        let mut state = self.0.borrow_mut();
        if state.dies == Some(true) {
            return Err(Error::Failed("killed".to_owned()));
        }
        if limits.subflows > state.most {
            return Err(refusal(libc::EINVAL));
        }
        state.limits = limits;
        match state.dies {
            Some(_) => Err(Error::Failed("killed".to_owned())),
            None => Ok(()),
        }
    }
}

/// A path manager, the place of a journal, and what is kept of both.
struct World {
    kernel: Fake,
    place: PathBuf,
    kept: Kept<Fake>,
}

fn limits(subflows: u32, add_addr_accepted: u32) -> Limits {
    Limits { subflows, add_addr_accepted }
}

fn address(number: u8) -> IpAddr {
    [10, 0, number, 2].into()
}

impl World {
    fn new(name: &str, most: u32) -> Self {
        let place = std::env::temp_dir().join(format!("mptune-{name}-{}", std::process::id()));
        let (endpoints, limits) = (Vec::new(), limits(2, 0));
        let state = State { endpoints, limits, most, dies: None, rival: false, removed: 0 };
        let kernel = Fake(Rc::new(RefCell::new(state)));
        let kept = Kept::new(kernel.clone(), journal(&place, &[]));
        Self { kernel, place, kept }
    }

    /// Endpoints for this many addresses, and limits for them.
    fn keep(&mut self, count: u8) -> Result<(), Error> {
        (1..=count).try_for_each(|number| self.kept.make(address(number), 7))?;
        self.kept.raise_limits()
    }

    /// The next daemon, which knows the journal alone.
    fn restart(&mut self) {
        self.kernel.0.borrow_mut().dies = None;
        self.kept = Kept::new(self.kernel.clone(), self.journal());
    }

    fn journal(&self) -> EndpointJournal {
        journal(&self.place, &self.kernel.0.borrow().endpoints)
    }

    fn limits(&self) -> Limits {
        self.kernel.0.borrow().limits
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

fn journal(place: &Path, there: &[Endpoint]) -> EndpointJournal {
    let place = (Directory::make(place).unwrap(), "endpoints.json");
    EndpointJournal::open(place, there).unwrap()
}

#[test]
fn limits_that_a_kernel_refuses_are_not_taken_for_those_that_it_has() {
    let mut world = World::new("refused", 8);
    world.keep(3).unwrap(); // 9 are refused, 8 are not
    assert_eq!(world.limits(), limits(8, 2));
    world.keep(4).unwrap();
    world.kept.take_back(&BTreeSet::new()).unwrap();
    assert_eq!((world.limits(), world.kernel.endpoints().unwrap()), (limits(2, 0), vec![]));
    assert!(!world.place.exists());
}

#[test]
fn whenever_it_is_killed_the_limits_are_known_as_its_own() {
    for before in [true, false] {
        let mut world = World::new("killed", 64);
        world.keep(1).unwrap();
        assert_eq!(world.limits(), limits(3, 2));
        world.kernel.0.borrow_mut().dies = Some(before);
        assert!(world.keep(2).is_err());
        world.restart();
        world.kept.take_back(&BTreeSet::new()).unwrap();
        assert_eq!(world.limits(), limits(2, 0), "{before}");
    }
}

#[test]
fn what_somebody_has_set_meanwhile_is_what_limits_are_put_back_to() {
    let mut world = World::new("meanwhile", 64);
    world.keep(1).unwrap();
    world.kernel.0.borrow_mut().limits = limits(4, 1);
    world.keep(2).unwrap();
    assert_eq!(world.limits(), limits(6, 2));
    world.kept.take_back(&BTreeSet::new()).unwrap();
    assert_eq!(world.limits(), limits(4, 1));
    // What is set after the last change stays.
    world.restart();
    world.keep(1).unwrap();
    world.kernel.0.borrow_mut().limits = limits(5, 5);
    world.kept.take_back(&BTreeSet::new()).unwrap();
    assert_eq!(world.limits(), limits(5, 5));
}

#[test]
fn one_that_the_kernel_has_made_by_itself_is_taken_over_with_its_subflows() {
    let mut world = World::new("implicit", 8);
    let implicit =
        Endpoint { id: 5, ip: address(1), port: 0, flags: SUBFLOW | IMPLICIT, device: 0 };
    world.kernel.add(&implicit).unwrap();
    world.keep(2).unwrap();
    let made =
        [(1, 5), (2, 1)].map(|(number, id)| Made { address: address(number), id, device: 7 });
    assert_eq!(world.kept.journal.endpoints, made);
    assert_eq!(world.kernel.endpoints().unwrap(), made.map(|made| made.endpoint(false)));
    assert_eq!(world.kernel.0.borrow().removed, 0);
    world.kept.take_back(&BTreeSet::new()).unwrap();
    assert_eq!(world.kernel.endpoints().unwrap(), []);
}

#[test]
fn a_subflow_that_has_ended_holds_no_endpoint_active() {
    let mut world = World::new("ended", 8);
    world.keep(1).unwrap();
    let pair = |port| Pair { local: (address(1), port).into(), remote: ([10, 1, 0, 2], 80).into() };
    let flags = |world: &World| world.kernel.0.borrow().endpoints[0].flags & BACKUP;
    world.kept.set(&pair(1), false).unwrap();
    assert!(world.kept.set(&pair(2), true).is_err());
    assert_eq!(flags(&world), 0);
    world.kept.established(&HashSet::from([pair(2)]));
    world.kept.set(&pair(2), true).unwrap();
    assert_eq!(flags(&world), BACKUP);
}

#[test]
fn one_that_somebody_else_removes_meanwhile_is_gone_and_no_failure() {
    let mut world = World::new("rival", 8);
    world.keep(1).unwrap();
    world.kernel.0.borrow_mut().rival = true;
    let made = world.kept.journal.endpoints[0].clone();
    world.kept.remove(&made).unwrap();
    assert_eq!(world.kept.journal.endpoints, []);
}

#[test]
fn what_a_killed_daemon_has_left_is_taken_back_unless_it_is_to_stay() {
    let mut world = World::new("left", 8);
    world.keep(1).unwrap();
    world.kept.journal.keep(true).unwrap();
    let nothing = BTreeSet::new();
    assert_eq!(left(world.kernel.clone(), world.journal(), &nothing), Ok(Left::default()));
    assert_eq!((world.kernel.endpoints().unwrap().len(), world.limits()), (1, limits(3, 2)));
    world.kept.journal.keep(false).unwrap();
    let taken_back = ["endpoint 10.0.1.2", "limits"].map(str::to_owned).to_vec();
    let all = Left { taken_back, needed: vec![] };
    assert_eq!(left(world.kernel.clone(), world.journal(), &nothing), Ok(all));
    assert_eq!((world.kernel.endpoints().unwrap(), world.limits()), (vec![], limits(2, 0)));
    assert!(!world.place.exists());
}

#[test]
fn what_a_connection_needs_stays_in_the_journal_for_the_next_one() {
    let mut world = World::new("needed", 8);
    world.keep(2).unwrap();
    let needed = BTreeSet::from([world.kept.journal.endpoints[0].address]);
    assert_eq!(world.kept.take_back(&needed).unwrap().len(), 2);
    assert_eq!((world.kernel.endpoints().unwrap().len(), world.limits()), (1, limits(2, 0)));
    let named = Left { taken_back: vec![], needed: vec!["endpoint 10.0.1.2".to_owned()] };
    assert_eq!(left(world.kernel.clone(), world.journal(), &needed), Ok(named));
    world.restart();
    assert_eq!(world.kept.take_back(&BTreeSet::new()).unwrap().len(), 1);
    assert_eq!((world.kernel.endpoints().unwrap(), world.limits()), (vec![], limits(2, 0)));
    assert!(!world.place.exists());
}
