#!/usr/bin/env bash
# Guess:    a reader that asks for the bytes from 1,000,000 on and gets 200 with the whole file, as it may from any server (RFC 9110
#           §14.2), skips what is before them, or raises an error. When it continues a read that was cut off, likewise.
# Version:  opendal 0.47.12 (Apache OpenDAL), services http and webdav; beside it fsspec 2026.9.0, obstore 0.12.1, smart_open 9.0.2,
#           remfile 0.1.15 and httpio 0.3.0; PyPI. The server is `python -m http.server`, which knows no ranges.
# Found:    opendal takes the 200 for the part: seek() and read(offset=…) give the beginning of the file. With its RetryLayer a read
#           that was cut off goes on with the whole file behind the first half, and is a success. The others raise an error.
# Seen:     a file of 3,000,000 bytes; 100 bytes at 1,000,000
#           opendal, seek and read                        the first 100 bytes of the file
#           opendal, read(offset=1000000)                 3,000,000 bytes, from the first one on
#           opendal, read(), cut off once after half      4,500,000 bytes: half of the file, then all of it
#           fsspec, obstore, smart_open, remfile, httpio  an error
# Matters:  wrong bytes without an error, of the right number with seek(): an index or a table at an offset is read from somewhere
#           else. Only a read with an end (offset and size) is refused.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    opendal==0.47.12 fsspec==2026.9.0 aiohttp==3.14.5 obstore==0.12.1 'smart_open[http]==9.0.2' remfile==0.1.15 httpio==0.3.0; } >&2
then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import functools, http.server, os, sys, threading
import fsspec, httpio, obstore, opendal, remfile, smart_open
from obstore.store import HTTPStore
from opendal.layers import RetryLayer

work = sys.argv[1]
for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(name, None)
content = bytes(index * 7 % 251 for index in range(3_000_000))
start, count = 1_000_000, 100
os.mkdir(f"{work}/files")
with open(f"{work}/files/file", "wb") as file:
    file.write(content)

class Files(http.server.SimpleHTTPRequestHandler):
    """That of `python -m http.server`, without its log."""
    def log_message(self, *arguments):
        pass

class CutOff(Files):
    """The same, but the first response ends in the middle, as a connection does."""
    calls = 0

    def copyfile(self, source, output):
        CutOff.calls += 1
        if CutOff.calls == 1:
            output.write(source.read(len(content) // 2))
            self.close_connection = True
        else:
            super().copyfile(source, output)

class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass

def serve(handler):
    server = Server(("127.0.0.1", 0), functools.partial(handler, directory=f"{work}/files"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"

url, cutting = serve(Files), serve(CutOff)

def seek_and_read(file):
    file.seek(start)
    return bytes(file.read(count))

def cut_off(service):
    CutOff.calls = 0
    return bytes(opendal.Operator(service, endpoint=cutting).layer(RetryLayer(max_times=3)).read("file"))

readers = {
    "opendal, seek": lambda: seek_and_read(opendal.Operator("http", endpoint=url).open("file", "rb")),
    "opendal webdav, seek": lambda: seek_and_read(opendal.Operator("webdav", endpoint=url).open("file", "rb")),
    "opendal, offset": lambda: bytes(opendal.Operator("http", endpoint=url).read("file", offset=start)),
    "opendal, offset and size": lambda: bytes(opendal.Operator("http", endpoint=url).read("file", offset=start, size=count)),
    "opendal, cut off": lambda: cut_off("http"),
    "opendal webdav, cut off": lambda: cut_off("webdav"),
    "fsspec": lambda: seek_and_read(fsspec.open(f"{url}/file", "rb").open()),
    "obstore": lambda: bytes(
        obstore.get_range(HTTPStore.from_url(url, client_options={"allow_http": True}), "file", start=start, length=count)
    ),
    "smart_open": lambda: seek_and_read(smart_open.open(f"{url}/file", "rb")),
    "remfile": lambda: seek_and_read(remfile.File(f"{url}/file")),
    "httpio": lambda: seek_and_read(httpio.open(f"{url}/file")),
}

def name_of(received):
    wholes = {
        "right": content[start:start + count], "the beginning": content[:count], "the whole file": content,
        "half and the whole file": content[:len(content) // 2] + content,
    }
    return next((name for name, expected in wholes.items() if received == expected), "something else"), len(received)

def read(reader):
    try:
        return name_of(reader())
    except Exception as error:
        return "error", type(error).__name__

seen = {name: read(reader) for name, reader in readers.items()}
for name, result in seen.items():
    print(f"{name:25}", *result)
both = "half and the whole file", 4_500_000
as_found = all(seen[name][0] == "error" for name in seen if "opendal" not in name) and {
    name: result for name, result in seen.items() if "opendal" in name
} == {
    "opendal, seek": ("the beginning", count), "opendal webdav, seek": ("the beginning", count),
    "opendal, offset": ("the whole file", 3_000_000), "opendal, offset and size": ("error", "Unexpected"),
    "opendal, cut off": both, "opendal webdav, cut off": both,
}
print("as found: the wrong place" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
