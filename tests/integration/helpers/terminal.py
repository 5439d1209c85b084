"""A terminal on which a user types."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time


class Terminal:
    """A pseudo-terminal, and a process of which it is the controlling one: a session of its own, in the foreground.

    `streams` names the standard streams which are the terminal; the others are /dev/null. `size`: rows and columns.
    """

    def __init__(self, argv, identity, streams=("stdin", "stdout", "stderr"), size=(24, 80), **keywords):
        self.master, slave = pty.openpty()
        self.resize(*size)
        os.fchmod(slave, 0o666)
        os.set_blocking(self.master, False)
        self.text = ""

        def take_terminal():
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        chosen = {stream: slave if stream in streams else subprocess.DEVNULL for stream in ("stdin", "stdout", "stderr")}
        # Popen offers no other way to do this between setsid(2) and execve(2).
        self.process = subprocess.Popen(argv, start_new_session=True, preexec_fn=take_terminal, **chosen, **identity, **keywords)
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self):
        """Everything that has appeared so far."""
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # nothing more now, or nobody has the terminal open any more
                return self.text
            if not data:
                return self.text
            # A line's end may arrive in two pieces. runc adds a carriage return to a line that a command prints before runc has set up its terminal.
            self.text = re.sub(r"\r+\n", "\n", self.text + data.decode(errors="replace"))

    def expect(self, text, timeout=300, after=0):
        """Waits until `text` has appeared behind the position `after`; returns the position behind it."""
        deadline = time.monotonic() + timeout
        while (found := self.read().find(text, after)) < 0:
            assert time.monotonic() < deadline, f"{text!r} did not appear in {self.text[after:]!r}"
            assert self.process.poll() is None or text in self.read()[after:], f"ended with {self.process.returncode}: {self.text!r}"
            time.sleep(0.01)
        return found + len(text)

    def wait(self, timeout=300):
        """The exit status of the process; what it prints meanwhile is read."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running after {timeout} s: {self.read()!r}"
            self.read()
            time.sleep(0.01)
        self.read()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
