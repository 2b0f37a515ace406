"""The process that starts the others, watches them, and ends when one of them does. Linux only.

It owns nothing of the hot path. The memory of the rings has no name and the children notice the end of this process, so
nothing is left of either, however it ends.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from dlrm_py.bundle import read_bundle
from dlrm_py.child_task import ChildTask, RingFiles
from dlrm_py.device import device_buckets
from dlrm_py.lifecycle import StartError, log, reserve_port
from dlrm_py.memory import shared_file
from dlrm_py.options import ServerOptions, resolve_limits
from dlrm_py.ring import RingShape
from dlrm_py.scorer import num_lanes

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: What processes may take to end, beyond the time for draining.
_END_SECONDS = 5.0


class _Child:
    def __init__(self, task: ChildTask, control: socket.socket) -> None:
        self.name = task.name
        self.role = task.role
        self.control = control
        self.heard = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dlrm_py.child", task.to_json()],
            stdin=subprocess.DEVNULL,
            pass_fds=task.descriptors(),
        )

    def say(self, word: str) -> None:
        try:
            self.control.sendall(f"{word}\n".encode())
        except OSError:
            pass  # It has ended, which is noticed elsewhere.

    def how_it_ended(self) -> str:
        code = self.process.wait()
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"


class _Asked(Exception):
    """A signal asks this process to end."""


class _Supervisor:
    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._children: list[_Child] = []
        self._selector = selectors.DefaultSelector()
        self._wake_up, wake_up_end = socket.socketpair()
        for end in (self._wake_up, wake_up_end):
            end.setblocking(False)
        self._wake_up_end = wake_up_end
        signal.set_wakeup_fd(wake_up_end.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda _number, _frame: None)
        self._selector.register(self._wake_up, selectors.EVENT_READ, None)

    def start(self, tasks: Sequence[tuple[ChildTask, socket.socket, socket.socket]]) -> None:
        # Children begin with both signals blocked, and ignore them before they unblock them.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            for task, ours, theirs in tasks:
                child = _Child(task, ours)
                theirs.close()
                self._children.append(child)
                self._selector.register(ours, selectors.EVENT_READ, child)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def wait_for(self, word: str, role: str | None = None) -> None:
        """Until every child (of a role) has said ``word``; raises StartError when one ends, and _Asked."""
        silent = {child.name for child in self._children if role in (None, child.role)}
        while silent:
            for child, heard in self._listen(None):
                if word in heard:
                    silent.discard(child.name)

    def tell(self, word: str, role: str) -> None:
        for child in self._children:
            if child.role == role:
                child.say(word)

    def watch(self) -> None:
        """Until a signal (_Asked) or the end of a child (StartError)."""
        while True:
            self._listen(None)

    def drain(self) -> None:
        """Ends the frontends, which answer what is in, and then the owner; kills what does not end in time."""
        deadline = time.monotonic() + self._options.drain_seconds + _END_SECONDS
        for role in ("frontend", "owner"):
            self.tell("drain", role)
            for child in self._children:
                if child.role != role:
                    continue
                try:
                    code = child.process.wait(max(deadline - time.monotonic(), 0))
                except subprocess.TimeoutExpired:
                    log(f"{child.name} did not end in time, and is killed")
                    continue
                if code != 0:
                    log(f"{child.name} {child.how_it_ended()} while draining")

    def kill(self) -> None:
        for child in self._children:
            if child.process.poll() is None:
                child.process.kill()
        for child in self._children:
            child.process.wait()

    def _listen(self, timeout: float | None) -> list[tuple[_Child, list[str]]]:
        heard = []
        for key, _events in self._selector.select(timeout):
            if key.data is None:
                raise _Asked
            child = key.data
            received = _receive(child.control)
            if received == b"":
                raise StartError(f"{child.name} (process {child.process.pid}) {child.how_it_ended()}")
            *lines, child.heard = (child.heard + received).split(b"\n")
            heard.append((child, [line.decode() for line in lines]))
        return heard


def _receive(control: socket.socket) -> bytes:
    try:
        return control.recv(4096)
    except ConnectionError:
        return b""


def run_processes(options: ServerOptions) -> None:
    """Serves until a signal; raises StartError if a process ends, BundleError and ValueError."""
    bundle = read_bundle(options.bundle)
    limits = resolve_limits(options, bundle)
    rows = device_buckets(bundle, limits.max_batch_size)[-1]
    shape = RingShape.of(bundle.spec, slots=num_lanes(options), rows=rows)
    supervisor = _Supervisor(options)
    # Kept until the end: nobody else is given the port between the frontends.
    reserved, port = reserve_port(options.host, options.port)
    try:
        supervisor.start(_tasks(options, port, shape))
        supervisor.wait_for("ready")
        supervisor.tell("go", "frontend")
        supervisor.wait_for("serving", "frontend")
        print(f"serving {bundle.name} version {bundle.version} on {options.host}:{port}", flush=True)
        supervisor.watch()
    except _Asked:
        log("draining")
        supervisor.drain()
    finally:
        supervisor.kill()
        reserved.close()


def _tasks(
    options: ServerOptions, port: int, shape: RingShape
) -> list[tuple[ChildTask, socket.socket, socket.socket]]:
    """A task for each process, with this end and its end of the socket between."""
    options = replace(options, port=port)
    owner_bell = os.eventfd(0, os.EFD_CLOEXEC)
    rings = [
        RingFiles(shared_file(shape.num_bytes), [os.eventfd(0, os.EFD_CLOEXEC) for _ in range(shape.slots)])
        for _ in range(options.num_processes)
    ]
    tasks = []
    for index in range(-1, options.num_processes):
        ours, theirs = socket.socketpair()
        role = "owner" if index < 0 else "frontend"
        name = "owner" if index < 0 else f"frontend {index}"
        files = rings if index < 0 else [rings[index]]
        tasks.append((ChildTask(role, name, options, shape, files, owner_bell, theirs.fileno()), ours, theirs))
    return tasks
