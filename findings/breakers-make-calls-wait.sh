#!/usr/bin/env bash
# Guess:    a circuit breaker costs nothing while it is closed: calls go through side by side. When the time is over it lets one call
#           through, and refuses the others until that one has shown how the server is. It counts failures of an async
#           function like those of another one, or refuses to decorate it.
# Version:  pybreaker 1.4.1, circuitbreaker 2.1.3, purgatory 3.0.1, aiobreaker 1.2.0; PyPI.
# Found:    call() and the decorator of pybreaker hold a lock for as long as the call takes: closed, half-open or not, the calls of all
#           threads go one after the other; only `with breaker.calling()` does not. Around an `async def` it never counts a
#           failure. The other three let all calls through at once when they are half-open.
# Seen:     8 threads or tasks call a server that takes 0.5 seconds
#           pybreaker, closed, the server answers 200          call() and decorator 4 seconds, calling() and no breaker 0.5
#           half-open, the server answers 503                  pybreaker 1 call; circuitbreaker, purgatory, aiobreaker 8 calls
#           10 failures of an async def, fail_max=2            pybreaker is closed and has counted 0
# Matters:  what was to guard a service gives it one call at a time, and calls wait without a limit behind one that hangs. A server
#           that comes back gets at once what had put it down.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    pybreaker==1.4.1 circuitbreaker==2.1.3 purgatory==3.0.1 aiobreaker==1.2.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import asyncio, datetime, http.server, sys, threading, time, urllib.request
import aiobreaker, circuitbreaker, purgatory, pybreaker

count, calls, lock = 8, [], threading.Lock()

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with lock:
            calls.append(self.path)
        time.sleep(0.5)
        self.send_response(200 if self.path == "/up" else 503)
        self.end_headers()

    def log_message(self, *arguments):
        pass

class ManyServer(http.server.ThreadingHTTPServer):
    request_queue_size = 64

server = ManyServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

def fetch(path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=30) as response:
        return response.read()

def at_once(work):
    """The seconds that it takes, and the calls that have reached the server."""
    gate = threading.Barrier(count)

    def run():
        gate.wait()
        try:
            work()
        except Exception:
            pass

    calls.clear()
    threads = [threading.Thread(target=run) for _ in range(count)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begun, len(calls)

def fails(work):
    try:
        work()
    except Exception:
        pass

def closed():
    breaker = pybreaker.CircuitBreaker(fail_max=2, reset_timeout=60)
    decorated = breaker(fetch)

    def in_context():
        with breaker.calling():
            fetch("/up")

    ways = {
        "no breaker": lambda: fetch("/up"), "pybreaker call()": lambda: breaker.call(fetch, "/up"),
        "pybreaker decorator": lambda: decorated("/up"), "pybreaker calling()": in_context,
        "circuitbreaker": lambda call=circuitbreaker.circuit(fetch): call("/up"),
    }
    return {name: at_once(work) for name, work in ways.items()}

def with_purgatory(breakers):
    with breakers.get_breaker("server"):
        fetch("/down")

def half_open():
    first = pybreaker.CircuitBreaker(fail_max=2, reset_timeout=1)
    second = circuitbreaker.circuit(failure_threshold=2, recovery_timeout=1)(fetch)
    third = purgatory.SyncCircuitBreakerFactory(default_threshold=2, default_ttl=1)
    breakers = {
        "pybreaker": lambda: first.call(fetch, "/down"), "circuitbreaker": lambda: second("/down"),
        "purgatory": lambda: with_purgatory(third),
    }
    found = {}
    for name, work in breakers.items():
        for _ in range(3):
            fails(work)
        opened = at_once(work)[1]
        time.sleep(1.2)
        found[name] = opened, at_once(work)[1]
    return found

async def half_open_aiobreaker():
    breaker = aiobreaker.CircuitBreaker(fail_max=2, timeout_duration=datetime.timedelta(seconds=1))

    async def call():
        await breaker.call_async(asyncio.to_thread, fetch, "/down")

    async def all_at_once():
        calls.clear()
        await asyncio.gather(*(call() for _ in range(count)), return_exceptions=True)
        return len(calls)

    for _ in range(3):
        await asyncio.gather(call(), return_exceptions=True)
    opened = await all_at_once()
    await asyncio.sleep(1.2)
    return opened, await all_at_once()

async def failures_of_async():
    breaker = pybreaker.CircuitBreaker(fail_max=2, reset_timeout=60)

    @breaker
    async def call():
        raise ConnectionError

    for _ in range(10):
        await asyncio.gather(call(), return_exceptions=True)
    return breaker.current_state, breaker.fail_counter

first = closed()
second = half_open() | {"aiobreaker": asyncio.run(half_open_aiobreaker())}
third = asyncio.run(failures_of_async())
for name, (seconds, reached) in first.items():
    print(f"closed, {name}: {seconds:.1f} seconds, {reached} calls")
for name, (opened, after) in second.items():
    print(f"{name}: open {opened} calls, half-open {after} calls")
print("pybreaker around an async def:", third)
one_by_one = {name for name, (seconds, reached) in first.items() if seconds >= 0.5 * count}
as_found = (
    one_by_one == {"pybreaker call()", "pybreaker decorator"} and all(reached == count for _, reached in first.values())
    and all(seconds < 2 for name, (seconds, _) in first.items() if name not in one_by_one)
    and second == {"pybreaker": (0, 1), "circuitbreaker": (0, count), "purgatory": (0, count), "aiobreaker": (0, count)}
    and third == ("closed", 0)
)
print("as found: one at a time, or all at once" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
