"""Another party for signatures: signature_peer.py verify|sign|webhook reads a JSON object from the file that it is given.

"verify" and "sign" use http-message-signatures (RFC 9421), and "webhook" standardwebhooks. Each prints one line: "ok", the fields
of a signed request as JSON, or "refused" with the reason.
"""

import base64
import json
import sys

from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver, algorithms
from standardwebhooks import Webhook


class Message:
    def __init__(self, given):
        self.method, self.url, self.headers = given["method"], given["url"], given["headers"]


class Keys(HTTPSignatureKeyResolver):
    def __init__(self, given):
        self.given = given

    def resolve_public_key(self, key_id):
        if "secret" in self.given:
            return base64.b64decode(self.given["secret"])
        return load_pem_public_key(self.given["public"].encode())

    def resolve_private_key(self, key_id):
        if "secret" in self.given:
            return base64.b64decode(self.given["secret"])
        return load_pem_private_key(self.given["private"].encode(), None)


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        given = json.load(file)
    body = base64.b64decode(given["body"])
    if sys.argv[1] == "webhook":
        Webhook(given["secret"]).verify(body, given["headers"])
        return "ok"
    algorithm = getattr(algorithms, given["algorithm"])
    message = Message(given)
    if sys.argv[1] == "sign":
        signer = HTTPMessageSigner(signature_algorithm=algorithm, key_resolver=Keys(given))
        signer.sign(message, key_id="peer", covered_component_ids=given["components"], body=body, tag="app")
        return json.dumps(dict(message.headers))
    verifier = HTTPMessageVerifier(signature_algorithm=algorithm, key_resolver=Keys(given))
    verifier.verify(message, body=body, max_age=None)
    return "ok"


try:
    print(main())
except Exception as error:  # noqa: BLE001: every refusal is printed
    print("refused", type(error).__name__, error)
