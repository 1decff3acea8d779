#!/usr/bin/env bash
# Guess:    when a Modbus device answers later than the timeout, the client drops the late answer: Modbus TCP has a transaction id in
#           each message for that. The next read gets its own value, or an error.
# Version:  async-modbus 0.2.3, umodbus 1.0.4, pymodbus 3.16.1, pyModbusTCP 0.3.1, modbus-tk 1.1.5 and minimalmodbus 2.1.1, from
#           PyPI, against a device on a TCP socket; pymodbus, async-modbus and minimalmodbus also with RTU frames on it.
# Found:    umodbus and async-modbus do not compare the id: after one late answer each read gives the value of the read before, and
#           says nothing, for as long as the connection lasts. pymodbus does so with RTU frames, which have no id, for one or two reads.
#           minimalmodbus empties its buffer first, the others compare the id or open a new connection.
# Seen:     registers 0, 10, 20, 30 hold 1000, 1010, 1020, 1030; the first answer comes 0.3 s after the timeout
#           umodbus, async-modbus (TCP; RTU as well)   timeout, 1000, 1010, 1020
#           pymodbus (RTU over TCP, retries=0)         timeout, 1000, 1010 or 1020, 1030
#           pymodbus, pyModbusTCP, modbus-tk (TCP)     timeout, 1010, 1020, 1030
#           minimalmodbus (RTU over TCP)               timeout, 1010, 1020, 1030
# Matters:  a meter that was busy for a second is read wrong from then on: the voltage is the temperature, each value is plausible,
#           and a controller that acts on one acts on the other.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check async-modbus==0.2.3 \
    umodbus==1.0.4 pymodbus==3.16.1 pyModbusTCP==0.3.1 modbus-tk==1.1.5 minimalmodbus==2.1.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import asyncio, logging, socket, struct, sys, threading, time

logging.disable()
import async_modbus, minimalmodbus, modbus_tk.modbus_tcp, pymodbus, pymodbus.client, pyModbusTCP.client, serial, umodbus.client.tcp

timeout, late = 0.6, 0.3

def checksum(data):
    value = 0xFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ 0xA001 if value & 1 else value >> 1
    return struct.pack("<H", value)

class Device:
    """Register n holds 1000 + n. The first answer is late, and all come in order."""

    def __init__(self, rtu):
        self.rtu, self.asked = rtu, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            try:
                self.answer(connection)
            except OSError:
                pass

    def answer(self, connection):
        size = 8 if self.rtu else 12
        while len(request := connection.recv(size, socket.MSG_WAITALL)) == size:
            unit, function, register, _ = struct.unpack(">BBHH", request[:6] if self.rtu else request[6:])
            self.asked.append(register)
            if len(self.asked) == 1:
                time.sleep(timeout + late)
            data = struct.pack(">BBBH", unit, function, 2, 1000 + register)
            connection.sendall(data + checksum(data) if self.rtu else request[:4] + struct.pack(">H", len(data)) + data)

def of_pymodbus(device):
    framer = pymodbus.FramerType.RTU if device.rtu else pymodbus.FramerType.SOCKET
    client = pymodbus.client.ModbusTcpClient("127.0.0.1", port=device.port, timeout=timeout, retries=0, framer=framer)
    client.connect()
    return lambda register: client.read_holding_registers(register, count=1).registers[0]

def of_pymodbustcp(device):
    client = pyModbusTCP.client.ModbusClient("127.0.0.1", device.port, timeout=timeout)
    return lambda register: client.read_holding_registers(register, 1)[0]

def of_modbus_tk(device):
    client = modbus_tk.modbus_tcp.TcpMaster("127.0.0.1", device.port, timeout_in_sec=timeout)
    return lambda register: client.execute(1, 3, register, 1)[0]

def of_umodbus(device):
    connection = socket.create_connection(("127.0.0.1", device.port), timeout)
    tcp = umodbus.client.tcp
    return lambda register: tcp.send_message(tcp.read_holding_registers(1, register, 1), connection)[0]

loop = asyncio.new_event_loop()

def of_async_modbus(device):
    connection = loop.run_until_complete(asyncio.open_connection("127.0.0.1", device.port))
    client = async_modbus.AsyncRTUClient(connection) if device.rtu else async_modbus.AsyncTCPClient(connection)

    async def read(register):
        return int((await asyncio.wait_for(client.read_holding_registers(1, register, 1), timeout))[0])

    return lambda register: loop.run_until_complete(read(register))

def of_minimalmodbus(device):
    instrument = minimalmodbus.Instrument(serial.serial_for_url(f"socket://127.0.0.1:{device.port}", timeout=timeout), 1)
    return instrument.read_register

found = {}
for client, rtu in (
    (of_umodbus, False), (of_async_modbus, False), (of_async_modbus, True), (of_pymodbus, False), (of_pymodbus, True),
    (of_pymodbustcp, False), (of_modbus_tk, False), (of_minimalmodbus, True),
):
    device = Device(rtu)
    read, values = client(device), []
    for register in (0, 10, 20, 30):
        try:
            values.append(read(register))
        except Exception as error:
            values.append("error")
            message = f"{type(error).__name__}"
        # The late answer is there before the next read begins.
        time.sleep(2 * late)
    name = client.__name__[3:], "RTU" if rtu else "TCP"
    found[name] = values
    print(f"{name[0]:13} {name[1]} {values} ({message})", flush=True)
    if device.asked != [0, 10, 20, 30]:
        print("the reads were others", device.asked, file=sys.stderr)
        sys.exit(2)
right, shifted = ["error", 1010, 1020, 1030], ["error", 1000, 1010, 1020]
# How soon pymodbus finds its way again with RTU frames depends on the time.
found["pymodbus", "RTU"] = found["pymodbus", "RTU"][:2]
as_found = found == {
    ("umodbus", "TCP"): shifted, ("async_modbus", "TCP"): shifted, ("async_modbus", "RTU"): shifted,
    ("pymodbus", "TCP"): right, ("pymodbus", "RTU"): shifted[:2], ("pymodbustcp", "TCP"): right, ("modbus_tk", "TCP"): right,
    ("minimalmodbus", "RTU"): right,
}
print("as found: the values of the register before" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
