#!/usr/bin/env bash
# Guess:    verify() of the Standard Webhooks library says whether the signature fits the bytes: it returns, or it raises
#           WebhookVerificationError. svix, of the same makers and the same scheme, behaves alike.
# Version:  standardwebhooks 1.1.0, svix 2.9.1, from PyPI.
# Found:    standardwebhooks' verify() parses the body as JSON after a right signature, and returns that: a rightly signed body
#           which is not JSON (text, a form, an empty body) raises json.JSONDecodeError, which a handler of
#           WebhookVerificationError does not catch. svix 2.9.1 accepts all of them and returns None, so that code which uses
#           the result of the one gets None from the other.
# Seen:     body          standardwebhooks      svix
#           {"a": 1}      {'a': 1}              None
#           a=1&b=2       JSONDecodeError       None
#           (empty)       JSONDecodeError       None
# Matters:  senders that sign other bodies than JSON see a 500 from such receivers and repeat the delivery.
#
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check standardwebhooks==1.1.0 svix==2.9.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import datetime, importlib.metadata, sys
import standardwebhooks.webhooks, svix.webhooks

secret = "whsec_" + "c2VjcmV0" * 4
now = datetime.datetime.now(datetime.timezone.utc)

def verify(module, prefix, body):
    hook = module.Webhook(secret)
    fields = {f"{prefix}-id": "message", f"{prefix}-timestamp": str(int(now.timestamp())), f"{prefix}-signature": hook.sign("message", now, body)}
    try:
        return repr(hook.verify(body, fields))
    except ValueError as error:
        return type(error).__name__

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("standardwebhooks", "svix")))
seen = []
for body in ('{"a": 1}', "a=1&b=2", ""):
    seen.append((verify(standardwebhooks.webhooks, "webhook", body), verify(svix.webhooks, "svix", body)))
    print(repr(body), *seen[-1])
as_found = seen == [("{'a': 1}", "None"), ("JSONDecodeError", "None"), ("JSONDecodeError", "None")]
print("as found: a right signature is not enough" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
