"""The text layer of a PDF, page by page."""

from __future__ import annotations

import io
import logging

from pypdf import PdfReader
from pypdf.errors import PyPdfError

MAX_PAGES = 2000


class PdfError(Exception):
    """The text layer can't be read; the message says why."""


def pdf_markdown(body: bytes) -> str:
    """The text with a heading for each page. Raises PdfError."""
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise PdfError("it is encrypted")
        count = len(reader.pages)
        texts = [(number, reader.pages[number - 1].extract_text()) for number in range(1, min(count, MAX_PAGES) + 1)]
    # pypdf raises its own errors for what it knows, and whatever happens to go wrong for the rest of a broken file.
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError, RecursionError) as error:
        raise PdfError(f"it can't be parsed ({type(error).__name__}: {str(error)[:200]})") from error
    if not any(text.strip() for _, text in texts):
        raise PdfError("it has no text layer (scanned pages?)")
    pages = [f"## Page {number}\n\n{text.strip()}" for number, text in texts]
    if count > MAX_PAGES:
        pages.append(f"(The document has {count} pages; those after page {MAX_PAGES} are not shown.)")
    return "\n\n".join(pages)
