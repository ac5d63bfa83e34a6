"""The command lmc."""

from __future__ import annotations

import signal
import sys

from . import _lmckpt


def main() -> int:
    """Runs lmc with the arguments of this process."""
    # As in the command itself: Ctrl-C and closed pipes end it immediately.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _lmckpt.main(sys.argv)
