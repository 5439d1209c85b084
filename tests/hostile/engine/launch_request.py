"""Launch requests as a hostile front end may write them, and starting the set-user-ID program with them."""

import fcntl
import os
import struct
import subprocess

SEALS = 0x1 | 0x2 | 0x4 | 0x8  # SEAL, SHRINK, GROW, WRITE


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<I", len(data)) + data


def texts(values):
    return struct.pack("<I", len(values)) + b"".join(map(text, values))


def pairs(values):
    return struct.pack("<I", len(values)) + b"".join(text(key) + text(value) for key, value in sorted(values.items()))


def mount_list(mounts):
    def size(source):
        return optional(None if source else 0, lambda number: struct.pack("<Q", number))

    return struct.pack("<I", len(mounts)) + b"".join(
        text(source) + text(destination) + b"\0\0" + size(source) + b"\0\0\0" + text("as written") for source, destination in mounts)


def optional(value, encode):
    return b"\0" if value is None else b"\1" + encode(value)


VERBS = {"launch": 0, "exec": 1, "list": 2, "inspect": 3, "kill": 4, "create-repository": 5, "remove": 6, "save": 7}


def head(verb, version=12):
    """What each request begins with, in the form of src/engine/starter_request.cpp. `verb`: a name or a number."""
    return b"SARUSREQ" + struct.pack("<II", version, VERBS.get(verb, verb))


def exec_request(name, command=("true",), workdir=None, reference="", content="", settings=(), keeper=-1):
    return b"".join([head("exec"), text(name), texts(list(command)), texts([]), texts([]), optional(workdir, text), b"\0\0", struct.pack("<i", keeper),
                     text(reference), text(content), pairs(dict(settings)), optional(None, text), struct.pack("<I", 3)])


def list_request(session="", json=False, everybodys=False):
    return head("list") + text(session) + bytes([json, everybodys, False, False]) + struct.pack("<I", 0) + text("")


def inspect_request(name, session="", json=False):
    return head("inspect") + text(session) + text(name) + bytes([json])


def remove_request(*names, session="", job="", force=False, idle=False, only_job="", of_ended_jobs=False):
    return (head("remove") + text(session) + text(job) + texts(names) + bytes([force, idle]) + text(only_job) + bytes([of_ended_jobs])
            + text("") + b"\0")


def save_request(name, content="", image=-1, job=""):
    return head("save") + text(job) + text(name) + text(content) + struct.pack("<i", image)


def kill_request(name, signal="SIGTERM", session=""):
    return head("kill") + text(session) + text(name) + text(signal)


def request(image, command=("true",), workdir=None, name=None, mounts=(), devices=(), environment=(), reference="x", digest="", content="", keep=False,
            kept_directory="", version=12):
    """A launch. `mounts`: (source, or "" for a memory file system, and destination)."""
    return b"".join([
        head("launch", version), struct.pack("<i", image), text("/image"), text(reference), text(digest), texts([]), texts([]), text(""),
        texts(["PATH=/bin"]), pairs({}), texts([]), texts(list(command)), optional(None, texts), texts(list(environment)), texts([]),
        texts([]), mount_list(mounts), texts(list(devices)), texts([]), texts([]), pairs({}), optional(workdir, text), optional(name, text), text(content), bytes([keep]),
        text(kept_directory), b"\0",
        optional(None, text), b"\0" * 13, optional(None, text), struct.pack("<I", 3)])


def memory_file(data, seals=SEALS):
    descriptor = os.memfd_create("request", os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    if seals:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def start(engine, arguments, descriptors=(), prepare=None, timeout=300, **keywords):
    """Runs the starter itself as the engine's user, with these descriptors under the numbers that they have here."""
    keywords.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([f"{engine.prefix}/libexec/sarus-starter", *map(str, arguments)], user=engine.user.uid, group=engine.user.gid,
                          extra_groups=[], pass_fds=tuple(descriptors), preexec_fn=prepare, env={"LD_PRELOAD": "/nowhere.so"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, **keywords)


def ask(engine, data):
    """Any other request than that for a container."""
    channel = memory_file(data)
    try:
        return start(engine, [channel], {channel})
    finally:
        os.close(channel)
