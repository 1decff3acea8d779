#!/usr/bin/env bash
# Guess:    a validator of OpenAPI takes each JSON body that fits its schema: application/problem+json and merge-patch+json are
#           JSON (+json, RFC 6839), `application/*` covers application/json, and the words of 3.1 are known to one that loads it.
# Version:  openapi-core 0.23.1; connexion 3.3.0 with the same documents; PyPI.
# Found:    openapi-core decodes a body by the key in the document, and knows only a few by name: with any +json key or a range it
#           compares the schema with the bytes, and refuses each body. A parameter of type ["integer", "null"] raises a TypeError
#           for each request of its operation, also without it; a tuple (prefixItems, "items": false) an AttributeError. Connexion
#           takes all of the JSON, but no document of 3.1; an enum without a type is 500.
# Seen:     {"a": 1} for an object with an integer                    openapi-core     connexion
#           application/json                                          valid            200
#           application/problem+json, merge-patch+json, vnd.a+json    InvalidRequestBody, InvalidData     200
#           application/* or */*, sent as application/json            InvalidRequestBody, InvalidData     200
#           3.1, the parameter may be null, and is not sent           TypeError        InvalidSpecification
#           3.1, ["a"] for a tuple of one string                      AttributeError   InvalidSpecification
#           3.0, n=1 for a parameter with "enum": [1, 2] alone        InvalidParameter 500
# Matters:  contract tests fail for each error response (RFC 9457), and a server with this in front answers 400 to each PATCH; a
#           field that may be null, which 3.1 writes that way, is an error of the server.
# Everything is in a temporary folder with a venv of its own; no socket is opened. Exits with 0 if the behaviour is as above,
# with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    openapi-core==0.23.1 openapi-spec-validator==0.8.5 openapi-schema-validator==0.8.1 connexion==3.3.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cd "$work"
cat > shop.py <<'PYTHON'
async def order(**arguments):
    return {}, 200
PYTHON

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import logging, sys
import connexion, openapi_core
from openapi_core.testing import MockRequest, MockResponse

sys.path.insert(0, ".")
logging.disable(logging.CRITICAL)
an_object = {"type": "object", "properties": {"a": {"type": "integer"}}}
one_string = {"type": "array", "prefixItems": [{"type": "string"}], "items": False}

def document(version="3.0.4", kind="application/json", schema=an_object, parameter=None):
    content = {"content": {kind: {"schema": schema}}}
    operation = {"operationId": "shop.order", "requestBody": content, "responses": {"200": {"description": "done"} | content}}
    if parameter:
        operation["parameters"] = [{"name": "n", "in": "query", "schema": parameter}]
    return {
        "openapi": version, "info": {"title": "shop", "version": "1"}, "servers": [{"url": "http://localhost"}],
        "paths": {"/orders": {"post": operation}},
    }

def first(result):
    return type(result.errors[0]).__name__ if result.errors else "valid"

def with_openapi_core(described, body, kind, arguments):
    request = MockRequest("http://localhost", "post", "/orders", data=body, content_type=kind, args=arguments)
    try:
        reader = openapi_core.OpenAPI.from_dict(described)
        answer = reader.unmarshal_response(request, MockResponse(body, status_code=200, content_type=kind))
        return first(reader.unmarshal_request(request)), first(answer)
    except (TypeError, AttributeError) as error:
        return type(error).__name__

def with_connexion(described, body, kind, arguments):
    try:
        app = connexion.AsyncApp("shop")
        app.add_api(described)
        with app.test_client(raise_server_exceptions=False) as client:
            return client.post("/orders", content=body, headers={"Content-Type": kind}, params=arguments).status_code
    except connexion.exceptions.InvalidSpecification as error:
        return type(error).__name__

json, body = "application/json", b'{"a": 1}'
cases = {kind: (document(kind=kind), body, kind, {}) for kind in (
    json, "application/problem+json", "application/merge-patch+json", "application/vnd.a+json",
)}
cases |= {kind: (document(kind=kind), body, json, {}) for kind in ("application/*", "*/*")}
cases["3.1, may be null"] = document("3.1.0", parameter={"type": ["integer", "null"]}), body, json, {}
cases["3.1, a tuple"] = document("3.1.0", schema=one_string), b'["a"]', json, {}
cases["3.1, a list"] = document("3.1.0", schema={"type": "array", "items": {"type": "string"}}), b'["a"]', json, {}
cases["an enum"] = document(parameter={"enum": [1, 2]}), body, json, {"n": "1"}
seen = {name: (with_openapi_core(*case), with_connexion(*case)) for name, case in cases.items()}
for name, (core, other) in seen.items():
    print(f"{name:30} openapi-core: {core}, connexion: {other}")
valid, refused = ("valid", "valid"), ("InvalidRequestBody", "InvalidData")
enum = seen.pop("an enum")
as_found = seen.pop(json) == (valid, 200) and seen == {
    **{name: (refused, 200) for name in list(cases)[1:6]}, "3.1, may be null": ("TypeError", "InvalidSpecification"),
    "3.1, a tuple": ("AttributeError", "InvalidSpecification"), "3.1, a list": (valid, "InvalidSpecification"),
} and enum == (("InvalidParameter", "valid"), 500)
print("as found: valid JSON is refused" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
