"""Several processes: what happens when one of them dies."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from conftest import Model, ServerProcess, StartServer, start_command

if sys.platform != "linux":
    pytest.skip("several processes need Linux", allow_module_level=True)

END_SECONDS = 60


def children_of(server: ServerProcess) -> dict[str, int]:
    """Process ids by name."""
    pid = server.process.pid
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        arguments = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        name = next(argument for argument in arguments if argument.startswith("{")).split('"name": "')[1].split('"')[0]
        found[name] = int(child)
    return found


def wait_until_gone(pids: list[int]) -> None:
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], END_SECONDS)[0], f"process {pid} still runs"
        finally:
            os.close(descriptor)


@pytest.mark.parametrize("victim", ["frontend 0", "owner"])
def test_a_process_that_dies_is_named_and_ends_the_others(start_server: StartServer, victim: str) -> None:
    server = start_server("--platform", "sim", "--num-processes", "1")
    children = children_of(server)
    assert sorted(children) == ["frontend 0", "owner"]
    os.kill(children[victim], signal.SIGKILL)
    _out, err = server.process.communicate(timeout=END_SECONDS)
    assert server.process.returncode == 1
    assert f"dlrm_py.server: {victim} (process {children[victim]}) was killed by SIGKILL\n" in err
    assert "Traceback" not in err
    wait_until_gone(list(children.values()))


def test_when_the_first_process_is_killed_the_others_end_and_nothing_is_left(start_server: StartServer) -> None:
    before = os.listdir("/dev/shm")
    server = start_server("--platform", "sim", "--num-processes", "1", "--batching", "window")
    children = children_of(server)
    server.process.kill()
    wait_until_gone(list(children.values()))
    assert os.listdir("/dev/shm") == before


def test_a_signal_to_the_whole_group_while_the_model_is_loaded_ends_with_code_0(model: Model) -> None:
    process = start_command(
        "--bundle", str(model.dir), "--port", "0", "--num-processes", "1", "--platform", "cpu", start_new_session=True
    )
    # The first line is said by the owner or a frontend, while JAX is still being imported or compiles.
    first = process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    _out, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 0, first + err
    assert "draining" in err
    assert "Traceback" not in err


def test_a_damaged_bundle_is_named_once_by_the_process_that_found_it(model: Model, tmp_path: Path) -> None:
    for file in model.dir.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "tables.safetensors").write_bytes(b"short")
    process = start_command("--bundle", str(tmp_path), "--port", "0", "--num-processes", "1", "--platform", "sim")
    _out, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 1
    assert f"frontend 0: {tmp_path / 'tables.safetensors'}: not a safetensors file, or cut short (5 bytes)\n" in err
    assert "ended with exit code 1" in err


def test_a_port_that_others_share_is_in_use_all_the_same(start_server: StartServer, model: Model) -> None:
    server = start_server("--platform", "sim", "--num-processes", "1")
    process = start_command("--bundle", str(model.dir), "--port", str(server.port), "--num-processes", "1")
    _out, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 1
    assert err == f"dlrm_py.server: cannot listen on 127.0.0.1:{server.port}: Address already in use\n"
