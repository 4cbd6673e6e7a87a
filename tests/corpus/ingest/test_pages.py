"""Pages of WARC files: written here byte by byte, as the standard says (ISO 28500)."""

import gzip

import pytest

from dph.corpus.ingest.pages import page_documents, page_text
from dph.corpus.ingest.reading import Skip
from dph.corpus.ingest.run import ingest
from dph.corpus.ingest.sources import plan
from dph.errors import SettingsError

PAGE = (
    "<html><head><title>t</title><script>var x = 1;</script></head><body><nav><ul><li>Home</li>"
    "<li>About</li></ul></nav><main><h1>Sorting</h1><p>A first paragraph about sorting lists, long "
    "enough to be content.</p><p>A second one, with <b>bold</b> words and an é.</p></main>"
    "</body></html>"
)


def record(
    url, body, *, kind="response", status="200 OK", content="text/html", date="2024-05-06T07:08:09Z"
):
    """A record: its header, the answer of the server, two line ends."""
    http = f"HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {len(body)}\r\n\r\n"
    block = http.encode() + body
    header = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
        f"WARC-Date: {date}\r\n"
        + (f"WARC-Target-URI: {url}\r\n" if url else "")
        + f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return header.encode() + block + b"\r\n\r\n"


def archive(path, *records):
    """A file in which every record is packed by itself, as crawls are."""
    packed = path.name.endswith(".gz")
    path.write_bytes(b"".join(gzip.compress(each) if packed else each for each in records))
    return path


def read(path):
    return [*page_documents(path, "crawl", {"licence": "MIT"})]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_page_is_its_main_content(tmp_path, name):
    path = archive(
        tmp_path / name,
        record("https://a.org/x/y.html?q=1", PAGE.encode(), content="text/html; charset=utf-8"),
    )
    (page,) = read(path)
    assert page.text.split("\n\n") == [
        "Sorting",
        "A first paragraph about sorting lists, long enough to be content.",
        "A second one, with bold words and an é.",
    ]
    assert (page.id, page.url) == ("crawl/https://a.org/x/y.html?q=1", "https://a.org/x/y.html?q=1")
    assert (page.path, page.source, page.doc_type, page.licence) == (
        "x/y.html",
        "crawl",
        "text",
        "MIT",
    )
    assert page.commit_time == 1_714_979_289  # 2024-05-06 07:08:09 UTC


def test_encodings_are_told_or_found_out():
    latin = PAGE.encode("latin-1")
    assert "an é." in page_text(latin, "iso-8859-1")
    assert "an é." in page_text(latin)
    assert "an é." in page_text(PAGE.encode())


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (record("https://a.org/", b"no", status="404 Not Found"), "http_status"),
        (record("https://a.org/", b"%PDF", content="application/pdf"), "not_html"),
        (record("", PAGE.encode()), "no_url"),
        (record("https://a.org/", b"<html><body></body></html>"), "no_text"),
        (record("https://a.org/", b"<p>x</p>" * 1_100_000), "oversized"),
    ],
    ids=["status", "kind", "url", "text", "size"],
)
def test_what_is_not_a_page_has_a_reason(tmp_path, made, reason):
    (found,) = read(archive(tmp_path / "a.warc", made))
    assert isinstance(found, Skip)
    assert found.reason == reason


def test_requests_are_passed_over_and_a_damaged_end_is_told(tmp_path):
    whole = [
        record("https://a.org/1", PAGE.encode()),
        record("https://a.org/r", b"", kind="request"),
    ]
    found = read(archive(tmp_path / "a.warc.gz", *whole))
    assert [page.url for page in found] == ["https://a.org/1"]
    path = archive(tmp_path / "b.warc.gz", *whole, record("https://a.org/2", PAGE.encode()))
    path.write_bytes(path.read_bytes()[:-40])
    found = read(path)
    assert found[0].url == "https://a.org/1"
    assert [each.reason for each in found if isinstance(each, Skip)] == ["cut_off"]
    path.write_bytes(b"\x1f\x8bno archive")
    assert [each.reason for each in read(path)] == ["file_damaged"]


def test_an_archive_is_ingested_and_the_later_of_two_crawls_stays(tmp_path):
    old = record("https://a.org/", PAGE.encode(), date="2023-01-01T00:00:00Z")
    new = record("https://a.org/", PAGE.replace("first", "newer").encode())
    path = archive(tmp_path / "crawl.warc.gz", new, old)
    corpus = ingest(plan([str(path)]), tmp_path / "out")
    (page,) = corpus.documents()
    assert "A newer paragraph" in page.text
    assert corpus.manifest.flow.reasons["id_taken"].documents == 1


def test_without_the_extra_the_command_says_what_to_install(tmp_path, monkeypatch):
    path = archive(tmp_path / "a.warc", record("https://a.org/", PAGE.encode()))
    monkeypatch.setattr("dph.corpus.stage.find_spec", lambda _name: None)
    with pytest.raises(
        SettingsError, match=r"needs fastwarc, resiliparse: pip install 'dph-rl\[web\]'"
    ):
        plan([str(path)])
