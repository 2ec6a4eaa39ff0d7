"""The doctor's findings and advice, on machines that are made up."""

import shutil

import pytest

from mptune.errors import TrialError
from mptune.linux import bpf, congestion, doctor
from mptune.linux.sandbox import sysctls


class Probe:
    """Answers in place of a process in a namespace."""

    def __init__(self, **answers):
        attempts = ("mptcp", "statistics", "full_statistics", "path_manager", "tun", "ipv6")
        self.answers = {**dict.fromkeys(attempts), **answers}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def tell(self, message):
        assert message == {"namespace": "remote"}

    def expect(self, event, within_s):
        return self.answers


class Sites:
    """Namespaces that need not exist."""

    user = None
    remote = "remote"
    probe = Probe()
    refusal = None

    def __enter__(self):
        if self.refusal is not None:
            raise TrialError(self.refusal)
        return self

    def __exit__(self, *error):
        pass

    def start(self, name, module):
        return self.probe


@pytest.fixture
def sites(monkeypatch):
    class Mine(Sites):
        pass

    monkeypatch.setattr(doctor, "Sites", Mine)
    return Mine


@pytest.fixture
def settings(monkeypatch):
    """Sysctls of the host, to be changed."""
    values = {
        "net.ipv4.tcp_available_congestion_control": "reno cubic",
        "net.ipv4.tcp_allowed_congestion_control": "reno cubic",
        "net.core.rmem_max": "67108864",
        "net.core.wmem_max": "67108864",
        "net.ipv4.tcp_mem": "100000 200000 300000",
        "net.ipv4.conf.all.rp_filter": "0",
    }
    monkeypatch.setattr(sysctls, "read", values.get)
    return values


def by_name():
    return {finding.name: finding for finding in doctor.examine()}


def test_a_machine_that_can_do_everything_is_ready(sites, settings):
    findings = doctor.examine()
    assert doctor.ready(findings) and doctor.obstacle() is None
    assert {finding.name for finding in findings if finding.required} == {
        "namespaces",
        "MPTCP sockets",
        "statistics of subflows",
        "userspace path manager",
        "TUN devices",
        "agent",
    }


def test_without_namespaces_it_is_unable_and_names_the_setting(sites, settings):
    sites.refusal = "namespaces: unshare: Operation not permitted"
    findings = doctor.examine()
    assert not doctor.ready(findings)
    assert findings[0].state == "missing" and "max_user_namespaces" in str(findings[0].remedy)
    assert str(doctor.obstacle()).startswith("namespaces: unshare: Operation not permitted: run as root")


@pytest.mark.parametrize(
    ("lacking", "name", "advice"),
    [
        ("mptcp", "MPTCP sockets", "CONFIG_MPTCP"),
        ("statistics", "statistics of subflows", "5.16"),
        ("path_manager", "userspace path manager", "5.19"),
        ("tun", "TUN devices", "modprobe tun"),
    ],
)
def test_each_required_thing_that_is_missing_is_an_obstacle(sites, settings, lacking, name, advice):
    sites.probe = Probe(**{lacking: "Protocol not available"})
    finding = by_name()[name]
    assert finding.state == "missing" and advice in str(finding.remedy)
    assert "Protocol not available" in finding.found
    assert not doctor.ready(doctor.examine())
    assert advice in str(doctor.obstacle())


def test_a_kernel_that_counts_less_can_run_trials(sites, settings):
    sites.probe = Probe(full_statistics="Operation not supported")
    finding = by_name()["statistics of subflows"]
    assert finding.state == "limited" and "6.5" in str(finding.remedy)
    assert doctor.ready(doctor.examine()) and doctor.obstacle() is None


def test_without_ipv6_only_trials_over_ipv6_have_an_obstacle(sites, settings):
    assert doctor.obstacle_of_ipv6() is None
    sites.probe = Probe(ipv6="Address family not supported by protocol")
    findings = doctor.examine()
    assert doctor.ready(findings) and doctor.obstacle() is None
    required = [finding.required for finding in findings]
    assert required == sorted(required, reverse=True)
    reason = str(doctor.obstacle_of_ipv6())
    assert "Address family not supported by protocol" in reason and "ipv6.disable=1" in reason
    assert "\n" not in reason


def test_what_is_not_required_is_no_obstacle(sites, settings, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    settings["net.core.rmem_max"] = "212992"
    settings["net.ipv4.conf.all.rp_filter"] = "1"
    findings = by_name()
    assert doctor.ready(list(findings.values()))
    for name in ("socket buffers", "reverse path filter", "iperf3", "mptcpize"):
        assert findings[name].state == "limited" and findings[name].remedy
    assert "net.core.rmem_max=31457280" in str(findings["socket buffers"].remedy)


def test_there_is_advice_where_and_only_where_something_is_not_well(sites, settings):
    for finding in doctor.examine():
        assert (finding.remedy is not None) == (finding.state != "ok"), finding


def test_every_congestion_control_is_listed_with_its_reason(sites, settings, monkeypatch, tmp_path):
    monkeypatch.setattr(bpf, "OBJECTS", tmp_path)
    (tmp_path / "olia.bpf.o").touch()
    known = tmp_path / "available"
    known.write_text("reno cubic")
    monkeypatch.setattr(bpf, "_AVAILABLE", known)
    monkeypatch.setattr(congestion, "module", {"vegas": "tcp_vegas"}.get)
    findings = by_name()
    assert findings["congestion control reno"].found == "in the kernel"
    assert findings["congestion control vegas"].state == "missing"
    assert "modprobe tcp_vegas" in str(findings["congestion control vegas"].remedy)
    assert "no BPF program" in str(findings["congestion control wvegas"].remedy)
