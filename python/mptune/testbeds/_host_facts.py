"""Facts that a host reported ("look" of the agent's role `host`), and their consequences for a trial.

Everything that a host lacks is an `InputError` that names the topology's key: it is found before the first
trial, and another trial would not change it.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from mptune.errors import InputError, one_of
from mptune.linux import bpf, path_manager
from mptune.linux.addresses import NamedInterface, Side
from mptune.linux.sandbox import sysctls
from mptune.testbeds._today import largest
from mptune.topology import Interface, Site, Topology
from mptune.trial import FAMILIES, PLAIN_TCP, Trial
from mptune.trial.stacks import flag, in_a_kernel, sysctls_of

#: Sysctls whose values a trial needs to know.
ASKED = tuple(dict.fromkeys([*sysctls.TELLING, *path_manager.NAMES]))
#: The setting that chooses the path manager of new connections: its name since Linux 6.15, and before.
_PATH_MANAGER = (("net.mptcp.path_manager", "userspace"), ("net.mptcp.pm_type", "1"))
#: After a lost SYN with MPTCP and an answered one without it, Linux (since 6.12) gives up MPTCP for this many
#: seconds, on all paths and for every program.
_GIVES_UP = "net.mptcp.blackhole_timeout"


class HostFacts:
    """The facts of the host of one site.

    Parameters
    ----------
    looked : the answer of its agent.
    privileged : the agent has CAP_NET_ADMIN.

    Attributes
    ----------
    site, side : whose host it is.
    """

    def __init__(
        self, topology: Topology, side: Side, name: str, looked: Mapping[str, Any], *, privileged: bool
    ) -> None:
        self.site: Site = topology.sender if side == "local" else topology.receiver
        self.side, self.name, self.looked, self.privileged = side, name, looked, privileged
        self._where = topology.file

    def refuse(self, key: str, expected: str) -> InputError:
        """The error about a key of its site."""
        return InputError(self._where, f"sites.{self.site.abbr}.{key}", expected)

    @property
    def largest_buffers(self) -> tuple[int, int] | None:
        """Sizes up to which send and receive buffers grow, bytes; None if it does not report them."""
        send, receive = (largest(self.sysctls, f"net.ipv4.tcp_{way}mem") for way in "wr")
        return None if send is None or receive is None else (send, receive)

    @property
    def sysctls(self) -> Mapping[str, str]:
        """The sysctls that it has, by name."""
        found: Mapping[str, str | None] = self.looked["sysctls"]
        return {name: " ".join(value.split()) for name, value in found.items() if value is not None}

    @property
    def userspace(self) -> dict[str, str]:
        """The setting that lets userspace path managers have new connections; empty if there is none."""
        for name, value in _PATH_MANAGER:
            if name in self.sysctls:
                return {name: value}
        return {}

    @property
    def while_connecting(self) -> dict[str, str]:
        """Settings until both ends have the connection: the path manager, and never to give up MPTCP."""
        gives_up = self.side == "local" and self.sysctls.get(_GIVES_UP, "0") != "0"
        return {**self.userspace, **({_GIVES_UP: "0"} if gives_up else {})}

    # What a trial needs.

    def check(self, trial: Trial) -> None:
        """Refuse a trial that cannot run here.

        Raises
        ------
        InputError : naming what is wrong.
        """
        if trial.protocol != PLAIN_TCP:
            self._check_mptcp(trial)
        if self.side == "local":
            self.kernel_cc(trial.cc)
        self._check_buffers(trial)
        for name, (sysctl, value) in in_a_kernel(trial.members).items():
            self._check_setting(flag(name), sysctl, value)

    def told(self, trial: Trial) -> dict[str, str]:
        """Settings that a trial's stack needs and that the host does not have."""
        return {
            name: value for name, value in sysctls_of(trial.members).items() if not self._has(name, value)
        }

    def _has(self, sysctl: str, value: str) -> bool:
        # With 2 a host answers with ECN, and does not ask for it (Documentation/networking/ip-sysctl.rst).
        equal = {("net.ipv4.tcp_ecn", "0"): ("0", "2")}.get((sysctl, value), (value,))
        return self.sysctls.get(sysctl) in equal

    def _check_setting(self, named: str, sysctl: str, value: str) -> None:
        if (present := self.sysctls.get(sysctl)) is None:
            raise InputError(named, "", f"expected none: {self.name} has no {sysctl}")
        if not self.privileged and not self._has(sysctl, value):
            needs = f"{sysctl} = {value} needs CAP_NET_ADMIN on {self.name}, which has {present}"
            raise InputError(named, "", f"expected none: {needs}")

    def _check_mptcp(self, trial: Trial) -> None:
        off = self.sysctls.get("net.mptcp.enabled") == "0"
        if (reason := self.looked["mptcp"]) and not off:
            raise self.refuse("ssh", f"expected a host with MPTCP, found {self.name}: {reason}")
        if managed(trial, self.privileged):
            if not self.privileged:
                expected = "expected default, or --protocol tcp: another path manager needs CAP_NET_ADMIN on"
                raise InputError("--pm", "", f"{expected} {self.name} (root, or sudo without a password)")
            if reason := self.looked["path_manager"]:
                raise self.refuse("ssh", f"expected a userspace path manager on {self.name}: {reason}")
        elif off:
            raise self.refuse("ssh", f"expected net.mptcp.enabled = 1 on {self.name}, found 0")

    def _check_buffers(self, trial: Trial) -> None:
        if self.privileged:
            return
        if trial.buffer_mode != "fixed":
            expected = f"expected fixed: limits of growing buffers need root on {self.name}"
            raise InputError("--buffer-mode", "", expected)
        limit = min(int(self.looked[name] or 0) for name in ("rmem_max", "wmem_max"))
        if trial.buffer_bytes > limit:
            expected = f"expected at most {limit} bytes, net.core.rmem_max and wmem_max of {self.name}"
            raise InputError("--buffer", "", f"{expected}, found {trial.buffer_bytes}")

    @property
    def usable(self) -> list[str]:
        """The congestion controls that its kernel has and its user may use."""
        found: list[str] = self.looked["congestion_controls"]["available" if self.privileged else "allowed"]
        return found

    def kernel_cc(self, cc: str) -> str | None:
        """Its kernel's name of a congestion control; None if its BPF program is to be registered there.

        Raises
        ------
        InputError : the host cannot provide it, or this user may not use it.
        """
        if cc in self.usable:
            return cc
        reason = self.no_program(cc)
        if reason is None:
            return None
        if (registered := bpf.registered_name(cc)) in self.usable:  # by `mptune cc load` there
            return registered
        raise self.refuse_cc(cc, reason)

    def no_program(self, cc: str) -> str | None:
        """Why a congestion control cannot be registered there as a BPF program; None if it probably can."""
        if cc in self.looked["congestion_controls"]["available"]:
            return "only root may use it"
        if (reason := bpf.lacking(cc)) is None and self.looked["bpf"] is not None:
            reason = f"its BPF program cannot be registered there: {self.looked['bpf']}"
        if reason is None:
            return None
        return f"its kernel lacks it, and {reason}; or modprobe tcp_{cc} there, if it has that module"

    def refuse_cc(self, cc: str, reason: str) -> InputError:
        """The error about a congestion control that it cannot provide."""
        can = f"expected one that {self.name} can run ({', '.join(self.usable)})"
        return InputError("--cc", "", f"{can}, found {cc}: {reason}")

    # Its interfaces.

    def named(self) -> tuple[NamedInterface, ...]:
        """The interfaces of its site, with their devices and addresses on this host.

        Raises
        ------
        InputError : one is not there.
        """
        return tuple(self.named_interface(index) for index in range(len(self.site.interfaces)))

    def named_interface(self, index: int) -> NamedInterface:
        """One of them.

        Raises
        ------
        InputError : it is not there.
        """
        interface = self.site.interfaces[index]
        device = self._device(interface)
        own: dict[str, str] = {}
        public: dict[str, str] = {}
        for family in FAMILIES:
            there = _addresses(device, family)
            given = interface.address(family)
            if given is not None and str(ip_address(given)) not in there:
                # The public address of a device behind NAT.
                public[family] = given
                given = None
            if given is not None:
                own[family] = str(ip_address(given))
            elif there:
                own[family] = there[0]
        for outside in public:
            if outside not in own:
                key = f"interfaces.{interface.abbr}.{outside}"
                raise self.refuse(key, f"expected a device with such an address: {device['device']} has none")
        return NamedInterface(
            side=self.side,
            index=index,
            device=device["device"],
            ipv4=own.get("ipv4"),
            ipv6=own.get("ipv6"),
            public=public,
        )

    def _device(self, interface: Interface) -> dict[str, Any]:
        devices: list[dict[str, Any]] = self.looked["interfaces"]
        key = f"interfaces.{interface.abbr}"
        if interface.device is not None:
            for device in devices:
                if device["device"] == interface.device:
                    return device
            names = [device["device"] for device in devices]
            raise self.refuse(f"{key}.device", f"{one_of(names, interface.device)} on {self.name}")
        given = [text for family in FAMILIES if (text := interface.address(family)) is not None]
        for device in devices:
            has = {address["ip"] for address in device["addresses"]}
            if any(str(ip_address(text)) in has for text in given):
                return device
        expected = (
            f"expected an address of {self.name}, found {', '.join(given)}; behind NAT, write the device"
        )
        raise self.refuse(f"{key}.{'ipv4' if interface.ipv4 else 'ipv6'}", f"{expected} too")

    def offloads(self, device: str) -> str:
        """Segmentation and aggregation by a device."""
        return " ".join(self.looked["offloads"].get(device, []))


def managed(trial: Trial, privileged: bool) -> bool:
    """True if one of our path managers steers it: not plain TCP, nor the default without privileges."""
    return trial.protocol != PLAIN_TCP and (privileged or trial.pm != "default")


def _addresses(device: Mapping[str, Any], family: str) -> list[str]:
    """Addresses that others can reach, in the order in which they were assigned."""
    version = 6 if family == "ipv6" else 4
    found = [ip_address(address["ip"].partition("%")[0]) for address in device["addresses"]]
    return [str(one) for one in found if one.version == version and not one.is_link_local]
