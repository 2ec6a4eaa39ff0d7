"""The terminal screen of `mptune watch`, by textual: it draws rows and takes keys, and computes nothing."""

from mptune.watching.screen.app import WatchApp

__all__ = ["WatchApp"]
