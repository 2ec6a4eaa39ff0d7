//! Connections whose ends have addresses of both families.

use super::*;

#[test]
fn in_a_socket_of_ipv6_addresses_of_the_other_family_become_paths_when_the_peer_announces_one() {
    let (policy, host) = (policy("fullmesh", Terms::default()), host(DUAL));
    let mut kernel = begun_mapped(&policy, false, &host);
    let four = ["10.0.1.2 10.9.0.1", "10.0.2.2 10.9.0.1"];
    assert_eq!(kernel.ends(), four);
    kernel.announced_to(&host, 3, OTHER);
    let both: Vec<_> = four.into_iter().chain(OF_IPV6).collect();
    assert_eq!(kernel.ends(), both);
    // Again, and one more of that family.
    kernel.announced_to(&host, 3, OTHER);
    assert_eq!(kernel.ends().len(), 4);
    kernel.announced_to(&host, 4, "[2001:db8:8::1]:0");
    assert_eq!(kernel.ends().len(), 6);
    let numbers = kernel.numbers();
    assert_ne!(
        numbers[&"10.0.2.2".parse::<IpAddr>().unwrap()],
        numbers[&"2001:db8:2::2".parse::<IpAddr>().unwrap()]
    );
}

#[test]
fn each_family_comes_and_goes_by_itself() {
    let mut kernel = begun_mapped(&policy("fullmesh", Terms::default()), false, &host(DUAL));
    kernel.announced_to(&host(DUAL), 3, OTHER);
    kernel.hosted(&DUAL[..2]);
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.2.2 10.9.0.1"]);
    kernel.hosted(DUAL);
    assert_eq!(kernel.ends().len(), 4);
    kernel.hosted(&DUAL[2..]);
    assert_eq!(kernel.ends(), OF_IPV6);
    // A new address of a device takes the place of the old one of its family.
    kernel.hosted(&[&DUAL[2..], &[("eth1", "10.0.1.9")]].concat());
    let other: Vec<_> = ["10.0.1.9 10.9.0.1"].into_iter().chain(OF_IPV6).collect();
    assert_eq!(kernel.ends(), other);
}

#[test]
fn a_host_without_the_other_family_uses_it_as_soon_as_it_has_some() {
    let mut kernel = begun_mapped(&policy("fullmesh", Terms::default()), false, &host(TWO));
    kernel.announced(3, OTHER);
    assert_eq!(kernel.ends().len(), 2);
    kernel.hosted(DUAL);
    assert_eq!(kernel.ends().len(), 4);
}

#[test]
fn in_a_socket_of_ipv4_an_announced_address_of_ipv6_is_reported_once_and_never_tried() {
    let mut kernel = begun(&policy("fullmesh", Terms::default()), false, &host(DUAL));
    let before = kernel.acts.len();
    for number in 0..20 {
        kernel.announced_to(&host(DUAL), 3 + number, &format!("[2001:db8:9::{number}]:0"));
    }
    kernel.hosted(DUAL);
    kernel.look();
    assert_eq!(kernel.acts.len(), before);
    let refused: Vec<_> =
        kernel.reports().into_iter().filter(|(what, _)| *what == What::OneFamily).collect();
    let [(_, why)] = &refused[..] else { panic!("{refused:?}") };
    assert!(why.contains("the program's socket is of IPv4"), "{why}");
}

#[test]
fn a_socket_of_ipv6_alone_is_found_out_by_the_first_refusal() {
    let opened = Opened {
        pair: Pair {
            local: "[2001:db8:1::2]:40000".parse().unwrap(),
            remote: "[2001:db8:9::1]:443".parse().unwrap(),
        },
        server_side: false,
    };
    let mut kernel = begun_as(&policy("fullmesh", Terms::default()), &opened, &host(DUAL));
    assert_eq!(kernel.ends(), OF_IPV6);
    kernel.refused.creates = Some("subflow: Invalid argument: families mismatch");
    let before = kernel.acts.len();
    for number in 1..20 {
        kernel.announced_to(&host(DUAL), 3, &format!("10.9.0.{number}:0"));
        kernel.hosted(DUAL);
    }
    assert_eq!(kernel.acts.len(), before + 2);
    let refused = kernel
        .reports()
        .into_iter()
        .filter(|(what, _)| *what == What::OneFamily)
        .collect::<Vec<_>>();
    let [(_, why)] = &refused[..] else { panic!("{refused:?}") };
    assert!(why.contains("the program's socket is of IPv6 alone"), "{why}");
}

/// The answer of a run over both families.
fn dual_run() -> Assignment {
    let path = |local: u8, end: &str, pair: Value| json!({"label": format!("{local}-X{end}"), "local": local, "remote": 0, "pairs": [pair]});
    let of = |local: u8| {
        let here = format!("2001:db8:{local}::2");
        let four = path(local, "", json!([format!("10.0.{local}.2"), "10.9.0.1"]));
        (four, path(local, "/6", json!([here, "2001:db8:9::1"])))
    };
    let ((four, six), (other_four, other_six)) = (of(1), of(2));
    let specification = json!({"pm": "pcdc", "paths": [four, other_four, six, other_six],
                      "transfer_bytes": u64::MAX,
                      "pm_options": {"active": [0, 3], "standby_order": [1, 2]}});
    let run = serde_json::from_value::<Specification>(specification).unwrap().checked().unwrap();
    run.with_terms("run", Terms::default())
}

#[test]
fn an_answer_over_both_families_has_its_paths_and_roles_in_both() {
    let mut kernel = begun_mapped(&dual_run(), false, &host(DUAL));
    assert_eq!(kernel.ends().len(), 4);
    assert_eq!(kernel.standby(), ["1-X/6", "2-X"]);
    // An interface loses one of its addresses, and has it again.
    kernel.hosted(&DUAL[..3]);
    assert_eq!(kernel.ends().len(), 3);
    kernel.hosted(DUAL);
    assert_eq!(kernel.ends().len(), 4);
    assert_eq!(kernel.standby(), ["1-X/6", "2-X"]);
}

#[test]
fn an_answer_over_both_families_keeps_to_ipv4_in_a_socket_of_ipv4_and_says_so_once() {
    let mut kernel = begun(&dual_run(), false, &host(DUAL));
    assert_eq!(kernel.ends(), ["10.0.1.2 10.9.0.1", "10.0.2.2 10.9.0.1"]);
    let before = kernel.acts.len();
    kernel.hosted(DUAL);
    kernel.announced_to(&host(DUAL), 3, OTHER);
    kernel.look();
    assert_eq!(kernel.acts.len(), before);
    let refused: Vec<_> =
        kernel.reports().into_iter().filter(|(what, _)| *what == What::OneFamily).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].1.starts_with("paths over IPv6 are not used"), "{refused:?}");
}

#[test]
fn a_server_announces_its_addresses_of_both_families_where_subflows_of_both_are_possible() {
    let terms = Terms { announce: true, ..Terms::default() };
    let announced = |kernel: &Kernel| {
        let of_act = |act: &Act| match act {
            Act::Announce { end, .. } => Some(end.ip().to_string()),
            _ => None,
        };
        kernel.acts.iter().filter_map(of_act).collect::<Vec<_>>()
    };
    let kernel = begun_mapped(&policy("fullmesh", terms.clone()), true, &host(DUAL));
    assert_eq!(announced(&kernel), ["10.0.2.2", "2001:db8:1::2", "2001:db8:2::2"]);
    let kernel = begun(&policy("fullmesh", terms), true, &host(DUAL));
    assert_eq!(announced(&kernel), ["10.0.2.2"]);
}
