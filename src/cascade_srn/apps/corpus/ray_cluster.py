"""Connect to a Ray cluster, or start one on this machine. Needs the extra ``ray``."""

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cascade_srn.apps.corpus.engine import JobError
from cascade_srn.errors import ConfigError, require

OBJECT_STORE_BYTES = 80 << 20
"""Shared memory of a Ray that this package starts. Ray requires 75 MB. Rows and tables never pass through it."""
# On a busy machine, Ray gives up if its agents take more than 15 seconds, which they need when they are first read.
_MAX_STARTS = 3
_CONNECT_SECONDS = 5.0
# Ray prints the death of a worker to stdout, where results may be. The job reports it. Ray reads this at its import.
_IMPORT_ENVIRONMENT = {"RAY_DEDUP_LOGS_SKIP_REGEX": "^A worker died or was killed while executing a task"}
_START_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Agents of a driver that was killed end after this many seconds instead of 60.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_PREFIX = "cascade-ray-"
# Ray appends about 75 characters for its sockets, whose paths are limited to 107.
_MAX_TEMPORARY = 20


def import_ray() -> Any:
    """Import Ray."""
    with _environment(_IMPORT_ENVIRONMENT):
        return require("ray", extra="ray")


@contextmanager
def connection(ray: Any, address: str | None, n_cpus: int, n_gpus: int, object_store_bytes: int) -> Iterator[None]:
    """Connect to a cluster in this block, or start Ray on this machine for it.

    Without an address, the environment variable ``RAY_ADDRESS`` is used, which the jobs of a cluster have. Without
    both, Ray is started. A connection that the caller made before is used, and not closed.

    Raises:
        ConfigError: If there is no cluster at the address, or its versions differ.
        JobError: If Ray cannot be started.
    """
    if ray.is_initialized():
        if address is not None:
            raise ConfigError(
                "this process is connected to Ray already", "Call ray.shutdown() first, or give no address"
            )
        yield
        return
    address = find_address(address)
    with ExitStack() as stack:
        if address is None:
            folder = stack.enter_context(_temporary_folder())
            stack.enter_context(_environment({**_START_ENVIRONMENT, **_token()}))
            _start(ray, folder, n_cpus, n_gpus, object_store_bytes)
        else:
            _connect(ray, address)
        stack.callback(ray.shutdown)
        yield


def find_address(address: str | None) -> str | None:
    """Return the address, or that of the environment; None to start Ray on this machine."""
    found = address or os.environ.get("RAY_ADDRESS") or None
    return None if found == "local" else found


def _start(ray: Any, folder: Path, n_cpus: int, n_gpus: int, object_store_bytes: int) -> None:
    for attempt in range(1, _MAX_STARTS + 1):
        try:
            with _keeping_sigterm():
                ray.init(
                    address="local",
                    num_cpus=n_cpus,
                    num_gpus=n_gpus,
                    object_store_memory=object_store_bytes,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _temp_dir=str(folder),
                )
            return
        except Exception as error:
            ray.shutdown()
            if attempt == _MAX_STARTS:
                raise JobError(
                    f"Ray does not start ({_first_line(error)})", "Try again when the machine is less busy"
                ) from error


def _token() -> Mapping[str, str]:
    """Return a secret for a Ray that is started, unless the user has one. Ray would write one to the home folder."""
    has_own = any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    return {} if has_own or Path("~/.ray/auth_token").expanduser().exists() else {"RAY_AUTH_TOKEN": _secret()}


@cache
def _secret() -> str:
    # Ray reads the token once in a process.
    return secrets.token_hex(32)


def _connect(ray: Any, address: str) -> None:
    try:
        if address != "auto":
            # Ray tries an address at which nothing listens for minutes.
            place = urlsplit(address if "://" in address else f"//{address}")
            socket.create_connection((place.hostname, place.port or 0), timeout=_CONNECT_SECONDS).close()
        with _keeping_sigterm():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        ray.shutdown()
        raise ConfigError(
            f"there is no usable Ray cluster at {address!r} ({_first_line(error)})",
            "Give host:6379, ray://host:10001, or auto on a node of the cluster, and check the versions of Python and "
            "Ray and the token of the cluster (RAY_AUTH_TOKEN)",
            option="address",
        ) from error


@contextmanager
def _keeping_sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM after this block, because ``ray.init`` replaces it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables in this block, except those that the user has set."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Make a folder for sockets and logs, and remove those of drivers that were killed.

    The usual ``/tmp/ray`` grows with each run, and belongs to the first user of a machine.
    """
    import psutil

    parent = tempfile.gettempdir()
    if len(parent) > _MAX_TEMPORARY and os.access("/tmp", os.W_OK):
        parent = "/tmp"
    for old in Path(parent).glob(f"{_PREFIX}*"):
        owner = old.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(old, ignore_errors=True)
    prefix = f"{_PREFIX}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
