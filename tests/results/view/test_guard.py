import re

import pytest

from dph.errors import SettingsError
from dph.results.view import Access, access_for, is_loopback
from live_server import request, serving
from report_runs import make_runs

TOKEN = "t" * 32


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("small"), sets={"dev": 2})


def test_only_what_this_machine_alone_reaches_needs_no_token():
    for host in ("127.0.0.1", "127.0.0.2", "localhost", "::1"):
        assert is_loopback(host)
        assert access_for(host).token is None
        assert len(access_for(host, ask=True).token) >= 32
    for host in ("0.0.0.0", "::", "10.0.0.1", "node1"):
        assert access_for(host).token != access_for(host).token
        with pytest.raises(SettingsError, match="token"):
            Access(host=host)


def test_names_that_may_come_to_mean_this_machine_are_not_answered_to():
    access = Access(names=("node1.cluster",))
    for host in ("localhost:1", "127.0.0.1", "[::1]:80", "192.168.0.7:1", "NODE1.cluster."):
        assert access.knows(host), host
    evil = ("evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example")
    for host in ("", *evil, "[", "@"):
        assert not access.knows(host), host


def test_a_rebound_name_gets_nothing(server):
    for path in ("/", "/data/index", "/page.js"):
        status, _, body = request(server.port, path, headers={"Host": "evil.example"})
        assert (status, b"GRPO" in body) == (421, False)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_reading_is_answered(server, method):
    assert request(server.port, "/data/index", method=method)[0] == 405


@pytest.mark.parametrize("path", ["/", "/api/state", "/page.js", "/nowhere", "/../../etc/passwd"])
def test_every_answer_has_the_strict_policy(server, path):
    status, headers, body = request(server.port, path)
    assert status == (404 if "nowhere" in path or "etc" in path else 200)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert b"root:" not in body


def test_the_page_has_no_script_or_style_of_its_own(server):
    html = request(server.port, "/")[2].decode()
    assert re.findall(r"<script[^>]*>", html) == ['<script src="page.js">']
    assert "<style" not in html
    assert " style=" not in html
    assert not re.search(r"\son\w+=", html)


def test_without_the_token_nothing_is_told_and_with_it_a_cookie_keeps_it(small):
    with serving([small], Access(token=TOKEN)) as found:
        assert found.address.endswith(f"/?token={TOKEN}")
        for path in ("/", "/data/index", "/page.js", "/?token=wrong", f"/data/index?token={TOKEN}"):
            status, headers, body = request(found.port, path)
            assert (status, "set-cookie" in headers, b"GRPO" in body) == (403, False, False), path
        status, headers, _ = request(found.port, f"/?token={TOKEN}")
        assert (status, headers["location"]) == (303, "/")
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert f"dph-view-{found.port}=" in cookie
        known = {"Cookie": cookie.partition(";")[0]}
        assert request(found.port, "/data/index", headers=known)[0] == 200
        bad = {"Cookie": f"dph-view-{found.port}=wrong"}
        assert request(found.port, "/data/index", headers=bad)[0] == 403
