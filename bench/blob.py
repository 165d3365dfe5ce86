"""Both ends of a large download over TLS, which is how packages are downloaded.

`python -m bench.blob CERT KEY` prints its port and answers each connection with `SIZE` bytes, until its stdin ends.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

SIZE = 1 << 30
HOST = "files.test"
_CHUNK = 1 << 20


def certificate(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate for `HOST`, and its key."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-days", "1", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def download(port: int, cert: Path, *, proxy: bool) -> None:
    """Connect to a port of this machine, through a proxy's CONNECT or not, and read `SIZE` bytes."""
    context = ssl.create_default_context(cafile=str(cert))
    with socket.create_connection(("127.0.0.1", port), timeout=120) as raw:
        if proxy:
            raw.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode())
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += raw.recv(1)
            if b" 200 " not in answer.split(b"\r\n")[0]:
                raise RuntimeError(f"the proxy answered {answer!r}")
        with context.wrap_socket(raw, server_hostname=HOST) as tls:
            tls.sendall(b"GO")
            buffer = bytearray(_CHUNK)
            left = SIZE
            while left:
                received = tls.recv_into(buffer)
                if not received:
                    raise RuntimeError(f"the download ended {left} bytes early")
                left -= received


def _answer(connection: ssl.SSLSocket) -> None:
    chunk = bytes(_CHUNK)
    with connection:
        connection.recv(2)
        for _ in range(SIZE // _CHUNK):
            connection.sendall(chunk)


def serve(cert: str, key: str) -> None:
    """Answer connections until the process ends."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    with context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    threading.Thread(target=serve, args=sys.argv[1:3], daemon=True).start()
    sys.stdin.buffer.read()
