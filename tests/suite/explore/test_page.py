"""The page in a real browser: every view renders, nothing leaves this machine, and a keyboard is enough.

Chromium is looked for by name; without it, or without Playwright, these tests are skipped. `make browser` runs them.
"""

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
sync_api = pytest.importorskip("playwright.sync_api", reason="looking at the page needs: pip install playwright")

import uvicorn  # noqa: E402

from suite.explore.app import create_app  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# ruff: noqa: E501 - lines of JavaScript
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium"),
]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
TEXT_VIEWS = ("next", "read", "attention", "path")
PANELS = {
    "next": "What comes next",
    "read": "Surprise, token by token",
    "attention": "All heads",
    "path": "The way up",
    "pair": "Translation",
    "classes": "Labels",
    "music": "Piano roll",
    "map": "The key/value cache",
}
WAIT = 30_000  # milliseconds; the machine may be busy

# what a screen reader or a keyboard would stumble over: controls without a name, names without a control, doubled ids
FAULTS = """() => {
  const found = [], ids = new Set();
  const shown = (node) => node.checkVisibility();
  for (const node of document.querySelectorAll('[id]')) {
    if (ids.has(node.id)) found.push(`id ${node.id} twice`);
    ids.add(node.id);
  }
  for (const node of document.querySelectorAll('button, a[href], select, input, textarea, [tabindex="0"], svg[role=img], canvas[role=img]')) {
    if (!shown(node)) continue;
    const name = node.getAttribute('aria-label') || node.textContent.trim() || [...(node.labels || [])].map((one) => one.textContent).join('');
    if (!name) found.push(`no name: ${node.outerHTML.slice(0, 90)}`);
  }
  for (const node of document.querySelectorAll('label[for]')) if (!document.getElementById(node.htmlFor)) found.push(`label for nothing: ${node.htmlFor}`);
  for (const node of document.querySelectorAll('[role=radiogroup]')) if (node.querySelectorAll('[tabindex="0"]').length !== 1) found.push(`no single way into ${node.getAttribute('aria-label')}`);
  for (const node of document.querySelectorAll('img:not([alt])')) found.push('img without alt');
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  let level = 0;
  for (const node of document.querySelectorAll('h1, h2, h3, h4')) {
    const own = Number(node.localName[1]);
    if (own > level + 1) found.push(`h${own} after h${level}`);
    level = own;
  }
  return found;
}"""

# contrast of every text with the colour behind it; 4.5 for text, 3 for large text (WCAG 2.2, AA)
CONTRAST = """() => {
  const brush = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => { brush.clearRect(0, 0, 1, 1); brush.fillStyle = colour; brush.fillRect(0, 0, 1, 1); return [...brush.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4).reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (node) => { for (let at = node; at; at = at.parentElement) { const colour = rgba(getComputedStyle(at).backgroundColor); if (colour[3] > 250) return colour; } return [255, 255, 255, 255]; };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility() || node.closest('svg, option, .unseen, :disabled, .skip')) continue;
    const look = getComputedStyle(node);
    if (Number(look.opacity) < 1 && node.matches('.sp')) continue;
    const [a, b] = [light(rgba(look.color)), light(behind(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(look.fontSize);
    if (ratio < (size >= 24 || (size >= 18.6 && Number(look.fontWeight) >= 700) ? 3 : 4.5)) found.add(`${ratio.toFixed(2)}: ${node.className || node.localName} ${walker.currentNode.data.trim().slice(0, 30)}`);
  }
  return [...found];
}"""

CONTROLS = """() => [...document.querySelectorAll('button, a[href], select, input, textarea, [tabindex="0"], summary')]
  .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility()).length"""
WATCH_FOCUS = """() => {
  window.reached = new Set();
  document.addEventListener('focusin', (event) => window.reached.add(event.target));
}"""


@pytest.fixture(scope="module")
def address(tiny: Path) -> Iterator[str]:
    """Where a server with the tiny model first, and the embedded ones, answers."""
    config = uvicorn.Config(create_app(str(tiny)), port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


class Watched:
    """A page, with what its console said and every address it asked for."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.said: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def open(self, view: str, **params: str) -> Any:
        """Open a view anew and wait until it shows its figure."""
        from urllib.parse import urlencode

        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#/{view}?{urlencode(params)}")
        self.page.get_by_role("heading", name=PANELS[view], exact=True).wait_for()
        self.settle()
        return self.page

    def settle(self) -> None:
        self.until("!document.querySelector('[aria-busy]')")
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def until(self, expression: str) -> None:
        """Wait for an expression to be true; Playwright's own way needs `eval`, which the page's policy forbids."""
        for _ in range(WAIT // 40):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(40)
        raise AssertionError(f"never true: {expression}")

    def check(self) -> None:
        """The console is empty, and nothing was asked of anybody else."""
        assert not self.said
        own = (self.address, "blob:" + self.address, "about:blank", "data:")
        assert [url for url in self.asked if not url.startswith(own)] == []


@pytest.fixture
def watched(browser: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """A fresh page in the theme and width that the test asks for."""
    theme, width = getattr(request, "param", ("light", 1280))
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, accept_downloads=True)
    found = Watched(context.new_page(), address)
    yield found
    context.close()


CASES = [
    *((view, model) for view in TEXT_VIEWS for model in ("tiny", "lm")),
    ("pair", "translate"),
    ("classes", "classify"),
    ("music", "music"),
    ("map", "tiny"),
]


@pytest.mark.parametrize(("view", "model"), CASES)
@pytest.mark.parametrize("watched", [("light", 1280), ("dark", 400)], indirect=True, ids=["light", "dark, narrow"])
def test_every_view_renders(watched: Watched, view: str, model: str, request: pytest.FixtureRequest) -> None:
    if "dark" in request.node.name and model in ("translate", "music", "lm"):
        pytest.skip("seen in the light; these take seconds")
    extra = {"text": "alert(1) <img src=x>"} if model == "tiny" and view != "map" else {}
    extra = {"text": "Guten Morgen!"} if view == "pair" else {"seconds": "2"} if view == "music" else extra
    page = watched.open(view, model=model, **extra)
    assert page.locator(".alert").count() == 0
    assert page.locator("#model").input_value() == model
    assert page.evaluate(FAULTS) == []
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.check()


def test_hostile_tokens_stay_text(watched: Watched) -> None:
    """They are in the text, in the vocabulary, and therefore in every picture; none may become an element."""
    for view in TEXT_VIEWS:
        page = watched.open(view, model="tiny", text=HOSTILE)
        assert "alert" in page.locator("main").inner_text()
        assert page.locator("main img, main script").count() == 0
    watched.check()


def test_a_keyboard_writes_and_takes_back(watched: Watched) -> None:
    page = watched.open("next", model="lm", text="The Second World")
    rows = page.locator("button.barrow")
    first, second = (rows.nth(place).get_attribute("title") for place in (0, 1))
    page.locator("h1").click()
    page.keyboard.press("Enter")
    watched.until(f"location.hash.endsWith('path={first.split()[1]}')")
    watched.settle()
    page.keyboard.press("Backspace")
    watched.until("!location.hash.includes('path')")
    watched.settle()
    page.keyboard.press("2")
    watched.until(f"location.hash.endsWith('path={second.split()[1]}')")
    watched.settle()
    assert page.locator(".tree button").count() == 3  # the start and both branches
    here = page.url
    page.reload()
    page.locator(".text .new").wait_for()
    assert page.url == here  # the state is in the address
    watched.check()


def test_every_control_is_reached_by_keys(watched: Watched) -> None:
    """Tab gets to every control but those of a group, where the arrow keys take over."""
    for view in ("next", "path"):
        page = watched.open(view, model="tiny", text="alert(1)")
        page.locator("body").focus()
        page.evaluate("document.activeElement?.blur()")
        wanted = page.evaluate(CONTROLS)
        page.evaluate(WATCH_FOCUS)
        for _ in range(wanted + 2):
            page.keyboard.press("Tab")
        reached = page.evaluate("() => window.reached.size")
        assert reached >= wanted - 1, view  # the tab order of groups moves with the focus
    watched.check()


def test_arrow_keys_choose_a_head_and_a_word(watched: Watched) -> None:
    page = watched.open("attention", model="tiny", text="alert(1)")
    page.locator(".gridrow button[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Layer 0, head 1: what a word looks at").wait_for()
    watched.settle()
    words = page.locator(".arcwords [role=radio]")
    page.locator(".arcwords [tabindex='0']").focus()
    page.keyboard.press("Home")
    assert words.first.get_attribute("aria-checked") == "true" and "token=0" in page.url
    watched.check()


def test_masked_cells_are_hatched_and_no_weight(watched: Watched) -> None:
    """A weight of zero and a cell that may not be seen must not look the same."""
    page = watched.open("attention", model="tiny", text="alert(1)")
    colours = """(corner) => { const canvas = document.querySelector('.matrix canvas'), n = canvas.width;
      const [x, y] = corner ? [n - 13, 0] : [0, n - 13];
      const brush = new OffscreenCanvas(13, 13).getContext('2d', { willReadFrequently: true });
      brush.drawImage(canvas, x, y, 13, 13, 0, 0, 13, 13);
      return new Set(new Uint32Array(brush.getImageData(0, 0, 13, 13).data.buffer)).size; }"""
    assert page.evaluate(colours, True) > 1 and page.evaluate(colours, False) == 1
    watched.check()


def test_figures_are_saved(watched: Watched, tmp_path: Path) -> None:
    for view in ("next", "attention", "path", "map"):
        page = watched.open(view, model="tiny", **({} if view == "map" else {"text": "alert(1) <b>"}))
        for kind in ("SVG", "PNG"):
            with page.expect_download() as found:
                page.locator(".export button", has_text=kind).first.click()
            file = tmp_path / f"{view}.{kind}"
            found.value.save_as(file)
            content = file.read_bytes()
            if kind == "PNG":
                assert content.startswith(b"\x89PNG") and len(content) > 3000
            else:
                from xml.etree import ElementTree

                assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
                assert not re.search(rb"oklch|var\(|class=|<script", content)
    watched.check()


def test_the_theme_can_be_switched_and_stays(watched: Watched) -> None:
    page = watched.open("map", model="tiny")
    page.get_by_role("button", name="Switch to the dark theme").click()
    page.reload()
    page.get_by_role("heading", name="By weight").wait_for()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(CONTRAST) == []
    watched.check()


def test_what_a_view_cannot_show_is_said_on_the_page(watched: Watched) -> None:
    page = watched.open("read", model="tiny", text="alert(1)")
    page.locator("textarea").fill("word " * 2500)
    assert "this view reads at most 4,096" in page.get_by_role("alert").inner_text()
    page.locator("textarea").fill("alert(2)")
    page.get_by_role("heading", name=PANELS["read"]).wait_for()
    assert all("400" in line for line in watched.said)  # Chromium's own lines about the answers
