#!/usr/bin/env bash
# Guess:    a watch of Kubernetes goes on until the program stops it. When the API server ends the response, as it does in order
#           after some minutes, the client asks for the rest at the last resourceVersion, so that no event is lost.
# Version:  kubernetes 37.0.2, kubernetes_asyncio 36.1.0, lightkube 1.0.1, kr8s 0.20.15, pykube-ng 23.6.0, from PyPI, against a
#           server that speaks the API.
# Found:    kr8s and pykube-ng end the loop there, without an error. kubernetes goes on, but not when no event had come yet: then
#           it ends as well. kubernetes_asyncio and lightkube go on, but after a quiet response they ask without a version, so
#           that they get what is there now, and never the DELETED of what went away between the two responses.
# Seen:     a watch without resource_version; what is between the two responses: b is deleted, a response in order
#                                              first response with an event     first response without one
#           kubernetes                         MODIFIED a, DELETED b            the loop ends
#           kubernetes_asyncio, lightkube      MODIFIED a, DELETED b            ADDED a, and nothing about b
#           kr8s, pykube-ng                    MODIFIED a, and the loop ends    the loop ends
# Matters:  a controller of a quiet kind of object stops to work after half an hour, and its process lives on or exits with 0; or
#           it keeps something for an object that is gone. A test with events each second shows none of it.
# Everything is in a temporary folder with a venv of its own, on a free loopback port. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2 \
    kubernetes_asyncio==36.1.0 lightkube==1.0.1 kr8s==0.20.15 pykube-ng==23.6.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

HOME="$work" "$work/venv/bin/python" - "$work/config.json" <<'PYTHON'
import asyncio, http.server, json, os, sys, threading, urllib.parse

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
import kr8s, kubernetes, kubernetes_asyncio, lightkube, pykube
from lightkube.resources.core_v1 import ConfigMap

quiet, asked = False, []
documents = {
    "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [{
        "name": "configmaps", "singularName": "configmap", "namespaced": True, "kind": "ConfigMap", "verbs": ["list", "watch"]}]},
}

def event(kind, name, version):
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return {"type": kind, "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}

class Server(http.server.BaseHTTPRequestHandler):
    """Ends the first watch in order. After it, b is deleted (version 12). The object "end" ends the test."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        values = dict(urllib.parse.parse_qsl(query))
        if "watch" not in values:
            data = json.dumps(documents[path.rstrip("/")]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        version = values.get("resourceVersion")
        asked.append(version)
        if len(asked) == 1:
            events = [] if quiet else [event("MODIFIED", "a", 11)]
        elif version:
            events = [event("DELETED", "b", 12), event("MODIFIED", "end", 13)]
        else:
            events = [event("ADDED", "a", 11), event("ADDED", "end", 13)]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for data in (json.dumps(entry).encode() + b"\n" for entry in events):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass

server = Quiet(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"
config = {
    "apiVersion": "v1", "kind": "Config", "current-context": "x", "clusters": [{"name": "c", "cluster": {"server": origin}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
}
with open(sys.argv[1], "w") as file:
    json.dump(config, file)
seen = []

def is_end(kind, name):
    if name != "end":
        seen.append(f"{kind} {name}")
    return name == "end"

def with_kubernetes():
    client = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=origin))
    function = kubernetes.client.CoreV1Api(client).list_namespaced_config_map
    for entry in kubernetes.watch.Watch().stream(function, "default"):
        if is_end(entry["type"], entry["object"].metadata.name):
            return True

def with_kubernetes_asyncio():
    async def run():
        async with kubernetes_asyncio.client.ApiClient(kubernetes_asyncio.client.Configuration(host=origin)) as client:
            function = kubernetes_asyncio.client.CoreV1Api(client).list_namespaced_config_map
            async with kubernetes_asyncio.watch.Watch().stream(function, "default") as stream:
                async for entry in stream:
                    if is_end(entry["type"], entry["object"].metadata.name):
                        return True

    return asyncio.run(run())

def with_lightkube():
    client = lightkube.Client(lightkube.KubeConfig.from_dict(config))
    for kind, entry in client.watch(ConfigMap, namespace="default"):
        if is_end(kind, entry.metadata.name):
            return True

def with_kr8s():
    async def run():
        api = await kr8s.asyncio.api(kubeconfig=sys.argv[1])
        async for kind, entry in api.watch("configmaps", namespace="default"):
            if is_end(kind, entry.name):
                return True

    return asyncio.run(run())

def with_pykube():
    api = pykube.HTTPClient(pykube.KubeConfig(config))
    for entry in pykube.ConfigMap.objects(api).filter(namespace="default").watch():
        if is_end(entry.type, entry.object.name):
            return True

found = {}
for client in (with_kubernetes, with_kubernetes_asyncio, with_lightkube, with_kr8s, with_pykube):
    for quiet in (False, True):
        seen.clear()
        asked.clear()
        goes_on = bool(client())
        found[client.__name__[5:], quiet] = (*seen, goes_on)
        print(f"{client.__name__[5:]:18} {'quiet' if quiet else 'event':5} asked at {asked}: {seen},",
              "goes on" if goes_on else "ends")
resumed, anew, once, none = ("MODIFIED a", "DELETED b", True), ("ADDED a", True), ("MODIFIED a", False), (False,)
expected = {
    ("kubernetes", False): resumed, ("kubernetes", True): none,
    ("kubernetes_asyncio", False): resumed, ("kubernetes_asyncio", True): anew,
    ("lightkube", False): resumed, ("lightkube", True): anew,
    ("kr8s", False): once, ("kr8s", True): none, ("pykube", False): once, ("pykube", True): none,
}
as_found = found == expected
print("as found: watches that end or forget" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
