"""The docs room: `read_docs`, from a URL as a model wrote it to Markdown, with every read on record.

- A `DocsSource` (source.py) serves a whole run: it knows where bytes come from (network, snapshot, `--docs-map`), asks
  hosts politely (pace.py, robots.py) and converts pages in processes of their own (converter.py, worker.py).
- A `DocsReader` (reader.py) serves one attempt: it resolves the URL (url.py), judges it and each redirect (policy.py),
  reads it once, and answers in parts (parts.py, answer.py).
- A `Page` (page.py) is a body that was read: its charset found (charset.py), its type told (media.py), its HTML turned
  into Markdown (html/).

Network I/O is in dial.py and fetch.py, disk I/O in snapshot.py and docs_map.py. The rest is pure. Whatever goes wrong
is a `ReadError` with a `Problem` from a closed list (problems.py).
"""
