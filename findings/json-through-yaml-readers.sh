#!/usr/bin/env bash
# Guess:    a reader of YAML reads each JSON document, with the same values: version 1.2 made YAML "a strict superset of JSON"
#           (YAML 1.2.2 §1.2). So one loader does for openapi.json and openapi.yaml.
# Version:  PyYAML 6.0.4 with its own loader and with libyaml 0.2.6, ruamel.yaml 0.19.1, ryaml 0.5.1, and two new ones for YAML
#           1.2, yaml-rs 0.1.6 and py-yaml12 0.2.0; all from PyPI. The documents are what json.loads reads.
# Found:    none of the six reads all of these documents as JSON does. PyYAML's two loaders differ.
# Seen:     JSON                               fails, or another value
#           indented with tabs                 PyYAML
#           a tab behind the colon             PyYAML, yaml-rs, py-yaml12
#           the colon on the next line         PyYAML, libyaml, ruamel, ryaml
#           a name of 1,100 characters         all but py-yaml12
#           1e3                                PyYAML, libyaml: the text "1e3"
#           9223372036854775809                py-yaml12: 9.223372036854776e+18
#           a number of 42 digits              py-yaml12, ryaml: a float
# Matters:  a JSON file that one editor has indented with tabs is an error in one installation of PyYAML, and none in the next,
#           which has the C library; a limit of 1e3 becomes a text, and an identifier of 64 bits another one.
# Everything is in a temporary folder with a venv of its own. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    pyyaml==6.0.4 ruamel.yaml==0.19.1 ryaml==0.5.1 yaml-rs==0.1.6 py-yaml12==0.2.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import importlib.metadata, json, sys
import ruamel.yaml, ryaml, yaml, yaml12, yaml_rs

readers = {
    "PyYAML": lambda text: yaml.load(text, yaml.SafeLoader),
    "libyaml": lambda text: yaml.load(text, yaml.CSafeLoader),
    "ruamel": lambda text: ruamel.yaml.YAML(typ="safe", pure=True).load(text),
    "ryaml": ryaml.loads,
    "yaml-rs": yaml_rs.loads,
    "py-yaml12": yaml12.parse_yaml,
}
value = {"openapi": "3.1.0", "info": {"title": "Shop \" \\ / \t", "version": "1"}, "paths": {}, "x": [1, -0.5, True, None, ""]}
documents = {
    "compact": (json.dumps(value, separators=(",", ":")), ""),
    "indented with spaces": (json.dumps(value, indent=2), ""),
    "with escapes": ('{"a": "\\/\\b\\f\\n\\r\\t\\u0041\\"\\\\"}', ""),
    "indented with tabs": (json.dumps(value, indent="\t"), "PyYAML"),
    "a tab behind the colon": ('{"a":\t1}', "PyYAML yaml-rs py-yaml12"),
    "the colon on the next line": ('{"a"\n:1}', "PyYAML libyaml ruamel ryaml"),
    "a name of 1,100 characters": (json.dumps({"a" * 1100: 1}), "PyYAML libyaml ruamel ryaml yaml-rs"),
    "1e3": ("[1e3]", "PyYAML libyaml"),
    "9223372036854775807": ("[9223372036854775807]", ""),
    "9223372036854775809": ("[9223372036854775809]", "py-yaml12"),
    "a number of 42 digits": ("[123456789012345678901234567890123456789012]", "ryaml py-yaml12"),
}

def same(one, other):
    """Equal with the same types, as 1 and 1.0 are not."""
    return type(one) is type(other) and json.dumps(one) == json.dumps(other)

def tried(read, text):
    try:
        return read(text)
    except Exception as error:
        return type(error).__name__

packages = "pyyaml", "ruamel.yaml", "ryaml", "yaml-rs", "py-yaml12"
print(*(f"{name} {importlib.metadata.version(name)}" for name in packages), "libyaml", yaml._yaml.get_version_string())
as_found = True
for name, (text, expected) in documents.items():
    right = json.loads(text)
    results = {reader: tried(read, text) for reader, read in readers.items()}
    wrong = {reader: result for reader, result in results.items() if not same(result, right)}
    as_found = as_found and " ".join(wrong) == expected
    print(name, "->", wrong or "all as JSON")
print("as found: JSON is not read as JSON" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
