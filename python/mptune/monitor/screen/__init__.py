"""The terminal screen of `mptune watch`, by textual: it draws rows and takes keys, and computes nothing."""

from mptune.monitor.screen.app import WatchApp

__all__ = ["WatchApp"]
