#!/usr/bin/env bash
# Guess:    a JSON Web Key Set is read as RFC 7517 §5 asks: a key of a type or use that the reader does not know is ignored, and
#           a token is checked with the key of its `kid`, which keys of different types may share (§4.5). So an issuer can add
#           a post-quantum key (AKP, of this year) or an elliptic one beside its RSA key, whose tokens stay valid.
# Version:  PyJWT 2.15.1, joserfc 1.8.0, Authlib 1.9.10, python-jose 3.5.0, jwcrypto 1.6.1, jwskate 0.12.2; PyPI.
# Found:    only jwcrypto reads all the sets. python-jose tries the keys in their order, whatever their `kid`, and fails at the
#           first one of another type: any EC key before the RSA one ends it. Authlib and joserfc raise a bare KeyError.
# Seen:     a valid RS256 token; the set has its RSA key, and before that
#           nothing, or another RSA key               all six take it
#           an EC key, P-256                          python-jose fails
#           an AKP key, ML-DSA-65                     Authlib, python-jose, jwskate fail
#           an EC key of a curve without a name yet   joserfc, python-jose, jwskate fail
#           an RSA key with a use of its own          joserfc fails
#           an EC key with the same `kid`             PyJWT, Authlib, python-jose, jwskate fail
# Matters:  all tokens of all users are refused from the minute that the issuer publishes one more key, which is the first and
#           harmless step of each change of keys; the errors speak of a wrong token, or are not those of the library.
# Everything is in a temporary folder with a venv of its own; no socket is opened. Exits with 0 if the behaviour is as above,
# with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check 'PyJWT[crypto]==2.15.1' \
    joserfc==1.8.0 Authlib==1.9.10 'python-jose[cryptography]==3.5.0' jwcrypto==1.6.1 jwskate==0.12.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import base64, json, logging, sys
import authlib.jose, jose.jwt, joserfc.jwk, joserfc.jwt, jwcrypto.jwk, jwcrypto.jwt, jwskate, jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

logging.disable(logging.CRITICAL)
algorithms = ["RS256", "ES256"]

def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

def public(private, **members):
    if isinstance(private, rsa.RSAPrivateKey):
        names = jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
    else:
        names = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    names.pop("key_ops", None)
    return names | {"use": "sig"} | members

private = rsa.generate_private_key(65537, 2048)
own = public(private, kid="a", alg="RS256")
other = public(rsa.generate_private_key(65537, 2048), kid="b", alg="RS256")
elliptic = public(ec.generate_private_key(ec.SECP256R1()), kid="b", alg="ES256")
token = jwt.encode({"sub": "someone"}, private, algorithm="RS256", headers={"kid": "a"})
sets = {
    "nothing": [], "another RSA key": [other], "an EC key": [elliptic],
    "an AKP key": [{"kty": "AKP", "kid": "b", "use": "sig", "alg": "ML-DSA-65", "pub": text(bytes(1952))}],
    "a new curve": [{"kty": "EC", "kid": "b", "use": "sig", "crv": "P-999", "x": text(bytes(32)), "y": text(bytes(32))}],
    "a use of its own": [other | {"use": "tls"}], "an EC key with the same kid": [elliptic | {"kid": "a"}],
}

def with_pyjwt(keys):
    client = jwt.PyJWKClient("https://issuer.example/keys")
    client.fetch_data = lambda: keys
    return jwt.decode(token, client.get_signing_key_from_jwt(token), algorithms=algorithms)

def with_joserfc(keys):
    return joserfc.jwt.decode(token, joserfc.jwk.KeySet.import_key_set(keys), algorithms=algorithms).claims

def with_authlib(keys):
    return authlib.jose.JsonWebToken(algorithms).decode(token, authlib.jose.JsonWebKey.import_key_set(keys))

def with_python_jose(keys):
    return jose.jwt.decode(token, keys, algorithms=algorithms)

def with_jwcrypto(keys):
    key_set = jwcrypto.jwk.JWKSet.from_json(json.dumps(keys))
    return json.loads(jwcrypto.jwt.JWT(jwt=token, key=key_set, algs=algorithms).claims)

def with_jwskate(keys):
    read = jwskate.Jwt(token)
    if not read.verify_signature(jwskate.JwkSet(keys), algs=algorithms):
        raise ValueError("wrong signature")
    return read.claims

readers = {
    "PyJWT": with_pyjwt, "joserfc": with_joserfc, "Authlib": with_authlib, "python-jose": with_python_jose,
    "jwcrypto": with_jwcrypto, "jwskate": with_jwskate,
}
seen = {}
for name, before in sets.items():
    print(f"the RSA key after {name}:")
    seen[name] = set()
    for reader, read in readers.items():
        try:
            result = read({"keys": [*before, own]})["sub"]
        except Exception as error:
            result = f"{type(error).__name__}: {str(error)[:90]}"
            seen[name].add(reader)
        print(f"    {reader:12} {result}")
as_found = seen == {
    "nothing": set(), "another RSA key": set(), "an EC key": {"python-jose"}, "an AKP key": {"Authlib", "python-jose", "jwskate"},
    "a new curve": {"joserfc", "python-jose", "jwskate"}, "a use of its own": {"joserfc"},
    "an EC key with the same kid": {"PyJWT", "Authlib", "python-jose", "jwskate"},
}
print("as found: one more key ends the reading" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
