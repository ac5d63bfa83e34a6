"""Opens pages in a browser that can reach nothing.

A page that asks for anything but itself, breaks its policy or writes an error to the console fails
the test that opened it.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[4]
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
QUIET = ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
DRAWN = """() => [...document.querySelectorAll(".plot svg:not(.swatch)")]
    .every((picture) => picture.childElementCount > 0)"""


@pytest.fixture(scope="session")
def maker() -> str:
    """The program that makes pages: LMC_PAGE, or the example of the crate."""
    if made := os.environ.get("LMC_PAGE"):
        return made
    command = ["cargo", "build", "--quiet", "--locked", "-p", "lmc-analyze", "--example", "page"]
    told = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    built = [json.loads(line) for line in told.stdout.splitlines()]
    return next(
        each["executable"]
        for each in built
        if each["reason"] == "compiler-artifact" and each["target"]["kind"] == ["example"]
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests."""
    sync_api = pytest.importorskip("playwright.sync_api")
    named = [os.environ["LMC_CHROMIUM"]] if "LMC_CHROMIUM" in os.environ else BROWSERS
    path = next(filter(None, map(shutil.which, named)), None)
    if path is None:
        pytest.skip("chromium: no Chromium here; tools/chromium installs it")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-sync", *QUIET]
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()


class Opener:
    """Opens pages, and knows what went wrong in them."""

    def __init__(self, maker: str, browser: Any, folder: pathlib.Path) -> None:
        self.maker, self.browser, self.folder = maker, browser, folder
        self.wrong: list[str] = []
        self.contexts: dict[str, Any] = {}
        self.files = 0

    def __call__(
        self,
        kind: str,
        data: Any,
        title: str = "a title",
        width: int = 1280,
        theme: str = "light",
        **options: Any,
    ) -> Any:
        """A page of this kind with this data, drawn."""
        text = data if isinstance(data, bytes) else json.dumps(data).encode()
        made = subprocess.run(
            [self.maker, kind, title], input=text, check=True, stdout=subprocess.PIPE
        )
        self.files += 1
        file = self.folder / f"page-{self.files}.html"
        file.write_bytes(made.stdout)
        page = self.context(width, theme, options).new_page()
        page.set_default_timeout(10_000)
        own = file.as_uri()

        def answer(route: Any) -> None:
            if route.request.url.split("#")[0] == own:
                route.continue_()
            else:
                self.wrong.append(f"asked for {route.request.url}")
                route.abort()

        page.route("**/*", answer)
        page.on("console", lambda message: self.wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.goto(own)
        page.wait_for_function(DRAWN)
        return page

    def context(self, width: int, theme: str, options: dict[str, Any]) -> Any:
        """Where pages are opened; a test has one for all pages that are alike."""
        key = repr((width, theme, options))
        if key not in self.contexts:
            self.contexts[key] = self.browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme=theme,
                offline=True,
                **options,
            )
        return self.contexts[key]


@pytest.fixture
def opened(maker: str, browser: Any, tmp_path: pathlib.Path) -> Iterator[Opener]:
    """Opens pages; in the end, nothing may have gone wrong in them."""
    opener = Opener(maker, browser, tmp_path)
    yield opener
    for context in opener.contexts.values():
        context.close()
    assert not opener.wrong
