"""The life of a serving process: port, health, drain."""

from __future__ import annotations

import socket
import sys
import time

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from dlrm_py.handler_pool import HandlerPool
from dlrm_py.service import SERVICE_NAME, PredictionService


#: How long a drained server goes on refusing requests before its connections are closed.
LINGER_SECONDS = 0.1


class StartError(Exception):
    """The server cannot start; the message says why."""


def log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Listener:
    """One port with ``PredictionService`` and ``grpc.health.v1.Health``, handled by a pool of threads.

    It starts NOT_SERVING; ``set_serving`` and ``drain`` are each called once.
    """

    def __init__(
        self,
        service: PredictionService,
        *,
        max_message_bytes: int,
        num_threads: int,
        reuse_port: bool = False,
    ) -> None:
        self._pool = HandlerPool(num_threads)
        self._server = grpc.server(
            self._pool,
            options=(
                # One process owns the port: a second one is told so, instead of getting a share of the connections.
                ("grpc.so_reuseport", int(reuse_port)),
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.max_send_message_length", -1),
            ),
        )
        self._server.add_registered_method_handlers(SERVICE_NAME, service.handlers())
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for name in ("", SERVICE_NAME):
            self._health.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)

    def start(self, host: str, port: int) -> int:
        """Listens, and returns the port (``port``, or the one the system chose for 0); raises StartError."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            bound = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise StartError(f"cannot listen on {address}: {_bind_reason(host, port) or error}") from error
        if bound == 0:
            raise StartError(f"cannot listen on {address}: {_bind_reason(host, port) or 'gRPC did not bind it'}")
        self._server.start()
        return bound

    def set_serving(self) -> None:
        for name in ("", SERVICE_NAME):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def drain(self, seconds: float) -> None:
        """Says NOT_SERVING, refuses new requests (UNAVAILABLE), answers those that are in, and cancels what is left of
        them after ``seconds``."""
        deadline = time.monotonic() + seconds
        self._pool.begin_drain()
        self._health.enter_graceful_shutdown()
        if self._pool.wait_idle(seconds):
            # Callers who were just answered ask again at once: they are refused, before gRPC cancels what comes.
            time.sleep(min(LINGER_SECONDS, seconds))
        self._server.stop(max(deadline - time.monotonic(), 0)).wait()


def reserve_port(host: str, port: int) -> tuple[socket.socket, int]:
    """A socket that is bound and does not listen, and its port (``port``, or a free one for 0): processes that listen
    with SO_REUSEPORT can share the port, and nobody else gets it. Raises StartError if somebody has it already, with
    SO_REUSEPORT too."""
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # Connections of an earlier server that are still closing are no reason, a listener is.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
        reserved = socket.socket(family, kind, protocol)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(address)
    except OSError as error:
        raise StartError(f"cannot listen on {shown}: {error.strerror or error}") from error
    return reserved, reserved.getsockname()[1]


def _bind_reason(host: str, port: int) -> str | None:
    """Why a port cannot be bound, which gRPC does not say."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None
