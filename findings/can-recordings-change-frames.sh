#!/usr/bin/env bash
# Guess:    a recording of a CAN bus has all of its frames: what the logger has written is what its reader gives back and the player
#           sends, in each of the formats, or the logger refuses a frame that the format cannot hold.
# Version:  python-can 4.6.1, from PyPI.
# Found:    only BLF does that. SQLite and CSV lose that a frame is CAN FD, was sent, and its channel: the reader gives 64 bytes
#           as a classic frame, and one bus for all. ASC reads an FD frame without data as a remote frame. The format of candump loses
#           the length that a remote frame asks for. TRC leaves FD, remote and error frames out, and gives channel 1 as 2.
# Seen:     ten frames on the channels 1 and 2
#           BLF           as they were
#           ASC           FD without data: a remote frame    error: without id and data
#           candump .log  remote of length 4: 0              error: without id and data      channels "can1", "can2"
#           CSV, SQLite   FD: classic with 64 bytes          sent: received                  channel None
#           TRC           5 frames of 10                                                     channels 2, 3
# Matters:  a test bench that plays a recording sends other frames than the car did: an answer is asked for that nobody asked for, or
#           the replay on two buses goes to one. Nothing fails; TRC has a warning in the log.
# Everything is in a temporary folder with a venv of its own, without a network. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check python-can==4.6.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

HOME="$work" "$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import logging, sys

import can

logging.disable()

def frame(**values):
    return can.Message(**({"arbitration_id": 0x123, "is_extended_id": False, "channel": 1, "data": [5]} | values))

frames = {
    "plain": frame(), "low extended id": frame(is_extended_id=True), "empty": frame(data=[]), "channel 2": frame(channel=2),
    "sent": frame(is_rx=False), "remote": frame(is_remote_frame=True, data=None, dlc=4),
    "error": frame(is_error_frame=True, data=[1] * 8), "fd": frame(is_fd=True, bitrate_switch=True, data=range(64)),
    "fd esi": frame(is_fd=True, error_state_indicator=True), "fd empty": frame(is_fd=True, data=[]),
}
for number, message in enumerate(frames.values()):
    message.timestamp = 1780000000 + number
fields = (
    "arbitration_id", "is_extended_id", "is_remote_frame", "is_error_frame", "is_fd", "is_rx", "bitrate_switch",
    "error_state_indicator", "dlc", "data", "channel",
)
found = {}
for suffix in ("blf", "asc", "log", "csv", "db", "trc"):
    path = f"{sys.argv[1]}/recording.{suffix}"
    with can.Logger(path) as logger:
        for message in frames.values():
            logger(message)
    with can.LogReader(path) as reader:
        read = list(reader)
    if len(read) != len(frames):
        found[suffix] = {"frames": len(read), "channels": sorted({message.channel for message in read})}
    else:
        found[suffix] = {}
        for (name, message), other in zip(frames.items(), read):
            changed = {field: getattr(other, field) for field in fields if getattr(other, field) != getattr(message, field)}
            if changed:
                found[suffix][name] = changed
    print(suffix)
    for name, changed in found[suffix].items():
        print(f"    {name:16}{changed}")

def of(suffix, name):
    return {field: value for field, value in found[suffix].get(name, {}).items() if field != "channel"}

channels = {suffix: [entry.get("channel", "as it was") for entry in found[suffix].values()] for suffix in ("log", "csv", "db")}
no_error = {"arbitration_id": 0, "is_extended_id": True, "dlc": 0, "data": bytearray()}
classic = {
    "sent": {"is_rx": True}, "fd": {"is_fd": False, "bitrate_switch": False}, "fd empty": {"is_fd": False},
    "fd esi": {"is_fd": False, "error_state_indicator": False},
}
as_found = (
    found["blf"] == {} and found["asc"] == {"error": no_error, "fd empty": {"is_remote_frame": True}}
    and of("log", "remote") == {"dlc": 0} and of("log", "error") == no_error
    and channels["log"] == ["can1"] * 3 + ["can2"] + ["can1"] * 2 + [None] + ["can1"] * 3
    and all(channels[suffix] == [None] * 10 for suffix in ("csv", "db"))
    and all(of(suffix, name) == classic.get(name, {}) for suffix in ("csv", "db") for name in frames)
    and found["trc"] == {"frames": 5, "channels": [2, 3]}
)
print("as found: frames change" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
