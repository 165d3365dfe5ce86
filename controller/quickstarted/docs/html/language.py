"""Which language a code block is in, from what generators put into attributes and class names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from quickstarted.docs.html.names import words

_PREFIXED = re.compile(r"^(?:language-|lang-|highlight-source-|highlight-text-|highlight-|brush:)(?P<name>[^;]+);?$")
_TOKEN = re.compile(r"^[a-z0-9_+#.-]{1,30}$")
_NOT_A_LANGUAGE = words("none default nohighlight wrapper code block source container content box lines")
_SAME = {"plaintext": "text", "plain": "text", "txt": "text", "html-basic": "html", "undefined": "", "auto": ""}
# A bare class name counts beside one of these.
_BESIDE = words("hljs highlight sourcecode syntaxhighlighter shiki codehilite prettyprint chroma rust")
_KNOWN = words(
    "asm bash bat batch c clojure cmake cmd console cpp csharp cs css csv dart diff docker dockerfile doctest "
    "dosbatch elixir elm erlang fish fsharp go gradle graphql groovy haskell hcl html http ini java javascript "
    "jinja js json json5 jsonc jsx julia kotlin latex less lisp lua make makefile markdown md mdx nginx nim nix "
    "objectivec ocaml perl php powershell prisma properties protobuf proto ps1 pwsh py pycon python python3 r rb "
    "regex ruby rust rs sass scala scheme scss sh shell shell-session sql svelte swift tcl terraform text toml ts "
    "tsx typescript vb vim vue xml yaml yml zig zsh"
)


def language_of(candidates: Iterable[dict[str, str | None]]) -> str:
    """The language named by the first of `candidates`, attributes of elements from the block outwards; else ""."""
    for attrs in candidates:
        for name in ("data-language", "data-lang", "data-code-language"):
            if found := _clean(attrs.get(name) or ""):
                return found
        if found := _from_classes((attrs.get("class") or "").lower().split()):
            return found
    return ""


def _from_classes(names: list[str]) -> str:
    for index, name in enumerate(names):
        full = f"brush:{names[index + 1]}" if name == "brush:" and index + 1 < len(names) else name
        match = _PREFIXED.match(full)
        if match and (found := _clean(match["name"])):
            return found
    beside = _BESIDE.intersection(names)
    if not beside:
        return ""
    # rustdoc and mdBook mark their blocks `rust`, which is a mark and a language.
    return next((name for name in names if name in _KNOWN and name not in beside), "rust" if "rust" in beside else "")


def _clean(name: str) -> str:
    name = name.strip().lower()
    if name in _NOT_A_LANGUAGE or not _TOKEN.match(name):
        return ""
    return _SAME.get(name, name)
