#!/usr/bin/env bash
# Guess:    a field with "format: duration" of an OpenAPI document (RFC 3339 appendix A: "P1M" is a month) is kept as it came,
#           or refused if the language has no months; what is read and written again means the same.
# Version:  datamodel-code-generator 0.89.0 with pydantic 2.14.4, from PyPI; an OpenAPI 3.1 document with one schema.
# Found:    the generated field is a timedelta, and pydantic takes a year for 365 days and a month for 30 without a word. It
#           writes years of 365 days, but never months, so that a value comes back as one that means something else.
# Seen:     read P1M          written P30D
#           read P12M         written P360D
#           read P4Y          written P4Y, of 1460 days (four years have 1461)
#           read P1Y2M3DT4H   written P1Y63DT4H
# Matters:  a monthly plan that goes through such a service turns into one of 30 days, and renews five days early after a year.
# So here:  the importer keeps a duration as text.
# Everything is in a temporary folder with a venv of its own, without a server. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    datamodel-code-generator==0.89.0 pydantic==2.14.4; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import importlib.metadata, json, subprocess, sys

work = sys.argv[1]
plan = {"type": "object", "required": ["period"], "properties": {"period": {"type": "string", "format": "duration"}}}
document = {
    "openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {}, "components": {"schemas": {"Plan": plan}},
}
with open(f"{work}/shop.json", "w") as file:
    json.dump(document, file)
made = subprocess.run(
    [f"{work}/venv/bin/datamodel-codegen", "--input", f"{work}/shop.json", "--input-file-type", "openapi",
     "--output", f"{work}/models.py", "--output-model-type", "pydantic_v2.BaseModel"], capture_output=True, text=True,
)
if made.returncode != 0:
    print(made.stderr, file=sys.stderr)
    sys.exit(2)
sys.path.insert(0, work)
from models import Plan

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("datamodel-code-generator", "pydantic")))
seen = {}
for period in ("P1M", "P12M", "P4Y", "P1Y2M3DT4H", "PT36H"):
    read = Plan.model_validate_json(json.dumps({"period": period}))
    seen[period] = read.period.days, json.loads(read.model_dump_json())["period"]
    print("read", period, "written", seen[period][1], "of", seen[period][0], "days")
as_found = seen == {
    "P1M": (30, "P30D"), "P12M": (360, "P360D"), "P4Y": (1460, "P4Y"), "P1Y2M3DT4H": (428, "P1Y63DT4H"),
    "PT36H": (1, "P1DT12H"),
}
print("as found: months become days" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
