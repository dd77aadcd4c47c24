"""The page of `suite explore`: its figures in FIGURES.md, and the pictures of it in docs/images.

    python -m benchmarks.explore figures
    python -m benchmarks.explore screenshots

Both need Chromium (`apt-get install chromium`) and Playwright (`pip install playwright`).
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import torch

from suite.checkpoint import Model, load
from suite.cli.show import notice, size
from suite.errors import ConfigError

ROOT = Path(__file__).parents[1]
TEXT = ROOT / "data" / "samples" / "timor.txt"
WIDTH, HEIGHT = 1180, 900
# name of the picture -> address, theme, and the panel below which it ends
PICTURES = {
    "explore-next": ("next?t=0.8&k=5", "light", 0),
    "explore-attention": ("attention?", "dark", 1),
    "explore-path": ("path?layer=2", "light", 1),
    "explore-music": ("music?seconds=12&layer=1", "dark", 0),
}
CLICK = """async (place) => {
  const heads = [...document.querySelectorAll('.gridrow button')], before = performance.now();
  heads[place].click();
  const title = `Layer ${Math.floor(place / 5)}, head ${place % 5}: the whole matrix`;
  while (![...document.querySelectorAll('h2')].some((one) => one.textContent === title)) await new Promise((done) => setTimeout(done, 1));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - before;
}"""  # noqa: E501


@contextmanager
def page(theme: str = "light") -> Iterator[tuple[Any, str]]:
    """A browser's page, and the address of a server that runs as long."""
    import uvicorn
    from playwright.sync_api import sync_playwright

    from suite.explore.app import create_app

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise ConfigError("there is no Chromium here: apt-get install chromium")
    server = uvicorn.Server(uvicorn.Config(create_app("lm"), port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)
        found = context.new_page()
        found.set_default_timeout(90_000)
        yield found, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        browser.close()
    server.should_exit = True
    thread.join(10)


def settled(browser_page: Any, address: str) -> None:
    """Open an address and wait for its picture."""
    browser_page.goto("about:blank")
    browser_page.goto(address)
    browser_page.locator(".panel").first.wait_for()
    browser_page.wait_for_timeout(500)
    browser_page.locator("[aria-busy]").wait_for(state="detached")
    browser_page.wait_for_timeout(500)


@click.group()
def cli() -> None:
    """Figures and pictures of the page."""


@cli.command()
@click.option("--out", default=ROOT / "docs" / "images", type=click.Path(path_type=Path), show_default=True)
def screenshots(out: Path) -> None:
    """Take the pictures that README and docs show."""
    out.mkdir(parents=True, exist_ok=True)
    for name, (view, theme, last) in PICTURES.items():
        with page(theme) as (shown, address):
            settled(shown, f"{address}#/{view}")
            box = shown.locator("section.panel").nth(last).bounding_box()
            bottom = round(box["y"] + box["height"]) + 10
            shown.set_viewport_size({"width": WIDTH, "height": bottom})
            shown.wait_for_timeout(300)
            save(shown.screenshot(), out / f"{name}.png")
        click.echo(f"{out / name}.png: {size((out / f'{name}.png').stat().st_size)}")


def save(picture: bytes, path: Path) -> None:
    """Write a picture with 256 colours of its own, which a page of few colours does not miss."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def tokens(model: Model, count: int) -> str:
    """A text of so many tokens."""
    assert model.tokenizer is not None
    text = TEXT.read_text(encoding="utf-8")
    ids = (model.tokenizer.encode(text) * (1 + count // len(model.tokenizer.encode(text))))[:count]
    return model.tokenizer.decode(ids)


@cli.command()
@click.option("--clicks", default=20, show_default=True, help="Heads that are clicked.")
def figures(clicks: int) -> None:
    """Measure the page: its weight, a click, a layer on the wire, and how true the bars are."""
    from suite.explore import inside, texts

    static = ROOT / "suite" / "explore" / "static"
    files = [file.read_bytes() for file in sorted(static.iterdir())]
    click.echo(
        f"page: {size(sum(map(len, files)))}, compressed {size(sum(len(gzip.compress(file)) for file in files))}"
    )
    model, article = load("lm"), load("summarize")
    text = tokens(model, 256)
    worst = 0.0
    for length in (1, 16, 64, 256):
        assert model.tokenizer is not None
        ids = model.tokenizer.encode(text)[:length]
        shown = texts.next_token(model, {"text": model.tokenizer.decode(ids)})["top"]
        with torch.no_grad():
            again = model.tokenizer.encode(model.tokenizer.decode(ids))
            whole = model.transformer(torch.tensor([again]))[0, -1].double().softmax(dim=-1)
        worst = max(worst, *(abs(one["p"] - float(whole[one["id"]])) for one in shown))
    click.echo(f"bars: at most {worst:.1e} from the full softmax")
    for one, count in ((model, 256), (article, 1024)):
        packed = inside.attention_layer(one, {"text": tokens(one, count), "layer": 1})
        wire = len(gzip.compress(packed, 4))
        click.echo(f"a layer of {one.name} at {count:,} tokens: {size(len(packed))}, on the wire {size(wire)}")
    with page() as (shown, address):
        notice("clicking")
        settled(shown, f"{address}#/attention?layer=0&head=0")
        shown.locator("textarea").fill(text)
        shown.wait_for_timeout(3000)
        order = [(7 * place + 5) % 20 for place in range(clicks)]
        times = [shown.evaluate(CLICK, place) for place in order]
    click.echo(f"click to picture, 256 tokens: median {statistics.median(times):.0f} ms, slowest {max(times):.0f} ms")
    click.echo(json.dumps([round(one) for one in times]))


if __name__ == "__main__":
    cli()
