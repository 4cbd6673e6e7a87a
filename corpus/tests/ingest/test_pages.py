"""Pages of WARC files: written here byte by byte, as the standard says (ISO 28500)."""

import gzip
import re
import zlib

import pytest

from case_tables import table
from dph._base.provenance import install_command
from dph.errors import SettingsError
from dph_corpus.ingest.pages import page_documents, page_text
from dph_corpus.ingest.reading import Skip
from dph_corpus.ingest.run import ingest
from dph_corpus.ingest.sources import plan

PAGE = (
    "<html><head><title>t</title><script>var x = 1;</script></head><body><nav><ul><li>Home</li>"
    "<li>About</li></ul></nav><main><h1>Sorting</h1><p>A first paragraph about sorting lists, long "
    "enough to be content.</p><p>A second one, with <b>bold</b> words and an é.</p></main>"
    "</body></html>"
)


def record(
    url,
    body,
    *,
    kind="response",
    status="200 OK",
    content="text/html",
    date="2024-05-06T07:08:09Z",
    more=b"",
):
    """A record: its header, the answer of the server, two line ends."""
    http = f"HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {len(body)}\r\n"
    block = http.encode("latin-1") + more + b"\r\n" + body
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
    told = (page.path, page.source, page.doc_type, page.licence)
    assert told == ("x/y.html", "crawl", "text", "MIT")
    assert page.commit_time == 1_714_979_289  # 2024-05-06 07:08:09 UTC


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


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def chunked(data):
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)


def coded(name):
    return f"Content-Encoding: {name}\r\n".encode()


CHUNKED = b"Transfer-Encoding: chunked\r\n"
UTF8 = PAGE.encode()
READ, LOST = "read", "page_damaged"


@pytest.mark.parametrize(
    ("body", "more", "outcome"),
    [
        (gzip.compress(UTF8), coded("gzip"), READ),
        (gzip.compress(UTF8), coded("X-GZip"), READ),
        (gzip.compress(UTF8) + b"junk", coded("gzip"), READ),
        (zlib.compress(UTF8), coded("deflate"), READ),
        (raw_deflate(UTF8), coded("deflate"), READ),
        (chunked(UTF8), CHUNKED, READ),
        (chunked(raw_deflate(UTF8)), CHUNKED + coded("deflate"), READ),
        (gzip.compress(gzip.compress(UTF8)), coded("gzip, gzip"), READ),
        (UTF8, coded("gzip"), READ),  # stored plain, with the server's header
        (UTF8, CHUNKED, READ),
        (UTF8, coded("utf-8"), READ),
        (b"\x1f\x8b\x08broken", coded("gzip"), LOST),
        (b"\x0b\x80broken", coded("br"), LOST),
        (b"\x28\xb5\x2f\xfdbroken", coded("zstd"), LOST),
        (chunked(UTF8)[:-30], CHUNKED, LOST),
        (b"fffffffffff\r\nx", CHUNKED, LOST),
        (UTF8, b"X-Long: " + b"x" * 90_000 + b"\r\n", LOST),
    ],
)
@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_body_is_read_or_its_page_is_lost_by_name_and_the_others_stay(
    tmp_path, name, body, more, outcome
):
    before, after = (record(f"https://a.org/{n}", UTF8) for n in (1, 3))
    page = record("https://a.org/2", body, content="text/html; charset=utf-8", more=more)
    first, found, last = read(archive(tmp_path / name, before, page, after))
    assert (first.url, last.url) == ("https://a.org/1", "https://a.org/3")
    if outcome == READ:
        assert found.text == first.text
    else:
        assert (found.reason, found.path) == (outcome, "https://a.org/2")
        assert found.note


@pytest.mark.parametrize("charset", ["utf8mb3", "rot13", "UTF-8,text/html", "", "'", "é"])
def test_a_label_that_no_browser_knows_is_passed_over(tmp_path, charset):
    page = record("https://a.org/", UTF8, content=f"text/html; charset={charset}")
    (found,) = read(archive(tmp_path / "a.warc", page))
    assert "an é." in found.text


RUSSIAN = "Съешь же ещё этих мягких французских булок"


@pytest.mark.parametrize(("label", "codec", "text"), table("ingest/cases.toml")["labels"])
def test_labels_mean_what_browsers_take_them_for(label, codec, text):
    """https://encoding.spec.whatwg.org/#names-and-labels, by the header and by the page."""
    page = f"<html><head>%s</head><body><main><p>{text} {text}</p></main></body></html>"
    assert text in page_text((page % "").encode(codec), f"text/html;charset={label}")
    if codec != "utf-16-le":
        meta = f'<meta http-equiv="Content-Type" content="text/html; charset={label.strip()}">'
        meta = f"<meta charset={label}>" if '"' in label else meta
        assert text in page_text((page % meta).encode(codec), "text/html; charset=unheard-of")


def test_a_mark_goes_before_the_header_and_the_header_before_the_page():
    page = f"<meta charset=koi8-r><main><p>{RUSSIAN} {RUSSIAN}</p></main>"
    koi = "text/html; charset=koi8-r"
    assert RUSSIAN in page_text(b"\xef\xbb\xbf" + page.encode(), koi)
    assert RUSSIAN in page_text(b"\xff\xfe" + page.encode("utf-16-le"), koi)
    assert RUSSIAN in page_text(b"\xfe\xff" + page.encode("utf-16-be"), koi)
    assert RUSSIAN in page_text(page.encode("cp1251"), "text/html; charset=windows-1251")
    assert RUSSIAN in page_text(page.encode("koi8-r"), "text/html")
    hidden = page.replace("<meta charset=koi8-r>", "<!-- <meta charset=koi8-r> -->")
    assert RUSSIAN in page_text(hidden.encode(), "text/html")
    wide = page.replace("koi8-r", "utf-16")  # read as ASCII, so it is not UTF-16
    assert RUSSIAN in page_text(wide.encode(), "text/html")


def test_a_byte_that_has_no_meaning_is_one_mark_and_the_rest_stays():
    text = page_text(
        "<main><p>Ein schöner Tag</p></main>".encode("latin-1"), "text/html;charset=utf8"
    )
    assert "Ein sch\ufffdner Tag" in text


def spoil(data, how):
    """The second of three records of an archive, damaged."""
    first, second, third = data
    packed = second.startswith(b"\x1f\x8b")
    if how == "body":
        second = second[: len(second) // 2] + b"\0" * 20 + second[len(second) // 2 + 20 :]
    elif how == "head":
        second = b"\0" * 60 + second[60:]
    elif how == "cut":
        second = second[:-25]
    elif how == "between":
        second += b"\0" * 999
    elif how == "length":
        plain = gzip.decompress(second) if packed else second
        plain = plain.replace(b"\r\nContent-Length: ", b"\r\nContent-Length: 99999", 1)
        second = gzip.compress(plain) if packed else plain
    return first + second + third


@pytest.mark.parametrize("how", ["body", "head", "cut", "between", "length"])
@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_an_archive_is_read_on_at_the_next_record_after_damage(tmp_path, name, how):
    if name == "a.warc" and how == "body":
        pytest.skip("zeros in a plain page are a part of it")
    made = [record(f"https://a.org/{n}", UTF8) for n in (1, 2, 3)]
    path = tmp_path / name
    path.write_bytes(spoil([gzip.compress(m) if name.endswith("gz") else m for m in made], how))
    found = read(path)
    urls = [each.url for each in found if not isinstance(each, Skip)]
    (lost,) = (each for each in found if isinstance(each, Skip))
    assert {"https://a.org/1", "https://a.org/3"} <= {*urls}
    assert lost.reason in ("file_damaged", "cut_off")
    assert "https://a.org/" in lost.path


def test_an_archive_is_ingested_and_the_later_of_two_crawls_stays(tmp_path):
    old = record("https://a.org/", PAGE.encode(), date="2023-01-01T00:00:00Z")
    new = record("https://a.org/", PAGE.replace("first", "newer").encode())
    path = archive(tmp_path / "crawl.warc.gz", new, old)
    corpus = ingest(plan([str(path)]), tmp_path / "out")
    (page,) = corpus.documents()
    assert "A newer paragraph" in page.text
    assert corpus.manifest.flow.reasons["page_older"].documents == 1


def test_without_the_extra_the_command_says_what_to_install(tmp_path, monkeypatch):
    path = archive(tmp_path / "a.warc", record("https://a.org/", PAGE.encode()))
    monkeypatch.setattr("dph_corpus.stage.find_spec", lambda _name: None)
    command = re.escape(install_command("web", "dph-corpus"))
    with pytest.raises(SettingsError, match=f"needs fastwarc, resiliparse: {command}"):
        plan([str(path)])
