#!/usr/bin/env bash
# Guess:    a .netrc file means the same to all: the first entry of a host counts, a user in the URL selects that user's entry,
#           "default" counts for hosts without one, and a password is the characters up to the next space.
# Version:  libcurl 8.23.0 (pycurl 7.49.0), requests 2.34.2, niquests 3.21.2, aiohttp 3.14.5, HTTPX 0.28.1 with NetRCAuth, from
#           PyPI on the netrc module of Python 3.11; Wget 1.21.3 and aria2 1.36.0 (Debian 12).
# Found:    of two entries for a host the Python clients use the last, the others the first. With alice@ in the URL requests,
#           niquests and NetRCAuth send the name and password of bob, aiohttp and aria2 alice without a password; only libcurl and
#           Wget find hers. All but libcurl and aria2 drop a backslash of a password. Wget and aria2 know no default.
# Seen:     entries alice:one, bob:two      libcurl, Wget, aria2  alice:one      the Python clients         bob:two
#           the same, alice@ in the URL     libcurl, Wget         alice:one      requests, niquests, HTTPX  bob:two
#           password a\b                    libcurl, aria2        a\b            Wget, the Python clients   ab
#           only default, bob:two           libcurl, Python       bob:two        Wget, aria2                none
# Matters:  a token with a backslash, or a second account on one server, works on the command line and is 401 in the program,
#           or the call is made in the name of another user.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(wget=1.21.3-1+deb12u1 aria2=1.36.0-1 libaria2-0=1.36.0-1 libc-ares2 libssh2-1 libpsl5 libsqlite3-0 libxml2)
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done \
    && python3 -m venv venv && venv/bin/pip install -q --disable-pip-version-check \
    requests==2.34.2 niquests==3.21.2 aiohttp==3.14.5 httpx==0.28.1 pycurl==7.49.0) >&2; then
    echo "the tools could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, base64, glob, http.server, os, subprocess, sys, threading

work = sys.argv[1]
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name == "NETRC":
        del os.environ[name]
os.environ["HOME"] = work
import aiohttp, httpx, niquests, pycurl, requests

file = f"{work}/.netrc"
libraries = ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))
environment = {**os.environ, "LD_LIBRARY_PATH": libraries}

class Server(http.server.BaseHTTPRequestHandler):
    """Asks for credentials, and takes any."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        sent = self.headers["Authorization"]
        sent = base64.b64decode(sent.split()[1]).decode() if sent else "none"
        received.append(sent)
        self.send_response(401 if sent == "none" else 200)
        if sent == "none":
            self.send_header("WWW-Authenticate", 'Basic realm="shop"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

def with_libcurl(url):
    curl = pycurl.Curl()
    for option, value in ((pycurl.URL, url), (pycurl.NETRC, pycurl.NETRC_OPTIONAL), (pycurl.TIMEOUT, 20)):
        curl.setopt(option, value)
    curl.perform()

def with_aiohttp(url):
    async def get():
        async with aiohttp.ClientSession(trust_env=True) as session, session.get(url) as response:
            await response.read()
    asyncio.run(get())

def with_tool(*command):
    return lambda url: subprocess.run(
        [f"{work}/root/usr/bin/{command[0]}", *command[1:], url], cwd=work, env=environment, timeout=30,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )

clients = {
    "libcurl": with_libcurl, "Wget": with_tool("wget", "-q", "-O", "/dev/null", "--tries=1", "--no-config"),
    "aria2": with_tool("aria2c", "-q", "--max-tries=1", "--no-conf", "--allow-overwrite=true", "-o", "got", f"--netrc-path={file}"),
    "requests": requests.get, "niquests": niquests.get, "aiohttp": with_aiohttp,
    "HTTPX": lambda url: httpx.get(url, auth=httpx.NetRCAuth(file)),
}
received = []
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

def credentials(case, text, user=""):
    """What each client sends at last; the path is a new one, since niquests keeps the answer for a URL."""
    with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as netrc:
        netrc.write(text)
    sent = {}
    for name, client in clients.items():
        received.clear()
        client(f"http://{user}localhost:{server.server_port}/{case.replace(' ', '-')}")
        sent[name] = received[-1]
    print(f"{case:14}", "  ".join(f"{name} {value}" for name, value in sent.items()))
    return list(sent.values())

both = "machine localhost login alice password one\nmachine localhost login bob password two\n"
as_found = [
    credentials("one entry", "machine localhost login alice password one\n"),
    credentials("two entries", both),
    credentials("alice in URL", both, "alice@"),
    credentials("backslash", "machine localhost login alice password a\\b\n"),
    credentials("default", "machine other.example login alice password one\ndefault login bob password two\n"),
] == [
    ["alice:one"] * 7,
    ["alice:one"] * 3 + ["bob:two"] * 4,
    ["alice:one", "alice:one", "alice:", "bob:two", "bob:two", "alice:", "bob:two"],
    ["alice:a\\b", "alice:ab", "alice:a\\b"] + ["alice:ab"] * 4,
    ["bob:two", "none", "none"] + ["bob:two"] * 4,
]
print("as found: one file, several meanings" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
