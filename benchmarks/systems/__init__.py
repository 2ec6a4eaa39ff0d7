"""Agent, daemon, hosts, probe and cluster under load and failures."""
