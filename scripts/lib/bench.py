"""Runs the benchmark programs in turn for several rounds and prints medians and ratios. Called by scripts/bench, which
builds the programs, starts nginx, and explains the options."""

import argparse
import contextlib
import datetime
import http.client
import json
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import bench_page

ROWS = ("cpu", "entity", "latency", "inflight", "closure", "urls", "pages", "post", "fresh", "burst", "http2", "download", "segments", "queue", "upload", "resumable", "waiting", "events",
        "live", "store", "cache", "fleet", "outbox", "bridges")

parser = argparse.ArgumentParser(prog="scripts/bench", allow_abbrev=False)
parser.add_argument("--rounds", type=int)
parser.add_argument("--quick", action="store_true")
parser.add_argument("--only", action="append", choices=ROWS)
parser.add_argument("--instructions", action="store_true")
parser.add_argument("--costs", action="store_true")
parser.add_argument("--plot", action="store_true")
parser.add_argument("--without-executor", action="store_true")
parser.add_argument("--build", action="store_true")
parser.add_argument("--libcurl", choices=("8",))
parser.add_argument("--json")
parser.add_argument("--packages")
for hidden in (
    "--programs", "--nginx", "--nginx-tls", "--nginx-once", "--authority", "--scratch", "--package", "--libraries"
):
    parser.add_argument(hidden, help=argparse.SUPPRESS)
parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
options = parser.parse_args()
rounds = options.rounds or (2 if options.quick else 5)
if rounds < 1:
    parser.error("--rounds needs a number of at least 1")
if options.plot and sys.argv[1:] != ["--check", "--plot"]:
    parser.error("--plot shows the results of earlier runs and takes no other option")
if options.check:
    sys.exit(0)

if options.libraries:
    # Applies to the programs started from here; this process has loaded its libraries already.
    os.environ["LD_LIBRARY_PATH"] = options.libraries

rows = options.only or (
    [] if options.instructions or options.costs or (options.build and options.quick) else list(ROWS))
results = {}  # name of a measurement -> one dictionary per round
shapes = {}  # name of a measurement against nginx -> program, mode, URL, in flight
futexes = {}  # name of a measurement -> futex system calls per request
runs = []


def say(text):
    print(text, file=sys.stderr, flush=True)


def stop(reason):
    say(f"error: {reason}")
    sys.exit(1)


def environment(url):
    """The environment of a program. For https URLs it names a bundle of the system's authorities, which has a typical size for
    a client, and nginx's authority. For other URLs it stays as it is, so that their measurements do not change."""
    if not url.startswith("https:"):
        return None
    path = os.path.join(options.scratch, "authorities.pem")
    if not os.path.exists(path):
        with open(path, "wb") as bundle:
            for source in ("/etc/ssl/certs/ca-certificates.crt", options.authority):
                if os.path.exists(source):
                    with open(source, "rb") as file:
                        bundle.write(file.read())
    return {**os.environ, "LAT_BENCH_CA": path}


def program(name, mode, url, *arguments):
    """Runs a benchmark program and returns the JSON of its last line."""
    command = [os.path.join(options.programs, name), mode, url, *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(url))
    if done.returncode != 0:
        stop(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


class Counters:
    """The counters of nginx, read over one open connection, so that reading does not change them."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=10)

    def accepted(self):
        """The number of connections that nginx has accepted; None when it was built without the module for it."""
        self.connection.request("GET", "/counters")
        answer = self.connection.getresponse()
        text = answer.read().decode()
        found = re.search(r"requests\s+(\d+)", text)
        return int(found[1]) if answer.status == 200 and found else None


counters = Counters(options.nginx)


def against_nginx(name, executable, mode, url, counts):
    """A measurement of a program against nginx, with the number of connections it opened, warm-up included."""
    shapes[name] = (executable, mode, url, counts[1])

    def measure():
        before = counters.accepted()
        result = program(executable, mode, url, *counts)
        if before is not None:
            result["connections"] = counters.accepted() - before
        return result

    return name, measure


def count_futexes(name):
    """Counts the futex calls in a short run under strace, whose times are meaningless. Returns the reason if that fails."""
    executable, mode, url, in_flight = shapes[name]
    requests = 1000 if options.quick else 4000
    path = os.path.join(options.scratch, "strace")
    command = ["strace", "-f", "--seccomp-bpf", "-c", "-U", "calls,name", "-e", "trace=futex", "-o", path,
               os.path.join(options.programs, executable), mode, url, str(requests), str(in_flight), "0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=environment(url))
    if done.returncode != 0:
        return f"strace does not work here: {' '.join(done.stderr.split())[-200:]}"
    with open(path) as file:
        found = re.search(r"^\s*(\d+)\s+futex", file.read(), re.MULTILINE)
    futexes[name] = (int(found[1]) if found else 0) / requests
    return None


def callgrind(executable, mode, path, requests, in_flight=64):
    """The number of instructions of a whole run."""
    return callgrind_of(executable, mode, options.nginx + path, str(requests), str(in_flight), "0")


def callgrind_of(executable, *arguments):
    out = os.path.join(options.scratch, "callgrind.out")
    command = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}",
               os.path.join(options.programs, executable), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        stop(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    with open(out) as file:
        return int(re.search(r"^totals: (\d+)", file.read(), re.MULTILINE)[1])


def curl(mode, *arguments):
    """Runs and measures the curl program. Its peak memory is sampled while it runs, because the value of wait4 includes the
    memory of this process before exec."""
    started = time.monotonic()
    command = ["curl", "-q", "-sS", "--fail", *arguments]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    peak = [0]

    def look():
        while child.returncode is None:
            try:
                with open(f"/proc/{child.pid}/status") as status:
                    for line in status:
                        if line.startswith("VmHWM:"):
                            peak[0] = max(peak[0], int(line.split()[1]))
            except OSError:
                return
            time.sleep(0.1)

    watcher = threading.Thread(target=look)
    watcher.start()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    watcher.join()
    if child.returncode != 0:
        stop(f"{' '.join(command)} ended with {child.returncode}")
    return {
        "program": "curl", "mode": mode, "requests": 1, "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime, "rss_peak_kb": peak[0],
    }


def take(name, turn, result):
    results.setdefault(name, []).append(result)
    runs.append({"measurement": name, "round": turn + 1, **result})


def in_turn(turn, measurements):
    """Runs each measurement once, in reverse in every other round. Measurements to compare are neighbours, so that a
    temporarily busy machine affects both."""
    for name, measure in measurements if turn % 2 == 0 else reversed(measurements):
        if not (options.without_executor and "executor" in name):
            take(name, turn, measure())


def run_cpu(turn):
    url, many, few = options.nginx + "/1k.bin", (20000, 64, 1000), (2000, 64, 200)
    if not options.quick:
        many, few = (100000, 64, 2000), (10000, 64, 500)
    in_turn(turn, [
        against_nginx("lat executor", "lat-bench", "central-executor", url, many),
        against_nginx("c multi", "curlbench", "multi", url, many),
        against_nginx("lat", "lat-bench", "central", url, many),
        against_nginx("go", "gobench", "concurrent", url, many),
        against_nginx("urlsession", "urlsession-bench", "concurrent", url, few),
        against_nginx("c multi-bare", "curlbench", "multi-bare", url, many),
        against_nginx("c multi-poll", "curlbench", "multi-poll", url, many),
    ])


def run_entity(turn):
    url, many = options.nginx + "/1k.json", (20000, 64, 1000) if options.quick else (100000, 64, 2000)
    in_turn(turn, [
        against_nginx("lat entity executor", "lat-bench", "entity-executor", url, many),
        against_nginx("c multi json", "curlbench", "multi", url, many),
        against_nginx("lat entity", "lat-bench", "entity", url, many),
    ])


def run_latency(turn):
    url, count = options.nginx + "/1k.bin", (2000, 1, 200) if options.quick else (10000, 1, 500)
    in_turn(turn, [
        against_nginx("lat latency executor", "lat-bench", "latency-executor", url, count),
        against_nginx("c easy", "curlbench", "easy", url, count),
        against_nginx("lat latency", "lat-bench", "latency", url, count),
        against_nginx("go latency", "gobench", "latency", url, count),
        against_nginx("urlsession latency", "urlsession-bench", "latency", url, count),
    ])


def run_inflight(turn):
    url = options.nginx + "/1k.bin"
    # The limit of opened connections is for 20,000 requests, 512 in flight, so --quick does not reduce their number.
    for in_flight, requests, warmup in ((1, 5000, 200), (64, 20000, 1000), (512, 20000, 2000)):
        counts = (requests // 5 if options.quick and in_flight < 512 else requests, in_flight, warmup)
        in_turn(turn, [
            against_nginx(f"lat executor, {in_flight}", "lat-bench", "central-executor", url, counts),
            against_nginx(f"c multi, {in_flight}", "curlbench", "multi", url, counts),
            against_nginx(f"lat, {in_flight}", "lat-bench", "central", url, counts),
        ])


def run_closure(turn):
    url, many = options.nginx + "/1k.bin", (10000, 64, 1000) if options.quick else (50000, 64, 2000)
    in_turn(turn, [
        against_nginx("lat closure", "lat-bench", "closure", url, many),
        against_nginx("c closure", "curlbench", "multi", url, many),
    ])


def run_urls(turn):
    url, many = options.nginx + "/1k.bin", (10000, 64, 1000) if options.quick else (50000, 64, 2000)
    in_turn(turn, [
        against_nginx("lat urls", "lat-bench", "urls", url, many),
        against_nginx("c urls", "curlbench", "urls", url, many),
    ])


def run_pages(turn):
    url, many = options.nginx + "/pages", (5000, 1, 1000) if options.quick else (20000, 1, 1000)
    in_turn(turn, [
        against_nginx("lat pages", "lat-bench", "pages", url, many),
        against_nginx("lat pages gets", "lat-bench", "pages-gets", url, many),
    ])


def run_post(turn):
    url, many = options.nginx + "/post", (10000, 64, 1000) if options.quick else (50000, 64, 2000)
    in_turn(turn, [
        against_nginx("lat post", "lat-bench", "post", url, many),
        against_nginx("c post", "curlbench", "post", url, many),
        against_nginx("lat post encoded", "lat-bench", "post-encoded", url, many),
    ])


def run_tls(turn, name, url, quick, full):
    counts = quick if options.quick else full
    in_turn(turn, [
        against_nginx(f"lat {name}", "lat-bench", "central", url, counts),
        against_nginx(f"c {name}", "curlbench", "multi", url, counts),
    ])


def run_fresh(turn):
    run_tls(turn, "fresh", options.nginx_once + "/1k.bin", (300, 1, 50), (2000, 1, 100))


def run_burst(turn):
    run_tls(turn, "burst", options.nginx_once + "/1k.bin", (640, 64, 64), (3200, 64, 128))


def run_http2(turn):
    run_tls(turn, "http2", options.nginx_tls + "/1k.bin", (10000, 64, 1000), (50000, 64, 2000))


def scratch_folder():
    """A folder for 1 GiB files, in memory if it has room, so that the disk is not measured."""
    try:
        if shutil.disk_usage("/dev/shm").free > 3 << 30 and os.access("/dev/shm", os.W_OK):
            return "/dev/shm"
    except OSError:
        pass
    return options.scratch


def run_download(turn):
    url = options.nginx + "/1g.bin"
    with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=scratch_folder()) as folder:
        path = os.path.join(folder, "1g.bin")

        def fresh(measure):
            def measured():
                result = measure()
                size = os.path.getsize(path)
                os.remove(path)
                if size != 1 << 30:
                    stop(f"a download of 1 GiB left {size} bytes")
                return result
            return measured

        in_turn(turn, [
            ("lat download", fresh(lambda: program("lat-bench", "download", url, 1, 1, 0, path))),
            ("curl -o", fresh(lambda: curl("download", "-o", path, url))),
            ("c download", fresh(lambda: program("curlbench", "download", url, 1, 1, 0, path))),
        ])


@contextlib.contextmanager
def sink():
    """The URL of a server that discards bodies, and the path of a file of 1 GiB."""
    server = subprocess.Popen([os.path.join(options.programs, "sinkserver")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=scratch_folder()) as folder:
            path = os.path.join(folder, "1g.bin")
            # Not a sparse file, which is cheaper to read.
            with open(path, "wb") as file:
                for _ in range(1 << 10):
                    file.write(bytes(1 << 20))
            yield url, path
    finally:
        server.stdin.close()
        server.wait()


def run_upload(turn):
    with sink() as (url, path):
        in_turn(turn, [
            ("lat upload", lambda: program("lat-bench", "upload", url, 1, 1, 0, path)),
            ("curl -F", lambda: curl("upload", "-F", f"file=@{path}", url)),
        ])


RESUMABLE = ("tus", "standard", "s3")


def run_resumable(turn):
    with sink() as (url, path):
        in_turn(turn, [
            *((f"lat {style}", lambda style=style: program("lat-bench", style, url, 1, 1, 0, path)) for style in RESUMABLE),
            ("lat put", lambda: program("lat-bench", "put", url, 1, 1, 0, path)),
        ])


def run_segments(turn):
    # nginx limits the rate of each connection. It sends the bytes of the first second at once.
    url = options.nginx + "/limited/200m.bin"
    with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=scratch_folder()) as folder:
        def one(count):
            path = os.path.join(folder, f"{count}.bin")
            result = program("lat-bench", "download", url, 1, count, 0, path)
            if os.path.getsize(path) != 200 << 20:
                stop(f"a download of 200 MiB left {os.path.getsize(path)} bytes")
            os.remove(path)
            return result

        in_turn(turn, [("lat 1 segment", lambda: one(1)), ("lat 4 segments", lambda: one(4))])


def run_queue(turn):
    def in_folder(measure):
        with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=options.scratch) as folder:
            return measure(folder)

    with stall_server() as url:
        in_turn(turn, [
            ("lat queue", lambda: in_folder(lambda folder: program("lat-bench", "queue", url, 5000, 1, 0, folder))),
            ("c files", lambda: in_folder(lambda folder: program("storebench", "files", folder, 5000))),
        ])


@contextlib.contextmanager
def stall_server():
    """A server that accepts connections and never answers."""
    server = subprocess.Popen([os.path.join(options.programs, "stallserver")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/"
    finally:
        server.stdin.close()
        server.wait()


def run_waiting(turn):
    count = 1000 if options.quick else 5000
    with stall_server() as url:
        in_turn(turn, [
            ("lat waiting", lambda: program("lat-bench", "waiting", url, count, count, 0)),
            ("c waiting", lambda: program("curlbench", "waiting", url, count, count, 0)),
        ])


def run_live(turn):
    server = subprocess.Popen([os.path.join(options.programs, "echoserver")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        for size, counts in ((1 << 10, (20000, 64, 2000) if options.quick else (100000, 64, 5000)), (64 << 10, (1600, 1, 200))):
            in_turn(turn, [
                (f"lat echo executor, {size}", lambda: program("lat-bench", "sockets-executor", url, *counts, size)),
                (f"c echo, {size}", lambda: program("socketbench", "echo", url, *counts, size)),
                (f"lat echo, {size}", lambda: program("lat-bench", "sockets", url, *counts, size)),
            ])
        in_turn(turn, [("lat open sockets", lambda: program("lat-bench", "sockets-open", url, 1000, 1000, 0))])
    finally:
        server.stdin.close()
        server.wait()
    if "events" not in rows:
        run_events(turn)


def run_events(turn):
    in_turn(turn, [
        ("lat events", lambda: program("lat-bench", "events", options.nginx + "/events.txt", 100000, 1, 0)),
    ])


def run_outbox(turn):
    count = 1000 if options.quick else 10000
    url = options.nginx + "/post"

    def measure(name, mode, rows, in_flight=1):
        with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=options.scratch) as folder:
            if name == "storebench":
                return program(name, mode, os.path.join(folder, "outbox.sqlite"), rows)
            return program(name, mode, url, rows, in_flight, 0, os.path.join(folder, "outbox"))

    def opening(rows):
        with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=options.scratch) as folder:
            # Nobody listens there, so that the entries stay.
            arguments = ("http://127.0.0.1:1/", rows, 1, 0, os.path.join(folder, "outbox"))
            program("lat-bench", "outbox-fill", *arguments)
            return program("lat-bench", "outbox-open", *arguments)

    for mode in ("outbox-add", "outbox-batch"):
        in_turn(turn, [(f"lat {mode}", lambda: measure("lat-bench", mode, count)),
                       (f"c {mode}", lambda: measure("storebench", mode, count))])
    in_turn(turn, [("lat outbox drain", lambda: measure("lat-bench", "outbox-drain", count, 64)),
                   ("lat outbox direct", lambda: measure("lat-bench", "outbox-direct", count, 64))])
    if turn < 2:
        in_turn(turn, [("lat outbox open", lambda: opening(10000 if options.quick else 100000))])


def run_store(turn):
    count = 20000 if options.quick else 100000
    with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=options.scratch) as folder:
        for mode in ("insert", "fetch", "scan"):
            in_turn(turn, [
                (f"lat store {mode}",
                 lambda: program("store-bench", mode, os.path.join(folder, "lat.sqlite"), count)),
                (f"c sqlite {mode}",
                 lambda: program("storebench", mode, os.path.join(folder, "c.sqlite"), count)),
            ])


def run_cache(turn):
    count, many = (2000, 10000) if options.quick else (20000, 100000)

    def measure(mode, requests, entries, warmup=0):
        with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=options.scratch) as folder:
            return program("lat-bench", mode, os.path.join(folder, "cache"), requests, entries, warmup)

    in_turn(turn, [
        ("lat memory hit", lambda: measure("cache-memory", count, 1000, 1000)),
        ("lat disk hit", lambda: measure("cache-disk", count, 1000, 1000)),
        ("lat answer kept", lambda: measure("cache-kept", count, 1, 1000)),
        ("lat answer not kept", lambda: measure("cache-unkept", count, 1, 1000)),
        ("lat stored stream", lambda: measure("cache-stream", 1, 1)),
    ])
    # Filling these caches takes long, and the numbers hardly vary.
    if turn < 2:
        in_turn(turn, [
            ("lat disk hit of many", lambda: measure("cache-disk", count, many, 1000)),
            ("lat open of many", lambda: measure("cache-open", 20, many)),
        ])


class Redis:
    """A Redis on a free port of the loopback address, which saves nothing."""

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.server = subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", "--port", self.address.rpartition(":")[2], "--save", "",
             "--appendonly", "no"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        log = ""
        for line in self.server.stdout:
            log += line
            if "eady to accept connections" in line:
                return self
        stop(f"redis-server did not start:\n{log}")

    def __exit__(self, *_):
        self.server.kill()
        self.server.communicate()


def run_fleet(turn):
    missing = None
    if shutil.which("redis-server") is None:
        missing = "redis-server"
    elif not os.path.exists(os.path.join(options.programs, "redisbench")):
        missing = "hiredis"
    if missing:
        if turn == 0:
            say(f"the row fleet is skipped, because {missing} is not installed; scripts/setup --bench installs it")
        return
    count = 2000 if options.quick else 20000
    with Redis() as redis, tempfile.TemporaryDirectory(prefix="lat-bench.", dir=options.scratch) as folder:
        url = f"redis://{redis.address}"
        in_turn(turn, [
            ("lat redis hit", lambda: program("lat-bench", "fleet-remote", url, count, 1000, 1000)),
            ("c hiredis", lambda: program("redisbench", "get", redis.address, count, 1000, 1000)),
            ("lat memory hit in a fleet", lambda: program(
                "lat-bench", "fleet-memory", url, count, 1000, 1000, os.path.join(folder, "fleet"))),
            ("lat memory hit alone", lambda: program(
                "lat-bench", "cache-memory", os.path.join(folder, "alone"), count, 1000, 1000)),
        ])


def run_bridges(turn):
    if not options.packages:
        if turn == 0:
            say("the row bridges is skipped, because it needs --packages; see scripts/integrations --help")
        return
    # One request in flight. The difference removes work that happens once.
    count = 500 if options.quick else 1000
    for mode in ("plain", "logger", "exporter", "tracer"):
        once, twice = (callgrind_of("BridgeBench", mode, options.nginx + "/1k-text.json", str(times))
                       for times in (count, 2 * count))
        take(f"bridges {mode}", turn, {"instructions": (twice - once) / count})


def run_build():
    folder = os.path.join(options.programs, "clean-build")
    shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    done = subprocess.run(
        ["swift", "build", "-c", "release", "--target", "LATNetworking", "--package-path", options.package,
         "--scratch-path", folder],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.monotonic() - started
    shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        stop(f"the library did not build:\n{done.stdout[-4000:]}")
    return {"program": "swift build", "mode": "clean release", "seconds": seconds}


def median(name, field):
    return statistics.median(result[field] for result in results[name])


def version(*command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError:
        return ""
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


verdicts = []


def compare(row, what, against, ours, reference, field, limit):
    """Compares this package with a reference: the median of the ratios of all rounds, and their spread. Without a limit the
    ratio is only shown. Does nothing if the row was not measured."""
    if row not in rows or ours not in results:
        return
    pairs = [a[field] / b[field] for a, b in zip(results[ours], results[reference])]
    ratio = statistics.median(pairs)
    verdicts.append({
        "row": row, "what": what, "against": against, "ours": median(ours, field), "reference": median(reference, field),
        "ratio": ratio, "lowest": min(pairs), "highest": max(pairs), "limit": limit,
        "kept": None if limit is None else ratio <= limit,
    })


def at_most(row, what, value, unit, limit, binding=True):
    """Checks a value against its limit. A value that is not binding is only shown."""
    verdicts.append({
        "row": row, "what": what, "ours": value, "unit": unit, "limit": limit,
        "kept": value <= limit if binding else None,
    })


for turn in range(rounds if rows else 0):
    say(f"round {turn + 1} of {rounds}")
    for row in rows:
        # These rows take long, and their numbers hardly vary.
        if row in ("waiting", "segments") and turn >= (3 if row == "waiting" else 2):
            continue
        globals()["run_" + row](turn)
if options.build:
    say("clean release build")
    take("build", 0, run_build())

note = ""
if shapes:
    say("futex calls, under strace")
    counted = [name for name in results if name in shapes and shapes[name][0] in ("lat-bench", "curlbench")]
    if shutil.which("strace") is None:
        note = "strace is not installed; scripts/setup --bench installs it"
    for name in counted if not note else []:
        note = count_futexes(name)
        if note:
            break

INSTRUCTIONS = (
    # What, program, mode, path, limit, whether it is binding. When the limits were set, C without its own header fields took
    # 66,600 instructions.
    ("C, curl_multi, without User-Agent and Accept-Encoding", "curlbench", "multi-bare", "/1k.bin", 66600, False),
    ("C, curl_multi", "curlbench", "multi", "/1k.bin", 66600, False),
    ("central", "lat-bench", "central", "/1k.bin", 85000, True),
    ("central on the executor", "lat-bench", "central-executor", "/1k.bin", 85000, True),
    ("entity, a document of three members", "lat-bench", "entity-text", "/1k-text.json", 125000, True),
    ("entity, a document of three members, on the executor",
     "lat-bench", "entity-text-executor", "/1k-text.json", 125000, True),
    ("entity, a document of many members", "lat-bench", "entity", "/1k.json", None, False),
    ("entity, a document of many members, on the executor", "lat-bench", "entity-executor", "/1k.json", None, False),
)
instructions = []
if options.instructions:
    if shutil.which("valgrind") is None:
        stop("valgrind is not installed; scripts/setup --bench installs it")
    instructions = [
        {"what": what, "program": executable, "mode": mode, "path": path, "limit": limit, "binding": binding,
         "requests": 1000, "total": [], "total_of_twice_as_many": []}
        for what, executable, mode, path, limit, binding in INSTRUCTIONS
        if not (options.without_executor and mode.endswith("-executor"))
    ]
    # Several rounds are needed, because the number of responses that arrive together varies and changes the result by a
    # few per cent.
    counting_rounds = options.rounds or (1 if options.quick else 3)
    for turn in range(counting_rounds):
        say(f"instructions, round {turn + 1} of {counting_rounds}")
        for one in instructions:
            for field, count in (("total", one["requests"]), ("total_of_twice_as_many", 2 * one["requests"])):
                one[field].append(callgrind(one["program"], one["mode"], one["path"], count))
    for one in instructions:
        # The difference removes work that happens once, such as startup.
        once, twice = statistics.median(one["total"]), statistics.median(one["total_of_twice_as_many"])
        one["per_request"] = (twice - once) / one["requests"]
        pairs = [(b - a) / one["requests"] for a, b in zip(one["total"], one["total_of_twice_as_many"])]
        one["lowest"], one["highest"] = min(pairs), max(pairs)
        at_most("instructions", "instructions per request: " + one["what"], one["per_request"], "", one["limit"],
                one["binding"])

COSTS = (
    # Mode of lat-bench, what it adds to a GET of 1k-text.json.
    ("headers", "three headers of the manager"),
    ("immediateProvider", "three headers of an `immediateHeaderProvider`"),
    ("provider", "three headers of a `headerProvider`, which may wait"),
    ("authenticator", "a token of an `authenticator`"),
    ("interceptor", "an interceptor that passes the request on"),
    ("accessory", "an accessory, for which every event is made"),
    ("metrics", "`Metrics` of LATInspect"),
    ("inspector", "an `Inspector` whose page nobody has open"),
    ("har", "a `HARRecorder`, which writes an entry for each call"),
    ("retries", "`retries`, none needed"),
    ("deadline", "a `deadline`"),
    ("limits", "a limit of requests, not reached"),
    ("told", "limits that the server may tell, and does not"),
    ("adaptive", "an adaptive limit, not reached"),
    ("hedge", "hedged requests, of which none is sent"),
    ("circuit", "a circuit breaker"),
    ("together", "`headerProvider`, `authenticator`, `retries`, limit and circuit breaker together"),
    ("store", "the response kept in the cache's memory"),
    ("rules", "the response of a new URL under `.http`, which stores it"),
    ("dictionaries", "dictionaries of `.http`, of which there is none"),
    ("text", "`response.text` of 1 KiB"),
    ("decode", "decoding 1 KiB of JSON, three members"),
    ("hit", "a hit in the cache's memory, in place of the request"),
)
# What some of them may add.
COST_LIMITS = {"told": 10_000, "adaptive": 10_000, "hedge": 6_000}
costs = []
if options.costs:
    if shutil.which("valgrind") is None:
        stop("valgrind is not installed; scripts/setup --bench installs it")

    def instructions_of(feature, path="/1k-text.json"):
        # One request in flight, so that the number of responses that arrive together does not vary.
        once, twice = (callgrind("lat-bench", f"feature-{feature}", path, count, 1) for count in (1000, 2000))
        return (twice - once) / 1000

    def instructions_of_sha256():
        """Of 64 KiB, by OpenSSL, which Python calls."""
        program = "import hashlib, sys; data = b'a' * 65536; [hashlib.sha256(data).digest() for _ in range(int(sys.argv[1]))]"
        once, twice = (callgrind_of("/usr/bin/python3", "-c", program, str(count)) for count in (100, 200))
        return (twice - once) / 100

    counted = {}
    for turn in range(options.rounds or 3):
        say(f"instructions of features, round {turn + 1} of {options.rounds or 3}")
        for feature in ("none", *(feature for feature, _ in COSTS)):
            counted.setdefault(feature, []).append(instructions_of(feature))
    plain = statistics.median(counted["none"])
    costs = [{"what": "a plain request, one in flight", "instructions": plain, "lowest": min(counted["none"]),
              "highest": max(counted["none"])}]
    for feature, what in COSTS:
        # A hit takes the place of the request.
        less = 0 if feature == "hit" else statistics.median(counted["rules"]) if feature == "dictionaries" else plain
        costs.append({"what": what, "instructions": statistics.median(counted[feature]) - less,
                      "lowest": min(counted[feature]) - less, "highest": max(counted[feature]) - less})
        if feature in COST_LIMITS:
            at_most("instructions", "instructions that a feature adds: " + what, costs[-1]["instructions"], "",
                    COST_LIMITS[feature])
    digest = statistics.median(instructions_of("digest", "/post") - instructions_of("upload", "/post")
                               for _ in range(options.rounds or 3))
    bare = instructions_of_sha256()
    costs.append({"what": "the SHA-256 of 64 KiB that are sent", "instructions": digest, "lowest": digest, "highest": digest})
    costs.append({"what": "the bare SHA-256 of the same bytes", "instructions": bare, "lowest": bare, "highest": bare})
    at_most("instructions", "SHA-256 of 64 KiB that are sent, times the bare function", digest / bare, "", 1.2)
    print("\ninstructions that a feature adds to a request" + " " * 43 + "median  spread")
    for one in costs:
        print(f"  {one['what']:80}{one['instructions']:12,.0f}  {one['lowest']:,.0f} … {one['highest']:,.0f}")

for reference, against, limit in (("c multi", "C", 1.5), ("go", "Go", None), ("urlsession", "URLSession", 0.10)):
    compare("cpu", "CPU per request, 64 in flight", against, "lat", reference, "cpu_us_per_request", limit)
compare("cpu", "CPU per request, 64 in flight, on manager.executor", "C", "lat executor", "c multi", "cpu_us_per_request", 1.1)
for name, what, limit in (("lat entity", "entity: table, provider, JSON decoding", 2.0),
                          ("lat entity executor", "entity: table, provider, JSON decoding, on manager.executor", 1.5)):
    compare("entity", what, "C", name, "c multi json", "cpu_us_per_request", limit)
for reference, against, limit in (
    ("c easy", "C", 1.5), ("go latency", "Go", None), ("urlsession latency", "URLSession", None)
):
    compare("latency", "latency one at a time, median", against, "lat latency", reference, "p50_us", limit)
compare("latency", "latency one at a time, median, on manager.executor", "C", "lat latency executor", "c easy", "p50_us", 1.1)
for in_flight, limit, limit_on_executor in ((1, None, None), (64, 1.5, 1.1), (512, 1.3, 1.3)):
    what = f"CPU per request, {in_flight} in flight, fewer requests" if in_flight == 64 else f"CPU per request, {in_flight} in flight"
    compare("inflight", what, "C", f"lat, {in_flight}", f"c multi, {in_flight}", "cpu_us_per_request", limit)
    compare("inflight", f"{what}, on manager.executor", "C", f"lat executor, {in_flight}", f"c multi, {in_flight}",
            "cpu_us_per_request", limit_on_executor)
for name, what in (("lat, 512", "512 in flight, 20,000 requests: connections opened"),
                   ("lat executor, 512", "512 in flight, on manager.executor: connections opened")):
    if "connections" in results.get(name, [{}])[0]:
        at_most("inflight", what, median(name, "connections"), "", 512)
compare("closure", "closure form", "C", "lat closure", "c closure", "cpu_us_per_request", 1.5)
compare("urls", "10,000 different URLs", "C", "lat urls", "c urls", "cpu_us_per_request", 1.5)
compare("pages", "1,000 pages by Link, CPU of a page", "the same GETs", "lat pages", "lat pages gets", "cpu_us_per_request", 1.1)
compare("post", "POST of 1 KiB of JSON, encoded before", "C", "lat post", "c post", "cpu_us_per_request", 1.5)
compare("post", "POST of 1 KiB of JSON, encoded each time", "C", "lat post encoded", "c post", "cpu_us_per_request", None)
for row, what in (("fresh", "fresh TLS connection, one at a time"), ("burst", "64 fresh TLS connections at once"),
                  ("http2", "HTTP/2 over TLS, 64 streams")):
    compare(row, f"{what}, CPU", "C", f"lat {row}", f"c {row}", "cpu_us_per_request", 1.5)
    compare(row, f"{what}, wall time", "C", f"lat {row}", f"c {row}", "seconds", None)
if "download" in rows:
    compare("download", "1 GiB to a file, wall time", "curl -o", "lat download", "curl -o", "seconds", 1.1)
    at_most("download", "1 GiB to a file, peak resident memory", median("lat download", "rss_peak_kb") / 1024, "MB", 40)
if "upload" in rows:
    compare("upload", "1 GiB multipart from a path, wall time", "curl -F", "lat upload", "curl -F", "seconds", 1.2)
    at_most("upload", "1 GiB multipart from a path, peak resident memory", median("lat upload", "rss_peak_kb") / 1024, "MB", 40)
for style, name in zip(RESUMABLE, ("tus 1.0", "the IETF draft", "S3")):
    compare("resumable", f"1 GiB in parts by {name}, wall time", "a plain PUT", f"lat {style}", "lat put", "seconds", 1.15)
compare("segments", "200 MiB at 10 MB/s a connection, wall time: 4 segments", "1 segment", "lat 4 segments",
        "lat 1 segment", "seconds", 1 / 3.5)
compare("queue", "5,000 downloads added to a queue", "as many files written in C", "lat queue", "c files", "seconds", None)
if "queue" in rows:
    at_most("queue", "5,000 downloads added to a queue, each with its record", median("lat queue", "seconds"), "s", 1)
compare("outbox", "entries added one by one, each on the disk, time", "SQLite's C API", "lat outbox-add", "c outbox-add", "seconds", 1.5)
compare("outbox", "entries added with one commit, time", "SQLite's C API", "lat outbox-batch", "c outbox-batch", "seconds", 2)
compare("outbox", "entries sent with 64 in flight, CPU", "the same POSTs sent directly", "lat outbox drain", "lat outbox direct",
        "cpu_us_per_request", 1.3)
if "outbox" in rows:
    waiting = f"{results['lat outbox open'][0]['requests']:,.0f} waiting entries"
    at_most("outbox", f"{waiting}, resident memory added", median("lat outbox open", "added_mb"), "MB", 20)
    at_most("outbox", f"start with {waiting}", median("lat outbox open", "open_ms"), "ms", 50)
if "waiting" in rows:
    at_most("waiting", f"{results['lat waiting'][0]['requests']:,.0f} waiting requests, resident memory each",
            median("lat waiting", "kb_per_request"), "KB", 40)
    share = statistics.median(r["cpu_seconds"] / r["seconds"] * 100 for r in results["lat waiting"])
    at_most("waiting", "processor time while they wait", share, "%", 1)
for size, what in ((1 << 10, "echo of 1 KiB on 64 WebSockets"), (64 << 10, "100 MiB in messages of 64 KiB on a WebSocket, and back")):
    compare("live", f"{what}, CPU per message", "C", f"lat echo, {size}", f"c echo, {size}", "cpu_us_per_request", 1.5)
    compare("live", f"{what}, on manager.executor", "C", f"lat echo executor, {size}", f"c echo, {size}", "cpu_us_per_request", None)
if "live" in rows:
    at_most("live", "1,000 open WebSockets, resident memory each", median("lat open sockets", "kb_per_request"), "KB", 40)
    share = statistics.median(r["cpu_seconds"] / r["seconds"] * 100 for r in results["lat open sockets"])
    at_most("live", "processor time while nothing is sent", share, "%", 1)
if "lat events" in results:
    at_most("events", "CPU per event of a stream of 100,000 small events", median("lat events", "cpu_us_per_request"), "µs", 3)
for mode, limit in (("insert", 3), ("fetch", 3), ("scan", 4)):
    what = {"insert": "insert many", "fetch": "fetch by id", "scan": "scan of all"}[mode]
    compare("store", f"object store, {what}, CPU", "SQLite's C API", f"lat store {mode}", f"c sqlite {mode}",
            "cpu_us_per_request", limit)
if "cache" in rows:
    at_most("cache", "hit through a manager in memory, 4 KiB, median", median("lat memory hit", "p50_us"), "µs", 5)
    at_most("cache", "hit through a manager on disk, 4 KiB, median", median("lat disk hit", "p50_us"), "µs", 60)
    at_most("cache", "time that storing adds to a response, median", median("lat answer kept", "p50_us")
            - median("lat answer not kept", "p50_us"), "µs", 100)
    many = f"{10000 if options.quick else 100000:,}"
    at_most("cache", f"open of a cache of {many} entries with a first look-up", median("lat open of many", "p50_us") / 1000,
            "ms", 50)
    at_most("cache", f"disk hit, {many} entries / 1,000",
            median("lat disk hit of many", "p50_us") / median("lat disk hit", "p50_us"), "", 1.3)
    at_most("cache", "100 MiB into the cache and out, peak resident memory",
            median("lat stored stream", "rss_peak_kb") / 1024, "MB", 40)
compare("fleet", "hit in a fleet's Redis, 4 KiB, one at a time, median", "a GET by hiredis", "lat redis hit", "c hiredis",
        "p50_us", 1.5)
compare("fleet", "hit in memory in a fleet, 4 KiB, median", "one without a fleet", "lat memory hit in a fleet",
        "lat memory hit alone", "p50_us", 1.1)
if "bridges plain" in results:
    cost = {mode: median(f"bridges {mode}", "instructions") - median("bridges plain", "instructions")
            for mode in ("logger", "exporter", "tracer")}
    at_most("bridges", "instructions that LATLogging adds, logger off", cost["logger"], "", 1000)
    at_most("bridges", "instructions of a span in memory by LATTracing / of TraceExporter", cost["tracer"] / cost["exporter"],
            "", 1.2)
if options.build:
    at_most("build", "clean release build of the library", results["build"][0]["seconds"], "s", 90)

if results:
    print(f"\n{'measured, medians of ' + str(rounds) + ' rounds':30}{'CPU µs/req':>12}{'req/s':>10}{'p50 µs':>10}"
          f"{'p99 µs':>10}{'wall s':>9}{'peak MB':>9}{'KB/req':>8}{'opened':>8}{'futex/req':>11}")
for name in results:
    def cell(field, width, digits, scale=1.0):
        if not all(field in result for result in results[name]):
            return " " * width
        return f"{median(name, field) * scale:{width},.{digits}f}"
    single = results[name][0].get("requests", 1) == 1
    waiting = "kb_per_request" in results[name][0]
    print((f"{name:30}" + (" " * 22 if single or waiting else cell("cpu_us_per_request", 12, 1)
                           + cell("requests_per_second", 10, 0))
           + (" " * 20 if single else cell("p50_us", 10, 0) + cell("p99_us", 10, 0))
           + cell("seconds", 9, 2) + cell("rss_peak_kb", 9, 1, 1 / 1024) + cell("kb_per_request", 8, 1)
           + cell("connections", 8, 0) + (f"{futexes[name]:11.2f}" if name in futexes else "")).rstrip())
if note:
    print(f"futex/req is blank: {note}")

MARKS = {True: "kept  ", False: "MISSED", None: "      "}
if instructions:
    print(f"\n{'instructions per request, 64 in flight':70}{'counted':>10}{'at most':>10}  spread")
for one, verdict in zip(instructions, verdicts):
    limit = "" if one["limit"] is None else f"{one['limit']:,}" if one["binding"] else f"({one['limit']:,})"
    print(f"{MARKS[verdict['kept']]}  {one['what']:62}{one['per_request']:10,.0f}{limit:>10}"
          f"  {one['lowest']:,.0f} … {one['highest']:,.0f}")

if results:
    print(f"\n{'limit':82}{'ours':>10}{'at most':>10}  spread")
for verdict in verdicts[len(instructions):]:
    if "ratio" in verdict:
        value, limit = f"{verdict['ratio']:.3f}", "" if verdict["limit"] is None else f"{verdict['limit']:.2f}"
        spread = f"{verdict['lowest']:.3f} … {verdict['highest']:.3f}"
    else:
        digits = 1 if verdict["unit"] else 0 if verdict["limit"] > 10 else 3
        value, limit = f"{verdict['ours']:.{digits}f} {verdict['unit']}", f"{verdict['limit']} {verdict['unit']}"
        spread = ""
    what = verdict["what"] + (f": ours / {verdict['against']}" if "against" in verdict else "")
    print(f"{MARKS[verdict['kept']]}  {what:74}{value.strip():>10}{limit.strip():>10}  {spread}".rstrip())
missed = sum(verdict["kept"] is False for verdict in verdicts)
kept = sum(verdict["kept"] is True for verdict in verdicts)
print(f"\n{kept} limits kept, {missed} missed")

path = options.json or os.path.join(options.programs, "latest.json")
report = {
    "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    "quick": options.quick,
    "rounds": rounds,
    "machine": {
        "processors": os.cpu_count(), "kernel": platform.release(),
        "swift": version("swift", "--version"), "libcurl": f"8, from {options.libraries}" if options.libraries else version("curl", "--version"),
        "nginx": version("nginx", "-v"), "go": version("go", "version"),
        "valgrind": version("valgrind", "--version"), "strace": version("strace", "--version"),
    },
    "limits": verdicts,
    "medians": {
        name: {field: statistics.median(result[field] for result in all_rounds)
               for field, value in all_rounds[0].items() if isinstance(value, (int, float))}
        | ({"futexes_per_request": futexes[name]} if name in futexes else {})
        for name, all_rounds in results.items()
    },
    "instructions": instructions,
    "costs": costs,
    "costs_rounds": len(counted["none"]) if costs else 0,
    "runs": runs,
}
os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
with open(path, "w") as file:
    json.dump(report, file, indent=2)
    file.write("\n")
say(f"JSON: {path}")
if not options.quick:
    bench_page.collect(report, os.path.join(options.programs, "page.json"))
