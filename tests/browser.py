"""A Chromium to open pages in: Debian's, driven by Playwright, without a network."""

import contextlib
import shutil
import tempfile
import time

import pytest

ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
MISSING = "needs Playwright and a chromium (apt-get install chromium)"


def why_no_browser():
    try:
        import playwright  # noqa: F401, PLC0415
    except ImportError:
        return MISSING
    return None if chromium_path() else MISSING


def chromium_path():
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def open_browser(*, offline=True, **options):
    """A browser context with a profile of its own, which is gone afterwards, and no network."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium_path(),
            args=ARGUMENTS,
            offline=offline,
            timeout=120_000,
            **options,
        )
        context.set_default_timeout(60_000)
        try:
            yield context
        finally:
            context.close()


def opened(context, path, address=""):
    """A page of the file at ``path``, ready to be used, and what the console said."""
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: note_request(request.url, said))
    page.goto(f"{path.as_uri()}{address}")
    page.wait_for_selector("html[data-ready=yes]")
    return page, said


def wait_until(page, expression, *, seconds=60):
    """Wait for an expression to be true, asked from outside: the page's policy forbids eval."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        if time.monotonic() > end:
            raise AssertionError(f"not true after {seconds} s: {expression}")
        page.wait_for_timeout(50)


def note_request(url, said):
    """A page may load itself, and nothing else."""
    if not url.startswith(("file:", "blob:", "data:", "about:")):
        said.append(f"request: {url}")


needs_browser = pytest.mark.skipif(why_no_browser() is not None, reason=MISSING)
