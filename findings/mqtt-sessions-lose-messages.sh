#!/usr/bin/env bash
# Guess:    a client of MQTT 5 with a client id, without a clean start and with a session that lasts an hour gets each message of
#           QoS 1 or 2 that was published while it was away, whatever ended it. What it has not handled comes again.
# Version:  aiomqtt 2.5.1, gmqtt 0.8.0, faststream 0.7.8 with zmqtt 0.2.5, paho-mqtt 2.2.0, from PyPI; mosquitto 2.0.11 (Debian 12).
# Found:    FastStream unsubscribes when it ends in order: what is published until it is back is lost, though it is kept when it
#           was killed. aiomqtt acknowledges what it has received, not what the loop has taken: when one message ends the loop with
#           an error, all others that had come are lost as well. gmqtt and FastStream acknowledge a message whose handler raises.
#           paho, whose exception ends the program, gets all of QoS 1 again, and none of QoS 2: the broker has its PUBREC, and the
#           new process completes messages that it has never seen.
# Seen:     never handled                        aiomqtt   gmqtt   FastStream   paho
#           3 published while it was killed      0         0       0            0
#           3 published after an ordered end     0         0       3            0
#           8 waiting, the first one fails       8         1       1            0 of QoS 1, 8 of QoS 2
# Matters:  each deployment of a service loses the commands or readings of the seconds that it takes, and a test that kills it shows
#           none of that. One bad message takes up to 20 good ones (what the broker sends ahead) with it, with "exactly once" too.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { (cd "$work" && apt-get download -q -o APT::Sandbox::User=root mosquitto libdlt2 \
    && for package in *.deb; do dpkg -x "$package" root; done) \
    && python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check aiomqtt==2.5.1 gmqtt==0.8.0 \
        'faststream[mqtt]==0.7.8' zmqtt==0.2.5 paho-mqtt==2.2.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

# client.py CLIENT PORT NAME QOS FAILS: prints what it has handled. The first message fails if FAILS is "yes".
cat > "$work/client.py" <<'PYTHON'
import asyncio, signal, sys, time

client, port, name, qos, fails = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5] == "yes"

def handle(message):
    if fails and message == "m0":
        raise ValueError("the message cannot be handled")
    print(message, flush=True)

async def handle_later(message):
    # The others of the session arrive meanwhile.
    await asyncio.sleep(0.5 if message == "m0" else 0)
    handle(message)

def ready():
    print("ready", flush=True)

def session():
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600
    return properties

def with_paho():
    import paho.mqtt.client as paho

    connection = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)

    def on_message(_client, _data, message):
        time.sleep(0.5 if message.payload == b"m0" else 0)
        handle(message.payload.decode())

    def on_connect(_client, _data, flags, _reason, _properties):
        # The messages of a session come before the SUBACK.
        if flags.session_present:
            ready()
        connection.subscribe(name, qos)

    connection.on_message, connection.on_connect = on_message, on_connect
    connection.on_subscribe = lambda *_: ready()
    connection.connect("127.0.0.1", port, clean_start=False, properties=session())
    signal.signal(signal.SIGTERM, lambda *_: connection.disconnect())
    connection.loop_forever()

async def with_aiomqtt():
    import aiomqtt

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    async with aiomqtt.Client(
        "127.0.0.1", port, identifier=name, protocol=aiomqtt.ProtocolVersion.V5, clean_start=False, properties=session(),
    ) as connection:
        await connection.subscribe(name, qos)
        ready()
        async for message in connection.messages:
            await handle_later(message.payload.decode())

async def with_gmqtt():
    import gmqtt

    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    connection = gmqtt.Client(name, clean_session=False, session_expiry_interval=3600)

    async def on_message(_client, _topic, payload, _qos, _properties):
        await handle_later(payload.decode())
        return 0

    connection.on_message = on_message
    connection.on_subscribe = lambda *_: ready()
    await connection.connect("127.0.0.1", port)
    connection.subscribe(name, qos)
    await end.wait()
    await connection.disconnect()

async def with_faststream():
    import faststream, faststream.mqtt, zmqtt

    broker = faststream.mqtt.MQTTBroker(
        host="127.0.0.1", port=port, client_id=name, version="5.0", clean_session=False, session_expiry_interval=3600,
        logger=None)

    @broker.subscriber(name, qos=zmqtt.QoS(qos))
    async def on_message(body: bytes):
        await handle_later(bytes(body).decode())

    application = faststream.FastStream(broker, logger=None)
    application.after_startup(ready)
    await application.run()

if client == "paho":
    with_paho()
else:
    try:
        asyncio.run({"aiomqtt": with_aiomqtt, "gmqtt": with_gmqtt, "faststream": with_faststream}[client]())
    except asyncio.CancelledError:
        pass
PYTHON

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import os, signal, socket, subprocess, sys, threading, time

import paho.mqtt.client as paho

work = sys.argv[1]
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with open(f"{work}/mosquitto.conf", "w") as file:
    file.write(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n")
broker = subprocess.Popen(
    [f"{work}/root/usr/sbin/mosquitto", "-c", f"{work}/mosquitto.conf"], stderr=subprocess.DEVNULL,
    env={**os.environ, "LD_LIBRARY_PATH": f"{work}/root/usr/lib/x86_64-linux-gnu"})
started = []
three, eight = ([f"m{number}" for number in range(count)] for count in (3, 8))

def cannot(what):
    print(what, file=sys.stderr)
    sys.exit(2)

def publish(topic, messages):
    connection = paho.Client(paho.CallbackAPIVersion.VERSION2)
    connection.connect("127.0.0.1", port)
    connection.loop_start()
    for message in messages:
        connection.publish(topic, message, qos=2).wait_for_publish(20)
    connection.disconnect()
    connection.loop_stop()

class Client:
    def __init__(self, client, topic, qos, fails=False):
        self.lines, self.new = [], threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", f"{work}/client.py", client, str(port), topic, str(qos), "yes" if fails else "no"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(self.process)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.wait_for("ready")

    def read(self):
        for line in self.process.stdout:
            with self.new:
                self.lines.append(line.strip())
                self.new.notify()

    def wait_for(self, line):
        with self.new:
            if not self.new.wait_for(lambda: line in self.lines, 30):
                cannot(f"{line} did not come")

    def end(self, with_signal):
        self.process.send_signal(with_signal)
        self.process.wait(30)
        self.reader.join(30)
        return set(self.lines) - {"ready", "end"}

def last(client, topic, qos):
    """Starts the client again. The message "end" is the last one."""
    again = Client(client, topic, qos)
    publish(topic, ["end"])
    again.wait_for("end")
    # Of gmqtt, each message has a task: the failing one's neighbours have ended half a second later.
    time.sleep(0.7)
    return again.end(signal.SIGKILL)

def away(client, topic, qos, with_signal):
    Client(client, topic, qos).end(with_signal)
    publish(topic, three)
    return len(set(three) - last(client, topic, qos))

def failing(client, topic, qos):
    Client(client, topic, qos).end(signal.SIGKILL)
    publish(topic, eight)
    first = Client(client, topic, qos, fails=True)
    deadline = time.monotonic() + 30
    while first.process.poll() is None and eight[-1] not in first.lines:
        if time.monotonic() > deadline:
            cannot("the messages did not come")
        time.sleep(0.05)
    if first.process.poll() is None:
        time.sleep(0.7)
    handled = first.end(signal.SIGKILL) if first.process.poll() is None else set(first.lines)
    return len(set(eight) - handled - last(client, topic, qos))

found = {}
try:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline or broker.poll() is not None:
                cannot("the broker did not start")
            time.sleep(0.05)
    for client in ("aiomqtt", "gmqtt", "faststream", "paho"):
        for qos in (1, 2):
            found[client, qos] = (
                away(client, f"{client}{qos}killed", qos, signal.SIGKILL),
                away(client, f"{client}{qos}ended", qos, signal.SIGTERM),
                failing(client, f"{client}{qos}failing", qos),
            )
            print(f"{client:11} QoS {qos} never handled: {found[client, qos][0]} of 3 after a kill,",
                  f"{found[client, qos][1]} of 3 after an end, {found[client, qos][2]} of 8 when the first fails", flush=True)
finally:
    for process in (*started, broker):
        process.kill()
        process.wait()
expected = {
    ("aiomqtt", 1): (0, 0, 8), ("aiomqtt", 2): (0, 0, 8), ("paho", 1): (0, 0, 0), ("paho", 2): (0, 0, 8),
    ("gmqtt", 1): (0, 0, 1), ("gmqtt", 2): (0, 0, 1), ("faststream", 1): (0, 3, 1), ("faststream", 2): (0, 3, 1),
}
as_found = found == expected
print("as found: sessions lose messages" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
