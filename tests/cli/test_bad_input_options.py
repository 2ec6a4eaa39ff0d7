"""Bad values of every option of every command: refused in one line that names the option."""

from pathlib import Path

import pytest

from tests.plugins.bad_input import Case, dangling, fifo, folder, listening, turning, verdict

LONG = "x" * 100_000
#: No IP address with a port.
ADDRESSES = ("", "localhost:9464", "127.0.0.1", ":9464", "70000", "-1", "::1:x", LONG)

#: Values that no option of a kind takes, by the kind.
VALUES: dict[str, tuple[str, ...]] = {
    "time": ("soon", "-1s", "nan", "5 parsecs", "10", "1e999s", "", "inf", LONG),
    "count": ("many", "-1", "1.5", "99999999999999999999", "nan", "", "1_000", "9" * 5000),
    "size": ("big", "-1KiB", "nan", "5 parsecs", "12", "1e400MiB", "", LONG),
    "buffer": ("big", "-1", "nan", "0", "1e99", "", "1 MiB extra", "12 parsecs", "inf", LONG),
    "buffers": (
        *("1,1,1", "3:1:1", "1:2", "1:2:0", "few", "nan,1", "0:1:1e-9", "-1,2", ",", "1,,2", "1;2", "2,1,1"),
        *("512KiB,0.5", "1e99,2", "1:inf:1", "", LONG),
    ),
    "share": ("some", "-1%", "200%", "nan", "inf", "1", "", LONG),
    "probability": ("0", "1", "likely", "nan", "-5%", "150%", ""),
    "name": ("nonsense", "", "cubic,cubic", LONG),
    "ccs": ("nonsense", "reno,reno", "cubic,reno,cubic", ",", "reno,,cubic", "", LONG),
    "pms": ("nonsense", "default,default", ",", "default,", "", LONG),
    "path": ("nowhere", "", "P-D,T-D", LONG),
    "paths": ("nowhere", "P-D,P-D", "P-D,", ",", LONG),
    "sizes": ("64KiB,64KiB", "64KiB,", "big", "0B", "-1KiB", "64KiB,0.0625MiB"),
    "workload": (
        *("", "messages", "messages:", "messages:200B", "messages:200B/", "messages:/1s", "messages:0B/1s"),
        *("messages:200B/0s", "messages:-1B/1s", "messages:200B/-1s", "messages:200B/1s/1s", "calls:200B/1s"),
        *("messages:200/100", "messages:nan/1s", "messages:200B/inf", "MESSAGES:200B/1s", LONG),
        f"messages:{LONG}/1s",
        *("on-off:", "on-off:1MiB", "on-off:0B/1s", "on-off:1MiB/0s", "on-off:-1B/1s", "on-off:x.csv"),
        *("exec", "exec:", "exec:a", "exec:,a", "exec:a,", "exec:a,b,c", "exec:'a,b", f"exec:{LONG}"),
        *("video:", "video:2M/1M", "video:1M/x", "video:1M,buffer=1s", "video,segment=0s", f"video:{LONG}"),
        *("mix:", "mix:calls", "mix:bulk+", "mix:0*bulk", "mix:1001*bulk", "mix:bulk:1MiB", "mix:x*bulk"),
        *("mix:transfer", "mix:mix:bulk", f"mix:{LONG}", "mix:messages:0B/1s"),
    ),
    "connections": ("0", "-1", "1001", "many", "1.5", "", LONG),
    "metric": (
        *("", "delay", "delay:", "delay:p98", "delay:p99:p50", "gap:1s", "late", "late:", "late:0s"),
        *("late:-1s", "late:soon", "completion", "throughput", "jitter", "delay:p99;gap", "video", LONG),
    ),
    "positive time": ("soon", "-1s", "0s", "10", "80KiB", "80%", "nan", "", LONG),
    "rate": ("fast", "-1Mbit/s", "nan", "0Mbit/s", "12", ""),
    "script": ("x", "100ms:explode:P-D", "99h:down:P-D", "-1s:down:P-D", "100ms:down:nowhere", ":::"),
    "model": (
        *("", "T", "T ~", "~", "T ~ ", "B ~ T ~ CC", "T ~ B;", "T ~ B; x", "T ~ exit()", "T ~ T"),
        *("T ~ __import__('os')", "T ~ `B`", "T ~ B^99", "T ~ $(id)"),
        *("T ~ open('/etc/passwd')", "T ~ B.real", "T ~ B[0]", "T ~ lambda: 0", "T ~ B ** 2", "T ~ B^0.5"),
        *("T ~ nowhere", "T ~ CC^2", "T ~ log(CC)", "CC ~ B", "T ~ 0", "T ~ B + buffer", "T ~ {B}"),
        *("T ~ B + B^2 + B^3 + B^4 + B^5", "T ~ (((((((((((B", "T ~ " + "B + " * 300 + "B", LONG),
    ),
    "references": ("", "CC", "CC=", "=reno", "CC=nowhere", "PM=default", "B=1", LONG),
    "predictions": (
        *("", "B", "B=", "=1", "B=big", "B=1 parsec", "B=nan", "B=inf", "B=1e999", "B=1,B=2", "CC=reno"),
        *("B=1,CC=nowhere", "B=1,PM=default", "T=1", "B=10Mbit/s", "B=1_0", ",", LONG),
    ),
    "inverses": (
        *("", "T", "T=", "T=fast", "T=1 parsec", "T=nan", "CC=reno", "T=9Mbit/s,B=1", "T=9Tbit/s"),
        *("T=1e12", LONG),
    ),
    "units": ("parsec", "bit/s,Mbit/s", "B,MiB", "mbps", LONG),
    "figure": ("x.gif", "x", "no-such/x.svg", ".", "/"),
    "link": ("100Mbit/s", "100Mbit/s,10ms,1s,1s", "fast,10ms", "0Mbit/s,10ms", "100Mbit/s,-1s", "", ","),
}  # fmt: skip

#: Command lines that are right and quick, and the kinds of their options.
RUN = ("run", "UiT-HAW", "--duration", "200ms")
IMPACT = ("impact", "UiT-HAW", "--impact", "eq5", "--runs", "1", "--duration", "100ms", "--quiet")
OPTIMISE = (
    *("optimise", "UiT-HAW", "--out", "new", "--quiet", "--strategy", "grid", "--buffers", "0.1,0.2,0.3,0.4"),
    *("--pm", "default", "--cc", "reno", "--runs", "1", "--duration", "500ms", "--resamples", "0"),
    *("--impact-runs", "1", "--impact-duration", "100ms", "--impact", "eq5", "--sets", "signs"),
    *("--confirm-runs", "1", "--off-by", "0"),
)
LEARN = ("optimise", "UiT-HAW", "--out", "new", "--quiet", "--cc", "reno", "--pm", "default")
CALLS = "messages:200B/100ms"
MEASURE = (
    "buffers",
    "UiT-HAW",
    "--measure",
    "--quiet",
    "--runs",
    "1",
    "--duration",
    "100ms",
    "--buffers",
    "0.1",
)
STACK = {
    "--stack": "name",
    "--family": "name",
    "--scheduler": "name",
    "--accounting": "name",
    "--mss": "count",
}
MANAGERS = {"--held-up-share": "count", "--first-retry": "count", "--ndiffports": "count"}
COMMANDS: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (
        RUN,
        {
            **STACK,
            **MANAGERS,
            "--cc": "name",
            "--pm": "name",
            "--protocol": "name",
            "--buffer": "buffer",
            "--seed": "count",
            "--duration": "time",
            "--initial-path": "path",
            "--buffer-mode": "name",
            "--at": "script",
            "--testbed": "name",
        },
    ),
    ((*RUN[:2],), {"--transfer": "size"}),
    ((*RUN,), {"--workload": "workload", "--connections": "connections"}),
    ((*RUN, "--pm", "pcdc"), {"--active": "paths", "--standby-order": "paths"}),
    (
        IMPACT,
        {"--settle": "time", "--zero": "name", "--jobs": "count", "--executor": "name", "--cc": "name"},
    ),
    (
        OPTIMISE,
        {
            "--pm": "pms",
            "--cc": "ccs",
            "--buffers": "buffers",
            "--initial-path": "paths",
            "--runs": "count",
            "--duration": "time",
            "--impact-duration": "time",
            "--sacrifice": "share",
            "--selection": "name",
            "--model": "name",
            "--resamples": "count",
            "--off-by": "share",
            "--confirm-runs": "count",
            "--sets": "name",
            "--seed": "count",
            "--trial-timeout": "time",
            "--every": "time",
            "--for": "time",
        },
    ),
    (LEARN, {"--certainty": "probability", "--budget": "time", "--strategy": "name"}),
    (("optimise", "UiT-HAW", "--out", "new", "--quiet", "--cc", "reno"), {"--transfer": "sizes"}),
    ((*LEARN[:5], "--duration", "1s"), {"--workload": "workload", "--connections": "connections"}),
    (
        (*LEARN[:5], "--duration", "1s", "--workload", CALLS),
        {
            "--objective": "metric",
            "--at-most-delay": "positive time",
            "--at-most-gap": "positive time",
            "--at-least": "rate",
        },
    ),
    ((*LEARN[:5], "--duration", "20s", "--workload", "video"), {"--at-most-stalled": "share"}),
    (("buffers", "UiT-HAW"), {"--rtt": "name", "--rto": "time", "--connections": "count"}),
    (("buffers",), {"--path": "link"}),
    (MEASURE, {"--runs": "count", "--buffers": "buffers", "--initial-path": "paths"}),
    (
        ("fit", "right.csv"),
        {"--alpha": "probability", "--target": "rate", "--forms": "pms", "--throughput-unit": "name"},
    ),
    (("fit", "right.csv"), {"--model": "model"}),
    (
        ("fit", "right.csv", "--model", "T ~ B + CC"),
        {
            "--reference": "references",
            "--predict": "predictions",
            "--solve": "inverses",
            "--units": "units",
            "--out": "figure",
            "--alpha": "probability",
            "--target": "rate",
        },
    ),
    (("compare", "UiT-HAW", "--quiet"), {"--cc": "ccs", "--buffers": "buffers", "--runs": "count"}),
    (("diverge", "UiT-HAW", "--quiet"), {"--tolerance": "share", "--span": "time", "--runs": "count"}),
    (("probe", "a.invalid", "b.invalid", "--out", "new.toml"), {"--port": "count", "--max-time": "time"}),
    (("exec",), {"--buffer": "buffer"}),
    (("apply", "no-run"), {"--confirm-within": "time", "--max-data": "size"}),
    (("doctor",), {"--within": "time", "--transfers": "count"}),
    (("watch", "--once"), {"--interval": "time"}),
    (("ui", "no-run"), {"--port": "count"}),
    (("advise", "no-run"), {"--connections": "count"}),
)
TAIL = {"exec": ("--", "./no-such-program")}

CSV = "cc,buffer_mib,throughput_mbps\n" + "".join(
    f"{cc},{size},{size * 3 + run / 10}\n"
    for cc in ("cubic", "reno")
    for size in (1, 2, 4, 8)
    for run in range(3)
)


def _allowed(option: str, value: str) -> bool:
    """Values that an option of this kind takes all the same, or that mean nothing was written."""
    return (option, value) in {("--first-retry", "")} or (option == "--off-by" and value == "")


def generated() -> list[Case]:
    return [
        Case((*command, option, value, *TAIL.get(command[0], ())), (option,), {"right.csv": CSV})
        for command, options in COMMANDS
        for option, kind in options.items()
        for value in VALUES[kind]
        if not _allowed(option, value)
    ]


TOGETHER = [
    # Contradictions: each option is right alone.
    Case((*RUN, "--transfer", "1MiB"), ("--transfer",)),
    Case((*RUN[:2], "--transfer", "1MiB", "--workload", CALLS), ("--workload",)),
    Case((*RUN[:2], "--workload", "messages:200B/1us", "--duration", "30s"), ("--workload",)),
    Case((*RUN[:2], "--workload", "messages:200B/1us"), ("--workload",)),
    Case((*RUN[:2], "--workload", "exec:true,true"), ("--workload",)),  # the simulator runs no programs
    Case((*LEARN, "--workload", "exec:true,true"), ("--workload",)),
    Case((*RUN[:2], "--workload", "exec:true,true", "--connections", "2"), ("--connections",)),
    Case((*LEARN, "--workload", "exec:true,true", "--connections", "2"), ("--connections",)),
    Case((*LEARN, "--workload", "mix:exec:true,true"), ("--workload",)),
    Case((*LEARN, "--workload", "exec:true,true", "--objective", "gap"), ("--objective",)),
    Case((*LEARN, "--workload", "exec:true,true", "--at-most-delay", "1s"), ("--at-most-delay",)),
    Case((*RUN[:2], "--workload", "mix:bulk+messages:200B/1us"), ("--workload",)),
    Case((*RUN[:2], "--workload", "mix:600*bulk", "--connections", "2"), ("--workload",)),
    Case((*LEARN, "--transfer", "64KiB", "--connections", "2"), ("--connections",)),
    Case((*LEARN, "--workload", "mix:600*bulk", "--connections", "2"), ("--workload",)),
    Case((*LEARN, "--connections", "2", "--at-most-delay", "1s"), ("--at-most-delay",)),
    Case((*LEARN, "--beside-tcp"), ("--beside-tcp",)),
    Case((*LEARN, "--transfer", "64KiB", "--do-no-harm"), ("--do-no-harm",)),
    Case((*LEARN, "--connections", "2", "--objective", "delay:p99"), ("--objective",)),
    Case((*RUN, "--protocol", "tcp", "--pm", "fullmesh"), ("--pm",)),
    Case((*RUN, "--protocol", "tcp", "--scheduler", "blest"), ("--scheduler",)),
    Case((*RUN, "--pm", "fullmesh", "--active", "P-D"), ("--active",)),
    Case((*RUN, "--pm", "pcdc", "--active", "P-D", "--standby-order", "P-D"), ("--standby-order",)),
    Case((*RUN, "--pm", "pcdc", "--active", "P-D,T-D", "--standby-order", "T-D"), ("--standby-order",)),
    Case((*RUN, "--at", "150ms:down:P-D", "--at", "100ms:up:P-D"), ("--at",)),
    Case((*RUN, "--stack", "v0.9x", "--testbed", "namespaces"), ("--stack",)),
    Case((*OPTIMISE, "--every", "1h"), ("--for",)),
    Case((*OPTIMISE, "--for", "1h"), ("--every",)),
    Case((*OPTIMISE, "--every", "2h", "--for", "1h"), ("--every",)),
    Case((*OPTIMISE, "--every", "1ns", "--for", "1d"), ("--every",)),
    Case((*OPTIMISE, "--budget", "10min"), ("--budget",)),
    Case((*OPTIMISE, "--certainty", "90%"), ("--certainty",)),
    Case((*OPTIMISE, "--sensitivity", "--testbed", "namespaces"), ("--sensitivity",)),
    Case((*OPTIMISE, "--sensitivity"), ("--sensitivity",)),
    Case((*LEARN, "--model", "quadratic", "--strategy", "adaptive"), ("--model",)),
    Case((*LEARN, "--budget", "1ns"), ("--budget",)),
    Case((*LEARN, "--transfer", "64KiB", "--sacrifice", "5%"), ("--sacrifice",)),
    Case((*LEARN, "--transfer", "64KiB", "--workload", CALLS), ("--workload",)),
    Case((*LEARN, "--workload", "messages:200B/1us"), ("--workload",)),
    Case((*LEARN, "--workload", CALLS, "--sacrifice", "5%"), ("--sacrifice",)),
    Case((*LEARN, "--workload", CALLS, "--strategy", "adaptive", "--do-no-harm"), ("--strategy",)),
    Case((*LEARN, "--workload", CALLS, "--budget", "1s"), ("--budget",)),
    Case((*LEARN, "--workload", CALLS, "--strategy", "grid", "--budget", "1h"), ("--budget",)),
    Case((*LEARN, "--workload", CALLS, "--sets", "signs"), ("--sets",)),
    Case((*LEARN, "--workload", CALLS, "--every", "1h", "--for", "2h"), ("--every",)),
    Case((*LEARN, "--workload", CALLS, "--as-papers"), ("--workload",)),
    Case((*LEARN, "--workload", CALLS, "--initial-path", "nowhere"), ("--initial-path",)),
    Case((*LEARN, "--objective", "delay:p99"), ("--objective",)),
    Case((*LEARN, "--objective", "gap", "--transfer", "64KiB"), ("--objective",)),
    Case((*LEARN, "--objective", "completion"), ("--objective",)),
    Case((*LEARN, "--objective", "completion,throughput", "--transfer", "64KiB"), ("--objective",)),
    Case((*LEARN, "--workload", CALLS, "--objective", "throughput"), ("--objective",)),
    Case((*LEARN, "--workload", CALLS, "--objective", "gap,"), ("--objective",)),
    Case((*LEARN, "--workload", CALLS, "--objective", "gap,gap"), ("--objective",)),
    Case((*LEARN, "--workload", CALLS, "--objective", "gap,completion"), ("--objective",)),
    Case((*LEARN, "--workload", CALLS, "--objective", "gap,delay:p50,throughput"), ("--objective",)),
    Case((*LEARN, "--at-least", "2Mbit/s"), ("--at-least",)),
    Case((*LEARN, "--at-least", "2Mbit/s", "--transfer", "64KiB"), ("--at-least",)),
    Case((*LEARN, "--workload", CALLS, "--at-most-stalled", "1%"), ("--at-most-stalled",)),
    Case((*RUN[:2], "--workload", "video", "--duration", "3s"), ("--workload",)),
    Case((*RUN[:2], "--workload", "on-off:@b.csv"), ("--workload",), {"b.csv": "0,1\n0,1\n"}),
    Case((*RUN[:2], "--workload", "on-off:@b.csv"), ("--workload",), {"b.csv": "0;1\n"}),
    Case((*RUN[:2], "--workload", "on-off:@b.csv"), ("--workload",), {"b.csv": ""}),
    Case((*RUN[:2], "--workload", "on-off:@gone.csv"), ("--workload",)),
    Case((*RUN[:2], "--workload", "requests:1B/@s.txt"), ("--workload",), {"s.txt": "1 KiB\nmany\n"}),
    Case((*RUN[:2], "--workload", "requests:1B/@s.txt,x=1"), ("--workload",), {"s.txt": "1 KiB\n"}),
    Case((*LEARN, "--workload", "requests:1B/@s.txt"), ("--workload",), {"s.txt": "0\n"}),
    Case((*LEARN, "--at-most-delay", "80ms"), ("--at-most-delay",)),
    Case((*LEARN, "--at-most-gap", "1s", "--transfer", "64KiB"), ("--at-most-gap",)),
    Case((*LEARN, "--from", "right.csv", "--workload", CALLS), ("--workload",), {"right.csv": CSV}),
    Case((*LEARN, "--ndiffports", "4"), ("--ndiffports",)),
    Case((*LEARN, "--from", "right.csv", "--runs", "3"), ("--runs",), {"right.csv": CSV}),
    Case((*LEARN, "--throughput-unit", "Mbit/s"), ("--throughput-unit",)),
    Case(("optimise", "--out", "new"), ("TOPOLOGY",)),
    Case(("optimise", "--from", "right.csv", "--out", "new", "--cc", "olia"), ("--cc",), {"right.csv": CSV}),
    Case(("optimise", "--from", "right.csv", "--out", "new", "--pm", "a,b"), ("--pm",), {"right.csv": CSV}),
    Case((*IMPACT, "--dask-scheduler", "tcp://127.0.0.1:1"), ("--dask-scheduler",)),
    Case((*IMPACT, "--executor", "dask", "--dask-scheduler", "nonsense"), ("--dask-scheduler",)),
    Case(("buffers",), ("--path",)),
    Case(("buffers", "UiT-HAW", "--path", "1Mbit/s,1ms"), ("--path",)),
    Case(("buffers", "--path", "1Mbit/s,1ms", "--rtt", "base"), ("--rtt",)),
    Case(("buffers", "--path", "1Mbit/s,1ms", "--measure"), ("--measure",)),
    Case(("buffers", "UiT-HAW", "--runs", "3"), ("--runs",)),
    Case(("fit", "right.csv", "--column", "cc"), ("--column",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--column", "=cc"), ("--column",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--column", "nonsense=cc"), ("--column",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--column", "cc=nowhere"), ("--column",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--factor", "nowhere"), ("--factor",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--column", "cc=cc", "--column", "cc=cc"), ("--column",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--factor", "run,run"), ("--factor",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--cc", "reno,reno"), ("--cc",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--cc", "nowhere"), ("--cc",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--ignore", "nowhere"), ("--ignore",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--buffer-unit", "parsec"), ("--buffer-unit",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--validate", "none.csv"), ("none.csv",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--predict", "B=1"), ("--predict",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--solve", "T=1"), ("--solve",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--reference", "CC=reno"), ("--reference",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--units", "bit/s"), ("--units",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--out", "new"), ("--out",), {"right.csv": CSV}),
    Case(("fit", "right.csv", "--model", "T ~ B", "--forms", "linear"), ("--forms",), {"right.csv": CSV}),
    Case(
        ("fit", "right.csv", "--model", "T ~ B", "--validate", "right.csv"),
        ("--validate",),
        {"right.csv": CSV},
    ),
    Case(("reproduce", "nonsense"), ("PAPERS",)),
    Case(("reproduce", "glm", "glm"), ("PAPERS",)),
    Case(("reproduce", "--only", "nonsense"), ("--only",)),
    Case(("cc", "load", "nonsense"), ("nonsense",)),
    Case(("cc", "load", "olia", "olia"), ("olia",)),
    Case(("cc", "unload", ""), ()),
    Case(("completion", "nonsense"), ("nonsense",)),
    Case(("exec", "--cc", "", "--", "./no-such-program"), ("--cc",)),
    Case(("exec", "--cc", "a b", "--", "./no-such-program"), ("--cc",)),
    Case(("exec", "--cc", LONG, "--", "./no-such-program"), ("--cc",)),
    Case(("exec", "--", "./no-such-program"), ("no-such-program",)),
    Case(("exec", "--", ""), ()),
    Case(("exec", "--", "."), ()),
    Case(("exec",), ()),
    Case(("daemon", "--check", "--unit"), ("--unit",)),
    Case(("daemon", "--json"), ("--json",)),
    Case(("daemon", "units"), ("DIR",)),
    Case(("doctor", "--installed", "--integrity"), ("--installed",)),
    Case(("doctor", "--installed", "--transfers", "3"), ("--integrity",)),
    Case(("daemon", "--check", "--metrics", "9464"), ("--metrics",)),
    *(Case(("daemon", "--unit", "--metrics", text), ("--metrics",)) for text in ADDRESSES),
    Case(("diverge", "--traces", "a.trace"), ("--traces",)),
    Case(("diverge", "UiT-HAW", "--traces", "a.trace", "b.trace"), ()),
    Case(("diverge",), ("TOPOLOGY",)),
    Case(("diverge", "UiT-HAW", "--out", "figure.gif"), ("--out",)),
    Case(("diverge", "--traces", "a", "b", "--record", "c"), ("--record",)),
    Case(("apply", "no-run", "--settings", "s.json"), (), {"s.json": "[]"}),
    Case(("apply",), ()),
    Case(("apply", "no-run", "--runs", "3"), ("--runs",)),
    Case(("apply", "--confirm", "--settings", "s.json"), ("--settings",)),
    Case(("apply", "no-run", "--runs", "101", "--verify"), ("--runs",)),
    Case(("status", "--metrics", "no-run"), ()),
    Case(("ui", "no-run", "--port", "65536"), ("--port",)),
    Case(("ui",), ("DIR",)),
    Case(("watch", "a.invalid", "--hosts", "x.toml"), ()),
    Case(("campaign", "import", "no-run"), ("--from",)),
    Case(("campaign", "export", "no-run", "--format", "nonsense"), ("--format",)),
    Case(("campaign",), ()),
    Case(("nonsense",), ("nonsense",)),
    Case(("run", "UiT-HAW", "--nonsense"), ("--nonsense",)),
    Case(("run", "UiT-HAW", "extra"), ("extra",)),
    Case(("run",), ("TOPOLOGY",)),
    Case(("--json",), ("--json",)),
    Case(("run", "UiT-HAW", "--duration"), ("--duration",)),
    Case(("run", "UiT-HAW", "--seed", "1", "--seed", "x"), ("--seed",)),
    Case(("paths", "\x1b[31mred"), ()),
    Case(("paths", "a\nb"), ()),
    Case(("paths", LONG), ()),
    Case(("run", "UiT-HAW", "--" + LONG), ()),
    Case((LONG,), ()),
]

PLACES = [
    # Places to write that are none.
    *(
        Case((*command, "--out", "there", *more), ("there",), {"there": maker, "right.csv": CSV})
        for maker in (fifo, listening, dangling, turning, "another file")
        for command, more in (
            (OPTIMISE, ()),
            (("optimise", "--from", "right.csv"), ()),
            (("compare", "UiT-HAW"), ()),
            (("probe", "a.invalid", "b.invalid"), ("--force",)),
        )
        if not (command[0] == "probe" and isinstance(maker, str))
    ),
    *(
        Case((*command, "--out", name), ("--out",), {"right.csv": CSV})
        for name in ("", "/proc/nowhere/x", "x" * 300, "right.csv/below", "/dev/null", "/dev/full/x")
        for command in (OPTIMISE, ("optimise", "--from", "right.csv"), ("compare", "UiT-HAW"))
    ),
    Case((*OPTIMISE, "--out", "full"), ("--out",), {"full/other.txt": "not a run"}),
    Case(("probe", "a.invalid", "b.invalid", "--out", "x.toml"), ("--out",), {"x.toml": "mine"}),
    Case(("probe", "a.invalid", "b.invalid", "--out", "no/x.toml"), ("--out",)),
    Case(("probe", "a.invalid", "b.invalid", "--out", "x.toml", "--force"), ("--out",), {"x.toml": folder}),
    Case(("probe", "a.invalid", "b.invalid", "--out", "/dev/full", "--force"), ("--out",)),
    Case(("diverge", "UiT-HAW", "--out", "no/figure.svg"), ("--out",)),
    Case(("diverge", "UiT-HAW", "--out", "figure.svg"), ("--out",), {"figure.svg": folder}),
    Case(("diverge", "UiT-HAW", "--out", "figure.svg"), ("--out",), {"figure.svg": fifo}),
    Case(("diverge", "UiT-HAW", "--record", "there"), ("--record",), {"there": "a file"}),
    Case(("diverge", "UiT-HAW", "--record", "there"), ("--record",), {"there/kernel.trace": fifo}),
]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id) for case in [*generated(), *TOGETHER, *PLACES]]
)
def test_bad_options_are_refused_in_one_line(case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert verdict(case, tmp_path, monkeypatch) == "clean"
