"""A run as a policy of the daemon: the answer as it reads it, and the block in the file of all policies."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.apply import advice, plan, policy
from mptune.apply.machine import Seen
from mptune.cli import app
from mptune.errors import InputError
from mptune.linux import assignment, daemon
from tests.apply.worlds import DUAL, HOME, looked

PATHS = ("F-T", "F-V", "M-T", "M-V")
#: One path of each interface, which endpoints cannot have.
ACROSS: dict[str, Any] = {
    "protocol": "mptcp",
    "opm": "pcdc",
    "subflows": ["F-T", "M-V"],
    "standby": ["M-T", "F-V"],
}
NEW = (
    '# mptune apply: a\n[[policy]]\nname = "a"\nto = ["10.0.0.1/32"]\nrun = "/var/lib/mptune/policies/a"\n'
    "# end of mptune apply: a\n"
)
HOURS = '[remeasure]\nhours = "02:00-05:00"\n\n'
OTHER = '[[policy]]\nname = "b"\nto = ["10.1.0.0/16", "fd00::/8"]\npolicy = "guard"\n'


def sides(run: Path, **present: Any) -> tuple[plan.HostPlan, plan.HostPlan]:
    """The plans of both hosts, the sender's machine as it is."""
    sender, receiver = plan.outline(run, daemon=True).hosts
    return plan.resolve(sender, msgspec.structs.replace(HOME, **present)), receiver


def files(host: plan.HostPlan) -> dict[str, dict[str, Any]]:
    return {Path(setting["path"]).name: setting for setting in host.settings if setting["kind"] == "file"}


def test_an_answer_for_both_families_has_the_paths_of_both(run: Callable[..., Path]):
    answer = ACROSS | {"subflows": ["F-T", "M-T/6"], "standby": ["F-T/6"], "family": "both"}
    directory = run(network=DUAL, **answer)
    addresses = {"eth1": "2001:db8:1::2", "wwan0": "2001:db8:2::2"}
    interfaces = tuple(
        {**one, "addresses": [*one["addresses"], {"ip": addresses[one["device"]], "prefix": 64}]}
        for one in HOME.interfaces or ()
    )
    sender, _ = sides(directory, interfaces=interfaces)
    contents = files(sender)
    document = json.loads(contents["policy.json"]["content"])
    paths = {path["label"]: path["pairs"] for path in document["paths"]}
    assert paths["F-T"] == [["10.0.1.2", "203.0.113.7"]]
    assert paths["M-T/6"] == [["2001:db8:2::2", "2001:db8:7::7"]]
    labels = [path["label"] for path in document["paths"]]
    assert [labels[path] for path in document["pm_options"]["active"]] == ["F-T", "M-T/6"]
    assert document["pm_options"]["standby_order"] == [labels.index("F-T/6")]
    (written,) = tomllib.loads(contents["policy.toml"]["content"])["policy"]
    assert {"203.0.113.7/32", "2001:db8:7::7/128"} <= set(written["to"])
    assert any("::ffff:192.0.2.1" in note for note in sender.notes)
    with pytest.raises(
        InputError, match=r"home.toml: sites.H: .* of the family that both ends of F-T/6 have"
    ):
        sides(directory)


def test_who_sends_gets_the_answer_and_no_endpoints(run: Callable[..., Path]):
    sender, receiver = sides(run(**ACROSS))
    assert [setting["kind"] for setting in sender.settings if setting["kind"] in ("endpoint", "limits")] == []
    assert {setting["name"] for setting in sender.settings if setting["kind"] == "sysctl"} >= {
        "net.mptcp.enabled"
    }
    names = {setting.get("name") for host in (sender, receiver) for setting in host.settings}
    assert "net.mptcp.path_manager" not in names
    # Who accepts has room for all four, and announces nothing.
    (limits,) = (setting for setting in receiver.settings if setting["kind"] in ("endpoint", "limits"))
    assert limits == {"kind": "limits", "subflows": 3, "add_addr_accepted": 0}
    assert not any(difference.what == "subflows" for difference in sender.differs)
    plan.check(sender)


def test_the_answer_is_what_the_role_paths_takes(run: Callable[..., Path]):
    directory = run(**ACROSS)
    sender, _ = sides(directory)
    contents = files(sender)
    assert contents["policy.json"]["path"] == "/var/lib/mptune/policies/run/policy.json"
    answer = json.loads(contents["policy.json"]["content"])
    assert (answer["version"], answer["run"], answer["site"], answer["stack"]) == (1, "run", "home", "linux")
    assert answer["measured_at"].endswith("Z") and answer["transfer_bytes"] is None
    assert answer["pm_options"]["active"] == [0, 3] and answer["pm_options"]["standby_order"] == [2, 1]
    assert [path["label"] for path in answer["paths"]] == list(PATHS)
    assert answer["paths"][3]["pairs"] == [["10.0.2.2", "198.51.100.7"]]
    low, mean, high = (answer[f"expected_{which}mbit_s"] for which in ("low_", "", "high_"))
    assert low is None or low <= mean <= high
    paths = msgspec.convert(answer["paths"], tuple[assignment.KernelPath, ...])
    assigned = assignment.Assignment(pm=answer["pm"], paths=paths, pm_options={"active": ["F-T", "M-V"]})
    assert assignment.start(assigned, "F-T").initial_path in PATHS


def test_the_answer_has_the_curve_of_its_run_in_memory(run: Callable[..., Path]):
    """The agent takes it: two points or more, of ascending bytes."""

    def curve(directory: Path) -> Any:
        return json.loads(files(sides(directory)[0])["policy.json"]["content"])["curve"]

    directory = run(protocol="mptcp")
    fixed, limits = curve(directory), curve(run("auto", protocol="mptcp", buffer_mode="auto"))
    assert 2 <= len(fixed) <= 40 and [size for size, _ in fixed] == sorted({size for size, _ in fixed})
    assert all(rate >= 0 for _, rate in fixed)
    # SO_SNDBUF is of payload, a limit of memory.
    assert [2 * size for size, _ in limits] == pytest.approx([size for size, _ in fixed], abs=1)
    assert [rate for _, rate in limits] == [rate for _, rate in fixed]
    sizes = [point.buffer_mib for point in plan.outline(directory).answered.run.curves]
    assert [fixed[0][0], fixed[-1][0]] == [round(2 * size * 2**20) for size in (min(sizes), max(sizes))]


def test_the_file_names_the_other_sites_addresses_and_the_socket(run: Callable[..., Path]):
    here = '[daemon]\nsocket = "/run/other.sock"\n'
    sender, _ = sides(run(**ACROSS), policies=here)
    file = files(sender)["policy.toml"]
    assert file["path"] == "/etc/mptune/policy.toml" and file["reload"] == "/run/other.sock"
    content = tomllib.loads(file["content"])
    assert file["content"].startswith(here) and content["daemon"] == {"socket": "/run/other.sock"}
    assert content["policy"] == [
        {
            "name": "run",
            "to": ["203.0.113.7/32", "198.51.100.7/32"],
            "run": "/var/lib/mptune/policies/run",
        }
    ]
    (unread,) = (files(sides(run("other", **ACROSS))[0])["policy.toml"],)
    assert unread["reload"] == str(daemon.SOCKET) and unread["content"].startswith("# ")


def test_a_download_keeps_the_endpoints_of_who_opens_connections(run: Callable[..., Path]):
    place = run(
        reverse=True, protocol="mptcp", opm="fullmesh", subflows=["T-F", "V-F", "T-M", "V-M"], standby=[]
    )
    sender, receiver = plan.outline(place, daemon=True).hosts
    assert (sender.site, receiver.site) == ("S", "H")
    assert any(setting["kind"] == "endpoint" for setting in receiver.settings)
    assert set(files(sender)) == {"policy.json", "policy.toml"} and not files(receiver)


def test_plain_tcp_is_no_policy(run: Callable[..., Path]):
    place = run(protocol="tcp", opm="default", subflows=["F-T"], standby=[])
    with pytest.raises(InputError, match="found plain TCP"):
        plan.outline(place, daemon=True)


def test_an_address_that_nobody_knows_is_asked_for(run: Callable[..., Path]):
    from tests.apply.worlds import NETWORK

    place = run(network=NETWORK.replace('ipv4 = "198.51.100.7"\n', ""), **ACROSS)
    with pytest.raises(InputError, match=r"sites\.S\.interfaces\.V\.ipv4: expected its address"):
        sides(place)


# The file


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, policy._NEW + "\n" + NEW),
        ("", NEW),
        ("# mine\n", "# mine\n\n" + NEW),
        ("# mine", "# mine\n\n" + NEW),
        (HOURS, HOURS + NEW),
        (f"# one\n{NEW}# two\n", f"# one\n{NEW}# two\n"),
        (f"# one\n{NEW.replace('10.0.0.1', '10.0.0.2')}# two\n", f"# one\n{NEW}# two\n"),
        (
            OTHER,
            OTHER + "\n" + NEW,
        ),
        (NEW.replace("apply: a", "apply: ab").replace('"a"', '"ab"').replace("0.1", "9.9"), None),
    ],
)
def test_the_block_is_added_or_replaced_and_the_rest_stays(before, after):
    text, _ = policy.added(before, NEW, "a", "FILE")
    assert text == (after if after is not None else before + "\n" + NEW)
    again, parsed = policy.added(text, NEW, "a", "FILE")
    assert again == text and "a" in [policy["name"] for policy in parsed["policies"]]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("policy = [", "expected TOML"),
        ('policy = "x"', r"FILE: policy: expected tables"),
        ("policy = []\n", r"FILE: line \d+: expected TOML"),
        (
            OTHER.replace('"b"', '"a"'),
            r"FILE: policy\[1\]\.name: expected a unique name, found \"a\" twice",
        ),
        (
            OTHER.replace("10.1.0.0/16", "10.0.0.0/8"),
            r"policy\[1\]\.to\[0\]: expected a prefix that no other .*10\.0\.0\.1/32 beside policy \"b\"",
        ),
        (OTHER.replace("guard", "fast"), r"FILE: policy\[0\]\.policy: expected one of "),
        (OTHER + NEW + 'open = "always"\n', "expected tables .* that another one can follow"),
    ],
)
def test_what_the_daemon_would_refuse_is_refused_before_anything_is_made(before, words):
    with pytest.raises(InputError, match=words):
        policy.added(before, NEW, "a", "FILE")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("my sites!", "my-sites"), ("default", "default-run"), ("...", "run"), ("a" * 99, "a" * 64)],
)
def test_names_are_those_that_policies_may_have(name, expected):
    assert policy._named(name) == expected


# What is shown


def test_advice_shows_the_policy_beside_what_is_there(run: Callable[..., Path]):
    advised = advice.advise(run(**ACROSS), daemon=True, look=looked(Seen(how="ssh x", present=HOME)))
    lines = {line.title: line for line in advised.hosts[0].lines}
    assert "[[policy]]" in lines["file /etc/mptune/policy.toml"].wanted
    assert set(advised.used) == {"F-T", "M-V"} and set(advised.standby) == {"M-T", "F-V"}
    refused = CliRunner().invoke(app, ["advise", str(run("files", **ACROSS)), "--daemon", "--files", "there"])
    assert refused.exit_code == 2 and "--files: expected without --daemon" in refused.stderr
    result = CliRunner().invoke(app, ["advise", str(run("again", **ACROSS)), "--daemon", "--no-look"])
    assert (
        "policy.toml" in result.output and "endpoint" not in result.output.lower().split("expected effect")[0]
    )
