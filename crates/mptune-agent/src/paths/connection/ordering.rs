//! Orders of a connection's policy, as acts on its subflows.

use super::*;

impl Connection {
    pub(super) fn report(&mut self, report: Report, now_ns: u64) {
        let mut orders = Vec::new();
        self.driver.handle(report, &mut orders);
        let cause = self.cause.take();
        if self.appearing.is_some() && !orders.is_empty() {
            let cause = cause.unwrap_or_else(|| self.cause_of(&report));
            self.give_reasons(&orders, &cause);
        }
        for order in orders {
            self.obey(order, now_ns);
        }
    }

    pub(super) fn obey(&mut self, order: Order, now_ns: u64) {
        match order {
            Order::Connect { subflow, path, role } => self.connect(subflow, path, role, now_ns),
            Order::Close { subflow } => match self.subflows[subflow].pair {
                Some(pair) => self.acts.push(Act::Destroy { subflow, pair }),
                None => self.subflows[subflow].unwanted = true,
            },
            Order::SetRole { subflow, role } => {
                let pair = self.subflows[subflow].pair.expect("roles are for established ones");
                self.acts.push(Act::SetPriority { subflow, pair, backup: role.backup() });
            }
            // Otherwise every number is reported to the driver.
            Order::NotifyAtBytes(bytes) => self.notify_at(bytes),
            Order::NoteLost { subflow, successors } => self.note_lost(subflow, &successors, now_ns),
            Order::NoteRestored { subflow } => {
                if let Some(outage) = self.open_outages.remove(&subflow) {
                    self.outages[outage].restored_ns = Some(now_ns);
                }
                let (pair, reason) = (self.subflows[subflow].last_pair, self.reason(subflow));
                self.note_happening(What::Restored, pair, reason);
            }
        }
    }

    pub(super) fn connect(&mut self, subflow: SubflowId, path: PathId, role: Role, now_ns: u64) {
        let backup = role.backup();
        match self.subflows.get_mut(subflow) {
            Some(again) => (again.kernel_backup, again.unwanted) = (backup, false),
            None => self.subflows.push(Subflow::new(path, backup)),
        }
        let found = self.assignment.addresses_for(path, &self.initial);
        let Some((local, remote)) = found else {
            if self.appearing.is_some() {
                return self.report(Report::JoinFailed(subflow), now_ns);
            }
            self.problem(subflow, "it has no address of the connection's family");
            return self.report(Report::JoinFailed(subflow), now_ns);
        };
        let Some(address_id) = self.address_id(local, self.assignment.paths[path].local) else {
            self.problem(subflow, "every number of an address is taken");
            return self.report(Report::JoinFailed(subflow), now_ns);
        };
        let port = self.port_of(remote);
        let pair = Pair { local: SocketAddr::new(local, 0), remote: SocketAddr::new(remote, port) };
        self.acts.push(Act::Create { subflow, pair, address_id, backup });
    }

    /// Address ID of an address of this host in MP_JOIN, usually the number of its interface; 0 is that of the
    /// first subflow (RFC 8684 section 3.2).
    pub(super) fn address_id(&mut self, address: IpAddr, number: usize) -> Option<u8> {
        let wanted = u8::try_from(number + 1).unwrap_or(1);
        let kept = self.addresses_of_host();
        self.numbers.of(address, wanted, &kept)
    }

    pub(super) fn note_lost(&mut self, subflow: SubflowId, successors: &[SubflowId], now_ns: u64) {
        let (pair, reason) = (self.subflows[subflow].last_pair, self.reason(subflow));
        self.note_happening(What::Lost, pair, reason);
        self.forget_outages();
        let outage = self.outages.len();
        self.outages.push(Outage {
            path: self.label(subflow),
            last_heard_ns: self.subflows[subflow].heard_ns,
            detected_ns: now_ns,
            successors: successors.iter().map(|&id| self.label(id)).collect(),
            carrying_ns: None,
            take_over_ns: None,
            restored_ns: None,
        });
        self.open_outages.insert(subflow, outage);
        self.awaited.retain(|(id, _)| !successors.contains(id));
        self.awaited.extend(successors.iter().map(|&id| (id, outage)));
        self.see_successors();
    }

    /// Notes which of the awaited subflows now carry data.
    pub(super) fn see_successors(&mut self) {
        for (id, number) in std::mem::take(&mut self.awaited) {
            let outage = &mut self.outages[number];
            if let (Some(carrying_ns), None) = (self.subflows[id].carrying_ns, outage.carrying_ns) {
                let carrying_ns = carrying_ns.max(outage.last_heard_ns);
                outage.carrying_ns = Some(carrying_ns);
                outage.take_over_ns = Some(carrying_ns - outage.last_heard_ns);
            }
            if outage.carrying_ns.is_none() && self.driver.subflows()[id].is_alive() {
                self.awaited.push((id, number));
            }
        }
    }

    pub(super) fn problem(&mut self, id: SubflowId, reason: &str) {
        if self.appearing.is_some() {
            let why = format!("{}: {reason}", self.label(id));
            return self.note_happening(What::Refused, self.subflows[id].last_pair, why);
        }
        self.problems.push(format!("{}: {reason}", self.label(id)));
    }
}
