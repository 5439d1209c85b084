"""A FUSE server which takes every question and answers none: silent_fuse.py MOUNTPOINT READY [ROOT]. The file READY is made once it serves,
and READY.asked once it has been asked.
With ROOT it answers those about its root directory itself, but none about a file in it."""

import ctypes
import os
import pathlib
import struct
import sys

GETATTR, STATFS, INIT = 3, 17, 26
NOSUID, NODEV = 2, 4

device = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"silent", sys.argv[1].encode(), b"fuse", NOSUID | NODEV, options) != 0:
    raise OSError(ctypes.get_errno(), "mount")
while True:
    request = os.read(device, 1 << 17)
    _, operation, number = struct.unpack_from("<IIQ", request)
    if operation == INIT:
        answer = struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 17, 0, 1, 1, 1 << 12, 1, 1, 0, 0)
        os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, number) + answer)
        pathlib.Path(sys.argv[2]).touch()
        continue
    pathlib.Path(f"{sys.argv[2]}.asked").touch()
    if len(sys.argv) > 3 and operation in (GETATTR, STATFS):
        directory = struct.pack("<QIIQ5Q3I7I", 60, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
        answer = directory if operation == GETATTR else bytes(80)
        os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, number) + answer)
