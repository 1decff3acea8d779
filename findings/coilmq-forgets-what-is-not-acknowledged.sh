#!/usr/bin/env bash
# Guess:    a STOMP broker that speaks 1.1 keeps a message until it is acknowledged, with ack:client-individual as with
#           ack:client: a consumer that goes away before that leaves it to the next one. UNSUBSCRIBE needs only the id.
# Version:  CoilMQ 1.1.0 (October 2026), stomp.py 9.0.0 with STOMP 1.1; PyPI.
# Found:    CoilMQ knows only ack:client; client-individual is taken for auto, without an error: what the consumer has not
#           acknowledged when it goes away is gone. UNSUBSCRIBE with the id alone, as the specification has it, is an ERROR and
#           the subscription stays; NACK is an ERROR as well.
# Seen:     three messages, the consumer gets them and goes away without ACK; a second one subscribes
#           ack:client-individual    the first got 0, 1, 2    the second gets nothing
#           ack:client               the first got 0          the second gets 0, 1, 2
#           UNSUBSCRIBE id:1         ERROR, and a message that is sent after that arrives all the same
# Matters:  client-individual is what stomp.py's users choose for work that takes time: all jobs in the hands of a worker that
#           dies are lost, though the broker has confirmed the subscription as asked.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    coilmq==1.1.0 stomp.py==9.0.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import logging, socket, subprocess, sys, time
import stomp

work = sys.argv[1]
logging.disable(logging.CRITICAL)
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
broker = subprocess.Popen(
    [f"{work}/venv/bin/coilmq", "-b", "127.0.0.1", "-p", str(port)], cwd=work,
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)

class Notes(stomp.ConnectionListener):
    def __init__(self):
        self.bodies, self.errors, self.receipts = [], [], []

    def on_message(self, frame):
        self.bodies.append(frame.body)

    def on_error(self, frame):
        self.errors.append(frame.headers.get("message"))

    def on_receipt(self, frame):
        self.receipts.append(frame.headers["receipt-id"])

def connect():
    connection = stomp.Connection11([("127.0.0.1", port)])
    notes = Notes()
    connection.set_listener("notes", notes)
    connection.connect(wait=True)
    return connection, notes

def settle(connection, notes):
    """Waits until the broker has done what came before, and what it sends has arrived."""
    connection.send("/queue/other", "x", receipt="done")
    deadline = time.monotonic() + 10
    while "done" not in notes.receipts and time.monotonic() < deadline:
        time.sleep(0.02)
    notes.receipts.clear()
    time.sleep(0.5)

def lose_a_consumer(ack):
    queue = f"/queue/{ack}"
    first, seen_first = connect()
    first.subscribe(queue, id="1", ack=ack)
    for number in range(3):
        first.send(queue, str(number))
    settle(first, seen_first)
    first.disconnect()
    time.sleep(0.5)
    second, seen_second = connect()
    second.subscribe(queue, id="1", ack="auto")
    settle(second, seen_second)
    second.disconnect()
    return seen_first.bodies, sorted(seen_second.bodies)

def unsubscribe():
    connection, notes = connect()
    connection.subscribe("/queue/left", id="1", ack="auto")
    connection.unsubscribe(id="1")
    settle(connection, notes)
    connection.send("/queue/left", "late")
    settle(connection, notes)
    connection.nack("1", "1")
    settle(connection, notes)
    connection.disconnect()
    return notes.bodies, len(notes.errors)

try:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline or broker.poll() is not None:
                print("the broker did not start", file=sys.stderr)
                sys.exit(2)
            time.sleep(0.05)
    seen = {ack: lose_a_consumer(ack) for ack in ("client-individual", "client")}
    left = unsubscribe()
finally:
    broker.terminate()
    broker.wait()
for ack, (first, second) in seen.items():
    print(f"ack:{ack:18} the first consumer got {first}, the second {second}")
print(f"after UNSUBSCRIBE by id: {left[0]}; {left[1]} ERROR frames with that of NACK")
as_found = seen == {"client-individual": (["0", "1", "2"], []), "client": (["0"], ["0", "1", "2"])} and left == (["late"], 2)
print("as found: what is not acknowledged is lost" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
