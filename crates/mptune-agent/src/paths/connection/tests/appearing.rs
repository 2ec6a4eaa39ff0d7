//! Addresses that come and go, at either end.

use super::*;
use crate::kernel::address;
use crate::paths::assignment::Terms;
use crate::paths::hosting::Hosting;
use mptune_core::pathmanager::OptionMap;

mod both_families;

/// Addresses by device, all of which lead anywhere.
struct Host(Vec<(&'static str, &'static str)>);

impl Hosting for Host {
    fn usable_towards(&self, remote: IpAddr) -> Vec<(String, IpAddr)> {
        let named = |(device, one): &(&str, &str)| ((*device).to_owned(), one.parse().unwrap());
        let own = self.0.iter().map(named);
        own.filter(|(_, one): &(_, IpAddr)| one.is_ipv4() == remote.is_ipv4()).collect()
    }

    fn leads(&self, local: IpAddr, remote: IpAddr) -> bool {
        self.usable_towards(remote).iter().any(|(_, one)| *one == local)
    }

    fn device_of(&self, address: IpAddr) -> Option<String> {
        let own = self.0.iter().find(|(_, one)| one.parse() == Ok(address));
        own.map(|(device, _)| (*device).to_owned())
    }
}

const TWO: &[(&str, &str)] = &[("eth1", "10.0.1.2"), ("eth2", "10.0.2.2")];

fn host(addresses: &[(&'static str, &'static str)]) -> Host {
    Host(addresses.to_vec())
}

fn policy(pm: &str, terms: Terms) -> Assignment {
    Assignment::of_host("mine", pm, &OptionMap::new(), terms).unwrap()
}

fn opened(server_side: bool) -> Opened {
    let (here, there) = ("10.0.1.2", "10.9.0.1");
    let (here, there) =
        if server_side { ((here, 443), (there, 40_000)) } else { ((here, 40_000), (there, 443)) };
    let end = |(ip, port): (&str, u16)| SocketAddr::new(ip.parse().unwrap(), port);
    Opened { pair: Pair { local: end(here), remote: end(there) }, server_side }
}

fn begun(assignment: &Assignment, server_side: bool, host: &Host) -> Kernel {
    begun_as(assignment, &opened(server_side), host)
}

/// The same in a socket of IPv6, whose first subflow has IPv4.
fn begun_mapped(assignment: &Assignment, server_side: bool, host: &Host) -> Kernel {
    let Opened { pair, server_side } = opened(server_side);
    let end = |end: SocketAddr| SocketAddr::new(address::mapped(end.ip()), end.port());
    let pair = Pair { local: end(pair.local), remote: end(pair.remote) };
    begun_as(assignment, &Opened { pair, server_side }, host)
}

fn begun_as(assignment: &Assignment, opened: &Opened, host: &Host) -> Kernel {
    let device = host.device_of(opened.pair.addresses().0);
    let connection = Connection::of_host(assignment, opened, device, true, 0);
    let mut kernel = Kernel::of(assignment, connection);
    kernel.tick();
    kernel.note();
    kernel.connection.on_begun(false, host, kernel.now_ns);
    kernel.obey();
    kernel
}

impl Kernel {
    fn hosted(&mut self, addresses: &[(&'static str, &'static str)]) {
        self.tick();
        self.connection.on_addresses(&host(addresses), self.now_ns);
        self.obey();
        self.connection.on_usable(&host(addresses), self.now_ns);
        self.obey();
    }

    fn announced(&mut self, id: u8, end: &str) {
        self.announced_to(&host(TWO), id, end);
    }

    fn announced_to(&mut self, host: &Host, id: u8, end: &str) {
        self.tick();
        self.connection.on_announced(id, end.parse().unwrap(), host, self.now_ns);
        self.obey();
    }

    /// The subflows to an address of the peer are closed, as its kernel does when it withdraws it.
    fn peer_closes_at(&mut self, address: &str) {
        let established = self.connection.established().into_iter().map(|(_, pair)| pair);
        let there: Vec<_> =
            established.filter(|pair| pair.remote.ip().to_string() == address).collect();
        for pair in there {
            self.subflows.remove(&pair);
            self.event(Change::Closed, pair, 0);
        }
    }

    /// Local and remote addresses of the established subflows, in order.
    fn ends(&self) -> Vec<String> {
        let established = self.connection.established().into_iter();
        let text = |pair: Pair| format!("{} {}", pair.addresses().0, pair.addresses().1);
        let mut ends: Vec<_> = established.map(|(_, pair)| text(pair)).collect();
        ends.sort();
        ends
    }

    /// Address numbers of the subflows that were opened, by local address.
    fn numbers(&self) -> HashMap<IpAddr, u8> {
        let created = self.acts.iter().filter_map(|act| match act {
            Act::Create { pair, address_id, .. } => Some((pair.local.ip(), *address_id)),
            _ => None,
        });
        created.collect()
    }

    fn reports(&mut self) -> Vec<(What, String)> {
        self.connection.take_happened().into_iter().map(|one| (one.what, one.why)).collect()
    }
}

#[test]
fn paths_from_a_device_whose_data_are_paid_for_stay_in_reserve() {
    let metered = |device: &str| Terms { metered: vec![device.to_owned()], ..Terms::default() };
    let mut kernel = begun(&policy("reserve", metered("eth2")), false, &host(TWO));
    kernel.announced(3, "10.9.1.1:0");
    let backups = |kernel: &Kernel, own: &str| {
        let pairs = kernel.subflows.iter().filter(|(pair, _)| pair.local.ip().to_string() == own);
        pairs.map(|(_, seen)| seen.backup).collect::<Vec<_>>()
    };
    assert_eq!(backups(&kernel, "10.0.1.2"), [false, false]);
    assert_eq!(backups(&kernel, "10.0.2.2"), [true, true]);
    // A program that began over it: its subflow goes on standby when the other one has joined.
    let kernel = begun(&policy("reserve", metered("eth1")), false, &host(TWO));
    assert_eq!(
        (backups(&kernel, "10.0.1.2"), backups(&kernel, "10.0.2.2")),
        (vec![true], vec![false])
    );
}

#[test]
fn every_usable_address_makes_a_path_with_every_address_of_the_peer() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.2.2 10.9.0.1"]);
    kernel.announced(3, "10.9.1.1:0");
    assert_eq!(kernel.ends().len(), 4);
    kernel.announced(3, "10.9.1.1:0");
    kernel.announced(4, "[2001:db8::1]:0");
    assert_eq!(kernel.ends().len(), 4);
    kernel.announced(5, "10.9.2.1:8443");
    assert_eq!(kernel.ends().len(), 6);
    let ports = kernel.connection.established().into_iter().map(|(_, pair)| pair.remote.port());
    assert_eq!(ports.filter(|&port| port == 8443).count(), 2);
    let numbers = kernel.numbers();
    assert_eq!(numbers[&"10.0.1.2".parse::<IpAddr>().unwrap()], 0);
    assert_ne!(numbers[&"10.0.2.2".parse::<IpAddr>().unwrap()], 0);
}

#[test]
fn a_flood_of_announcements_leads_to_few_attempts_and_one_line() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    kernel.refused.creates = Some("no route");
    kernel.reports();
    let before = kernel.acts.len();
    for number in 0..2000u32 {
        let end = format!("10.7.{}.{}:22", number / 250, number % 250 + 1);
        kernel.announced((number % 250 + 1) as u8, &end);
    }
    let attempts = kernel.acts.len() - before;
    assert!((2..=20).contains(&attempts), "{attempts}");
    let often = kernel.reports().into_iter().filter(|(_, why)| why.contains("too often")).count();
    assert_eq!(often, 1);
    assert!(kernel.connection.subflows().count() <= 2 + 2 * 8);
}

#[test]
fn an_address_that_is_announced_and_withdrawn_often_is_used_in_the_end() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    for _ in 0..50 {
        kernel.announced(3, "10.9.1.1:0");
        kernel.tick();
        kernel.connection.on_peers_address(3, false);
        kernel.peer_closes_at("10.9.1.1");
    }
    kernel.announced(3, "10.9.1.1:0");
    assert_eq!(kernel.ends().len(), 2);
    kernel.now_ns += 20 * SECOND;
    kernel.look();
    assert_eq!(kernel.ends().len(), 4);
}

#[test]
fn an_address_that_is_back_before_its_subflows_are_closed_gets_them_again() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    kernel.announced(3, "10.9.1.1:0");
    kernel.connection.on_peers_address(3, false);
    kernel.announced(3, "10.9.1.1:0");
    kernel.peer_closes_at("10.9.1.1");
    assert_eq!(kernel.ends().len(), 2);
    kernel.now_ns += 6 * SECOND;
    kernel.look();
    assert_eq!(kernel.ends().len(), 4);
}

#[test]
fn an_address_that_is_back_gets_the_subflows_again_that_are_closed_late() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    kernel.announced(3, "10.9.1.1:0");
    kernel.peer_closes_at("10.9.1.1");
    kernel.connection.on_peers_address(3, false);
    kernel.announced(3, "10.9.1.1:0");
    assert_eq!(kernel.ends().len(), 4);
    kernel.peer_closes_at("10.9.1.1");
    assert_eq!(kernel.ends().len(), 2);
    kernel.now_ns += 10 * SECOND;
    kernel.look();
    assert_eq!(kernel.ends().len(), 4);
}

#[test]
fn what_cannot_be_another_hosts_address_is_not_used() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    for end in ["127.0.0.1:22", "0.0.0.0:0", "224.0.0.1:0", "255.255.255.255:0", "10.0.2.2:0"] {
        kernel.announced(3, end);
    }
    assert_eq!(kernel.ends().len(), 2);
}

#[test]
fn a_policy_that_opens_nothing_opens_nothing() {
    let mut kernel = begun(&policy("default", Terms::default()), false, &host(TWO));
    kernel.announced(3, "10.9.1.1:0");
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1"]);
}

#[test]
fn only_the_interfaces_of_the_policy_are_used() {
    let terms = Terms { interfaces: Some(vec!["eth3".to_owned()]), ..Terms::default() };
    let three = [TWO, &[("eth3", "10.0.3.2")]].concat();
    let kernel = begun(&policy("fullmesh", terms), false, &host(&three));
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.3.2 10.9.0.1"]);
}

#[test]
fn an_interface_that_goes_loses_its_subflow_and_gets_it_back_with_another_address() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    kernel.hosted(&TWO[..1]);
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1"]);
    let number = kernel.numbers()[&"10.0.2.2".parse::<IpAddr>().unwrap()];
    assert!(kernel.acts.contains(&Act::Retract { address_id: number }));
    kernel.hosted(&[("eth1", "10.0.1.2"), ("eth2", "10.0.2.77")]);
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.2.77 10.9.0.1"]);
    assert_ne!(kernel.numbers()[&"10.0.2.77".parse::<IpAddr>().unwrap()], number);
    kernel.hosted(TWO);
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.2.2 10.9.0.1"]);
    // The subflows kept their numbers, so that however often this happens there is room.
    assert_eq!(kernel.connection.subflows().count(), 2);
    let lost = kernel.reports().into_iter().find(|(what, _)| *what == What::Lost).unwrap();
    assert_eq!(lost.1, "10.0.2.2 is no longer usable here");
}

#[test]
fn the_last_subflow_stays_until_another_one_is_there() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(&TWO[..1]));
    kernel.hosted(&[]);
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1"]);
    kernel.hosted(&TWO[..1]);
    kernel.hosted(&[]);
    kernel.hosted(&TWO[1..]);
    assert_eq!(kernel.ends(), ["10.0.2.2 10.9.0.1"]);
    assert!(kernel.acts.contains(&Act::Retract { address_id: 0 }));
    kernel.hosted(TWO);
    assert_eq!(kernel.ends().len(), 2);
}

#[test]
fn a_peer_that_withdraws_an_address_gets_no_new_subflows_there() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(&TWO[..1]));
    kernel.announced(3, "10.9.1.1:0");
    kernel.connection.on_peers_address(3, false);
    kernel.hosted(TWO);
    assert_eq!(kernel.ends().len(), 3);
    kernel.connection.on_peers_address(3, true);
    kernel.announced(3, "10.9.1.1:0");
    assert_eq!(kernel.ends().len(), 4);
}

#[test]
fn a_peer_that_wants_no_further_subflows_at_its_first_address_gets_none_there() {
    let assignment = policy("fullmesh", Terms::default());
    let connection = Connection::of_host(&assignment, &opened(false), None, true, 0);
    let mut kernel = Kernel::of(&assignment, connection);
    kernel.connection.on_begun(true, &host(TWO), 1);
    kernel.obey();
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1"]);
    kernel.announced(3, "10.9.1.1:0");
    assert_eq!(kernel.ends().len(), 3);
}

#[test]
fn subflows_of_an_accepted_connection_are_opened_by_the_peer_and_get_roles() {
    let options = json!({"class_bytes": [0, 1]});
    let options = options.as_object().unwrap();
    let mine = Assignment::of_host("mine", "pcdc", options, Terms::default()).unwrap();
    let mut kernel = begun(&mine, true, &host(TWO));
    assert_eq!(kernel.ends().len(), 1);
    let joined =
        Pair { local: "10.0.2.2:443".parse().unwrap(), remote: "10.9.1.1:50000".parse().unwrap() };
    kernel.join(joined, false);
    assert_eq!(kernel.ends().len(), 2);
    assert_eq!(kernel.standby(), Vec::<String>::new());
    let again = Pair { remote: "10.9.1.1:50001".parse().unwrap(), ..joined };
    kernel.subflows.remove(&joined);
    kernel.event(Change::Closed, joined, 0);
    kernel.join(again, false);
    assert_eq!(kernel.connection.subflows().count(), 2);
    kernel.hosted(&TWO[..1]);
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1"]);
}

#[test]
fn other_addresses_are_announced_to_peers_that_connect_if_that_is_asked_for() {
    for announce in [false, true] {
        let terms = Terms { announce, ..Terms::default() };
        let mut kernel = begun(&policy("fullmesh", terms), true, &host(TWO));
        kernel.hosted(TWO);
        let end = "10.0.2.2:443".parse().unwrap();
        let announcements = |kernel: &Kernel| {
            let announced =
                |act: &&Act| matches!(act, Act::Announce { end: one, .. } if *one == end);
            kernel.acts.iter().filter(announced).count()
        };
        assert_eq!(announcements(&kernel), usize::from(announce));
        kernel.hosted(&TWO[..1]);
        let gone = kernel.acts.iter().any(|act| matches!(act, Act::Retract { .. }));
        assert_eq!(gone, announce);
        kernel.hosted(TWO);
        assert_eq!(announcements(&kernel), 2 * usize::from(announce));
        assert_eq!(kernel.ends().len(), 1);
    }
}

#[test]
fn subflows_are_opened_on_an_accepted_connection_if_the_policy_asks_for_it() {
    let terms = Terms { open_accepted: true, ..Terms::default() };
    let kernel = begun(&policy("fullmesh", terms), true, &host(TWO));
    assert_eq!(kernel.ends().len(), 2);
}

#[test]
fn what_a_run_measured_is_used_where_it_measured_it() {
    let path = |local: u8| {
        json!({"label": format!("{local}"), "local": local, "remote": 0,
               "pairs": [[format!("10.0.{local}.2"), "10.9.0.1"]]})
    };
    let specification = json!({"pm": "pcdc", "paths": [path(1), path(2)],
                      "pm_options": {"active": [0], "standby_order": [1]}});
    let run = serde_json::from_value::<Specification>(specification).unwrap().checked().unwrap();
    let run = run.with_terms("run", Terms::default());
    assert!(run.knows("10.9.0.1".parse().unwrap()));
    let three = [TWO, &[("eth3", "10.0.3.2")]].concat();
    let mut kernel = begun(&run, false, &host(&three));
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.2.2 10.9.0.1"]);
    assert_eq!(kernel.standby(), ["2"]);
    // A subflow that the peer opens elsewhere is standby.
    let stranger =
        Pair { local: "10.0.1.2:40009".parse().unwrap(), remote: "10.9.7.7:443".parse().unwrap() };
    kernel.join(stranger, false);
    assert_eq!(kernel.standby(), ["10.0.1.2-10.9.7.7", "2"]);
    kernel.hosted(&three[1..]);
    kernel.hosted(&three);
    assert_eq!(kernel.standby(), ["10.0.1.2-10.9.7.7", "2"]);
}

#[test]
fn what_a_run_measured_with_one_host_holds_for_another_that_the_policy_is_for() {
    let path = |local: u8, remote: u8| {
        json!({"label": format!("{local}{remote}"), "local": local, "remote": remote,
               "pairs": [[format!("10.0.{local}.2"), format!("10.9.9.{remote}")]]})
    };
    let paths = [path(1, 1), path(1, 2), path(2, 1), path(2, 2)];
    let specification = json!({"pm": "pcdc", "paths": paths,
                      "pm_options": {"active": [0], "standby_order": [2, 1, 3]}});
    let run = serde_json::from_value::<Specification>(specification).unwrap().checked().unwrap();
    let mut kernel = begun(&run.with_terms("run", Terms::default()), false, &host(TWO));
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.2.2 10.9.0.1"]);
    assert_eq!(kernel.standby(), ["21"]);
    assert!(kernel.reports().iter().all(|(what, _)| *what != What::Refused));
}

#[test]
fn a_connection_that_is_taken_over_keeps_its_subflows_and_their_roles() {
    let assignment = policy("fullmesh", Terms::default());
    let mut connection = Connection::of_host(&assignment, &opened(false), None, true, 0);
    let second =
        Pair { local: "10.0.2.2:40001".parse().unwrap(), remote: "10.9.0.1:443".parse().unwrap() };
    connection.learn_numbers(&second, 7, 0);
    let id = connection.on_joined(second, Some(seen(true)), 0).unwrap();
    connection.on_found(0, false);
    connection.on_found(id, true);
    let mut kernel = Kernel::of(&assignment, connection);
    kernel.subflows.insert(second, seen(true));
    let three = [TWO, &[("eth3", "10.0.3.2")]].concat();
    kernel.connection.on_begun(false, &host(&three), 1);
    kernel.obey();
    assert_eq!(kernel.ends().len(), 3);
    assert_eq!(kernel.standby().len(), 1);
    assert_eq!(kernel.numbers().len(), 1);
    kernel.hosted(&[three[0], three[2]]);
    assert!(kernel.acts.contains(&Act::Retract { address_id: 7 }));
}

#[test]
fn a_subflow_that_failed_is_tried_again_ever_less_often() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(TWO));
    let second = |kernel: &Kernel| {
        let established = kernel.connection.established();
        established.into_iter().find(|(_, pair)| pair.local.ip().to_string() == "10.0.2.2")
    };
    for wait_s in [5, 10, 20] {
        let (_, pair) = second(&kernel).unwrap();
        kernel.subflows.remove(&pair);
        kernel.event(Change::Closed, pair, libc::ETIMEDOUT);
        kernel.now_ns += wait_s * SECOND - SECOND;
        kernel.look();
        assert_eq!(second(&kernel), None);
        kernel.now_ns += SECOND;
        kernel.look();
        assert!(second(&kernel).is_some(), "after {wait_s} s");
    }
    let (_, pair) = second(&kernel).unwrap();
    kernel.subflows.remove(&pair);
    kernel.event(Change::Closed, pair, 0);
    kernel.now_ns += 1000 * SECOND;
    kernel.look();
    assert_eq!(second(&kernel), None);
}

#[test]
fn the_classes_of_pcdc_follow_what_was_acknowledged() {
    let mut kernel = begun(&policy("pcdc", Terms::default()), false, &host(TWO));
    kernel.look();
    assert_eq!(kernel.standby().len(), 1);
    let first = kernel.connection.initial;
    kernel.subflows.get_mut(&first).unwrap().acked_bytes = 600 * KIB;
    kernel.look();
    assert_eq!(kernel.standby(), Vec::<String>::new());
    let active = kernel.reports().into_iter().rfind(|(what, _)| *what == What::Active).unwrap();
    assert!(active.1.ends_with("bytes were sent"), "{}", active.1);
}

#[test]
fn changes_are_reported_with_their_reason() {
    let mut kernel = begun(&policy("pcdc", Terms::default()), false, &host(TWO));
    kernel.look();
    kernel.reports();
    let first = kernel.connection.initial;
    kernel.subflows.get_mut(&first).unwrap().timeouts = 3;
    kernel.look();
    let reports = kernel.reports();
    let words =
        |what: What| reports.iter().find(|(kind, _)| *kind == what).map(|(_, why)| &why[..]);
    let lost = "eth1-10.9.0.1 timed out 3 times in a row";
    assert_eq!((words(What::Lost), words(What::Active)), (Some(lost), Some(lost)));
    kernel.subflows.get_mut(&first).unwrap().timeouts = 0;
    kernel.look();
    let reports = kernel.reports();
    let words =
        |what: What| reports.iter().find(|(kind, _)| *kind == what).map(|(_, why)| &why[..]);
    assert_eq!(words(What::Restored), Some("eth1-10.9.0.1 makes progress again"));
}

/// Two devices with addresses of both families.
const DUAL: &[(&str, &str)] = &[
    ("eth1", "10.0.1.2"),
    ("eth2", "10.0.2.2"),
    ("eth1", "2001:db8:1::2"),
    ("eth2", "2001:db8:2::2"),
];
const OTHER: &str = "[2001:db8:9::1]:0";
const OF_IPV6: [&str; 2] = ["2001:db8:1::2 2001:db8:9::1", "2001:db8:2::2 2001:db8:9::1"];
