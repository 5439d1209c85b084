"""Another user of the node takes the name by which the MPS hooks of a user take turns."""

import os
import subprocess
import sys

import pytest

from test_hook_mps import mps  # noqa: F401 (fixture)

pytestmark = pytest.mark.asroot

SQUAT = """
import os, socket, sys, time
os.setuid(61235)
held = []
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    held.append(socket.socket(socket.AF_UNIX, kind))
    held[-1].bind("\\0" + sys.argv[1])
try:
    if sys.argv[2] != "never opened":
        held[1].listen(8 if sys.argv[2] == "open" else 0)
    while sys.argv[2] == "full":
        held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        held[-1].setblocking(False)
        held[-1].connect("\\0" + sys.argv[1])
except BlockingIOError:
    pass
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("queue", ["open", "full", "never opened"])
def test_other_user_on_the_address_of_the_turn_stops_nobody(mps, queue):  # noqa: F811
    command = [sys.executable, "-c", SQUAT, f"sarus-mps-{os.getuid()}", queue]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as squatter:
        assert squatter.stdout.readline() == "ready\n"
        try:
            result = mps.run()
        finally:
            squatter.kill()
    assert (result.returncode, result.stderr) == (0, "")
    assert len(mps.servers()) == 1
