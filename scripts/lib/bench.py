"""Runs the benchmark programs in turn, round after round, and prints medians and ratios. Called by scripts/bench, which
builds the programs and starts nginx; the options are explained there."""

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROWS = ("cpu", "entity", "latency", "download", "segments", "upload", "waiting", "store", "cache")

parser = argparse.ArgumentParser(prog="scripts/bench", allow_abbrev=False)
parser.add_argument("--rounds", type=int)
parser.add_argument("--quick", action="store_true")
parser.add_argument("--only", action="append", choices=ROWS)
parser.add_argument("--build", action="store_true")
parser.add_argument("--json")
for hidden in ("--programs", "--nginx", "--scratch", "--package"):
    parser.add_argument(hidden, help=argparse.SUPPRESS)
parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
options = parser.parse_args()
rounds = options.rounds or (2 if options.quick else 5)
if rounds < 1:
    parser.error("--rounds wants a number from 1 up")
if options.check:
    sys.exit(0)

rows = options.only or ([] if options.build and options.quick else list(ROWS))
results = {}  # name of a measurement -> one dictionary per round
runs = []


def say(text):
    print(text, file=sys.stderr, flush=True)


def stop(reason):
    say(f"error: {reason}")
    sys.exit(1)


def program(name, *arguments):
    """Runs one of ours or a reference program, and returns what its line of JSON says."""
    command = [os.path.join(options.programs, name), *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        stop(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def curl(mode, *arguments):
    """Runs the program curl, measured from outside. Its peak memory is looked at while it runs: what wait4 says begins with what
    this process had before exec."""
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
    """Runs each once; every round begins with another one, so that none always comes first."""
    for offset in range(len(measurements)):
        name, measure = measurements[(turn + offset) % len(measurements)]
        take(name, turn, measure())


def run_cpu(turn):
    url, many, few = options.nginx + "/1k.bin", (20000, 64, 1000), (2000, 64, 200)
    if not options.quick:
        many, few = (100000, 64, 2000), (10000, 64, 500)
    in_turn(turn, [
        ("lat", lambda: program("lat-bench", "central", url, *many)),
        ("c multi", lambda: program("curlbench", "multi", url, *many)),
        ("go", lambda: program("gobench", "concurrent", url, *many)),
        ("urlsession", lambda: program("urlsession-bench", "concurrent", url, *few)),
        ("c multi-bare", lambda: program("curlbench", "multi-bare", url, *many)),
        ("c multi-poll", lambda: program("curlbench", "multi-poll", url, *many)),
    ])


def run_entity(turn):
    url, many = options.nginx + "/1k.json", (20000, 64, 1000) if options.quick else (100000, 64, 2000)
    in_turn(turn, [
        ("lat entity", lambda: program("lat-bench", "entity", url, *many)),
        ("c multi json", lambda: program("curlbench", "multi", url, *many)),
    ])


def run_latency(turn):
    url, count = options.nginx + "/1k.bin", (2000, 1, 200) if options.quick else (10000, 1, 500)
    in_turn(turn, [
        ("lat latency", lambda: program("lat-bench", "latency", url, *count)),
        ("c easy", lambda: program("curlbench", "easy", url, *count)),
        ("go latency", lambda: program("gobench", "latency", url, *count)),
        ("urlsession latency", lambda: program("urlsession-bench", "latency", url, *count)),
    ])


def scratch_folder():
    """A place for 1 GiB files, in memory when it has room, so that the disk is not what gets measured."""
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


def run_upload(turn):
    server = subprocess.Popen([os.path.join(options.programs, "sinkserver")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        with tempfile.TemporaryDirectory(prefix="lat-bench.", dir=scratch_folder()) as folder:
            path = os.path.join(folder, "1g.bin")
            # Written, not only stretched: reading holes costs less than reading a file.
            with open(path, "wb") as file:
                for _ in range(1 << 10):
                    file.write(bytes(1 << 20))
            in_turn(turn, [
                ("lat upload", lambda: program("lat-bench", "upload", url, 1, 1, 0, path)),
                ("curl -F", lambda: curl("upload", "-F", f"file=@{path}", url)),
            ])
    finally:
        server.stdin.close()
        server.wait()


def run_segments(turn):
    # nginx limits each connection, after a burst of what it allows for the first second.
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


def run_waiting(turn):
    count = 1000 if options.quick else 5000
    server = subprocess.Popen([os.path.join(options.programs, "stallserver")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        in_turn(turn, [
            ("lat waiting", lambda: program("lat-bench", "waiting", url, count, count, 0)),
            ("c waiting", lambda: program("curlbench", "waiting", url, count, count, 0)),
        ])
    finally:
        server.stdin.close()
        server.wait()


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
        ("lat stored stream", lambda: measure("cache-stream", 1, 1)),
    ])
    # To fill them takes long, and they hardly vary.
    if turn < 2:
        in_turn(turn, [
            ("lat disk hit of many", lambda: measure("cache-disk", count, many, 1000)),
            ("lat open of many", lambda: measure("cache-open", 20, many)),
        ])


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


def compare(what, ours, reference, field, limit):
    """Our median against somebody else's; the spread is that of the ratios within each round."""
    ratio = median(ours, field) / median(reference, field)
    pairs = [a[field] / b[field] for a, b in zip(results[ours], results[reference])]
    verdicts.append({
        "what": what, "ours": median(ours, field), "reference": median(reference, field), "ratio": ratio,
        "lowest": min(pairs), "highest": max(pairs), "limit": limit, "kept": ratio <= limit,
    })


def at_most(what, value, unit, limit):
    verdicts.append({"what": what, "ours": value, "unit": unit, "limit": limit, "kept": value <= limit})


for turn in range(rounds):
    say(f"round {turn + 1} of {rounds}" if rows else "")
    for row in rows:
        # Its numbers hardly vary, and it takes long.
        if row in ("waiting", "segments") and turn >= (3 if row == "waiting" else 2):
            continue
        globals()["run_" + row](turn)
if options.build:
    say("clean release build")
    take("build", 0, run_build())

if "cpu" in rows:
    for reference, limit in (("c multi", 1.2), ("go", 0.8), ("urlsession", 0.10)):
        compare(f"CPU per request, 64 in flight: ours / {reference}", "lat", reference, "cpu_us_per_request", limit)
if "entity" in rows:
    compare("entity with table, provider and JSON decoding: ours / c multi", "lat entity", "c multi json",
            "cpu_us_per_request", 2.0)
if "latency" in rows:
    compare("latency one at a time, median: ours / curl_easy_perform", "lat latency", "c easy", "p50_us", 1.5)
if "download" in rows:
    compare("1 GiB to a file, wall time: ours / curl -o", "lat download", "curl -o", "seconds", 1.1)
    at_most("1 GiB to a file, peak resident memory", median("lat download", "rss_peak_kb") / 1024, "MB", 40)
if "upload" in rows:
    compare("1 GiB multipart from a path, wall time: ours / curl -F", "lat upload", "curl -F", "seconds", 1.2)
    at_most("1 GiB multipart from a path, peak resident memory", median("lat upload", "rss_peak_kb") / 1024, "MB", 40)
if "segments" in rows:
    compare("200 MiB, each connection limited to 10 MB/s, wall time: 4 segments / 1", "lat 4 segments", "lat 1 segment",
            "seconds", 1 / 3.5)
if "waiting" in rows:
    at_most(f"{results['lat waiting'][0]['requests']:,.0f} waiting requests, resident memory each",
            median("lat waiting", "kb_per_request"), "KB", 60)
    share = statistics.median(r["cpu_seconds"] / r["seconds"] * 100 for r in results["lat waiting"])
    at_most("processor while they wait (the limit stands for none)", share, "%", 1)
if "store" in rows:
    for mode, limit in (("insert", 3), ("fetch", 3), ("scan", 4)):
        what = {"insert": "insert many", "fetch": "fetch by id", "scan": "scan of all"}[mode]
        compare(f"object store, {what}, CPU: ours / SQLite's C API", f"lat store {mode}", f"c sqlite {mode}",
                "cpu_us_per_request", limit)
if "cache" in rows:
    at_most("hit in the cache's memory, median", median("lat memory hit", "p50_us"), "µs", 10)
    at_most("hit on the cache's disk of 4 KiB, median", median("lat disk hit", "p50_us"), "µs", 100)
    many = f"{10000 if options.quick else 100000:,}"
    at_most(f"open of a cache of {many} entries with a first look-up", median("lat open of many", "p50_us") / 1000, "ms", 50)
    at_most(f"disk hit, {many} entries / 1,000", median("lat disk hit of many", "p50_us") / median("lat disk hit", "p50_us"),
            "", 1.5)
    at_most("100 MiB into the cache and out, peak resident memory", median("lat stored stream", "rss_peak_kb") / 1024,
            "MB", 40)
if options.build:
    at_most("clean release build of the library", results["build"][0]["seconds"], "s", 90)

print(f"\n{'measured, medians of ' + str(rounds) + ' rounds':30}{'CPU µs/req':>12}{'req/s':>10}{'p50 µs':>10}{'p99 µs':>10}"
      f"{'wall s':>9}{'peak MB':>9}{'KB/req':>8}")
for name in results:
    def cell(field, width, digits, scale=1.0):
        if not all(field in result for result in results[name]):
            return " " * width
        return f"{median(name, field) * scale:{width},.{digits}f}"
    single = results[name][0].get("requests", 1) == 1
    waiting = "kb_per_request" in results[name][0]
    print(f"{name:30}" + (" " * 22 if single or waiting else cell("cpu_us_per_request", 12, 1)
                          + cell("requests_per_second", 10, 0))
          + (" " * 20 if single else cell("p50_us", 10, 0) + cell("p99_us", 10, 0))
          + cell("seconds", 9, 2) + cell("rss_peak_kb", 9, 1, 1 / 1024) + cell("kb_per_request", 8, 1))

print(f"\n{'limit':70}{'ours':>10}{'at most':>10}  spread")
for verdict in verdicts:
    if "ratio" in verdict:
        value, limit = f"{verdict['ratio']:.3f}", f"{verdict['limit']:.2f}"
        spread = f"{verdict['lowest']:.3f} … {verdict['highest']:.3f}"
    else:
        value, limit = f"{verdict['ours']:.1f} {verdict['unit']}", f"{verdict['limit']} {verdict['unit']}"
        spread = ""
    mark = "kept  " if verdict["kept"] else "MISSED"
    print(f"{mark}  {verdict['what']:62}{value:>10}{limit:>10}  {spread}".rstrip())
missed = sum(not verdict["kept"] for verdict in verdicts)
print(f"\n{len(verdicts) - missed} limits kept, {missed} missed")

path = options.json or os.path.join(options.programs, "latest.json")
report = {
    "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    "quick": options.quick,
    "rounds": rounds,
    "machine": {
        "processors": os.cpu_count(), "kernel": platform.release(),
        "swift": version("swift", "--version"), "libcurl": version("curl", "--version"),
        "nginx": version("nginx", "-v"), "go": version("go", "version"),
    },
    "limits": verdicts,
    "medians": {
        name: {field: statistics.median(result[field] for result in all_rounds)
               for field, value in all_rounds[0].items() if isinstance(value, (int, float))}
        for name, all_rounds in results.items()
    },
    "runs": runs,
}
os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
with open(path, "w") as file:
    json.dump(report, file, indent=2)
    file.write("\n")
say(f"JSON: {path}")
