"""`mptune run`: one trial from the command line, as a table and as JSON."""

import itertools
import json
import re
import statistics
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

from mptune import testbeds
from mptune.cli import app
from mptune.options import declared
from mptune.options.path_managers import PathManagerOptions
from mptune.runner.one_trial import RunOptions, Uncounted, uncounted
from mptune.testbeds import Testbed
from mptune.topology import load
from mptune.trial import Bulk, Observation, SubflowObservation, Transfer, Trial


def run(*arguments):
    return CliRunner().invoke(app, ["run", "UiT-HAW", "--duration", "5s", *arguments])


def test_json_has_the_shape_that_tools_read():
    result = json.loads(run("--json", "--cc", "reno", "--buffer", "1MiB", "--seed", "7").stdout)
    assert (result["pm"], result["cc"], result["scheduler"]) == ("fullmesh", "reno", "kernel")
    assert (result["seed"], result["testbed"], result["buffer_bytes"]) == (7, "simulated", 1 << 20)
    assert {subflow["path"] for subflow in result["subflows"]} == {"P-D", "T-D"}
    series = result["series"]
    assert len(series["t_s"]) == len(series["throughput_mbps"]) == 50
    mean = sum(series["throughput_mbps"]) / 50
    assert result["throughput_mbps"] == pytest.approx(mean)
    assert "failed" not in result and "completion_s" not in result


def test_the_buffers_have_their_size_or_grow_up_to_it():
    output = run("--buffer", "1MiB", "--buffer-mode", "auto").stdout
    assert "buffers of up to 1 MiB" in output and "1 MiB of buffer" in run("--buffer", "1MiB").stdout
    results = {
        mode: json.loads(run("--json", "--buffer", "64KiB", "--buffer-mode", mode).stdout)
        for mode in ("fixed", "auto")
    }
    assert {mode: result["buffer_mode"] for mode, result in results.items()} == {
        "fixed": "fixed",
        "auto": "auto",
    }
    assert results["fixed"]["throughput_mbps"] != results["auto"]["throughput_mbps"]
    assert "expected one of fixed, auto" in run("--buffer-mode", "big").output


def test_over_ipv6_the_first_line_names_the_family():
    results = {family: run("--family", family) for family in ("ipv4", "ipv6")}
    assert "fullmesh over IPv6, cubic" in results["ipv6"].stdout
    assert "IPv" not in results["ipv4"].stdout and results["ipv4"].stdout == run().stdout
    assert json.loads(run("--json", "--family", "ipv6").stdout)["family"] == "ipv6"
    assert json.loads(run("--json").stdout)["family"] == "ipv4"


@pytest.mark.parametrize("command", ["run", "impact", "optimise", "compare", "buffers"])
def test_every_command_that_measures_has_the_family(command):
    page = CliRunner().invoke(app, [command, "--help-all"], env={"COLUMNS": "120"}).stdout
    assert "--family" in page and "ipv4, ipv6" in " ".join(page.split())


def test_a_transfer_reports_its_completion_time():
    arguments = ["run", "UiT-HAW", "--transfer", "64KiB", "--json"]
    result = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert result["completion_s"] == result["duration_s"] > 0
    bits = sum(
        rate * min(0.1, result["duration_s"] - start)
        for start, rate in zip(result["series"]["t_s"], result["series"]["throughput_mbps"], strict=True)
    )
    assert bits * 1e6 == pytest.approx(64 * 1024 * 8)


def test_in_reverse_the_data_take_the_other_links():
    """UiT's ADSL lines bring 6 and 2 Mbit/s down, and 512 and 384 kbit/s up."""
    rates = {}
    for flags in ((), ("--reverse",)):
        result = json.loads(run("--json", "--buffer", "4", *flags).stdout)
        rates[flags] = {subflow["path"]: subflow["throughput_mbps"] for subflow in result["subflows"]}
    assert set(rates[()]) == {"P-D", "T-D"} and set(rates["--reverse",]) == {"D-P", "D-T"}
    assert rates["--reverse",]["D-P"] > 5 * rates[()]["P-D"]


def test_the_table_names_every_subflow_with_its_role():
    output = run("--pm", "pcdc", "--active", "P-D").stdout
    assert "P-D" in output and "T-D" in output
    assert output.count("standby") == 1


def test_options_of_path_managers_are_flags():
    """Each that a policy declares, with its default; what no command line can hold is in files only."""
    options = re.sub(r"\s+", " ", run("--help-all").stdout.partition("Examples:")[0])
    for option in declared(PathManagerOptions):
        is_listed = f" {option.flag} {option.option.kind.metavar} {option.option.help}" in options
        assert is_listed != option.option.file_only, option.flag
    assert len({option.flag for option in declared(RunOptions)}) == len(declared(RunOptions))
    assert "[default: 512KiB,1MiB]" in options


def test_options_of_the_path_manager_reach_it():
    result = json.loads(run("--json", "--pm", "ndiffports", "--ndiffports", "3").stdout)
    assert [subflow["path"] for subflow in result["subflows"]] == ["P-D"] * 3
    roles = {}
    for limits in ("1KiB,1KiB", "64KiB,64KiB"):
        arguments = [
            "run",
            "UiT-HAW",
            "--transfer",
            "64KiB",
            "--pm",
            "pcdc",
            "--class-bytes",
            limits,
            "--stack",
            "v0.9x",
            "--json",
        ]
        subflows = json.loads(CliRunner().invoke(app, arguments).stdout)["subflows"]
        roles[limits] = sum(subflow["active"] for subflow in subflows)
    assert roles == {"1KiB,1KiB": 2, "64KiB,64KiB": 1}


def test_the_stack_is_chosen_by_name_and_its_members_may_differ():
    papers = json.loads(run("--json", "--stack", "v0.9x").stdout)
    assert (papers["stack"], papers["scheduler"]) == ("v0.9x", "minrtt")
    plain = json.loads(run("--json", "--stack", "v0.9x", "--no-opportunistic", "--mss", "1000").stdout)
    assert plain["stack"] == "v0.9x with opportunistic off, mss 1000"
    assert json.loads(run("--json").stdout)["stack"] == "linux"


def test_ecn_can_be_switched_off():
    assert json.loads(run("--json", "--no-ecn").stdout)["stack"] == "linux with ecn off"
    assert json.loads(run("--json", "--ecn").stdout)["stack"] == "linux"


def test_plain_tcp_runs_on_the_initial_path_alone():
    result = json.loads(run("--json", "--protocol", "tcp", "--initial-path", "T-D").stdout)
    assert (result["protocol"], result["pm"]) == ("tcp", "default")
    assert [subflow["path"] for subflow in result["subflows"]] == ["T-D"]
    assert "plain TCP" in run("--protocol", "tcp").stdout
    assert json.loads(run("--json").stdout)["protocol"] == "mptcp"


def test_plain_tcp_has_whole_packets_of_payload():
    """MPTCP's full packet has 1424 bytes of payload, TCP's 1448."""
    flags = ["--json", "--initial-path", "P-D", "--duration", "60s"]
    tcp, mptcp = (
        json.loads(run(*flags, *more).stdout)["throughput_mbps"]
        for more in (["--protocol", "tcp"], ["--pm", "default"])
    )
    assert mptcp / tcp == pytest.approx(1424 / 1448, rel=0.006)
    papers = json.loads(run("--json", "--stack", "v0.9x", "--protocol", "tcp").stdout)
    assert "mss 1448" in papers["stack"]
    smaller = json.loads(run("--json", "--protocol", "tcp", "--mss", "1000").stdout)
    assert smaller["stack"] == "linux with mss 1000"


def test_a_script_cuts_and_restores_a_path():
    result = json.loads(run("--json", "--at", "2s:down:P-D", "--at", "4s:up:P-D").stdout)
    (cut,) = (subflow for subflow in result["subflows"] if subflow["path"] == "P-D")
    assert sum(cut["series_mbps"][:20]) > 0 == sum(cut["series_mbps"][30:40])  # the queue drains
    assert result["takeover_ms"] >= 0
    # The connection repeats only on a subflow that has nothing else to do, as with a small buffer.
    small = ("--buffer", "1MiB", "--duration", "10s", "--at", "2s:down:P-D")
    assert json.loads(run("--json", *small).stdout)["reinjected_bytes"] > 0
    assert "takeover_ms" not in json.loads(run("--json").stdout)
    assert re.search(r"take-over \d+ ms, .* repeated on other subflows", run("--at", "2s:down:P-D").stdout)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--cc", "tahoe"], "--cc: expected one of reno, cubic"),
        (["--pm", "mesh"], "--pm: expected one of default, fullmesh"),
        (["--scheduler", "fifo"], "--scheduler: expected one of minrtt"),
        (["--buffer", "1000B"], "--buffer: expected at least one segment (1448 B)"),
        (["--buffer", "4m"], "--buffer: expected a size such as 512KiB (a bare number is MiB)"),
        (["--duration", "0s"], "--duration: expected more than 0"),
        (["--transfer", "1MiB"], "--transfer: expected either --duration or --transfer"),
        (["--active", "P-D"], "--active: expected only with --pm pcdc"),
        (["--ndiffports", "2"], "--ndiffports: expected only with --pm ndiffports, found with fullmesh"),
        (["--pm", "ndiffports", "--ndiffports", "65"], "--ndiffports: expected 1 to 64, found 65"),
        (
            ["--pm", "pcdc", "--class-bytes", "1KiB"],
            "--class-bytes: expected a list of whole numbers of bytes",
        ),
        (["--pm", "pcdc", "--class-bytes", "1KiB,x"], "--class-bytes: expected"),
        (
            ["--pm", "pcdc", "--standby-order", "P-X"],
            "--standby-order: expected a path of UiT-HAW (P-D, T-D)",
        ),
        (["--pm", "pcdc", "--active", "P-X"], "--active: expected a path of UiT-HAW (P-D, T-D)"),
        (["--initial-path", "X-D"], "--initial-path: expected a path of UiT-HAW (P-D, T-D)"),
        (["--testbed", "moon"], "--testbed: "),
        (["--stack", "bsd"], "--stack: expected one of linux, linux-7.3, v0.9x, found 'bsd'"),
        (["--mss", "20"], "--mss: expected 64 to 8960, found 20"),
        (
            ["--stack", "v0.9x", "--testbed", "namespaces"],
            "--stack: expected linux, the only one of the testbed namespaces, found v0.9x",
        ),
        (["--tso", "--testbed", "namespaces"], "--tso: expected off, the only one of the testbed namespaces"),
        (["--seed", "-1"], "--seed"),
        (["--at", "2s:down"], "--at: expected TIME:ACTION:PATH such as \"5s:down:U-C\", found '2s:down'"),
        (["--at", "2s:cut:P-D"], "--at: expected one of standby, active, down, up, remove, add, found 'cut'"),
        (["--at", "2:down:P-D"], "--at: expected a time such as"),
        (["--at", "2s:down:P-X"], "--at: expected a path of UiT-HAW (P-D, T-D)"),
        (["--at", "5s:down:P-D"], "--at: expected a time before the end at 5 s, found 5s:down:P-D"),
        (
            ["--at", "2s:down:P-D", "--at", "1s:up:P-D"],
            "--at: expected the actions in order of time, found 1s:up:P-D after 2s:down:P-D",
        ),
        (
            ["--protocol", "tcp", "--at", "1s:standby:P-D"],
            "--at: expected only down and up with --protocol tcp, found standby",
        ),
        (["--family", "ipx"], "--family: expected one of ipv4, ipv6, both, found 'ipx'"),
        (["--protocol", "udp"], "--protocol: expected one of mptcp, tcp, found 'udp'"),
        (["--protocol", "tcp", "--pm", "pcdc"], "--pm: expected default with --protocol tcp, found pcdc"),
        (
            ["--protocol", "tcp", "--scheduler", "blest"],
            "--scheduler: expected only with --protocol mptcp, found with tcp",
        ),
        (["--protocol", "tcp", "--opportunistic"], "--opportunistic: expected only with --protocol mptcp"),
        (
            ["--protocol", "tcp", "--standby-order", "P-D"],
            "--standby-order: expected only with --pm pcdc, found with default",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, error):
    result = run(*arguments)
    assert result.exit_code == 2
    assert error in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


# What subflows carry beyond the total.


def observed(testbed, *carried, total, reinjected=0, completion_ns=None):
    """A trial of 8 s in which the subflows carried so many bytes, and so many were in order."""
    zeros: dict[str, Any] = {
        "srtt_ns": 10**7,
        "min_rtt_ns": 10**7,
        "retransmitted": 0,
        "timeouts": 0,
        "bins": [],
    }
    subflows = [
        SubflowObservation(path=path, active=True, bytes=size, **zeros)
        for path, size in zip(("P-D", "T-D"), carried, strict=True)
    ]
    return Observation(
        testbed=testbed,
        duration_ns=8 * 10**9,
        in_order_bytes=total,
        bins=[],
        subflows=subflows,
        completion_ns=completion_ns,
        metadata={} if reinjected is None else {"reinjected_bytes": reinjected},
    )


def asked(workload):
    network = load("UiT-HAW")
    return Trial(topology=network, pm="fullmesh", cc="cubic", buffer_bytes=2**20, seed=1, workload=workload)


@pytest.mark.parametrize(
    ("observation", "workload", "expected"),
    [
        (observed("simulated", 600, 400, total=900, reinjected=100), Bulk(duration_ns=8 * 10**9), (0, 100)),
        (observed("namespaces", 600, 400, total=900, reinjected=30), Bulk(duration_ns=8 * 10**9), (30, 70)),
        (observed("hosts", 600, 400, total=900, reinjected=500), Bulk(duration_ns=8 * 10**9), (100, 0)),
        (observed("hosts", 600, 400, total=900, reinjected=None), Bulk(duration_ns=8 * 10**9), (0, 0, 100)),
        (observed("hosts", 600, 400, total=1000, reinjected=500), Bulk(duration_ns=8 * 10**9), (0, 0)),
        (observed("hosts", 600, 400, total=900, completion_ns=8), Transfer(bytes=900), (100, 0)),
    ],
)
def test_what_is_not_in_the_total_was_repeated_or_is_not_in_order(observation, workload, expected):
    assert uncounted(asked(workload), observation) == Uncounted(*expected)


@pytest.mark.parametrize(("repeated", "waiting"), [(300_000, 200_000), (0, 500_000), (500_000, 0), (0, 0)])
def test_the_rows_of_the_table_add_up_to_the_total(monkeypatch, repeated, waiting):
    class Kernel(Testbed):
        name = "namespaces"

        def run(self, trial):
            carried = (6_000_000, 4_000_000 + repeated + waiting)
            return observed(self.name, *carried, total=10_000_000, reinjected=repeated)

    monkeypatch.setattr(testbeds, "create", lambda name: Kernel())
    result = run().stdout
    (total,) = re.findall(r"^([0-9.]+) Mbit/s over", result, re.M)
    rows = re.findall(r"^(P-D|T-D|repeated|not in order) .*?(-?[0-9]+\.[0-9]+) ", result + " ", re.M)
    assert sum(float(mbps) for _, mbps in rows) == pytest.approx(float(total), abs=0.011)
    there = {name for name, _ in rows}
    assert ("repeated" in there, "not in order" in there) == (repeated > 0, waiting > 0)
    document = json.loads(run("--json").stdout)
    assert (document["repeated_bytes"], document["waiting_bytes"]) == (repeated, waiting)


def test_in_the_simulator_they_add_up_too():
    document = json.loads(run("--json", "--buffer", "16MiB", "--duration", "2s").stdout)
    carried = sum(subflow["throughput_mbps"] for subflow in document["subflows"])
    assert document["repeated_bytes"] == 0
    beyond = (carried - document["throughput_mbps"]) * 1e6 * document["duration_s"] / 8
    assert document["waiting_bytes"] == pytest.approx(beyond, abs=1)


def test_an_unknown_size_is_one_of_a_transfer():
    result = CliRunner().invoke(app, ["run", "UiT-HAW", "--no-size-known"])
    assert result.exit_code == 2 and "--size-known: expected only with --transfer" in result.stderr


def test_pcdc_begins_with_one_path_where_the_size_is_unknown():
    """A known 2 MiB are of the class of all paths; unknown, the class rises with the bytes sent."""
    begun = {}
    for flag in ("--size-known", "--no-size-known"):
        arguments = ["--pm", "pcdc", "--active", "P-D,T-D", "--transfer", "2MiB", "--stack", "v0.9x", flag]
        result = CliRunner().invoke(app, ["run", "UiT-HAW", *arguments, "--json"])
        assert result.exit_code == 0, result.stderr
        begun[flag] = max(
            next(number for number, rate in enumerate(flow["series_mbps"]) if rate)
            for flow in json.loads(result.stdout)["subflows"]
        )
    assert begun["--size-known"] < begun["--no-size-known"]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (
            ["--cc", "cubic"],
            "--caps: expected a congestion control with the path policy cap, such as",
        ),
        (["--cc", "cubic+hold"], "found cubic+hold"),
        (["--caps", "Q-Q=1Mbit/s"], "--caps: expected a path of "),
        (["--caps", "U-U=0 Mbit/s"], "--caps: U-U: expected more than 0"),
        (["--caps", "U-U"], "--caps: expected PATH=RATE, found 'U-U'"),
        (["--caps", "U-U=1Mbit/s,U-U=2Mbit/s"], "--caps: expected each path once, found U-U twice"),
        (["--protocol", "tcp"], "--caps: expected only with --protocol mptcp, found tcp"),
    ],
)
def test_what_is_told_of_paths_is_checked(words, refusal):
    given = ["--cc", "cubic+cap", "--caps", "U-U=1Mbit/s"]
    replaced = [*given[:2], *words] if "--caps" in words else [*given, *words]
    done = CliRunner().invoke(app, ["run", "UNIS-HiN", "--duration", "1s", *replaced])
    assert done.exit_code == 2
    assert refusal in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("cc", "order", "refusal"),
    [
        ("cubic+cap", "U-U", "--order: expected a congestion control with the path policy prefer"),
        ("cubic+prefer", "Q-Q", "--order: expected a path of "),
        ("cubic+prefer", "U-U,U-U", "--order: expected each value once, found 'U-U' twice"),
    ],
)
def test_an_order_of_paths_is_checked(cc, order, refusal):
    words = ["run", "UNIS-HiN", "--duration", "1s", "--cc", cc, "--order", order]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert refusal in " ".join(done.stderr.split())


def test_a_path_behind_the_first_waits_until_that_is_full():
    words = ["run", "UNIS-HiN", "--cc", "cubic+prefer", "--order", "U-U", "--buffer-mode", "auto"]
    done = CliRunner().invoke(app, [*words, "--duration", "2s", "--json"])
    begun = {
        flow["path"]: next((number for number, rate in enumerate(flow["series_mbps"]) if rate), None)
        for flow in json.loads(done.stdout)["subflows"]
    }
    assert begun.pop("U-U") == 0 and all(at is None or at > 2 for at in begun.values())


def test_a_path_has_its_cap():
    words = ["run", "UNIS-HiN", "--cc", "cubic+cap", "--caps", "U-U=1Mbit/s,T-U=500kbit/s"]
    done = CliRunner().invoke(app, [*words, "--duration", "5s", "--json"])
    rates = {one["path"]: one["throughput_mbps"] for one in json.loads(done.stdout)["subflows"]}
    assert rates["U-U"] == pytest.approx(1, rel=0.1) and 0 < rates["T-U"] < 0.51


MESSAGES = ("--workload", "messages:200B/100ms", "--duration", "10s")


def test_messages_have_delays_in_the_first_line_and_every_one_in_json():
    arguments = ["run", "UiT-HAW", *MESSAGES]
    output = CliRunner().invoke(app, arguments).stdout
    first = output.splitlines()[0]
    assert first.startswith("100 messages of 200 B: delay p99 ") and "(UiT-HAW, fullmesh, cubic" in first
    assert all(name in first for name in ("delay p50 ", "delay p99.9 ", "longest gap "))
    result = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    sent = result["messages"]
    assert (sent["bytes"], sent["interval_ms"], sent["due"], sent["arrived"]) == (200, 100.0, 100, 100)
    delays = sent["delays_ms"]
    assert len(delays) == 100 and min(delays) > 0
    assert sent["delay_p50_ms"] == pytest.approx(statistics.median(delays))
    # statistics.quantiles has the same definition: of 99 cuts the last.
    assert sent["delay_p99_ms"] == pytest.approx(statistics.quantiles(delays, n=100, method="inclusive")[-1])
    arrivals = [100 * number + delay for number, delay in enumerate(delays)]
    assert sent["longest_gap_ms"] == pytest.approx(max(b - a for a, b in itertools.pairwise(arrivals)))
    assert "completion_s" not in result
    # What arrives in order is what is sent; the last 100 ms are shorter.
    assert sum(size for size in result["series"]["throughput_mbps"]) * 0.1e6 / 8 == pytest.approx(
        20_000, rel=0.01
    )


def test_a_mix_has_a_line_for_each_part_and_every_connection_in_json():
    words = ("run", "UiT-HAW", "--workload", "mix:bulk+2*messages:200B/100ms", "--duration", "5s")
    lines = CliRunner().invoke(app, words).stdout.splitlines()
    assert re.match(r"[\d.]+ Mbit/s over 5 s \(UiT-HAW", lines[0])
    assert lines[1].startswith("a saturated sender: throughput ")
    assert lines[2].startswith("2 connections with messages of 200 B every 100 ms: delay p99 ")
    assert re.search(r"fairness (99\.\d+|100) % \(Jain's index\)$", lines[2])
    result = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    bulk, calls = result["parts"]
    assert (bulk["kind"], calls["kind"], result["fairness"]) == ("bulk", "messages", None)
    assert [one["throughput_mbps"] for one in bulk["connections"]] == [result["throughput_mbps"]]
    assert [len(one["times_ms"]) for one in calls["connections"]] == [50, 50]


def test_many_connections_share_and_their_sum_is_the_throughput():
    words = ("run", "UiT-HAW", "--connections", "4", "--duration", "10s", "--json")
    result = json.loads(CliRunner().invoke(app, words).stdout)
    rates = [one["throughput_mbps"] for one in result["parts"][0]["connections"]]
    # Each over its own time, which is up to a second shorter.
    assert len(rates) == 4 and result["throughput_mbps"] <= sum(rates) <= 1.12 * result["throughput_mbps"]
    assert result["fairness"] == pytest.approx(100 * sum(rates) ** 2 / 4 / sum(rate**2 for rate in rates))
    alone = json.loads(CliRunner().invoke(app, [*words[:2], *words[4:]]).stdout)
    assert "parts" not in alone and "fairness" not in alone


def test_transfers_on_many_connections_end_with_the_last():
    words = ("run", "UiT-HAW", "--connections", "3", "--transfer", "1MiB", "--json")
    result = json.loads(CliRunner().invoke(app, words).stdout)
    each = [one["completion_s"] for one in result["parts"][0]["connections"]]
    assert max(each) <= result["completion_s"] < max(each) + 1


def test_messages_through_an_outage_have_its_gap():
    cut = ("--pm", "pcdc", "--active", "P-D", "--at", "5s:down:P-D")
    result = json.loads(CliRunner().invoke(app, ["run", "UiT-HAW", *MESSAGES, *cut, "--json"]).stdout)
    assert result["messages"]["arrived"] == 100 and result["messages"]["longest_gap_ms"] > 200


def test_messages_that_never_arrive_fail_the_trial_and_are_counted():
    cut = ("--protocol", "tcp", "--initial-path", "P-D", "--at", "5s:down:P-D")
    result = CliRunner().invoke(app, ["run", "UiT-HAW", *MESSAGES, *cut])
    assert result.exit_code == 1 and "the trial failed: " in result.stderr
    assert re.match(r"[1-9]\d? of 100 messages of 200 B: delay p99 ", result.stdout)
    result = CliRunner().invoke(app, ["run", "UiT-HAW", *MESSAGES, *cut, "--json"])
    document = json.loads(result.stdout)
    assert document["messages"]["arrived"] < document["messages"]["due"] and document["failed"]


def varying(folder, rates):
    """A network of one path whose down link has each of these rates for a minute, over and over."""
    rows = "".join(f"{60 * at},{rate}\n" for at, rate in enumerate(rates))
    (folder / "minutes.csv").write_text(f"time (s),down (Mbit/s)\n{rows}")
    links = {"A": 'down = "10 Mbit/s"', "B": 'trace_down = "minutes.csv"'}
    sites = "".join(
        f'[sites.{abbr}]\nname = "{abbr}"\n[[sites.{abbr}.interfaces]]\nisp = "{abbr}"\nabbr = "{abbr}"\n'
        f'up = "10 Mbit/s"\n{link}\n'
        for abbr, link in links.items()
    )
    file = folder / "net.toml"
    file.write_text(f'name = "net"\nsender = "A"\nreceiver = "B"\n{sites}[core]\ndelay = "5 ms"\n')
    return str(file)


def test_of_a_network_that_varies_it_says_what_95_percent_of_the_minutes_have(tmp_path):
    network = varying(tmp_path, (0.5, *[1] * 4))
    invoke = partial(CliRunner().invoke, app)
    result = json.loads(invoke(["run", network, "--duration", "20min", "--json"]).stdout)
    payload = 1448 / 1500
    assert result["throughput_mbps"] == pytest.approx(0.9 * payload, rel=0.02)
    assert result["minutes"]["whole"] == 20
    assert result["minutes"]["at_least_95_mbps"] == pytest.approx(0.5 * payload, rel=0.05)
    assert result["minutes"]["median_mbps"] == pytest.approx(payload, rel=0.02)
    text = invoke(["run", network, "--duration", "20min"]).stdout
    assert re.search(r"^at least 0\.4\d+ Mbit/s in 95 % of the 20 minutes, 0\.9\d+ in half", text, re.M)
    assert "minutes" not in json.loads(invoke(["run", network, "--duration", "19min", "--json"]).stdout)
    assert "minutes" not in json.loads(run("--json").stdout)
