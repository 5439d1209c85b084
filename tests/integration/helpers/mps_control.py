#!/usr/bin/env python3
"""Stands in for nvidia-cuda-mps-control: the same options, commands, messages and exit statuses (NVIDIA "Multi-Process Service").

The daemon listens on the socket `control` of the pipe directory; its servers are processes that do nothing. How it misbehaves
stands in the file behaviour.json beside it: {"registers_after": seconds, "refuses_servers": true, "hangs": "COMMAND", ...}.
What it was asked stands in the file `calls` of the pipe directory.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

PIPES = pathlib.Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
SOCKET = PIPES / "control"
BEHAVIOUR = json.loads((pathlib.Path(__file__).parent / "behaviour.json").read_text())


def ask(command):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(SOCKET))
        client.sendall(command.encode())
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(4096), b"")).decode()


def is_running():
    try:
        ask("ping")
        return True
    except OSError:
        return False


def answer(command, servers):
    with open(PIPES / "calls", "a") as calls:
        calls.write(command + "\n")
    if command.startswith("start_server -uid "):
        if BEHAVIOUR.get("refuses_servers"):
            return "1 Failed to start the server"
        if not servers:
            server = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            servers.append((time.monotonic() + BEHAVIOUR.get("registers_after", 0), server))
        return "0 "
    if command == "get_server_list":
        return "0 " + "".join(f"{server.pid}\n" for since, server in servers if time.monotonic() >= since)
    if command == "quit":
        return "0 "
    return "1 Unknown command" if command != "ping" else "0 "


def serve():
    SOCKET.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(SOCKET))
    listener.listen(64)
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    (PIPES / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    servers = []
    while True:
        connection, _ = listener.accept()
        command = connection.recv(4096).decode()
        connection.sendall(answer(command, servers).encode())
        connection.close()
        if command == "quit":
            for _, server in servers:
                server.kill()
                server.wait()
            SOCKET.unlink()
            os._exit(0)


def main():
    if "-d" in sys.argv:
        if BEHAVIOUR.get("hangs") == "-d":
            time.sleep(600)
        if is_running():
            sys.exit("An instance of this daemon is already running")
        if BEHAVIOUR.get("no_daemon"):
            sys.exit("Failed to initialize: no CUDA-capable device is detected")
        PIPES.mkdir(parents=True, exist_ok=True)
        serve()
    command = sys.stdin.readline().strip()
    if BEHAVIOUR.get("hangs") == command.split()[0]:
        time.sleep(600)
    try:
        status, text = ask(command).split(" ", 1)
    except OSError:
        sys.exit("Cannot find MPS control daemon process")
    print(text, end="")
    sys.exit(int(status))


if __name__ == "__main__":
    main()
