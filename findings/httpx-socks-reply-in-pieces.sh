#!/usr/bin/env bash
# Guess:    a client of SOCKS5 reads a reply until it is whole: its length stands in it (RFC 1928 §6), and TCP has no messages.
# Version:  httpx 0.28.1 with httpcore 1.0.9 and socksio 1.0.0, httpx2 2.16.2 with httpcore2 2.16.2, httpxyz 0.42.1; the witnesses
#           are libcurl 8.23.0 in pycurl 7.49.0, requests 2.34.2 with PySocks 1.7.1, niquests 3.21.2 and aiohttp-socks 0.12.0.
# Found:    httpx and both of its successors of this year read once and parse what is there: a reply that comes in two pieces is
#           "Malformed reply", wherever it is cut. The others wait for the rest.
# Seen:     the proxy sends             httpx, httpx2, httpxyz           the others
#           both replies whole          200                              200
#           the method reply 1 + 1      ProtocolError                    200
#           the CONNECT reply 4 + 6     ProtocolError: Malformed reply   200
# Matters:  proxies that write the head of the reply and then the address, and tunnels that pass on what they have, fail always or
#           now and then, never on one's own machine, with a message that blames the proxy for a right reply.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    'httpx[socks]==0.28.1' httpcore==1.0.9 socksio==1.0.0 'httpx2[socks]==2.16.2' 'httpxyz[socks]==0.42.1' pycurl==7.49.0 \
    requests==2.34.2 PySocks==1.7.1 'niquests[socks]==3.21.2' aiohttp-socks==0.12.0 aiohttp==3.14.5; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, contextlib, importlib.metadata, os, socket, sys, threading, time
import aiohttp, aiohttp_socks, httpx, httpx2, httpxyz, niquests, pycurl, requests

for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]
cuts = 0, 0

def send(channel, reply, cut):
    """Sends a reply, whole or with a pause behind the first bytes."""
    for piece in filter(None, (reply[:cut], reply[cut:])):
        channel.sendall(piece)
        time.sleep(0.1 if cut else 0)

def answer(channel):
    """The proxy for one connection, which is the origin as well."""
    with contextlib.suppress(OSError), channel, channel.makefile("rb") as stream:
        channel.settimeout(20)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = stream.read(2)
        if len(head) < 2:
            return
        stream.read(head[1])
        send(channel, b"\x05\x00", cuts[0])
        head = stream.read(4)
        if len(head) < 4:
            return
        stream.read({1: 4, 4: 16}.get(head[3]) or stream.read(1)[0])
        stream.read(2)
        send(channel, b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50", cuts[1])
        while stream.readline() not in (b"\r\n", b""):
            pass
        channel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

def serve():
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, daemon=True).start()
address = f"127.0.0.1:{listener.getsockname()[1]}"
url = "http://a.example/"

def status_with(module):
    def call():
        with module.Client(proxy=f"socks5h://{address}", timeout=20) as client:
            return client.get(url).status_code
    return call

def status_with_libcurl():
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.PROXY, f"socks5h://{address}")
    curl.setopt(pycurl.TIMEOUT, 20)
    curl.perform()
    return curl.getinfo(pycurl.RESPONSE_CODE)

async def status_with_aiohttp():
    connector = aiohttp_socks.ProxyConnector.from_url(f"socks5://{address}")
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(20)) as session:
        async with session.get(url) as response:
            return response.status

proxies = {"http": f"socks5h://{address}"}
clients = {
    "httpx": status_with(httpx), "httpx2": status_with(httpx2), "httpxyz": status_with(httpxyz), "libcurl": status_with_libcurl,
    "requests": lambda: requests.get(url, proxies=proxies, timeout=20).status_code,
    "niquests": lambda: niquests.get(url, proxies=proxies, timeout=20).status_code,
    "aiohttp-socks": lambda: asyncio.run(status_with_aiohttp()),
}

def tried(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print(*(f"{name} {importlib.metadata.version(name)}" for name in clients if name != "libcurl"), pycurl.version.split()[1])
seen = {}
for name, cuts in {"whole": (0, 0), "method reply 1 + 1": (1, 0), "CONNECT reply 4 + 6": (0, 4)}.items():
    seen[name] = {client: tried(call) for client, call in clients.items()}
    print(name, *(f"    {client} -> {result}" for client, result in seen[name].items()), sep="\n")
whole, *cut = seen.values()
as_found = all(result == 200 for result in whole.values()) and all(
    result == "ProtocolError: Malformed reply" if client.startswith("httpx") else result == 200
    for results in cut for client, result in results.items()
)
print("as found: a reply in two pieces is malformed" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
