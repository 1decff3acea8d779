#!/usr/bin/env bash
# Guess:    a client that asks a proxy for a tunnel skips interim responses, which "one or more" may come before any final one
#           (RFC 9110 §15.2), and takes each 2xx for a tunnel (§9.3.6), as the words are and as it does for other methods.
# Version:  libcurl 8.23.0 in pycurl 7.49.0, curl_cffi 0.17.0, aiohttp 3.14.5, impit 0.15.1, primp 2.0.1; the ones that are right
#           are requests 2.34.2, niquests 3.21.2 and httpx 0.28.1; all PyPI.
# Found:    after 100 or 103 libcurl, curl_cffi, impit and primp give up: the number is "the" answer of the proxy. libcurl skips the
#           same two in front of the response to a GET. aiohttp, impit and primp refuse 201 and 204 as well.
# Seen:     before the tunnel     200   103, 200   100, 200   201   204
#           libcurl, curl_cffi    ok    error      error      ok    ok
#           impit, primp          ok    error      error      error error
#           aiohttp               ok    ok         ok         error error
#           the other three       ok    ok         ok         ok    ok
# Matters:  a proxy that tells a waiting client that it is still connecting, or that lets an origin's interim response through,
#           cannot be used with any tool on libcurl, and the message "CONNECT tunnel failed, response 103" blames the proxy.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    pycurl==7.49.0 curl_cffi==0.17.0 aiohttp==3.14.5 impit==0.15.1 primp==2.0.1 requests==2.34.2 niquests==3.21.2 \
    httpx==0.28.1 trustme==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, contextlib, importlib.metadata, os, socket, ssl, sys, threading
import aiohttp, curl_cffi, httpx, impit, niquests, primp, pycurl, requests, trustme

work = sys.argv[1]
authority = trustme.CA()
roots = f"{work}/ca.pem"
authority.cert_pem.write_to_path(roots)
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
authority.issue_cert("localhost").configure_cert(context)
trusting = ssl.create_default_context(cafile=roots)
ends = {
    "200": b"200 OK", "103, 200": b"103 Early Hints", "100, 200": b"100 Continue", "201": b"201 Created", "204": b"204 No Content",
}
chosen = ""
body = b"tunnelled"
response = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n" + body

def read_head(channel):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = channel.recv(1)
        if not piece:
            raise OSError("closed")
        head += piece
    return head

def answer(channel):
    """The proxy, which is the origin as well. Without CONNECT it is only the origin, with the same interim responses."""
    with contextlib.suppress(OSError), channel:
        channel.settimeout(20)
        connect = read_head(channel).startswith(b"CONNECT ")
        two = chosen.endswith(", 200")
        if two:
            channel.sendall(b"HTTP/1.1 " + ends[chosen] + b"\r\n\r\n")
        if not connect:
            channel.sendall(response)
            return
        channel.sendall(b"HTTP/1.1 " + (ends["200"] if two else ends[chosen]) + b"\r\n\r\n")
        with context.wrap_socket(channel, server_side=True) as tunnel:
            read_head(tunnel)
            tunnel.sendall(response)

def serve():
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, daemon=True).start()
proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
url = "https://localhost/"

def with_libcurl(through=True):
    curl, received = pycurl.Curl(), []
    curl.setopt(pycurl.URL, url if through else proxy)
    curl.setopt(pycurl.PROXY, proxy if through else "")
    curl.setopt(pycurl.CAINFO, roots)
    curl.setopt(pycurl.WRITEFUNCTION, received.append)
    curl.setopt(pycurl.TIMEOUT, 20)
    curl.perform()
    return b"".join(received)

async def get_with_aiohttp():
    timeout = aiohttp.ClientTimeout(20)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, proxy=proxy, ssl=trusting) as received:
        return await received.read()

def with_httpx():
    with httpx.Client(proxy=proxy, verify=trusting, timeout=20) as client:
        return client.get(url).content

# curl_cffi, impit and primp are told to take any certificate: the tunnel is what is looked at.
clients = {
    "libcurl": with_libcurl,
    "curl_cffi": lambda: curl_cffi.get(url, proxy=proxy, verify=False, timeout=20).content,
    "impit": lambda: impit.Client(proxy=proxy, verify=False, timeout=20).get(url).content,
    "primp": lambda: primp.Client(proxy=proxy, verify=False, timeout=20).get(url).content,
    "aiohttp": lambda: asyncio.run(get_with_aiohttp()),
    "requests": lambda: requests.get(url, proxies={"https": proxy}, verify=roots, timeout=20).content,
    "niquests": lambda: niquests.get(url, proxies={"https": proxy}, verify=roots, timeout=20).content,
    "httpx": with_httpx,
}

def tried(call, *arguments):
    try:
        return "ok" if call(*arguments) == body else "another body"
    except Exception as error:
        told = " ".join(str(error).split())
        return f"{type(error).__name__}: {told[:90]}"

print(*(f"{name} {importlib.metadata.version(name.replace('_', '-'))}" for name in clients if name != "libcurl"),
      pycurl.version.split()[1])
seen = {}
for name, call in clients.items():
    seen[name] = []
    for chosen in ends:
        seen[name].append(tried(call))
        print(name, "after", chosen, "->", seen[name][-1])
plain = []
for chosen in ("103, 200", "100, 200"):
    plain.append(tried(with_libcurl, False))
    print("libcurl without a proxy, after", chosen, "->", plain[-1])
expected = {
    "libcurl": [1, 0, 0, 1, 1], "curl_cffi": [1, 0, 0, 1, 1], "impit": [1, 0, 0, 0, 0], "primp": [1, 0, 0, 0, 0],
    "aiohttp": [1, 1, 1, 0, 0], "requests": [1] * 5, "niquests": [1] * 5, "httpx": [1] * 5,
}
as_found = plain == ["ok", "ok"] and "response 103" in seen["libcurl"][1] and all(
    [result == "ok" for result in results] == [bool(one) for one in expected[name]] for name, results in seen.items()
)
print("as found: an interim response ends the tunnel" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
