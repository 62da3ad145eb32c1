"""A connection to a Ray cluster, which is optional."""

from __future__ import annotations

import logging
import socket
from typing import Any


def connect(address: str, threads: int, namespace: str | None = None) -> Any:  # noqa: ANN401
    """Return the ``ray`` module, connected; say in one sentence what is missing otherwise.

    ``threads``: how many each worker computes with. ``namespace``: where actors have their names.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise ValueError(
            "the ray backend needs Ray, which is not installed; pip install 'multipool[ray]', or "
            "use the local backend"
        ) from None
    _check_reachable(address)
    try:
        ray.init(
            address=address,
            namespace=namespace,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": {"OMP_NUM_THREADS": str(threads)}},
        )
    except (ConnectionError, RuntimeError) as error:
        raise _no_cluster(address, error) from None
    return ray


def _check_reachable(address: str) -> None:
    """Try a ``HOST:PORT`` first: when nobody answers, Ray ends the whole process."""
    place, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((place, int(port)), timeout=10).close()
    except OSError as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> ValueError:
    reason = " ".join(str(error).split())[:200]
    return ValueError(f"no Ray cluster at '{address}' ({reason}); start one with: ray start --head")
