"""The two machines and the network between them are what they are said to be."""

import pytest


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_root_reaches_a_machine_by_its_name(world, name):
    done = world.ssh(name, "uname -n; id -un; cut -d. -f1 /proc/uptime")
    assert done.stdout.split()[:2] == [name, "root"], done.stderr
