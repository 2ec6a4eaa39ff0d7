"""Settings in words: what each is called, its value, and who else is concerned by it."""

from hashlib import blake2b

from mptune.apply._settings import Setting
from mptune.units import format_size

#: Texts for an unknown value, and for none.
UNKNOWN, NONE = "unknown", "none"

_BUFFERS = ("net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem")


def title(row: Setting) -> str:
    """Title of a setting."""
    match row["kind"]:
        case "sysctl":
            return str(row["name"])
        case "limits":
            return "MPTCP limits"
        case "endpoint":
            device = f" dev {row['device']}" if row.get("device") else ""
            return f"MPTCP endpoint {row['address']}{device}"
        case "route":
            via = f" via {row['via']}" if row["via"] else ""
            table = "" if row["table"] == 254 else f" table {row['table']}"
            return f"route {row['to']}{via} dev {row['device']}{table}"
        case "file":
            return f"file {row['path']}"
        case _:
            return f"congestion control {row['name']}"


def value(row: Setting) -> str:
    """The value of a setting, wanted or present."""
    if row.get("absent"):
        return NONE
    match row["kind"]:
        case "sysctl":
            return str(row["value"])
        case "limits":
            return f"subflows {row['subflows']}, add_addr_accepted {row['add_addr_accepted']}"
        case "endpoint":
            return " ".join(row.get("flags") or ()) or NONE
        case "route":
            return f"congctl {row['congctl']}" if row.get("congctl") else "no congctl"
        case "file":
            return _content(row["path"], row["content"])
        case _:
            return "registered" if not row.get("object") else f"BPF program, {_size(row['object'])}"


def _content(path: str, text: str | None) -> str:
    """A file that people write, as it is; one that they do not, by its size and its beginning of a digest."""
    if text is None or path.endswith(".json"):
        known = (text or "").encode()
        return f"{len(known)} bytes, {blake2b(known, digest_size=4).hexdigest()}"
    return text.strip()


def _size(program: str) -> str:
    return format_size(len(program) * 3 // 4, 3)


def cost(row: Setting, *, opens: bool) -> str:
    """Other programs and connections that a setting concerns, as a sentence."""
    match row["kind"]:
        case "sysctl":
            return _of_sysctl(row["name"], row["value"])
        case "limits":
            return "Concerns every MPTCP connection of this machine, whoever it is with."
        case "endpoint" if row.get("absent"):
            return "Who made it may need it, and may make it again; its subflows are closed."
        case "endpoint" if opens:
            return "Concerns every MPTCP connection that this machine opens, live ones too, wherever they go."
        case "endpoint":
            return "Announced on every MPTCP connection to this machine, live ones too."
        case "route" if row["to"] in ("default", "::/0"):
            return "Concerns every TCP connection that leaves by this route, wherever it goes."
        case "route":
            return "Concerns every TCP connection to this network."
        case "file":
            return "Only mptune's daemon reads it; it is still there after a restart."
        case _:
            return "Does nothing until a route or a program names it; needs root, and memory for the program."


def _of_sysctl(name: str, value: str) -> str:
    if name in _BUFFERS:
        return "Concerns every TCP socket of this machine whose program sets no buffer."
    if name.endswith("mem_max"):
        return "Every program of this machine may then ask for as much."
    if name == "net.ipv4.tcp_congestion_control":
        return "Concerns every new TCP connection of this machine whose program names none."
    if name == "net.mptcp.enabled":
        return "Programs that do not ask for MPTCP are not affected."
    if name == "net.mptcp.path_manager":
        return "A program that manages paths (mptcpd, mptune) gets no new connections."
    return f"Concerns every TCP socket of this machine ({value} is the kernel's default)."
