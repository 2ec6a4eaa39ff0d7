"""A campaign's question as earlier versions kept it in their stores."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mptune.campaign.definition import SweepOptions, check, from_settings, read_definition
from mptune.campaign.definition_file import definition_file
from mptune.errors import InputError
from mptune.impact import SubflowSets
from mptune.optimisation.mpcoa import MpcoaOptions
from mptune.runner.planning import plan_trials
from mptune.topology import load
from mptune.trial import Messages, Mix, Pattern, Several
from mptune.trial.stacks import STACKS, VERSION_0_1, Stack


def settings(kind: str, **options: Any) -> dict[str, Any]:
    """Settings as 0.1 wrote them."""
    common = {"pms": ["fullmesh", "pcdc"], "ccs": ["reno"], "buffers": [4096, 8192, 16384], "runs": 2}
    return {
        "name": "old",
        "testbed": "simulated",
        "kind": kind,
        "options": {**common, "duration_ns": 10**9, "seed": 3, **options},
        "topology": msgspec.to_builtins(load("UiT-HAW")),
    }


def test_the_file_of_the_documentation_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/campaigns.md").read_text()
    file, sets, small, *_ = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "campaign.toml").write_text(file)
    options = read_definition(tmp_path / "campaign.toml").options
    assert isinstance(options, SweepOptions) and options.rounds == 72 and options.impact is not None
    measured = file[file.index("[impact]") : file.index("[repeat]")]
    (tmp_path / "campaign.toml").write_text(file.replace(measured, sets))
    read: Any = read_definition(tmp_path / "campaign.toml").options
    assert read.impact is None
    assert {
        configuration.cc
        for configuration in read.configurations({})
        if configuration.active == ("U-U", "T-U")
    } == {"cubic", "olia"}
    (tmp_path / "campaign.toml").write_text(small.replace('"my-sites.toml"', '"UNIS-HiN"'))
    read = read_definition(tmp_path / "campaign.toml").options
    assert read.in_words() == "54 trials: 2 path managers, 3 sizes, 9 runs."


def test_a_script_is_part_of_every_trial_of_a_sweep(tmp_path: Path) -> None:
    def written(script: str) -> Any:
        file = tmp_path / "campaign.toml"
        file.write_text(
            'topology = "UiT-HAW"\nkind = "sweep"\n[factors]\npm = ["fullmesh"]\ncc = ["reno"]\n'
            f'[trials]\nduration = "10s"\nscript = {script}\n'
        )
        return read_definition(file)

    planned_campaign = written('["5s:down:P-D", "9s:up:P-D"]')
    planned = plan_trials(
        planned_campaign.topology,
        planned_campaign.options.configurations({}),
        purpose="sweep",
        runs=1,
        base_seed=1,
    )
    scripts = {
        tuple((event.at_ns, event.action, event.path) for event in each.trial.script) for each in planned
    }
    assert scripts == {((5 * 10**9, "down", "P-D"), (9 * 10**9, "up", "P-D"))}
    assert from_settings(planned_campaign.settings()) == planned_campaign
    for script, expected in (
        ('["12s:down:P-D"]', "trials.script: expected a time before the end at 10 s"),
        ('["5s:down:P-X"]', "trials.script: expected a path of UiT-HAW"),
        ('["5s:cut:P-D"]', "trials.script: expected one of standby, active"),
        ("5", "trials.script: expected a list"),
    ):
        with pytest.raises(InputError, match=re.escape(expected)):
            written(script)


def test_a_main_job_of_0_1_is_read() -> None:
    impact = {
        "runs": 2,
        "window_ns": 10**9,
        "buffer_bytes": 16384,
        "settle_ns": 0,
        "zero": "standby",
        "seed": 3,
    }
    deciding = {"sacrifice": 0.05, "selection": "literal", "model": "auto", "on_grid": False, "resamples": 10}
    definition = from_settings(settings("optimise", impact=impact, confirm_runs=4, **deciding))
    check(definition)
    options: Any = definition.options
    assert (options.confirm_runs, options.impact.buffer_bytes, options.sacrifice) == (4, 16384, 0.05)
    assert options.stack.chosen() == VERSION_0_1
    assert from_settings(definition.settings()) == definition


def test_a_sweep_of_0_1_goes_on_as_it_began() -> None:
    """PCDC was never given its sets then; a resumed campaign does not change its trials half way."""
    empty: dict[str, Any] = {"initial_paths": [], "schedulers": [], "transfers": []}
    options = from_settings(settings("sweep", every_ns=None, for_ns=None, **empty)).options
    assert isinstance(options, SweepOptions) and options.impact is None
    assert all(configuration.active is None for configuration in options.configurations({}))


def test_a_campaign_file_chooses_the_stack_or_makes_it_a_factor(tmp_path: Path) -> None:
    text = """
topology = "UiT-HAW"
kind = "sweep"
{stack}
[factors]
pm = ["fullmesh"]
cc = ["reno"]
buffers = [1]
{factors}
[transport]
tso = true
"""
    file = tmp_path / "campaign.toml"

    def stacks(stack: str, factors: str) -> list[Stack]:
        file.write_text(text.format(stack=stack, factors=factors))
        options = read_definition(file).options
        assert isinstance(options, SweepOptions)
        return [configuration.stack for configuration in options.configurations({})]

    linux, papers = (msgspec.structs.replace(STACKS[name], tso=True) for name in ("linux", "v0.9x"))
    assert stacks("", "") == [linux]
    assert stacks('stack = "v0.9x"', "") == [papers]
    assert stacks("", 'stack = ["linux", "v0.9x"]') == [linux, papers]
    ecf = msgspec.structs.replace(papers, scheduler="ecf")
    assert stacks('stack = "v0.9x"', 'scheduler = ["minrtt", "ecf"]') == [papers, ecf]
    with pytest.raises(InputError, match=r"factors.stack: expected either one stack or several"):
        stacks('stack = "v0.9x"', 'stack = ["linux"]')
    with pytest.raises(InputError, match=r"transport.tso: expected off, the only one"):
        stacks('testbed = "namespaces"', "")


def test_a_new_sweep_of_pcdc_needs_its_sets_or_how_to_measure_them() -> None:
    with pytest.raises(InputError, match="--pm: expected the sets of pcdc or how to measure them"):
        SweepOptions().check()
    filled = SweepOptions(seed=5, buffers=(4096, 8192)).completed()
    filled.check()
    assert filled.impact is not None
    assert (filled.impact.seed, filled.impact.buffer_bytes) == (5, 8192)


def test_the_sets_go_to_pcdc_alone() -> None:
    sets = {"reno": SubflowSets(optional=("A-X",), standby=("B-X",))}
    given = {"pcdc": {"active": ("A-X",), "standby_order": ("B-X",)}}
    both = {"pms": ("fullmesh", "pcdc"), "ccs": ("reno",), "buffers": (4096,)}
    for options, measured in (({}, sets), (given, {})):
        sweep = msgspec.convert({**both, "pm_options": options}, SweepOptions)
        planned = {
            configuration.pm: (configuration.active, configuration.standby_order)
            for configuration in sweep.configurations(measured)
        }
        assert planned == {"fullmesh": (None, ()), "pcdc": (("A-X",), ("B-X",))}


def test_tables_of_path_managers_reach_the_trials_of_theirs_alone(tmp_path: Path) -> None:
    text = """
topology = "UiT-HAW"
kind = "sweep"
[factors]
pm = ["fullmesh", "ndiffports", "pcdc"]
cc = ["reno"]
[ndiffports]
ndiffports = 4
[pcdc]
active = ["P-D", "T-D"]
class_bytes = ["1 KiB", "1 KiB"]
rtt_ns = {"T-D" = "30 ms", "P-D" = "0.5 s"}
"""
    (tmp_path / "campaign.toml").write_text(text)
    definition = read_definition(tmp_path / "campaign.toml")
    assert from_settings(definition.settings()) == definition
    sweep: Any = definition.options
    assert {configuration.pm: configuration.pm_options for configuration in sweep.configurations({})} == {
        "fullmesh": {},
        "ndiffports": {"ndiffports": 4},
        "pcdc": {
            "active": ("P-D", "T-D"),
            "class_bytes": (1024, 1024),
            "rtt_ns": {"T-D": 30_000_000, "P-D": 500_000_000},
        },
    }


def test_other_options_of_pcdc_go_with_measured_sets() -> None:
    options = {
        "pms": ("pcdc",),
        "ccs": ("reno",),
        "buffers": (4096,),
        "pm_options": {"pcdc": {"class_bytes": (1, 2)}},
    }
    sweep = msgspec.convert(options, SweepOptions).completed()
    sweep.check()
    (configuration,) = sweep.configurations({"reno": SubflowSets(optional=("A-X",), standby=())})
    assert configuration.pm_options == {"class_bytes": (1, 2), "active": ("A-X",)}


def test_a_campaign_file_chooses_the_mode_of_the_buffers_or_makes_it_a_factor(tmp_path: Path) -> None:
    text = """
topology = "UiT-HAW"
kind = "sweep"
{mode}
[factors]
pm = ["fullmesh"]
cc = ["reno"]
buffers = [1]
{factors}
"""
    file = tmp_path / "campaign.toml"

    def modes(mode: str, factors: str) -> list[str]:
        file.write_text(text.format(mode=mode, factors=factors))
        options = read_definition(file).options
        assert isinstance(options, SweepOptions)
        return [configuration.buffer_mode for configuration in options.configurations({})]

    assert modes("", "") == ["fixed"]
    assert modes('buffer_mode = "auto"', "") == ["auto"]
    assert modes("", 'buffer_mode = ["auto", "fixed"]') == ["auto", "fixed"]
    with pytest.raises(InputError, match=r"factors.buffer_mode: expected either one mode or several"):
        modes('buffer_mode = "auto"', 'buffer_mode = ["auto"]')
    with pytest.raises(InputError, match=r"buffer_mode: expected one of fixed, auto"):
        modes('buffer_mode = "big"', "")


def test_a_campaign_of_algorithm_1_has_its_defaults_and_what_the_file_overrides(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(
        'topology = "UiT-HAW"\nkind = "mpcoa"\n[factors]\ncc = ["reno"]\n[decision]\nselection = "literal"\n'
    )
    definition = read_definition(file)
    assert type(definition.options) is MpcoaOptions and definition.options.ccs == ("reno",)
    assert (definition.options.selection, definition.options.model, definition.options.impact.design) == (
        "literal",
        "quadratic",
        "eq5",
    )
    assert definition.settings()["kind"] == "mpcoa"
    text = definition_file(definition, "UiT-HAW")
    assert 'kind = "mpcoa"' in text and "literal" in text
    file.write_text(text)
    assert read_definition(file) == definition
    file.write_text('topology = "UiT-HAW"\nkind = "mpcoa"\n[trials]\nstrategy = "adaptive"\n')
    with pytest.raises(InputError, match=r"trials.strategy: expected grid with --as-papers"):
        read_definition(file)


def test_withdrawals_before_a_sweep_have_its_mode_of_the_buffers() -> None:
    filled = SweepOptions(buffer_mode="auto", buffers=(4096, 8192)).completed()
    assert filled.impact is not None and filled.impact.buffer_mode == "auto"


@pytest.mark.parametrize("family", ["ipv6", "both"])
@pytest.mark.parametrize("kind", ["optimise", "sweep", "mpcoa"])
def test_the_family_of_a_file_reaches_every_trial_and_comes_back_from_the_settings(
    kind: str, family: str, tmp_path: Path
) -> None:
    text = """
topology = "UiT-HAW"
kind = "{kind}"
[factors]
pm = ["pcdc"]
buffers = "1:4:1"
[transport]
family = "{family}"
"""
    file = tmp_path / "campaign.toml"
    file.write_text(text.format(kind=kind, family=family))
    definition = read_definition(file)
    assert definition.options.family == family
    assert definition.options.impact is not None and definition.options.impact.family == family
    assert len(definition.topology.paths) == {"ipv6": 2, "both": 4}[family]
    if isinstance(definition.options, SweepOptions):
        assert {configuration.family for configuration in definition.options.configurations({})} == {family}
    settings = msgspec.json.decode(msgspec.json.encode(definition.settings()))
    assert from_settings(settings) == definition
    # Campaigns of versions that had no such option were over IPv4.
    del settings["options"]["family"], settings["options"]["impact"]["family"]
    assert from_settings(settings).options.family == "ipv4"
    file.write_text(text.format(kind=kind, family="ipx"))
    with pytest.raises(InputError, match=r"transport.family: expected one of ipv4, ipv6, both, found 'ipx'"):
        read_definition(file)


def test_plain_tcp_is_a_factor_beside_mptcp(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    text = (
        'topology = "UiT-HAW"\nkind = "sweep"\n[factors]\npm = ["fullmesh"]\ncc = ["cubic", "reno"]\n'
        "buffers = [1, 2]\ntcp = {tcp}\n[trials]\nruns = 3\n"
    )
    file.write_text(text.format(tcp='"all"'))
    definition = read_definition(file)
    assert isinstance(definition.options, SweepOptions) and definition.options.tcp_paths == ("P-D", "T-D")
    made = definition.options.configurations({})
    tcp = [configuration for configuration in made if configuration.protocol == "tcp"]
    assert {
        (configuration.initial_path, configuration.cc, configuration.buffer_bytes >> 20)
        for configuration in tcp
    } == {(path, cc, size) for path in ("P-D", "T-D") for cc in ("cubic", "reno") for size in (1, 2)}
    assert len(tcp) == 8 and len(made) == 12 and definition.options.swept_trials == 36
    assert {configuration.manager for configuration in tcp} == {"plain TCP on P-D", "plain TCP on T-D"}
    assert from_settings(msgspec.json.decode(msgspec.json.encode(definition.settings()))) == definition
    file.write_text(text.format(tcp='["T-D"]'))
    assert read_definition(file).options.tcp_paths == ("T-D",)  # type: ignore[union-attr]
    file.write_text(text.format(tcp='["U-U"]'))
    with pytest.raises(InputError, match=r"factors.tcp"):
        read_definition(file)


def test_only_what_plain_tcp_knows_is_done_to_paths_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(
        'topology = "UiT-HAW"\nkind = "sweep"\n[factors]\npm = ["fullmesh"]\ntcp = "all"\n'
        '[trials]\nscript = ["5s:standby:P-D"]\n'
    )
    with pytest.raises(InputError, match="expected only down and up beside plain TCP, found standby"):
        read_definition(file)


@pytest.mark.parametrize("kind", ["sweep", "optimise"])
def test_the_size_of_transfers_may_be_unknown(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    head = f'topology = "UiT-HAW"\nkind = "{kind}"\n[factors]\npm = ["pcdc"]\n'
    file.write_text(head + 'transfer = ["1 MiB"]\n[trials]\nsize_known = false\n')
    definition = read_definition(file)
    assert not definition.options.size_known
    if isinstance(definition.options, SweepOptions):
        assert not any(
            configuration.fields()["size_known"] for configuration in definition.options.configurations({})
        )
    assert from_settings(definition.settings()) == definition
    file.write_text(head + "[trials]\nsize_known = false\n")
    with pytest.raises(InputError, match="size_known: expected only with sizes of transfers"):
        read_definition(file)


MESSAGES = """
topology = "CLOUD-HOME.hybrid"
{head}
[factors]
pm = ["fullmesh"]
cc = ["cubic"]
buffers = "64KiB,256KiB"
{factors}
[trials]
workload = "{workload}"
duration = "{duration}"
{decision}
"""


def of_messages(
    tmp_path: Path,
    head: str = "",
    factors: str = "",
    decision: str = "",
    workload: str = "messages:200B/100ms",
    duration: str = "10s",
) -> Any:
    file = tmp_path / "calls.toml"
    file.write_text(
        MESSAGES.format(head=head, factors=factors, decision=decision, workload=workload, duration=duration)
    )
    return read_definition(file)


def test_a_campaign_of_messages_has_an_objective_and_limits(tmp_path: Path) -> None:
    limits = 'objective = "late:150ms"\nat_most_delay = "80 ms"\nat_most_gap = "1 s"'
    definition = of_messages(tmp_path, decision=f"[decision]\n{limits}")
    options = definition.options
    assert options.workload == Pattern(bytes=200, interval_ns=10**8)
    assert (options.runs, options.confirm_runs, options.objectives[0].name) == (10, 20, "later than 150 ms")
    assert [(limit.metric.name, limit.limit) for limit in options.limits] == [
        ("delay p99", 80.0),
        ("longest gap", 1000.0),
    ]
    assert from_settings(json.loads(json.dumps(definition.settings()))) == definition
    again = definition_file(definition, "CLOUD-HOME.hybrid")
    assert 'workload = "messages:200B/100ms"' in again and 'objective = "late:150ms"' in again
    (tmp_path / "again.toml").write_text(again)
    assert read_definition(tmp_path / "again.toml") == definition


@pytest.mark.parametrize("kind", ["sweep", "optimise"])
@pytest.mark.parametrize("workload", ["requests:400B/64KiB,think=1s", "page:60KiB/30x20KiB"])
def test_other_workloads_come_back_from_the_settings_as_well(
    tmp_path: Path, kind: str, workload: str
) -> None:
    definition = of_messages(tmp_path, f'kind = "{kind}"', workload=workload)
    assert from_settings(json.loads(json.dumps(definition.settings()))) == definition
    (tmp_path / "again.toml").write_text(definition_file(definition, "CLOUD-HOME.hybrid"))
    assert read_definition(tmp_path / "again.toml") == definition


def test_a_sweep_may_have_messages_in_place_of_a_saturated_sender(tmp_path: Path) -> None:
    definition = of_messages(tmp_path, 'kind = "sweep"')
    workloads = {each.workload for each in definition.options.configurations({})}
    assert workloads == {Messages(bytes=200, interval_ns=10**8, duration_ns=10**10)}
    assert from_settings(json.loads(json.dumps(definition.settings()))) == definition
    (tmp_path / "again.toml").write_text(definition_file(definition, "CLOUD-HOME.hybrid"))
    assert read_definition(tmp_path / "again.toml") == definition


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": "calls:200B/1s"}, "trials.workload: expected one of bulk, messages"),
        ({"workload": "messages:200B"}, "trials.workload: expected messages:SIZE/INTERVAL"),
        ({"workload": "messages:200B/1us", "duration": "30s"}, "trials.workload: expected at most 1000000"),
        ({"factors": 'transfer = ["64 KiB"]'}, "trials.workload: expected either"),
        ({"decision": '[decision]\nobjective = "jitter"'}, "decision.objective: expected one of"),
        ({"decision": '[decision]\nobjective = "completion"'}, "decision.objective: expected a metric of"),
        ({"decision": '[decision]\nat_most_gap = "1 MiB"'}, "decision.at_most_gap: expected a time"),
        ({"decision": "[decision]\nat_most_gap = 1"}, "decision.at_most_gap: expected text"),
        ({"decision": "[decision]\nsacrifice = 0.2"}, "decision.sacrifice: expected only without"),
        ({"head": 'kind = "mpcoa"'}, "trials.workload: expected only without --as-papers"),
        ({"head": 'kind = "sweep"', "factors": 'transfer = ["64 KiB"]'}, "trials.workload: expected either"),
        (
            {"head": 'kind = "sweep"', "workload": "messages:200B/1us", "duration": "30s"},
            "trials.workload: expected at most 1000000",
        ),
        (
            {"head": 'kind = "sweep"', "decision": '[decision]\nobjective = "gap"'},
            'decision: expected only with kind = "optimise"',
        ),
    ],
)
def test_a_campaign_of_messages_is_refused_by_key(
    tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(f"calls.toml: {message}")):
        of_messages(tmp_path, **changes)


@pytest.mark.parametrize("kind", ["sweep", "optimise"])
def test_many_connections_are_a_mix_and_come_back_from_the_settings(tmp_path: Path, kind: str) -> None:
    workload = 'messages:200B/100ms"\nconnections = 20 #'
    definition = of_messages(tmp_path, head=f'kind = "{kind}"', workload=workload)
    assert isinstance(definition.options.workload, Several) and definition.options.connections == 1
    (sent,) = definition.options.workloads
    assert isinstance(sent, Mix) and sent.connections == 20
    assert from_settings(json.loads(json.dumps(definition.settings()))) == definition
    again = definition_file(definition, "CLOUD-HOME.hybrid")
    assert 'workload = "mix:20*messages:200B/100ms"' in again and "connections" not in again
    (tmp_path / "again.toml").write_text(again)
    assert read_definition(tmp_path / "again.toml") == definition
