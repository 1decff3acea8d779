"""Measures what an OpenAPI document costs: the import by lat, and a debug build of the Swift that it makes.

    python3 -B bench_openapi.py PACKAGE LAT DOCUMENT...

For each document all operations, and the first twenty. The library is built before, so a build is that of the generated files,
in a package of a user. Memory is that of the largest process of the build; CPU is that of all its processes, which on a busy
machine says more than the seconds. Exits with 1 when a build fails or a limit is missed.
The limits are those of the largest document that they were set for, discord.json: 2 s, 60 s and 1.5 GB; 10 s for twenty.
"""

import json, os, pathlib, re, resource, shutil, subprocess, sys, tempfile, time

MANIFEST = """// swift-tools-version: 6.0
import PackageDescription
let package = Package(
    name: "Generated", dependencies: [.package(name: "LATNetworking", path: "%s")],
    targets: [.target(name: "Generated", dependencies: [.product(name: "LATNetworking", package: "LATNetworking")])])
"""


def run(*command, folder):
    # A process of its own, so that the largest child is one of this command.
    child = "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]); " \
        "u = resource.getrusage(resource.RUSAGE_CHILDREN); " \
        "print(u.ru_utime + u.ru_stime, u.ru_maxrss, file=sys.stderr); sys.exit(r.returncode)"
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", child, *command], cwd=folder, capture_output=True, text=True)
    seconds = time.monotonic() - start
    cpu, memory = done.stderr.split()[-2:]
    return done.returncode, done.stdout, done.stderr, seconds, float(cpu), int(memory) / 1024


def sources(folder):
    return list(pathlib.Path(folder, "Sources/Generated").rglob("*.swift"))


def main(package, lat, *documents):
    missed = False
    rows = []
    scratch = os.path.join(package, ".build", "bench-openapi")
    for document in documents:
        document = os.path.abspath(document)
        name = os.path.basename(document)
        listed = subprocess.run([lat, "openapi", "import", document], capture_output=True, text=True, check=True)
        operations = list(dict.fromkeys(re.findall(r"^  (.+)$", listed.stdout, re.M)))
        for choice in ("all", "20"):
            folder = tempfile.mkdtemp()
            try:
                pathlib.Path(folder, "Sources/Generated").mkdir(parents=True)
                pathlib.Path(folder, "Package.swift").write_text(MANIFEST % package)
                empty = pathlib.Path(folder, "Sources/Generated/Empty.swift")
                empty.write_text("import LATNetworking\n")
                build = ["swift", "build", "--scratch-path", scratch, "-Xswiftc", "-warnings-as-errors"]
                code, out, err, _, _, _ = run(*build, folder=folder)
                if code != 0:
                    sys.exit(f"the library did not build:\n{out}{err}")
                # A document without operationIds has `GET /path`, which a list with commas can name too.
                words = ["--all"] if choice == "all" else ["--operations", ",".join(operations[:20])]
                code, out, err, imported, _, _ = run(
                    lat, "openapi", "import", document, *words, "--to", "Sources/Generated", "--domain", "api", folder=folder)
                if code != 0:
                    sys.exit(f"{name} could not be imported:\n{out}{err}")
                calls, vague = re.search(r"(\d+) calls?(?:, (\d+) with a JSONValue)?", out).groups()
                lines = sum(len(path.read_text().splitlines()) for path in sources(folder))
                code, out, err, compiled, cpu, memory = run(*build, folder=folder)
                if code != 0:
                    missed = True
                    print(f"{name}: the generated Swift does not compile:\n{out[-3000:]}{err[-1000:]}")
                limit = 60 if choice == "all" else 10
                missed = missed or imported > 2 or compiled > limit or memory > 1536
                rows.append((name, calls, vague or "0", lines, imported, compiled, cpu, memory))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    print(f"{'document':22}{'calls':>7}{'vague':>7}{'lines':>8}{'a call':>8}{'import s':>10}{'build s':>9}{'CPU s':>7}{'peak MB':>9}")
    for name, calls, vague, lines, imported, compiled, cpu, memory in rows:
        print(f"{name:22}{calls:>7}{vague:>7}{lines:>8}{lines / max(int(calls), 1):>8.1f}{imported:>10.2f}"
              f"{compiled:>9.1f}{cpu:>7.1f}{memory:>9.0f}")
    names = ("document", "calls", "vague", "lines", "import", "build", "cpu", "peak")
    print(json.dumps([dict(zip(names, row)) for row in rows]))
    sys.exit(1 if missed else 0)


main(*sys.argv[1:])
