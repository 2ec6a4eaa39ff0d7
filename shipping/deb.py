"""Packs the daemon for Debian and its relatives: agent, unit, man page and dashboard (`make deb`).

The package needs no Python: what measures again (`mptune daemon --remeasure`) is in the wheel. It starts
nothing when it is installed, as the daemon would steer every connection of the machine from then on;
`systemctl enable --now mptune` does. Every file is made here, so that dpkg-deb is all that it takes.
"""

import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from mptune import __version__
from mptune.daemon import dashboard, units
from mptune.linux import daemon

ROOT = Path(__file__).parent.parent
PACKAGE = "mptune-daemon"
#: Debian's names of processors.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: Where the package has the agent, and what its units start.
AGENT = Path("/usr/sbin/mptune-agent")
DOC = f"usr/share/doc/{PACKAGE}"
UNITS = "lib/systemd/system"
#: The units let the daemon listen on this machine, wherever the policy file has its metrics.
LOOPBACK = "127.0.0.1:9464"
MAINTAINER = os.environ.get("DEBEMAIL", "The mptune developers <developers@mptune.invalid>")

#: What the daemon leaves at work, and where.
_LEFT = "/var/lib/mptune-daemon /var/lib/private/mptune-daemon /run/mptune"

DESCRIPTION = """\
MPTCP connections under the policy of their destination
 mptune daemon keeps every Multipath TCP connection of a machine under the
 policy of its destination: it opens subflows, chooses those that carry data,
 and reacts when an interface appears, fails or deteriorates. Programs need
 no change. It can adapt the limits of buffers, and has metrics for
 Prometheus.
 .
 The package has the program, its units for systemd, and a dashboard for
 Grafana. It starts nothing by itself. Policies come from measurements with
 mptune, which this package does not have, or are written by hand.
"""

SCRIPTS = {
    "postinst": """\
#!/bin/sh
set -e
# Neither enabled nor started: every connection of the machine would be steered from now on.
if [ "$1" = configure ] && [ -d /run/systemd/system ] && [ -z "$DPKG_ROOT" ]; then
    systemctl --system daemon-reload >/dev/null || true
    # A new version takes over where the old one is at work.
    deb-systemd-invoke try-restart mptune.service >/dev/null || true
fi
exit 0
""",
    "prerm": """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ] && [ -z "$DPKG_ROOT" ]; then
    deb-systemd-invoke stop mptune.service >/dev/null || true
fi
exit 0
""",
    "postrm": f"""\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ] && [ -z "$DPKG_ROOT" ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
    for left in {_LEFT}; do
        rm -rf "$DPKG_ROOT$left"
    done
    rm -f "$DPKG_ROOT{daemon.FILE}" "$DPKG_ROOT/etc/systemd/system/multi-user.target.wants/mptune.service"
    rmdir "$DPKG_ROOT{daemon.FILE.parent}" 2>/dev/null || true
fi
exit 0
""",
}

PAGE = r"""
.TH MPTUNE-AGENT 8 "{date}" "mptune {version}" "mptune"
.SH NAME
mptune-agent \- MPTCP connections under the policy of their destination
.SH SYNOPSIS
.B mptune-agent daemon
.RB [ \-\-policy
.IR FILE ]
.RB [ \-\-metrics
.IR ADDRESS ]
.br
.B mptune-agent daemon \-\-check
.RB [ \-\-policy
.IR FILE ]
.br
.B mptune-agent daemon \-\-restore
.SH DESCRIPTION
It keeps every Multipath TCP connection of this machine under the policy of its destination, until SIGTERM
or SIGINT; SIGHUP makes it read its policy file again. It needs CAP_NET_ADMIN. Whatever ends it, the settings
of the kernel are put back. As a service it is
.BR "systemctl enable \-\-now mptune" .
.PP
A missing policy file has no policies: every destination gets the policy
.BR fullmesh .
An example is {doc}/examples/policy.toml.
The program has more roles, which mptune starts by itself.
.SH OPTIONS
.TP
.BI \-\-policy " FILE"
The policy file instead of $MPTUNE_POLICY, or of {policy}.
.TP
.BI \-\-metrics " ADDRESS"
Metrics over HTTP at this IP address and port, or at this port of 127.0.0.1: OpenMetrics, at /metrics. The key
.B daemon.metrics
of the policy file is the same.
.TP
.B \-\-check
Only check the policy file, and print its content as a line of JSON.
.TP
.B \-\-restore
Put back what a daemon has left that was killed together with its watchdog.
.SH EXIT STATUS
0 after an end in order, 1 if it cannot be done here, 2 if the policy file is wrong or the address of the
metrics cannot be had; one line on the standard error says why.
.SH FILES
.TP
.I {policy}
The policies.
.TP
.I {socket}
Its socket, which
.B mptune status
and
.B mptune watch
ask.
.SH SEE ALSO
.BR ip-mptcp (8)
"""

EXAMPLE = """\
# Policies of mptune daemon: copy this to /etc/mptune/policy.toml, and check it by
#   mptune-agent daemon --check
[daemon]
metrics = "127.0.0.1:9464"

# Connections to these addresses: the daemon finds out which paths are worth their place.
[[policy]]
name = "my-sites"
to = ["10.9.0.0/16", "2001:db8::/32"]
policy = "guard"

# All others.
[default]
policy = "fullmesh"
"""


def main() -> None:
    """Build the agent as a release, and pack it into dist/."""
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "--package=mptune-agent"], cwd=ROOT, check=True
    )
    place = ROOT / "dist"
    place.mkdir(exist_ok=True)
    print(pack(ROOT / "target/release/mptune-agent", place))


def pack(agent: Path, place: Path) -> Path:
    """Pack an agent of this processor; the package, in a directory."""
    architecture = ARCHITECTURES[platform.machine()]
    package = place / f"{PACKAGE}_{__version__}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        for name, content in _files(agent).items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if name == str(AGENT)[1:] else 0o644)
        _control(tree, architecture)
        for directory in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
            directory.chmod(0o755)
        made = Path(folder, package.name)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(int(_released().timestamp()))}
        command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(made)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        shutil.move(made, package)
    return package


def _files(agent: Path) -> Mapping[str, bytes]:
    """Content by path."""
    programs = units.Programs(agent=AGENT, mptune=("mptune",))
    names = {"date": f"{_released():%Y-%m-%d}", "version": __version__, "doc": f"/{DOC}"}
    names |= {"policy": str(daemon.FILE), "socket": str(daemon.SOCKET)}
    page = PAGE.lstrip().format(**names)
    service = units.service(programs, daemon.FILE, LOOPBACK)
    service = service.replace("Documentation=", "Documentation=man:mptune-agent(8) ", 1)
    return {
        str(AGENT)[1:]: _stripped(agent),
        f"{UNITS}/{units.SERVICE}": service.encode(),
        "usr/share/man/man8/mptune-agent.8.gz": _compressed(page),
        f"{DOC}/copyright": _copyright().encode(),
        f"{DOC}/changelog.gz": _compressed(_changelog()),
        f"{DOC}/examples/policy.toml": EXAMPLE.encode(),
        f"{DOC}/examples/grafana.json": dashboard.text().encode(),
    }


def _stripped(agent: Path) -> bytes:
    """The program without the symbols that only a debugger reads."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, agent.name)
        options = ["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"]
        subprocess.run(["objcopy", *options, str(agent), str(made)], check=True)
        return made.read_bytes()


def _control(tree: Path, architecture: str) -> None:
    """What dpkg itself reads."""
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    sums = "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(tree)}\n"
        for path in files
    )
    size = sum(path.stat().st_size for path in files) // 1024 + 1
    glibc = ".".join(map(str, _glibc((tree / str(AGENT)[1:]).read_bytes())))
    lines = {
        "Package": PACKAGE,
        "Version": __version__,
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size),
        "Depends": f"libc6 (>= {glibc}), libgcc-s1",
        "Section": "net",
        "Priority": "optional",
        "Description": DESCRIPTION.rstrip(),
    }
    place = tree / "DEBIAN"
    place.mkdir()
    (place / "control").write_text(
        "".join(f"{key}: {value}\n" for key, value in lines.items()), encoding="utf-8"
    )
    (place / "md5sums").write_text(sums, encoding="utf-8")
    for name, text in SCRIPTS.items():
        (place / name).write_text(text, encoding="utf-8")
        (place / name).chmod(0o755)


def _glibc(program: bytes) -> tuple[int, ...]:
    """The newest version of glibc that a program asks for."""
    return max(tuple(map(int, found)) for found in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", program))


def _copyright() -> str:
    """Licences (Debian's machine-readable format 1.0), also of what is linked into the program."""
    mit = (ROOT / "LICENSE-MIT").read_text(encoding="utf-8")
    heading, notice, terms = mit.split("\n\n", 2)
    assert heading == "MIT License"
    holders = notice.removeprefix("Copyright (c) ")
    return f"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: mptune
Comment:
 The program has these Rust crates linked into it, each under its own licence:
{"".join(f" {crate}{chr(10)}" for crate in _crates())}
Files: *
Copyright: {holders}
License: Expat or Apache-2.0

License: Expat
{_indented(terms)}

License: Apache-2.0
 The text is in /usr/share/common-licenses/Apache-2.0.
"""


def _indented(text: str) -> str:
    """The text of a field, whose empty lines are dots."""
    return "\n".join(f" {line}" if line else " ." for line in text.strip().splitlines())


def _crates() -> Iterator[str]:
    """Crates of the agent, with their licences."""
    command = ["cargo", "tree", "--package=mptune-agent", "--edges=normal,no-proc-macro", "--prefix=none"]
    command += ["--locked", "--format={p}: {l}"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for line in sorted(set(listed.replace(" (*)", "").splitlines())):
        if not line.startswith("mptune-"):
            yield line


def _changelog() -> str:
    when = format_datetime(_released())
    return f"""\
{PACKAGE} ({__version__}) unstable; urgency=medium

  * Version {__version__} of mptune, whose own list of changes has the details.

 -- {MAINTAINER}  {when}
"""


def _released() -> datetime:
    """Day of the release."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = re.search(r"^date-released: (\S+)$", text, re.M)
    assert found
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC)


def _compressed(text: str) -> bytes:
    """The same bytes at any time."""
    return gzip.compress(text.encode(), 9, mtime=0)


if __name__ == "__main__":
    if shutil.which("dpkg-deb") is None:
        sys.exit(
            "mptune: dpkg-deb, which makes the package, is missing: on Debian and its relatives it is there"
        )
    main()
