"""Checks exports of traces, one JSON document a line, against the protocol: check_otlp.py FILE.

The messages of opentelemetry-proto parse each document strictly: a name or a type that the protocol does not have is an error.
The protocol has identifiers in hexadecimal in JSON, where Protobuf expects base64, so they are converted first.
"""

import base64
import json
import re
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LENGTHS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}


def turned_over(value):
    """The same document with identifiers in base64."""
    if isinstance(value, list):
        return [turned_over(element) for element in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, member in value.items():
        if name in LENGTHS:
            if not re.fullmatch("[0-9a-f]{%d}" % LENGTHS[name], member):
                raise ValueError(f"{name} is not {LENGTHS[name]} hexadecimal digits: {member}")
            if set(member) == {"0"}:
                raise ValueError(f"{name} is zero")
            member = base64.b64encode(bytes.fromhex(member)).decode()
        elif name.endswith("UnixNano") or name == "intValue":
            if not isinstance(member, str) or not re.fullmatch("-?[0-9]+", member):
                raise ValueError(f"{name} is no decimal text: {member!r}")
        elif name in ("kind", "code"):
            if not isinstance(member, int):
                raise ValueError(f"{name} is no number: {member!r}")
        elif "_" in name:
            raise ValueError(f"{name} is not in lowerCamelCase")
        result[name] = turned_over(member)
    return result


count = 0
for line in open(sys.argv[1], encoding="utf-8"):
    message = json_format.ParseDict(turned_over(json.loads(line)), ExportTraceServiceRequest())
    for resource in message.resource_spans:
        assert any(attribute.key == "service.name" for attribute in resource.resource.attributes), "no service.name"
        for scope in resource.scope_spans:
            for span in scope.spans:
                assert span.name and span.kind in (1, 3), span
                assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span
                count += 1
print(count)
