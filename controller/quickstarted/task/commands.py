"""The programs that a shell script calls by name, as far as they can be seen without running it.

A scanner over POSIX shell's grammar that knows what it has to skip: quotes, comments, here-documents, arguments,
patterns of `case`. It is made for warnings: it reads any text, and where a script is too clever it misses a name rather
than inventing one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_DYNAMIC = "\0"  # stands in a word for what is known only when the script runs
_BEFORE_COMMAND = frozenset(
    ("if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "nohup", "builtin")
)
_NO_COMMAND = frozenset(("for", "case", "select", "function", "in", "fi", "done", "esac", "}"))
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)
_HERE_DOCUMENT = re.compile(r"(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)")
_SHELLS = frozenset(("sh", "bash", "dash"))
_SCRIPTS = frozenset(("eval", "trap"))
_MAX_DEPTH = 4  # of scripts in strings

# Programs that run their arguments, with those of their options that take a value.
_WRAPPERS = {
    "env": "uCS",
    "sudo": "ugCDhpRrTtU",
    "xargs": "IdEnPsLa",
    "timeout": "ks",
    "nice": "n",
    "stdbuf": "ioe",
    "command": "",
}


def called(script: str, depth: int = 0) -> Iterator[str]:
    """The names of the programs that a script calls."""
    if depth < _MAX_DEPTH:
        for words in _Scanner(script).commands():
            yield from _programs(words, depth)


def _programs(words: list[str], depth: int) -> Iterator[str]:
    """The programs that one simple command calls: one, or those of a script that it hands to a shell."""
    rest = list(words)
    while rest and (rest[0] in _BEFORE_COMMAND or _ASSIGNMENT.match(rest[0])):
        del rest[0]
    if not rest or rest[0] in _NO_COMMAND:
        return
    name, *arguments = rest
    yield name
    if name in _WRAPPERS and not (name == "command" and arguments[:1] in (["-v"], ["-V"])):
        yield from _programs(_wrapped(name, arguments), depth)
    elif name in _SCRIPTS:
        yield from called(" ".join(arguments[:1] if name == "trap" else arguments), depth + 1)
    elif name in _SHELLS:
        flags = [index for index, word in enumerate(arguments) if word.startswith("-") and word.endswith("c")]
        if flags and flags[0] + 1 < len(arguments):
            yield from called(arguments[flags[0] + 1], depth + 1)


def _wrapped(name: str, arguments: list[str]) -> list[str]:
    """What is left of a wrapper's arguments behind its own options."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if rest and len(option) == 2 and option[1] in _WRAPPERS[name]:
            del rest[0]
    return rest[1:] if name == "timeout" else rest


@dataclass(slots=True)
class _Frame:
    """A context in which commands stand: the script, a subshell, a substitution. `closer` ends it."""

    closer: str
    words: list[str] = field(default_factory=list)
    word: str | None = None
    in_quotes: bool = False  # double quotes are open in the word
    drop_word: bool = False  # the next word is the target of a redirection
    in_pattern: bool = False  # what comes next is a pattern of `case`, up to its parenthesis

    def end_word(self) -> None:
        word, self.word = self.word, None
        if word is None:
            return
        if self.drop_word:
            self.drop_word = False
            return
        self.words.append(word)
        if self.in_pattern and word == "esac":
            self.in_pattern = False
            self.words.clear()
        elif word == "in" and self.words[-3:-2] == ["case"]:
            self.in_pattern = True
            self.words.clear()

    def add(self, text: str) -> None:
        self.word = (self.word or "") + text


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._frames = [_Frame("")]
        self._here_documents: list[tuple[str, bool]] = []
        self._done: list[list[str]] = []

    def commands(self) -> Iterator[list[str]]:
        """The words of each simple command, in the order in which they end."""
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if self._frames[-1].in_quotes:
                self._quoted(char)
            else:
                self._plain(char)
            yield from self._take()
        for frame in reversed(self._frames):
            self._end_command(frame)
        yield from self._take()

    def _take(self) -> list[list[str]]:
        done, self._done = self._done, []
        return done

    def _quoted(self, char: str) -> None:
        frame = self._frames[-1]
        if char == '"':
            frame.in_quotes = False
        elif char == "\\":
            frame.add(self._text[self._at : self._at + 1])
            self._at += 1
        elif not self._expansion(char):
            frame.add(char)

    def _plain(self, char: str) -> None:
        frame = self._frames[-1]
        if char == "\\":
            following = self._text[self._at : self._at + 1]
            self._at += 1
            if following != "\n":
                frame.add(following)
        elif char == "'":
            end = self._find("'")
            frame.add(self._text[self._at : end])
            self._at = end + 1
        elif char == '"':
            frame.in_quotes = True
            frame.add("")
        elif char in " \t\r":
            frame.end_word()
        elif char == "#" and frame.word is None:
            self._at = self._find("\n")
        elif char in "<>":
            self._redirection(frame, char)
        elif char in "\n;&|()":
            self._operator(frame, char)
        elif not self._expansion(char):
            frame.add(char)

    def _expansion(self, char: str) -> bool:
        """Handle what begins with a dollar sign or is between backquotes."""
        frame = self._frames[-1]
        if char == "`":
            if frame.closer == "`":
                self._close()
            else:
                frame.add(_DYNAMIC)
                self._frames.append(_Frame("`"))
            return True
        if char != "$":
            return False
        frame.add(_DYNAMIC)
        if self._text.startswith("((", self._at):
            end = self._text.find("))", self._at)
            self._at = len(self._text) if end < 0 else end + 2
        elif self._text.startswith("(", self._at):
            self._at += 1
            self._frames.append(_Frame(")"))
        elif self._text.startswith("{", self._at):
            self._at = self._find("}") + 1
        return True

    def _redirection(self, frame: _Frame, char: str) -> None:
        if frame.word is not None and frame.word.isdigit():
            frame.word = None
        frame.end_word()
        if char == "<" and self._text.startswith("<", self._at) and not self._text.startswith("<<", self._at):
            if here := _HERE_DOCUMENT.match(self._text, self._at + 1):
                self._here_documents.append((re.sub(r"['\"\\]", "", here[2]), here[1] == "-"))
                self._at = here.end()
            return
        while self._text[self._at : self._at + 1] in ("<", ">", "&", "|"):
            self._at += 1
        frame.drop_word = True

    def _operator(self, frame: _Frame, char: str) -> None:
        if char == "&" and self._text.startswith(">", self._at):
            return  # &> redirects
        if char == ")" and (frame.in_pattern or frame.closer != ")"):
            frame.end_word()
            frame.words.clear()
            frame.in_pattern = False
        elif char == ")":
            self._close()
        elif char == "(" and not frame.in_pattern:
            frame.end_word()
            if len(frame.words) == 1:
                frame.words.clear()  # the name of a function that is defined
            self._frames.append(_Frame(")"))
        else:
            self._end_command(frame)
            if char == ";" and self._text.startswith(";", self._at):
                frame.in_pattern = True
            elif char == "\n":
                self._skip_here_documents()

    def _close(self) -> None:
        self._end_command(self._frames.pop())

    def _end_command(self, frame: _Frame) -> None:
        frame.end_word()
        if frame.words and not frame.in_pattern:
            self._done.append(frame.words)
        frame.words = []
        frame.drop_word = False

    def _skip_here_documents(self) -> None:
        for end, tabs in self._here_documents:
            while self._at < len(self._text):
                stop = self._find("\n")
                line = self._text[self._at : stop]
                self._at = stop + 1
                if (line.lstrip("\t") if tabs else line) == end:
                    break
        self._here_documents.clear()

    def _find(self, char: str) -> int:
        """Where a character stands next, or the end of the text."""
        found = self._text.find(char, self._at)
        return len(self._text) if found < 0 else found
