#!/usr/bin/env bash
# Guess:    a queue in a file is there for what must not get lost. A job that a worker had begun when it was killed (out of memory,
#           power) is done again by the next worker: that is what late acknowledgement, retries and locks are for. While its
#           worker lives, no other one gets it.
# Version:  Celery 5.7.0 with Kombu 5.7.0 and SQLAlchemy 2.1.9, huey 3.5.4, litequeue 0.9, persist-queue 1.1.0; PyPI.
# Found:    Celery with SQLite or a folder as the broker loses the job, with task_acks_late and task_reject_on_worker_lost too; huey
#           with retries=3 as well. litequeue gives it to nobody, and counts it in qsize() for ever. persist-queue gives it
#           again, but to each process that opens the file: also while the first one is at work on it.
# Seen:     two jobs; the worker is killed (SIGKILL) when it has begun the first; then a second worker
#           Celery, sqla+sqlite        the second job only
#           Celery, filesystem         the second job only
#           huey, SqliteHuey           the second job only
#           litequeue                  the second job only; qsize() is 1, pop() gives None
#           persist-queue, ack queue   both; and the first one twice when nobody was killed and another process opened the file
# Matters:  an upload or webhook that waits in such a queue for the network is gone with the process that had it in hand, or sent
#           twice by two that run side by side, and no log and no size of a queue tells.
# Everything is in a temporary folder with a venv of its own. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    celery==5.7.0 kombu==5.7.0 sqlalchemy==2.1.9 huey==3.5.4 litequeue==0.9 persist-queue==1.1.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/jobs.py" <<'PYTHON'
"""What a job is: the first worker has all the time, the next one ends it at once."""
import os, time

def do(name):
    log("begun", name)
    time.sleep(60 if os.environ["WORKER"] == "first" else 0)
    log("ended", name)

def log(what, name):
    with open(os.environ["LOG"], "a") as file:
        file.write(f"{what} {name}\n")
PYTHON
cat > "$work/with_celery.py" <<'PYTHON'
import os
import jobs
from celery import Celery

app = Celery("with_celery", broker=os.environ["BROKER"])
app.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1,
    broker_transport_options={name: "folder" for name in ("data_folder_in", "data_folder_out", "control_folder")}
    if os.environ["BROKER"] == "filesystem://" else {},
)
job = app.task(jobs.do, name="do")
PYTHON
cat > "$work/with_huey.py" <<'PYTHON'
import jobs
from huey import SqliteHuey

huey = SqliteHuey(filename="huey.db")
job = huey.task(retries=3, retry_delay=0)(jobs.do)
PYTHON
cat > "$work/with_litequeue.py" <<'PYTHON'
import jobs
from litequeue import LiteQueue

queue = LiteQueue("litequeue.db")

def work():
    while message := queue.pop():
        jobs.do(message.data)
        queue.done(message.message_id)
    jobs.log("left", queue.qsize())
PYTHON
cat > "$work/with_persistqueue.py" <<'PYTHON'
import jobs, persistqueue

queue = persistqueue.SQLiteAckQueue("persistqueue")

def work():
    while True:
        try:
            name = queue.get(block=False)
        except persistqueue.Empty:
            jobs.log("left", queue.size)
            return
        jobs.do(name)
        queue.ack(name)
PYTHON

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import os, signal, subprocess, sys, time

work = sys.argv[1]
programs = f"{work}/venv/bin"
os.mkdir(f"{work}/folder")
celery = [f"{programs}/celery", "-A", "with_celery", "worker", "-P", "solo", "--without-gossip", "--without-mingle"]

def python(code):
    return [f"{programs}/python", "-W", "ignore", "-c", code]

queues = {
    "Celery, sqla+sqlite": ("from with_celery import job; job.delay('a'); job.delay('b')", celery, "sqla+sqlite:///celery.db"),
    "Celery, filesystem": ("from with_celery import job; job.delay('a'); job.delay('b')", celery, "filesystem://"),
    "huey": ("from with_huey import job; job('a'); job('b')", [f"{programs}/huey_consumer", "with_huey.huey"], ""),
    "litequeue": (
        "from with_litequeue import queue; queue.put('a'); queue.put('b')", python("import with_litequeue; with_litequeue.work()"), "",
    ),
    "persist-queue": (
        "from with_persistqueue import queue; queue.put('a'); queue.put('b')",
        python("import with_persistqueue; with_persistqueue.work()"), "",
    ),
}

def lines(log):
    return open(log).read().split("\n") if os.path.exists(log) else []

def wait_for(log, word, count, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if sum(line.startswith(word) for line in lines(log)) >= count:
            return True
        time.sleep(0.05)
    return False

def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()

def run(name, killed):
    """The job that the first worker had begun, and the words of the log after that."""
    put, command, broker = queues[name]
    log = f"{work}/log of {name} {killed}"
    environment = {**os.environ, "PYTHONPATH": work, "BROKER": broker, "LOG": log}
    quiet = {"cwd": work, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    subprocess.run(python(put), check=True, env={**environment, "WORKER": "none"}, **quiet)
    first = subprocess.Popen(command, env={**environment, "WORKER": "first"}, **quiet)
    if not wait_for(log, "begun", 1, 40):
        kill(first)
        print("a worker did not begin", file=sys.stderr)
        sys.exit(2)
    if killed:
        kill(first)
    in_hand = lines(log)[0].split()[1]
    second = subprocess.Popen(command, env={**environment, "WORKER": "second"}, **quiet)
    wait_for(log, "ended", 1, 40)
    wait_for(log, "left", 1, 6)
    kill(second)
    if not killed:
        kill(first)
    after = [line.split() for line in lines(log)[1:] if line]
    ended = ["first" if job == in_hand else "second" for word, job in after if word == "ended"]
    return sorted(ended), [int(count) for word, count in after if word == "left"]

seen = {name: run(name, True) for name in queues}
for name, (ended, left) in seen.items():
    print(f"{name:20} after the kill ended: {', '.join(ended)}", f"(size {left[0]})" if left else "")
beside = run("persist-queue", False)
print("persist-queue, both alive: the second worker ended", ", ".join(beside[0]))
lost = ["second"], []
as_found = seen == {
    "Celery, sqla+sqlite": lost, "Celery, filesystem": lost, "huey": lost, "litequeue": (["second"], [1]),
    "persist-queue": (["first", "second"], [0]),
} and beside[0] == ["first", "second"]
print("as found: lost, stuck or twice" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
