# SPDX-License-Identifier: BSD-3-Clause
"""Progress of a long measurement: one line on standard error, which the next one replaces."""
import shutil
import sys

CLEAR = "\r\033[K"


class Progress:
    """Prints nothing if it is quiet, or if standard error is not a terminal."""

    def __init__(self, quiet):
        self.silent = quiet or not sys.stderr.isatty()
        self.shown = False

    def show(self, text):
        """Replaces the line by this text, cut to the terminal's width: a line that wraps could not be cleared."""
        if not self.silent:
            width = shutil.get_terminal_size().columns - 1
            print(f"{CLEAR}{f'uroce-bench: {text}'[:width]}", end="", file=sys.stderr, flush=True)
            self.shown = True

    def end(self):
        """Call before other output."""
        if self.shown:
            print(CLEAR, end="", file=sys.stderr, flush=True)
        self.shown = False
