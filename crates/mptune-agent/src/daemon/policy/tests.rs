//! Policy files that are right, and the one line for those that are not.

use super::*;

fn plan(text: &str) -> Result<Plan, Error> {
    let file = Path::new("/etc/mptune/policy.toml");
    Plan::checked(file, &table::parsed(file, text)?)
}

const TWO: &str = r#"
    [daemon]
    interfaces = ["eth1", "wwan0"]
    [[policy]]
    name = "one"
    to = ["10.9.0.0/16", "2001:db8::/32"]
    policy = "guard"
    interfaces = ["eth1"]
    [[policy]]
    name = "two"
    to = ["10.10.0.1"]
    policy = "ndiffports"
    options = { ndiffports = 3 }
    open = "always"
    [remeasure]
    hours = "22:30-05:00"
    max_data = "2GB"
"#;

#[test]
fn a_destination_has_the_policy_that_names_it() {
    let plan = plan(TWO).unwrap();
    let name = |ip: &str| &*plan.rule_for(ip.parse().unwrap()).name;
    assert_eq!([name("10.9.3.4"), name("2001:db8::9")], ["one", "one"]);
    assert_eq!([name("::ffff:10.10.0.1"), name("10.10.0.2")], ["two", "default"]);
    assert_eq!(plan.rule_for("1.1.1.1".parse().unwrap()).pm, "fullmesh");
    assert_eq!((plan.mode, plan.keep_endpoints), (Mode::Auto, false));
    assert_eq!(plan.socket, Path::new("/run/mptune/daemon.sock"));
    let remeasure = plan.remeasure.unwrap();
    assert_eq!((&*remeasure.hours, remeasure.ends), ("22:30-05:00", [22 * 60 + 30, 5 * 60]));
    assert_eq!(
        (remeasure.max_data_bytes, remeasure.budget_ns),
        (Some(2_000_000_000), 600_000_000_000)
    );
    assert_eq!(super::Plan::checked(Path::new("/f"), &Map::new()).unwrap().rules.len(), 1);
}

#[test]
fn connections_of_a_suspended_policy_are_left_alone() {
    let suspended = Suspended::default();
    let policies = ByDestination::new(&plan(TWO).unwrap(), &suspended);
    let (local, remote) = ("10.0.0.1:1".parse().unwrap(), "10.9.0.1:2".parse().unwrap());
    let opened = Opened { pair: Pair { local, remote }, server_side: false };
    assert_eq!(&*policies.assignment(&opened).unwrap().name, "one");
    suspended.borrow_mut().insert("one".to_owned());
    assert!(policies.assignment(&opened).is_none());
}

#[test]
fn an_error_is_one_line_with_its_key() {
    let a = "[[policy]]\nname = \"a\"\nto = [\"10.9.0.0/16\"]\n";
    let ab = format!("{a}policy = \"fullmesh\"\n[[policy]]\nname = \"b\"\npolicy = \"default\"\n");
    let cases = [
        (
            "colour = 1".to_owned(),
            "colour: expected one of buffers, daemon, default, policy, remeasure, found \"colour\"",
        ),
        ("[daemon".to_owned(), "line 1: expected TOML, found something else: "),
        ("\n\na = = 1".to_owned(), "line 3: expected TOML, found"),
        ("daemon = 1".to_owned(), "daemon: expected a table, found 1"),
        (
            "[daemon]\nmode = \"fast\"".to_owned(),
            "daemon.mode: expected one of auto, userspace, endpoints, found \"fast\"",
        ),
        ("[daemon]\nmode = 3".to_owned(), "daemon.mode: expected text, found 3"),
        (
            "[daemon]\nkeep_endpoints = \"no\"".to_owned(),
            "daemon.keep_endpoints: expected true or false, found \"no\"",
        ),
        (
            "[daemon]\nsocket = \"x.sock\"".to_owned(),
            "daemon.socket: expected an absolute path below 108 bytes",
        ),
        (
            "[daemon]\nmetrics = \"localhost:9464\"".to_owned(),
            "daemon.metrics: expected an IP address with a port, such as 127.0.0.1:9464 or [::1]:9464, found \"localhost:9464\"",
        ),
        (
            "[daemon]\ninterfaces = []".to_owned(),
            "daemon.interfaces: expected a list of text, found an empty list",
        ),
        (
            "[daemon]\ninterfaces = [\"a b\"]".to_owned(),
            "daemon.interfaces[0]: expected the name of a device",
        ),
        (
            "[daemon]\ninterfaces = [\"a\", \"a\"]".to_owned(),
            "daemon.interfaces[1]: expected another device",
        ),
        ("[default]\npolicy = \"fullmash\"".to_owned(), "default.policy: expected one of default,"),
        (
            "[default]\npolicy = \"fullmesh\"\nto = [\"::/0\"]".to_owned(),
            "default.to: expected one of policy, run,",
        ),
        (
            "[default]\npolicy = \"ndiffports\"\noptions = {ndiffports = 0}".to_owned(),
            "default.options.ndiffports: expected 1 to 64",
        ),
        (
            "[default]\npolicy = \"ndiffports\"\noptions = {fast = 0}".to_owned(),
            "default.options: expected one of ndiffports",
        ),
        ("[default]".to_owned(), "default.run: expected run or policy, found neither"),
        ("[policy]\nname = \"a\"".to_owned(), "policy: expected tables [[policy]], found a table"),
        ("[[policy]]".to_owned(), "policy[0].name: expected text, found nothing"),
        ("[[policy]]\nname = \"default\"".to_owned(), "policy[0].name: expected a name of letters"),
        (
            "[[policy]]\nname = \"a\"".to_owned(),
            "policy[0].to: expected a list of prefixes, found nothing",
        ),
        (
            "[[policy]]\nname = \"a\"\nto = [\"10.9.0.1/16\"]".to_owned(),
            "policy[0].to[0]: expected 10.9.0.0/16 (no bits of a host), found \"10.9.0.1/16\"",
        ),
        (
            format!("{a}run = \"/nowhere\""),
            "policy[0].run: expected a directory with policy.json, found no directory: \"/nowhere\"",
        ),
        (
            format!("{a}run = \"/proc\""),
            "policy[0].run: expected a directory with policy.json, found a directory without it",
        ),
        (
            format!("{a}run = \"/nowhere\"\npolicy = \"guard\""),
            "policy[0].run: expected run or policy, found both",
        ),
        (
            format!("{a}run = \"/nowhere\"\noptions = {{a = 1}}"),
            "policy[0].options: expected only with policy, found a table",
        ),
        (
            format!("{a}policy = \"guard\"\nopen = true"),
            "policy[0].open: expected text, found true",
        ),
        (
            format!("{a}policy = \"guard\"\nopen = \"never\""),
            "policy[0].open: expected one of own, always, found \"never\"",
        ),
        (
            format!("{ab}to = [\"10.9.1.0/24\"]"),
            "policy[1].to[0]: expected a prefix that no other policy has addresses of, found 10.9.1.0/24 beside policy \"a\"",
        ),
        (
            format!("{a}policy = \"guard\"\n{a}policy = \"guard\""),
            "policy[1].name: expected a unique name, found \"a\" twice",
        ),
        (
            format!(
                "[daemon]\ninterfaces = [\"eth1\"]\n{a}policy = \"guard\"\ninterfaces = [\"eth2\"]"
            ),
            "policy[0].interfaces[0]: expected one of daemon.interfaces (eth1), found \"eth2\"",
        ),
        (
            format!(
                "[daemon]\ninterfaces = [\"eth1\"]\n{a}policy = \"reserve\"\nmetered = [\"eth2\"]"
            ),
            "policy[0].metered[0]: expected one of daemon.interfaces (eth1), found \"eth2\"",
        ),
        (
            format!("{a}policy = \"reserve\"\noptions = {{ above = 8, after = 9999 }}"),
            "policy[0].options.after: expected at most 3600, found 9999",
        ),
        ("buffers = true".to_owned(), "buffers: expected a table, found true"),
        (
            "[buffers]\nleast = \"2MiB\"\nmost = \"1MiB\"".to_owned(),
            "buffers.most: expected at least buffers.least, found \"1MiB\"",
        ),
        ("[remeasure]".to_owned(), "remeasure.hours: expected text, found nothing"),
        (
            "[remeasure]\nhours = \"2-5\"".to_owned(),
            "remeasure.hours: expected hours of the day such as 02:00-05:00, found \"2-5\"",
        ),
        (
            "[remeasure]\nhours = \"02:00-24:00\"".to_owned(),
            "remeasure.hours: expected hours of the day",
        ),
        (
            "[remeasure]\nhours = \"02:00-05:00\"\nmax_data = \"2XB\"".to_owned(),
            "remeasure.max_data: expected a size such as 2GB",
        ),
        (
            "[remeasure]\nhours = \"02:00-05:00\"\nmax_data = 2".to_owned(),
            "remeasure.max_data: expected text, found 2",
        ),
        (
            "[remeasure]\nhours = \"02:00-05:00\"\nbudget = \"0min\"".to_owned(),
            "remeasure.budget: expected a time such as 10min",
        ),
    ];
    for (text, expected) in cases {
        let reason = plan(&text).unwrap_err().to_string();
        let expected = format!("/etc/mptune/policy.toml: {expected}");
        assert!(reason.starts_with(&expected), "{text}: {reason} / {expected}");
        assert!(!reason.contains('\n'), "{reason}");
    }
}

#[test]
fn text_for_another_machine_may_name_runs_that_are_not_here() {
    let text = "[[policy]]\nname = \"a\"\nto = [\"10.9.0.0/16\"]\nrun = \"/nowhere\"\n";
    let file = Path::new(TEXT);
    let plan = Plan::checked(file, &table::parsed(file, text).unwrap()).unwrap();
    assert_eq!(plan.rules[0].run.as_deref(), Some(Path::new("/nowhere")));
    let twice = [text, text].concat();
    let reason = Plan::checked(file, &table::parsed(file, &twice).unwrap());
    let reason = reason.unwrap_err().to_string();
    assert!(reason.starts_with("-: policy[1].name: expected a unique name"), "{reason}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let reason = Plan::read(Path::new("/nowhere/policy.toml")).unwrap_err().to_string();
    assert!(reason.starts_with("/nowhere/policy.toml: expected a policy file, found No such file"));
}
