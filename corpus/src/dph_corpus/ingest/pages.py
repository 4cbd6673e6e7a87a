"""Pages of the web from archives of crawls (WARC): what a page says, without markup and menus."""

import codecs
import datetime
import io
import mmap
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dph_corpus.documents import DocType, Document
from dph_corpus.ingest.reading import DAMAGE, LARGEST, Skip, damaged, printable
from dph_corpus.packaged import packaged

PAGE_SUFFIXES = (".warc", ".warc.gz", ".warc.zst")
READING_PAGES = {"fastwarc": "fastwarc", "resiliparse": "resiliparse"}
"""Packages that read archives and pages, by module."""
_OK = 200
_HEAD_OF_RECORD = re.compile(rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd|WARC/\d\.\d+\r?\n")
"""The beginning of a record, packed or not: where to read on after damage."""


def page_documents(path: Path, label: str, facts: Mapping[str, Any]) -> Iterator[Document | Skip]:
    """A document for each page of HTML in an archive; its id is the label and the URL.

    ``text`` is the page's main content, ``commit_time`` the time of the crawl. Of one URL that was
    crawled twice the later page stays. Where a record is damaged, reading continues at the next.
    """
    warc = import_module("fastwarc.warc")
    start, before, told = 0, "the beginning", False
    with path.open("rb") as file:
        while True:
            file.seek(start)
            damage: Exception | None = None
            try:  # a record at a time, whatever the file unpacks to
                for record in warc.ArchiveIterator(file, parse_http=False, fsspec_args=False):
                    start, told = record.stream_pos, False
                    if record.record_type != warc.WarcRecordType.response:
                        continue
                    before = printable(record.headers.get("WARC-Target-URI") or "").strip("<>")
                    try:
                        found = _page(record, before, label, facts)
                    except DAMAGE as error:
                        found = damaged("page", before, error)
                    yield found
                    reason = found.reason if isinstance(found, Skip) else ""
                    told = reason in ("cut_off", "page_damaged")
                    if reason == "cut_off":  # it may have swallowed the next ones
                        break
                else:
                    return
            except DAMAGE as error:
                damage = error
            following = _next_record(file, start + 1)
            if damage and (not told or following is None):
                rest = f"read on at byte {following}" if following else "the rest is not read"
                yield damaged("file", f"after {before}", damage, rest)
            if following is None:
                return
            start, told = following, True


def _next_record(file: io.BufferedReader, start: int) -> int | None:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = _HEAD_OF_RECORD.search(data, start)
        return found.start() if found else None


def _page(record: Any, url: str, label: str, facts: Mapping[str, Any]) -> Document | Skip:
    if not url:
        return Skip("no_url", printable(record.record_id or ""))
    if not record.is_http:
        return Skip("not_http", url)
    record.parse_http()
    headers = record.http_headers
    if headers is None:
        return Skip("not_http", url)
    if headers.status_code != _OK:
        return Skip("http_status", url, str(headers.status_code))
    content = headers.get("Content-Type") or ""
    kind = re.split(r"[;,\s]", content.strip(), maxsplit=1)[0].lower()
    if kind not in ("text/html", "application/xhtml+xml"):
        return Skip("not_html", url, printable(kind))
    data = record.reader.read(LARGEST + 1)
    if len(data) < record.content_length and len(data) <= LARGEST:
        return Skip("cut_off", url, f"{len(data)} of {record.content_length} bytes")
    data = _decoded(data, headers)
    if len(data) > LARGEST:
        return Skip("oversized", url, f"over {LARGEST} bytes")
    text = page_text(data, content)
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


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path.strip("/")
    except ValueError:  # "http://[" is not a URL
        return ""


# Bodies, and the encodings of pages, as browsers read them.


_READERS = {"br": "BrotliReader", "zstd": "ZstdReader", "chunked": "ChunkedReader"}


def _decoded(data: bytes, headers: Any) -> bytes:
    """The body without its codings, at most a byte over ``LARGEST``.

    The library could do so, but loses its place in the archive if a body is broken. Many crawlers
    store plain bodies with the server's headers, so that what begins like HTML may be just that.
    Other codings are passed over: identity, or a charset where none belongs.
    """
    streams = import_module("fastwarc.stream_io")
    names = ("Content-Encoding", "Transfer-Encoding")
    codings = ",".join(value for name in names for value in headers.get_multiple(name))
    for coding in map(str.strip, reversed(codings.lower().split(","))):
        try:
            if coding in ("gzip", "x-gzip", "deflate"):
                wrapped = data[:2] == b"\x1f\x8b" or _is_zlib(data)
                bits = zlib.MAX_WBITS + 32 if wrapped else -zlib.MAX_WBITS
                data = zlib.decompressobj(bits).decompress(data, LARGEST + 1)
            elif coding in _READERS:
                reader = getattr(streams, _READERS[coding])(io.BytesIO(data))
                data = reader.read(LARGEST + 1)
        except DAMAGE:
            if not data.lstrip(codecs.BOM_UTF8 + b" \t\r\n").startswith(b"<"):
                raise
    return data


def _is_zlib(data: bytes) -> bool:
    return data[:1] != b"" and data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0


_CODECS = packaged("ingest/encodings.toml", dict[str, str])
_MARKS = (codecs.BOM_UTF8, "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")
_HEADER = re.compile(r"(?:^|[;,\s])charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_META = re.compile(
    rb"<meta\s[^>]*?charset\s*=\s*[\"']?\s*([^\s\"'/>;]+)|^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([^\"'>]+)",
    re.IGNORECASE,
)


def page_text(data: bytes, content_type: str = "") -> str:
    """The main content of a page as plain text, with a line for each block.

    Args:
        data: the page.
        content_type: the server's header, whose charset goes before what the page says of itself,
            and after a byte-order mark (https://encoding.spec.whatwg.org).
    """
    extract = import_module("resiliparse.extract.html2text")
    marked = next((each for each in _MARKS if data.startswith(each[0])), None)
    mark, codec = marked or (b"", _codec_of(data, content_type))
    data, names = data[len(mark) :], _CODECS.get(codec, codec).split()
    for name in names:
        with suppress(UnicodeDecodeError):
            text = data.decode(name)
            break
    else:
        text = data.decode(names[0], "replace")
    found: str = extract.extract_plain_text(text, main_content=True, preserve_formatting=True)
    return found.replace("\0", "").encode("utf-8", "replace").decode()


def _codec_of(data: bytes, content_type: str) -> str:
    encoding = import_module("resiliparse.parse.encoding")

    def known(label: str) -> str:
        name = label.lower()
        return (
            name if name in _CODECS else encoding.map_encoding_to_html5(name, fallback_utf8=False)
        )

    if codec := next(filter(None, map(known, _HEADER.findall(content_type))), None):
        return codec
    head = re.sub(rb"<!--.*?-->", b"", data[:1024], flags=re.DOTALL)
    for pair in _META.findall(head):
        if codec := known(b"".join(pair).decode("latin-1").strip()):
            return "utf-8" if codec.startswith("utf-16") else codec  # it was read as ASCII
    found: str = encoding.detect_encoding(data)
    return found
