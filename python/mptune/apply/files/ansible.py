"""An Ansible role, of built-in modules only: it puts sysctl.d and the systemd units in place or removes them.

Its playbook is for the one machine whose settings the role has. Ansible takes text for Jinja, even when it
only checks the syntax. So the only words of a run in these files are the machine in the inventory, which has
the letters of a host's name, and a comment. The files that the role copies are never templates.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mptune._text import quoted, visible
from mptune.apply.files import sysctl, systemd
from mptune.apply.files._base import HEADER, File
from mptune.apply.plan import HostPlan
from mptune.errors import InputError

Task = dict[str, Any]

#: Folder of the role, and its only variable.
ROLE, STATE = "roles/mptune", "mptune_state"

_LOAD, _RELOAD = "Load sysctls", "Reload systemd"
_META: Task = {
    "author": "mptune",
    "description": "Settings of a machine for Multipath TCP, as mptune found them",
    "license": "MIT",
    "min_ansible_version": "2.15",
    "platforms": [{"name": name, "versions": ["all"]} for name in ("Debian", "EL", "Fedora", "Ubuntu")],
    "galaxy_tags": ["mptcp", "networking"],
}
_ARGUMENTS: Task = {
    "main": {
        "short_description": _META["description"],
        "options": {
            STATE: {
                "description": "Whether the settings are in place; removed sysctls stay until a reboot.",
                "type": "str",
                "default": "present",
                "choices": ["present", "absent"],
            }
        },
    }
}


def files(host: HostPlan) -> list[File]:
    """The playbook and the role."""
    copied = [*sysctl.files(host), *systemd.files(host)]
    return [
        _playbook(host),
        _part("defaults/main.yml", {STATE: "present"}),
        _part("meta/main.yml", {"galaxy_info": _META, "dependencies": []}),
        _part("meta/argument_specs.yml", {"argument_specs": _ARGUMENTS}),
        _part("tasks/main.yml", [_chosen()]),
        _part("tasks/present.yml", list(_present(host))),
        _part("tasks/absent.yml", list(_absent(host))),
        _part("handlers/main.yml", list(_handlers(host))),
        *(File(f"{ROLE}/files/{file.path}", file.content, "here, for the role") for file in copied),
    ]


def _playbook(host: HostPlan) -> File:
    lines = [
        "---",
        HEADER,
        f"# For {visible(host.name)}.",
        "- name: Multipath TCP as mptune found it",
        f"  hosts: {_json(_pattern(host))}",
        "  become: true",
        "  gather_facts: false",
        "  roles:",
        "    - role: mptune",
    ]
    content = ("\n".join(lines) + "\n").encode()
    return File("mptune.yml", content, "here: ansible-playbook -i INVENTORY mptune.yml")


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


def _chosen() -> Task:
    return {
        "name": "Put the settings into place or remove them",
        "ansible.builtin.include_tasks": f"{{{{ {STATE} }}}}.yml",
    }


def _present(host: HostPlan) -> Iterator[Task]:
    for file in sysctl.files(host):
        yield _copy("Set sysctls at every boot", file, _LOAD)
    made = systemd.files(host)
    units = systemd.units(host)
    for folder in sorted({file.place.rpartition("/")[0] for file in made if file.path.endswith(".o")}):
        yield {
            "name": "Make a place for BPF programs",
            "ansible.builtin.file": {"path": folder, "state": "directory", "mode": "0755"},
        }
    for file in made:
        unit = file.path if file.path in units else systemd.CONGESTION
        yield _copy(f"Install {file.path}", file, _restart(unit))
    yield {"name": "Put what has changed into effect", "ansible.builtin.meta": "flush_handlers"}
    for name in units:
        yield _service(f"Start {name}", name, enabled=True, state="started")


def _absent(host: HostPlan) -> Iterator[Task]:
    made = systemd.files(host)
    places = {file.path: file.place for file in made}
    for name in reversed(systemd.units(host)):
        yield {
            "name": f"Look for {name}",
            "ansible.builtin.stat": {"path": places[name]},
            "register": "mptune_unit",
        }
        yield {
            **_service(f"Stop {name}", name, enabled=False, state="stopped"),
            "when": "mptune_unit.stat.exists",
        }
    for file in [*reversed(made), *sysctl.files(host)]:
        yield {
            "name": f"Remove {file.path}",
            "ansible.builtin.file": {"path": file.place, "state": "absent"},
            **({"notify": _RELOAD} if file.path in systemd.units(host) else {}),
        }


def _handlers(host: HostPlan) -> Iterator[Task]:
    for file in sysctl.files(host):
        command = {"argv": ["sysctl", "--load", file.place]}
        yield {"name": _LOAD, "ansible.builtin.command": command, "changed_when": True}
    for name in systemd.units(host):
        yield _service(_restart(name), name, state="restarted")
    yield {"name": _RELOAD, "ansible.builtin.systemd": {"daemon_reload": True}}


def _restart(unit: str) -> str:
    return f"Restart {unit}"


def _service(name: str, unit: str, **wanted: object) -> Task:
    return {"name": name, "ansible.builtin.systemd": {"name": unit, "daemon_reload": True, **wanted}}


def _copy(name: str, file: File, notify: str) -> Task:
    copied = {"src": file.path, "dest": file.place, "owner": "root", "group": "root", "mode": "0644"}
    return {"name": name, "ansible.builtin.copy": copied, "notify": notify}


def _part(path: str, content: Mapping[str, Any] | Sequence[Task]) -> File:
    """A file of the role. JSON is YAML: nothing has to be quoted in another way."""
    lines = ["---", HEADER, *(_entries(content) if isinstance(content, Mapping) else _listed(content))]
    return File(f"{ROLE}/{path}", ("\n".join(lines) + "\n").encode(), "here, for the role")


def _entries(content: Mapping[str, Any]) -> Iterator[str]:
    """One line for each key: long lines are hard to read, and Ansible's linter objects."""
    for key, value in content.items():
        nested = isinstance(value, list) and value and isinstance(value[0], Mapping)
        if nested or (isinstance(value, Mapping) and value):
            yield f"{key}:"
            yield from (f"  {line}" for line in (_listed(value) if nested else _entries(value)))
        else:
            yield f"{key}: {_json(value)}"


def _listed(content: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for entry in content:
        first, *others = _entries(entry)
        yield f"- {first}"
        yield from (f"  {other}" for other in others)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
