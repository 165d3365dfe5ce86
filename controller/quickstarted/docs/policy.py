"""Which URLs `read_docs` may ask for. Pure; every hop of a redirect is judged like the first URL."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from quickstarted_api.hosts import first_match

from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.url import port_of, without_fragment
from quickstarted.task.model import Docs


@dataclass(frozen=True, slots=True)
class DocsPolicy:
    """`pages` are the task's own, in a reader's order; `hosts` its documentation hosts, subdomains included."""

    pages: tuple[str, ...]
    hosts: tuple[str, ...]

    @classmethod
    def of(cls, docs: Docs) -> DocsPolicy:
        return cls(docs.path, docs.hosts)

    @property
    def entrypoint(self) -> str:
        return self.pages[0]

    def judge(self, url: str, *, before: str | None = None) -> None:
        """Raises ReadError for a URL (as `url.resolve` gives it) that may not be asked for.

        `before` is the URL that led here by a redirect.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        led = f"{without_fragment(before)} leads to {without_fragment(url)}; " if before else ""
        if first_match(host, self.hosts) is None:
            allowed = ", ".join(self.hosts)
            message = f"{led}the host {host} is not one of this project's documentation hosts ({allowed})."
            raise ReadError(Problem.NOT_ALLOWLISTED, message, host=host)
        if before and before.startswith("https://") and parts.scheme == "http" and not self._plain_http:
            raise ReadError(Problem.DOWNGRADE, f"{led}a redirect from https to http is not followed.")
        port = port_of(url)
        if port != (443 if parts.scheme == "https" else 80) and (host, port) not in self._own_ports:
            raise ReadError(Problem.PORT, f"{led}port {port} of {host} is not a documentation port.", port=port)

    @property
    def _plain_http(self) -> bool:
        return any(page.startswith("http://") for page in self.pages)

    @property
    def _own_ports(self) -> set[tuple[str, int]]:
        return {((urlsplit(page).hostname or "").removesuffix("."), port_of(page)) for page in self.pages}
