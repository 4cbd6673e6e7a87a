import io
import random
import tarfile
import zipfile

import pytest

from dph_corpus.ingest.archives import archive_files
from dph_corpus.ingest.reading import LARGEST, RawFile
from dph_corpus.ingest.spill import distribution_facts


def member(name, data=b"x", **facts):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in facts.items():
        setattr(info, field, value)
    return info, data


def tar(path, *members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return path


def read(path, name="pkg-1.0"):
    """Files by path, and (reason, path) of what was skipped."""
    found = list(archive_files(path, distribution_facts(path, name)[0]))
    files = {file.path: file.data for file in found if isinstance(file, RawFile)}
    return files, [(skip.reason, skip.path) for skip in found if not isinstance(skip, RawFile)]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_every_packing_of_a_tar_is_read_and_the_top_folder_left_out(tmp_path, mode):
    path = tar(tmp_path / "a.tar", member("Pkg-1.0/a.py", b"a"), member("b.py"), mode=mode)
    assert read(path) == ({"a.py": b"a", "b.py": b"x"}, [])


def test_paths_that_lead_outside_links_and_devices_are_counted_and_nothing_is_written(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = tar(
        inside / "a.tar.gz",
        member("../evil.py"),
        member("/etc/evil.py"),
        member("a/../../evil.py"),
        member("C:\\evil.py"),
        member("..\\evil.py"),
        member("link", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("hard", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        member("pipe", b"", type=tarfile.FIFOTYPE),
        member("disk", b"", type=tarfile.BLKTYPE),
        member("./good/./a.py"),
        member("b.py"),
    )
    files, skipped = read(path)
    assert files == {"good/a.py": b"x", "b.py": b"x"}
    assert [reason for reason, _ in skipped] == [
        *["unsafe_path"] * 5,
        *["link", "link", "special", "special"],
    ]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tar.gz", "inside"]


def test_a_bomb_is_cut_off_and_what_came_before_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("dph_corpus.ingest.reading.ALWAYS_ALLOWED", 1_000_000)
    bomb = [member(f"{n}.txt", b"\n" * 200_000) for n in range(400)]  # 80 MB in about 100 kB
    path = tar(tmp_path / "a.tar.gz", member("good.py"), *bomb)
    files, skipped = read(path)
    assert "good.py" in files
    assert len(files) < 400
    assert skipped == [("archive_too_large", f"after {[*files][-1]}")]
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(400):
            archive.writestr(f"{number}.txt", b"\n" * 200_000)
    files, skipped = read(tmp_path / "a.zip")
    assert skipped == [("archive_too_large", f"after {[*files][-1]}")]


def test_a_large_member_is_passed_over_without_being_held(tmp_path):
    path = tar(tmp_path / "a.tar.gz", member("big.txt", b"\n" * (LARGEST + 1)), member("a.py"))
    assert read(path) == ({"a.py": b"x"}, [("oversized", "big.txt")])


@pytest.mark.parametrize(("size", "count"), [(10**10, 1), (0, 20_000)])
def test_headers_of_gigabytes_or_thousands_in_a_row_are_damage(tmp_path, size, count):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, size
    (tmp_path / "a.tar").write_bytes(info.tobuf() * count + b"\0" * 10240)
    assert read(tmp_path / "a.tar") == ({}, [("archive_damaged", "after the beginning")])


@pytest.mark.parametrize("keep", [0, 3, 1000, 30_000])
def test_a_truncated_archive_yields_what_could_be_read(tmp_path, keep):
    noise = random.Random(0).randbytes(1000)
    whole = tar(tmp_path / "a.tar.gz", *(member(f"{n}.py", noise[n:]) for n in range(60)))
    (tmp_path / "b.tar.gz").write_bytes(whole.read_bytes()[: min(keep, whole.stat().st_size // 2)])
    files, skipped = read(tmp_path / "b.tar.gz")
    assert len(files) < 60
    assert skipped == [("archive_damaged", f"after {['the beginning', *files][-1]}")]


def test_random_bytes_are_a_damaged_archive_whatever_they_begin_with(tmp_path):
    noise = bytes(n * 97 % 251 for n in range(5000))
    for number, head in enumerate([b"", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", b"PK\x03\x04"]):
        path = tmp_path / f"{number}.tar"
        path.write_bytes(head + noise)
        assert read(path) == ({}, [("archive_damaged", "after the beginning")]), head


def test_a_zip_skips_links_encrypted_members_and_outside_paths(tmp_path):
    path = tmp_path / "pkg-1.0.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("../evil", "x")
        archive.writestr("pkg-1.0/a.py", "a")
        secret = zipfile.ZipInfo("secret")
        archive.writestr(secret, "x")
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x01\x02")
    data[place + 8] |= 1  # the last member's flag of encryption
    path.write_bytes(bytes(data))
    assert read(path) == (
        {"a.py": b"a"},
        [("link", "link"), ("unsafe_path", "../evil"), ("encrypted", "secret")],
    )


def test_a_source_distribution_tells_its_licence_and_where_it_lives(tmp_path):
    info = (
        b"Metadata-Version: 2.4\nName: pkg\nLicense-Expression: MIT\nHome-Page: https://a.b/c\n\n"
    )
    path = tar(
        tmp_path / "pkg-1.0.tar.gz",
        member("pkg-1.0/sub/PKG-INFO", b"License-Expression: GPL\n"),
        member("pkg-1.0/PKG-INFO", info),
    )
    told = {"licence": "MIT", "url": "https://a.b/c"}
    for name in ("pkg-1.0", "PKG_1.0", "archive"):
        assert distribution_facts(path, name) == ("pkg-1.0", told)
        assert [*read(path, name)[0]] == ["sub/PKG-INFO", "PKG-INFO"]
    none = tar(tmp_path / "none.tar.gz", member("a.py"), member("b/PKG-INFO", info))
    assert distribution_facts(none, "none") == ("", {})


def test_names_that_are_not_utf_8_are_kept_escaped(tmp_path):
    path = tar(tmp_path / "a.tar", member("caf\udce9.py"), mode="w")
    assert list(read(path)[0]) == ["caf\\udce9.py"]
