#!/usr/bin/env bash
# Guess:    readers that were written for YAML 1.2 agree on a plain document: that is what the version was made for, and its core
#           schema says what each scalar is (YAML 1.2.2 §10.3).
# Version:  yamlstar 0.1.26, py-yaml12 0.2.0 and yaml-rs 0.1.6, all of this year, from PyPI; the witness is ruamel.yaml 0.19.1.
# Found:    yamlstar reads -.Inf and -.INF as 0.0, 0x1F and 0o14 as text, and raises a JSON error for "\u0000" and an error for
#           "%YAML 1.2". Of a file with two documents yamlstar and py-yaml12 return the first, without a word; yaml-rs returns a
#           list, as for one document that is a list. py-yaml12 and yaml-rs take the byte order mark (§5.2) for a part of the
#           first key, and refuse a tab behind a colon.
# Seen:                          ruamel            yamlstar        py-yaml12              yaml-rs
#           [-.inf, -.INF]       -inf, -inf        -inf, 0.0       -inf, -inf             -inf, -inf
#           [0x1F, 0o14]         31, 12            "0x1F", "0o14"  31, 12                 31, 12
#           "%YAML 1.2", then a  a                 error           a                      a
#           two documents        error             the first       the first              a list of both
#           U+FEFF, then a: 1    {"a": 1}          {"a": 1}        {"\ufeffa": 1}         {"\ufeffa": 1}
#           a:<tab>b in braces   {"a": "b"}        {"a": "b"}      error                  error
# Matters:  a lower bound of minus infinity becomes zero, and half of a configuration is not read; nothing is said about either.
#           Two services that "speak YAML 1.2" read one file differently.
# Everything is in a temporary folder with a venv of its own. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    yamlstar==0.1.26 ruamel.yaml==0.19.1 yaml-rs==0.1.6 py-yaml12==0.2.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import importlib.metadata, sys
import ruamel.yaml, yaml12, yaml_rs, yamlstar

readers = {
    "ruamel.yaml": lambda text: ruamel.yaml.YAML(typ="safe", pure=True).load(text),
    "yamlstar": yamlstar.YAMLStar().load,
    "py-yaml12": yaml12.parse_yaml,
    "yaml-rs": yaml_rs.loads,
}
low, failed = float("-inf"), "error"
documents = {
    "a: [1, -2.5, true, null, x]\n": [{"a": [1, -2.5, True, None, "x"]}] * 4,
    "[no, on, 010, 1e3, .5, .inf]": [["no", "on", 10, 1000.0, 0.5, float("inf")]] * 4,
    "[-.inf, -.Inf, -.INF]": [[low] * 3, [low, 0.0, 0.0], [low] * 3, [low] * 3],
    "[0x1F, 0o14]": [[31, 12], ["0x1F", "0o14"], [31, 12], [31, 12]],
    '"\\u0000"': ["\0", failed, "\0", "\0"],
    "%YAML 1.2\n---\na\n": ["a", failed, "a", "a"],
    "a: 1\n---\na: 2\n": [failed, {"a": 1}, {"a": 1}, [{"a": 1}, {"a": 2}]],
    "- a: 1\n- a: 2\n": [[{"a": 1}, {"a": 2}]] * 4,
    "\ufeffa: 1\n": [{"a": 1}, {"a": 1}, {"\ufeffa": 1}, {"\ufeffa": 1}],
    "{a:\tb}": [{"a": "b"}, {"a": "b"}, failed, failed],
}

def tried(read, text):
    try:
        return read(text)
    except Exception as error:
        print(f"    {type(error).__name__}:", " ".join(str(error).split())[-80:])
        return failed

print(*(f"{name} {importlib.metadata.version(name)}" for name in readers))
as_found = True
for text, expected in documents.items():
    print(repr(text))
    results = [tried(read, text) for read in readers.values()]
    print("    ", *(f"{name}: {result!r}  " for name, result in zip(readers, results)))
    as_found = as_found and [repr(result) for result in results] == [repr(result) for result in expected]
print("as found: four readers of YAML 1.2, and several values" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
