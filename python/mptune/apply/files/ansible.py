"""An Ansible playbook, of built-in modules only, that puts sysctl.d and the systemd units into place.

Ansible takes text for Jinja, even when it only checks the syntax. So the only words of a run in the playbook
are the machine in the inventory, which has the letters of a host's name, and a comment. The files that it
copies are never templates.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from mptune._text import quoted, visible
from mptune.apply.files import sysctl, systemd
from mptune.apply.files._base import HEADER, File
from mptune.apply.plan import HostPlan
from mptune.errors import InputError

Task = dict[str, Any]


def files(host: HostPlan) -> list[File]:
    """The playbook."""
    # JSON is YAML: nothing has to be quoted in another way.
    tasks = [_task(task) for task in _tasks(host)]
    lines = [
        "---",
        HEADER,
        f"# For {visible(host.name)}.",
        "- name: Multipath TCP as mptune found it",
        f"  hosts: {json.dumps(_pattern(host), ensure_ascii=False)}",
        "  become: true",
        "  gather_facts: false",
        "  tasks:",
        *tasks,
    ]
    content = ("\n".join(lines) + "\n").encode()
    return [File("mptune.yml", content, "here: ansible-playbook -i INVENTORY mptune.yml")]


def _pattern(host: HostPlan) -> str:
    """The machine in an inventory: by its name for ssh, without the user, or else by its site's.

    Raises
    ------
    InputError : neither is the name of one machine in patterns of Ansible.
    """
    names = [(host.ssh or host.site).rpartition("@")[2], host.site]
    for name in names:
        # Commas, "!", "&", "*" and brackets have a meaning in patterns, braces in templates.
        if re.fullmatch(r"\w[\w.-]*|[0-9A-Fa-f:]+", name) and name not in ("all", "ungrouped"):
            return name
    raise InputError(
        "--files", f"sites.{host.site}", f"expected the name of one host, found {quoted(names[0])}"
    )


def _tasks(host: HostPlan) -> Iterator[Task]:
    for file in sysctl.files(host):
        yield _copy("Set sysctls at every boot", f"../sysctl.d/{file.path}", file)
        yield {
            "name": "Set sysctls now",
            "ansible.builtin.command": {"argv": ["sysctl", "--load", file.place]},
            "changed_when": True,
        }
    units = systemd.files(host)
    for folder in sorted({unit.place.rpartition("/")[0] for unit in units if unit.path.endswith(".o")}):
        yield {
            "name": "Make a place for BPF programs",
            "ansible.builtin.file": {"path": folder, "state": "directory", "mode": "0755"},
        }
    for unit in units:
        yield _copy(f"Install {unit.path}", f"../systemd/{unit.path}", unit)
    for name in systemd.units(host):
        service = {"name": name, "enabled": True, "state": "restarted", "daemon_reload": True}
        yield {"name": f"Start {name}", "ansible.builtin.systemd": service}


def _copy(name: str, source: str, file: File) -> Task:
    copied = {"src": source, "dest": file.place, "owner": "root", "group": "root", "mode": "0644"}
    return {"name": name, "ansible.builtin.copy": copied}


def _task(row: Task) -> str:
    (first, *others) = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in row.items())
    return "\n".join([f"    - {first}", *(f"      {other}" for other in others)])
