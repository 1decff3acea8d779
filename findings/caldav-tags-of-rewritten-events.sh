#!/usr/bin/env bash
# Guess:    a calendar server that stores an event otherwise than it was sent answers the PUT without an ETag: the strong tag
#           "MUST NOT be returned" then (RFC 4791 §5.3.4, RFC 9110 §9.3.4). With the tag, the client's own copy is the stored one.
# Version:  Radicale 3.9.0 with vobject 0.9.9, and xandikos 0.4.10 with icalendar 7.3.2, both from PyPI.
# Found:    both sort the lines of an event, fold them elsewhere, and give the tag of that with the PUT: GET brings other bytes
#           under the tag. Radicale also answers If-None-Match always by 200, and a list in If-Match that has the right tag by 412.
# Seen:                                              Radicale              xandikos
#           PUT                                      201, ETag             201, ETag
#           GET                                      other bytes           other bytes
#           GET, If-None-Match: the tag              200                   304
#           PUT, If-Match: another tag               412                   412
#           PUT, If-Match: another, the tag          412                   204
# Matters:  a client that keeps its copy with the tag, as the RFC lets it, never fetches the server's, and a digest or signature
#           over the event fails for everybody else. A client that may have seen one of two versions cannot write to Radicale.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    radicale==3.9.0 vobject==0.9.9 xandikos==0.4.10 icalendar==7.3.2; } >&2; then
    echo "the servers could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import base64, http.client, importlib.metadata, os, socket, subprocess, sys, time

work = sys.argv[1]
environment = {**os.environ, "HOME": work}
event = "\r\n".join([
    "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//shop//orders//EN", "BEGIN:VEVENT", "UID:order-1",
    "DTSTAMP:20260101T000000Z", "DTSTART:20260102T100000Z", "SUMMARY:Delivery", "X-SHOP;KIND=parcel:1",
    "DESCRIPTION:one two three four five six seven eight nine ten eleven", "  twelve", "END:VEVENT", "END:VCALENDAR", "",
]).encode()
programs = {
    "Radicale": ("/user/orders/", lambda port: [
        "radicale", "--config", "", "--storage-filesystem-folder", f"{work}/radicale", "--server-hosts", f"127.0.0.1:{port}",
        "--auth-type", "none",
    ]),
    "xandikos": ("/user/calendars/calendar/", lambda port: [
        "xandikos", "serve", "-d", f"{work}/xandikos", "-l", "127.0.0.1", "-p", str(port), "--defaults",
        "--current-user-principal", "/user/",
    ]),
}

def look_at(name):
    calendar, command = programs[name]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.mkdir(f"{work}/{name.lower()}")
    program, *options = command(port)
    server = subprocess.Popen(
        [f"{work}/venv/bin/{program}", *options], env=environment, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )

    def call(method, path, body=None, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        headers = {"Content-Type": "text/calendar", "Authorization": "Basic " + base64.b64encode(b"user:any").decode()}
        headers |= {field.replace("_", "-"): value for field, value in fields.items()}
        connection.request(method, calendar + path, body, headers)
        response = connection.getresponse()
        received = response.read()
        connection.close()
        return response.status, response.headers["ETag"], received

    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    print(name, "did not start", file=sys.stderr)
                    sys.exit(2)
                time.sleep(0.05)
        if name == "Radicale":  # xandikos has made one
            call("MKCALENDAR", "")
        status, tag, _ = call("PUT", "1.ics", event)
        got, same, stored = call("GET", "1.ics")
        fresh = call("GET", "1.ics", If_None_Match=tag)[0]
        other = call("PUT", "1.ics", event, If_Match='"another"')[0]
        listed = call("PUT", "1.ics", event, If_Match=f'"another", {tag}')[0]
    finally:
        server.terminate()
        server.wait()
    print(name, "-> PUT", status, tag, "  GET", got, "the same tag" if tag == same else same,
          "the same bytes" if stored == event else "other bytes", "  If-None-Match", fresh, "  If-Match", other, "list", listed)
    print(*(f"    {line}" for line in stored.decode().splitlines()), sep="\n")
    lines = sorted(stored.replace(b"\r\n ", b"").splitlines()) == sorted(event.replace(b"\r\n ", b"").splitlines())
    return status, got, tag is not None and tag == same and not tag.startswith("W/"), stored == event, lines, fresh, other, listed

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("radicale", "xandikos", "vobject", "icalendar")))
seen = {name: look_at(name) for name in programs}
as_found = seen == {
    "Radicale": (201, 200, True, False, True, 200, 412, 412),
    "xandikos": (201, 200, True, False, True, 304, 412, 204),
}
print("as found: the tag is for other bytes" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
