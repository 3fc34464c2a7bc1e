"""A lease semaphore on Redis, as well as we could write one.

Leases are a sorted set (by expiry) and waiters a list. One Lua script grants whatever can be granted and pushes to
the grantee's own key, on which it blocks with BLPOP: so a release hands over directly, in order. One thread per
process renews its leases and passes on the expired ones of others; waiters themselves ask for nothing.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import redis
from tests.benchmarks.peers.base import Backend
from tests.benchmarks.peers.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.benchmarks.place import Place

LEASE_S = 2.0
"""How long a lease outlives its last renewal; a killed holder's slot is stuck for about this long."""
_BEAT_S = 0.5

_GRANT = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local cap, lease = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local function grant()
  local free = cap - redis.call('ZCARD', KEYS[1])
  while free > 0 do
    local head = redis.call('LPOP', KEYS[2])
    if not head then return end
    redis.call('ZADD', KEYS[1], now + lease, head)
    redis.call('RPUSH', KEYS[3] .. head, 1)
    redis.call('PEXPIRE', KEYS[3] .. head, 60000)
    free = free - 1
  end
end
"""
_ACQUIRE = (
    _GRANT
    + """
grant()
if redis.call('ZCARD', KEYS[1]) < cap then
  redis.call('ZADD', KEYS[1], now + lease, ARGV[3])
  return 1
end
redis.call('RPUSH', KEYS[2], ARGV[3])
return 0
"""
)
_RELEASE = (
    _GRANT
    + """
redis.call('ZREM', KEYS[1], ARGV[3])
grant()
"""
)
_BEAT = (
    _GRANT
    + """
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[1], 'XX', now + lease, ARGV[i])
end
grant()
"""
)


class RedisLease:
    """One client with its connection pool per process, and the thread that renews."""

    def __init__(self, place: Place) -> None:
        """Connect, load the scripts, and start renewing."""
        self._client = redis.Redis(unix_socket_path=place.address)
        self._keys = [f"{place.name}:leases", f"{place.name}:queue", f"{place.name}:go:"]
        self._limits = [place.cap, int(LEASE_S * 1000)]
        self._acquire = self._script(_ACQUIRE)
        self._release = self._script(_RELEASE)
        self._beat = self._script(_BEAT)
        self._ids = itertools.count()
        self._held: set[str] = set()
        threading.Thread(target=self._renew, daemon=True).start()

    def acquire(self, timeout: float) -> str:
        """Queue up, and block on a key of our own until a release pushes to it."""
        token = f"{os.getpid()}.{next(self._ids)}"
        if not self._acquire(token) and not self._client.blpop([self._keys[2] + token], timeout):
            self._client.lrem(self._keys[1], 1, token)
            self._release(token)
            raise TimeoutError
        self._held.add(token)
        return token

    def release(self, token: str) -> None:
        """Drop the lease and grant the slot to the head of the queue, in one script."""
        self._held.discard(token)
        self._release(token)

    def _script(self, source: str) -> Callable[..., object]:
        script = self._client.register_script(source)
        return lambda *tokens: script(keys=self._keys, args=[*self._limits, *tokens])

    def _renew(self) -> None:
        while True:
            time.sleep(_BEAT_S)
            # A server that has gone is the end of the run, not of this thread's manners.
            with suppress(redis.ConnectionError):
                self._beat(*self._held.copy())


class RedisBackend(Backend):
    """One server for the whole run, on a socket, without persistence."""

    name = "redis"
    version_of = "redis"

    def __init__(self) -> None:
        """Start nothing yet."""
        self._server = RedisServer()

    def connect(self, place: Place) -> RedisLease:
        """Connect a worker process."""
        return RedisLease(place)

    def missing(self) -> str | None:
        """Say so when there is no server to start."""
        return self._server.missing()

    def serving(self, folder: Path) -> AbstractContextManager[object]:
        """Run the server."""
        return self._server.running(folder)

    def at(self, place: Place) -> AbstractContextManager[Place]:
        """Fill in the server's address; keys have the place's name, and go with the server."""
        return nullcontext(replace(place, address=self._server.socket))

    def server_cpu_s(self) -> float:
        """CPU seconds of the server so far."""
        return self._server.cpu_s()

    def queued(self, place: Place) -> int:
        """Length of the waiters' list."""
        return self._server.length(f"{place.name}:queue")


BACKEND = RedisBackend()
