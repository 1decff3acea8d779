#!/usr/bin/env bash
# Guess:    the Docker Engine and Podman answer a pull or push with 200 before they know how it ends, and say in the JSON lines of
#           the body that it failed. An SDK reads that: its pull returns the image that was pulled, or raises, and so does push.
# Version:  docker 7.2.0, podman 5.8.0 and aiodocker 0.27.0, from PyPI, against a server that speaks their API.
# Found:    `images.pull()` of docker skips the lines and returns the image that has the name, which is the one from before. That of
#           podman returns an image without an id. `images.push()` of docker returns the lines as text, and so does an import; its
#           build and load raise. aiodocker raises for both.
# Seen:     lines {"status": …} and {"errorDetail": {"message": "unexpected EOF"}, "error": "unexpected EOF"}
#           docker     pull: the image of 2020   push, import: text   build: BuildError   load: ImageLoadError
#           podman     pull: an image with id None                    aiodocker   pull, push: DockerStreamError
# Matters:  a deployment whose registry fails in the middle of a layer starts the version from before, and says that it went well;
#           one whose push was refused goes on with a tag that the registry does not have.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check docker==7.2.0 podman==5.8.0 \
    aiodocker==0.27.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

HOME="$work" DOCKER_CONFIG="$work" "$work/venv/bin/python" - <<'PYTHON'
import asyncio, http.server, io, json, os, sys, threading

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
import aiodocker, docker, podman

name = "registry.example/app"
old = {"Id": "sha256:" + "0" * 64, "RepoTags": [name + ":latest"], "Created": "2020-01-01T00:00:00Z"}
progress = [{"status": "Working"}, {"errorDetail": {"message": "unexpected EOF"}, "error": "unexpected EOF"}]
asked = []

class Engine(http.server.BaseHTTPRequestHandler):
    """Has the image from before, and reports an error in the lines of each POST."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        if self.headers["Transfer-Encoding"]:
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        asked.append((self.command, self.path))
        if self.command == "POST":
            lines = progress
        else:
            lines = [{"ApiVersion": "1.44", "Version": "29.0"} if self.path.endswith("/version") else old]
        data = b"".join(json.dumps(line).encode() + b"\r\n" for line in lines)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))

    do_GET = do_POST

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"127.0.0.1:{server.server_port}"
with_docker = docker.DockerClient(base_url="tcp://" + address, version="1.44")
with_podman = podman.PodmanClient(base_url="http://" + address)

def with_aiodocker(action):
    async def run():
        async with aiodocker.Docker("http://" + address, api_version="v1.44") as client:
            return await action(client.images)

    return asyncio.run(run())

calls = {
    "docker pull": lambda: "old image" if with_docker.images.pull(name).attrs == old else "another image",
    "docker push": lambda: type(with_docker.images.push(name)).__name__,
    "docker import": lambda: type(with_docker.api.import_image_from_data(b"tar")).__name__,
    "docker build": lambda: with_docker.images.build(fileobj=io.BytesIO(b"FROM scratch\n")),
    "docker load": lambda: with_docker.images.load(b"tar"),
    "podman pull": lambda: f"image with id {with_podman.images.pull(name).id}",
    "aiodocker pull": lambda: with_aiodocker(lambda images: images.pull(name)),
    "aiodocker push": lambda: with_aiodocker(lambda images: images.push(name)),
}
found = {}
for call, run in calls.items():
    asked.clear()
    try:
        found[call] = run()
    except Exception as error:
        found[call] = f"{type(error).__name__}"
    print(f"{call:15} {found[call]:18} after {sum(method == 'POST' for method, _ in asked)} POST")
    if not any(method == "POST" for method, _ in asked):
        print("the call was not made", file=sys.stderr)
        sys.exit(2)
expected = {
    "docker pull": "old image", "docker push": "str", "docker import": "str", "docker build": "BuildError",
    "docker load": "ImageLoadError", "podman pull": "image with id None", "aiodocker pull": "DockerStreamError",
    "aiodocker push": "DockerStreamError",
}
as_found = found == expected
print("as found: the error is skipped" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
