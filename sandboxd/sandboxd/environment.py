"""The environment of everything that runs in a sandbox: built from empty, never filtered from the daemon's.

What is not named here is not there. `/proc/1/environ` in a sandbox shows no more than this, so nothing in it may be a
secret.
"""

from __future__ import annotations

# Where a sandbox sees the operator's certificate bundle: on the /run that every backend makes fresh.
CA_BUNDLE_PATH = "/run/sandboxd/ca.pem"

HOME = "/home/sandbox"
TMP = "/tmp"  # noqa: S108 - the sandbox's own
WORKSPACE = "/workspace"
PROXY_URL = "http://127.0.0.1:3128"

# Loopback is the sandbox's own: a server that it started must be asked directly.
_NO_PROXY = "localhost,127.0.0.1,127.0.0.0/8,::1"

# The variables that the tools of quickstarts read for a bundle that replaces their own.
CA_VARIABLES = (
    "SSL_CERT_FILE",  # OpenSSL, Python's ssl, Ruby, Go, uv
    "REQUESTS_CA_BUNDLE",  # requests, and pip through it
    "PIP_CERT",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_CAFILE",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
)


def build(
    *, path: str, home: str = HOME, tmp: str = TMP, proxy: str | None = PROXY_URL, ca_bundle: str | None = None
) -> dict[str, str]:
    """The whole environment. `path` is the backend's; `ca_bundle` is where the sandbox sees a bundle, if it has one."""
    environment = {
        "PATH": path,
        "HOME": home,
        "TMPDIR": tmp,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    if proxy is not None:
        for name in ("http_proxy", "https_proxy"):
            environment[name] = environment[name.upper()] = proxy
        environment["no_proxy"] = environment["NO_PROXY"] = _NO_PROXY
    if ca_bundle is not None:
        environment |= dict.fromkeys(CA_VARIABLES, ca_bundle)
    return environment
