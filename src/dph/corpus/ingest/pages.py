"""Pages of the web from archives of crawls (WARC): what a page says, without markup and menus."""

import datetime
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dph.corpus.documents import DocType, Document
from dph.corpus.ingest.reading import DAMAGE, LARGEST, Skip, printable

PAGE_SUFFIXES = (".warc", ".warc.gz", ".warc.zst")
READING_PAGES = {"fastwarc": "fastwarc", "resiliparse": "resiliparse"}
"""Packages that read archives and pages, by module."""
_OK = 200


def page_documents(path: Path, label: str, facts: Mapping[str, Any]) -> Iterator[Document | Skip]:
    """A document for each page of HTML in an archive; its id is the label and the URL.

    ``text`` is the page's main content, ``commit_time`` the time of the crawl. Of one URL that was
    crawled twice the later page stays.

    Args:
        path: a WARC file, packed or not.
        label: the source's.
        facts: fields that all its documents share.
    """
    warc = import_module("fastwarc.warc")
    try:
        records = warc.ArchiveIterator(  # a record at a time, whatever the file unpacks to
            str(path),
            record_types=warc.WarcRecordType.response,
            auto_decode="all",
            fsspec_args=False,
        )
        for record in records:
            yield _page(record, label, facts)
    except DAMAGE as error:
        yield Skip("file_damaged", "", f"{type(error).__name__}: {error}"[:200])


def _page(record: Any, label: str, facts: Mapping[str, Any]) -> Document | Skip:
    url = printable(record.headers.get("WARC-Target-URI") or "").strip("<>")
    if not url:
        return Skip("no_url", printable(record.record_id))
    if not record.is_http or record.http_headers is None:
        return Skip("not_http", url)
    if record.http_headers.status_code != _OK:
        return Skip("http_status", url, str(record.http_headers.status_code))
    if (record.http_content_type or "").lower() not in ("text/html", "application/xhtml+xml"):
        return Skip("not_html", url, printable(record.http_content_type or ""))
    data = record.reader.read(LARGEST + 1)
    if len(data) > LARGEST:
        return Skip("oversized", url, f"over {LARGEST} bytes")
    if len(data) < record.content_length and not _is_coded(record.http_headers):
        return Skip("cut_off", url, f"{len(data)} of {record.content_length} bytes")
    text = page_text(data, record.http_charset)
    if not text.strip():
        return Skip("no_text", url)
    moment = record.record_date
    fields = dict(facts) | {
        "id": f"{label}/{url}",
        "path": _path_of(url),
        "url": url,
        "commit_time": int(moment.timestamp()) if isinstance(moment, datetime.datetime) else 0,
        "source": label,
        "doc_type": DocType.TEXT,
    }
    return Document.of(text, **fields)


def _is_coded(headers: Any) -> bool:
    return any(headers.get(name) for name in ("Content-Encoding", "Transfer-Encoding"))


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path.strip("/")
    except ValueError:  # "http://[" is not a URL
        return ""


def page_text(data: bytes, charset: str | None = None) -> str:
    """The main content of a page as plain text, with a line for each block.

    Args:
        data: the page.
        charset: its encoding by the server; without one it is found out.
    """
    encoding = import_module("resiliparse.parse.encoding")
    extract = import_module("resiliparse.extract.html2text")
    text = encoding.bytes_to_str(data, charset or encoding.detect_encoding(data))
    found: str = extract.extract_plain_text(text, main_content=True, preserve_formatting=True)
    return found.replace("\0", "").encode("utf-8", "replace").decode()
