"""The stand-in for the daemon that tests of what is heard of it use."""

from tests.plugins.daemon_socket import listener as listener
