"""What every documentation page of the fixtures says: fifteen code blocks with their traps, tabs, links, a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """`language` as an author writes it after the fence."""

    name: str
    language: str
    text: str


SAMPLES = (
    Sample("one command", "bash", "npm install widget"),
    Sample("three commands", "bash", "python3 -m venv .venv\n. .venv/bin/activate\npip install widget"),
    Sample(
        "indented with empty lines",
        "python",
        'from widget import Widget\n\n\ndef main():\n    w = Widget("a")\n\n    for item in w:\n        print(item)\n',
    ),
    Sample("markup in code", "html", '<!doctype html>\n<div class="a">&amp; &lt;b&gt;</div>\n<pre>\n  x\n</pre>'),
    Sample("tabs as indentation", "go", 'package main\n\nfunc main() {\n\tif true {\n\t\tprintln("hi")\n\t}\n}'),
    Sample("a fence in the code", "text", "Write this:\n\n```python\nprint(1)\n```\n\nand ````` too"),
    Sample("lines of numbers", "text", "1\n2\n3\n10"),
    Sample("numbered lines of text", "text", "1. first\n2. second\n  - third\n# no heading"),
    Sample("continued lines", "bash", "docker run \\\n  -p 8080:80 \\\n  --name web \\\n  nginx:latest"),
    Sample("prompts and output", "console", "$ widget --version\nwidget 1.2.3\n$ echo $?\n0"),
    Sample("a session", "pycon", ">>> import widget\n>>> widget.add(1, 2)\n3\n>>> "),
    Sample("beyond ASCII", "python", 'print("naïve café — 日本語 🎉")\n# …\u2026 ok'),
    Sample("a here-document", "bash", "cat > app.toml <<'EOF'\n[server]\nport = 80\n\n[log]\nlevel = \"info\"\nEOF"),
    Sample("data", "json", '{\n  "name": "x",\n  "scripts": {\n    "dev": "vite"\n  },\n  "a": [1, 2]\n}'),
    Sample("Markdown's signs", "markdown", "* a_b_c `d` [e](f) **g**\n> quoted\n\n| a | b |\n|---|---|\n~~~\n"),
)

TABS = (
    ("npm", Sample("npm", "bash", "npm install widget --save-dev")),
    ("Yarn", Sample("Yarn", "bash", "yarn add --dev widget\nyarn widget init")),
    ("pnpm", Sample("pnpm", "bash", "pnpm add -D widget")),
)

NOISE = (
    "Skip to main content",
    "Sidebar entry",
    "Copy to clipboard",
    "Edit this page",
    "Copyright 2031",
    "On this page",
)
PAGE = "https://docs.test/guide/start"
LINKS = (
    ("Relative page", "install", "https://docs.test/guide/install"),
    ("Page above", "../api/index.html#widget", "https://docs.test/api/index.html#widget"),
    ("Absolute path", "/reference?x=1&y=2", "https://docs.test/reference?x=1&y=2"),
    ("Other host", "https://files.test/a_(b).zip", "https://files.test/a_%28b%29.zip"),
    ("This page", "#usage", "https://docs.test/guide/start#usage"),
    ("__init__ [source]", "//src.test/w.py", "https://src.test/w.py"),
)
TABLE = (("Option", "Meaning"), ("--port", "where it listens | default 80"), ("--debug", "says more"))
ADMONITION = ("warning", "Keep the key secret.")
