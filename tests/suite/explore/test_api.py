"""The answers behind the page: true numbers, one line for every fault, and a server that lives on."""

import asyncio
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

import torch
from starlette.testclient import TestClient

from suite import load, pipeline
from suite.checkpoint import Model
from suite.explore import inside, maps, music, texts
from suite.explore.app import create_app
from suite.explore.guard import LARGEST
from suite.explore.work import Gone, Turn, Workbench

LAW = "A robot must obey the orders given it by human beings except where they would conflict with the First Law."


@pytest.fixture(scope="module")
def model() -> Model:
    return load("lm")


def unpack(content: bytes) -> tuple[dict[str, Any], torch.Tensor]:
    size = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + size]), torch.frombuffer(bytearray(content[4 + size :]), dtype=torch.uint8)


# ---- next token


def test_bars_are_the_full_softmax(model: Model) -> None:
    found = texts.next_token(model, {"text": LAW})
    assert model.tokenizer is not None
    with torch.no_grad():
        logits = model.transformer(torch.tensor([model.tokenizer.encode(LAW)]))[0, -1].double()
    expected = logits.softmax(dim=-1)
    values, tokens = expected.topk(10)
    assert [one["id"] for one in found["top"]] == tokens.tolist()
    assert [one["p"] for one in found["top"]] == pytest.approx(values.tolist(), abs=1e-6)
    assert found["rest"]["p"] == pytest.approx(1 - float(values.sum()), abs=1e-6)
    assert found["rest"]["n"] == model.config.vocab_size - 10


def test_settings_show_what_they_cut(model: Model) -> None:
    plain = texts.next_token(model, {"text": LAW})
    found = texts.next_token(model, {"text": LAW, "top_k": 3})
    kept = [one["q"] for one in found["top"]]
    assert all(kept[:3]) and not any(kept[3:]) and sum(kept) == pytest.approx(1)
    assert [one["p"] for one in found["top"]] == [one["p"] for one in plain["top"]]
    assert found["cut"]["n"] == model.config.vocab_size - 3
    assert found["cut"]["p"] == pytest.approx(1 - sum(one["p"] for one in found["top"][:3]))
    greedy = texts.next_token(model, {"text": LAW, "temperature": 0, "seed": 1})
    assert greedy["top"][0]["q"] == 1 and greedy["drawn"]["id"] == greedy["top"][0]["id"]
    hot = texts.next_token(model, {"text": LAW, "temperature": 2})
    assert hot["top"][0]["q"] < hot["top"][0]["p"] and hot["cut"]["n"] == 0


def test_draws_follow_the_settings(model: Model) -> None:
    drawn = {texts.next_token(model, {"text": "The", "top_k": 2, "seed": seed})["drawn"]["id"] for seed in range(12)}
    two = {one["id"] for one in texts.next_token(model, {"text": "The"})["top"][:2]}
    assert drawn == two


def test_chosen_tokens_are_read_as_they_are(model: Model) -> None:
    """Text that is put together and encoded anew may be cut in other places than the tokens that were chosen."""
    assert model.tokenizer is not None
    letters = [model.tokenizer.encode(letter)[0] for letter in "War"]
    found = texts.next_token(model, {"text": "The", "tokens": letters})
    assert [one["id"] for one in found["prompt"]][-3:] == letters
    assert texts.next_token(model, {"text": ""})["prompt"][0]["special"]


# ---- read


def test_surprise_is_the_models_own(model: Model) -> None:
    found = texts.read(model, {"text": LAW})
    assert model.tokenizer is not None and model.tokenizer.eos is not None
    ids = model.tokenizer.encode(LAW)
    expected = -model.logprobs([model.tokenizer.eos, *ids]) / math.log(2)
    assert [one["bits"] for one in found["tokens"]] == pytest.approx(expected.tolist(), abs=1e-3)
    assert found["bytes"] == len(LAW) and "".join(one["text"] for one in found["tokens"]) == LAW
    for one in found["tokens"]:
        assert (one["rank"] == 1) == (one["instead"][0]["p"] == pytest.approx(2 ** -one["bits"], rel=1e-3))


def test_long_texts_are_read_in_windows(client: TestClient, tiny: Any) -> None:
    """The tiny model sees 48 tokens; each token has to be predicted once, with at least half of that before it."""
    small = load(tiny)
    assert small.tokenizer is not None and small.tokenizer.eos is not None
    text = "<img src=x> alert(1) " * 20
    found = texts.read(small, {"text": text})
    ids = small.tokenizer.encode(text)
    assert [one["id"] for one in found["tokens"]] == ids and len(ids) > 100
    first = -small.logprobs([small.tokenizer.eos, *ids][:48]) / math.log(2)
    assert [one["bits"] for one in found["tokens"][:47]] == pytest.approx(first.tolist(), abs=1e-3)
    again = -small.logprobs([small.tokenizer.eos, *ids][25:73]) / math.log(2)
    assert [one["bits"] for one in found["tokens"][48:72]] == pytest.approx(again[23:].tolist(), abs=1e-3)


# ---- inside


def test_a_layer_comes_as_bytes(model: Model) -> None:
    header, cells = unpack(inside.attention_layer(model, {"text": LAW, "layer": 2}))
    expected = model.attentions(LAW)[2]
    cells = cells.view(expected.shape)
    masked = torch.ones(expected.shape, dtype=torch.bool).triu(1)
    assert header["size"] == expected.shape[-1] and torch.equal(cells == 255, masked)
    assert ((cells.double() / 254 - expected)[~masked].abs() <= 0.5 / 254 + 1e-6).all()
    _, both = unpack(inside.attention_layer(model, {"text": LAW, "layer": 2, "both_ways": True}))
    assert not (both == 255).any()


@pytest.mark.parametrize("text", [LAW, LAW * 8])
def test_the_grid_has_a_picture_of_every_head(model: Model, text: str) -> None:
    header, cells = unpack(inside.attention_grid(model, {"text": text}))
    size, length = header["size"], len(header["tokens"])
    assert size == min(length, 40) and cells.numel() == 4 * 5 * size * size
    assert len(header["habits"]) == 4 and set(header["habits"][0][0]) == {"self", "previous", "first"}
    cells = cells.view(4, 5, size, size)
    if length == size:
        assert torch.equal(cells[3], inside_layer(model, text, 3))
    assert (cells[:, :, 0, size - 1] == 255).all() and (cells[:, :, size - 1] < 255).all()


def inside_layer(model: Model, text: str, layer: int) -> torch.Tensor:
    header, cells = unpack(inside.attention_layer(model, {"text": text, "layer": layer}))
    return cells.view(header["heads"], header["size"], header["size"])


@pytest.mark.parametrize("other", [{"text": LAW[:-4]}, {"text": LAW, "both_ways": True}])
def test_a_layer_that_was_kept_is_of_its_own_text(model: Model, other: dict[str, Any]) -> None:
    """The grid keeps its layers for the clicks that follow; they must not be shown for another text."""
    inside.kept = inside._Kept()
    alone = [inside.attention_layer(model, {**asked, "layer": 1}) for asked in ({"text": LAW}, other)]
    inside.attention_grid(model, {"text": LAW})
    assert [inside.attention_layer(model, {**asked, "layer": 1}) for asked in ({"text": LAW}, other)] == alone
    assert inside.kept.get(model, *inside.looked_at(model, {"text": LAW}), 1) is not None
    assert inside.kept.get(load("lm"), *inside.looked_at(model, {"text": LAW}), 1) is None


def test_few_layers_at_a_time_give_the_same_grid(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = inside.attention_grid(model, {"text": LAW})
    monkeypatch.setattr(inside, "MEMORY", 1)
    assert inside.attention_grid(model, {"text": LAW}) == whole


def test_a_path_ends_in_the_next_token(model: Model) -> None:
    found = inside.path(model, {"text": LAW, "layer": 3, "head": 4})
    top = texts.next_token(model, {"text": LAW})["top"]
    assert [one["id"] for one in found["ladder"][4]["top"]] == [one["id"] for one in top[:5]]
    assert len(found["ladder"]) == 5 and found["position"] == len(found["tokens"]) - 1
    steps = found["steps"]
    sums = [a + b + c for a, b, c in zip(steps["stream"], steps["attention"], steps["mlp"], strict=True)]
    assert sums == pytest.approx(steps["out"], rel=5e-3, abs=0.5)  # written with four digits
    assert sum(steps["weights"]) == pytest.approx(1, abs=1e-3)
    early = inside.path(model, {"text": LAW, "position": 3})
    assert early["steps"]["masked"] == [place > 3 for place in range(len(early["tokens"]))]
    assert early["why"][4:] == [0.0] * (len(early["tokens"]) - 4) and any(early["why"][:4])


def test_shapes_that_nobody_loads_have_a_map() -> None:
    bench = Workbench({"lm": str(load("lm").directory)})
    found = maps.model_map(bench, "gpt2")
    assert found["total"] == 124_439_808 == sum(one["parameters"] for one in found["weights"])
    assert found["cache"]["per_token"]["float32"] == 73_728
    assert maps.model_map(bench, "lm")["total"] == load("lm").parameters


# ---- tasks


def test_music_names_the_notes_that_a_note_looked_at() -> None:
    model = load("music")
    player = pipeline("music", model)
    take = player(seconds=1.5, seed=1)
    piece = music.piece(player, player.format.events(take))
    shown = sorted((note["start"], note["pitch"], note["end"]) for note in piece["notes"])
    assert shown == [pytest.approx(note) for note in sorted((one.start, one.pitch, one.end) for one in take.notes)]
    last = len(piece["notes"]) - 1
    found = music.attend(model, {"tokens": piece["tokens"], "note": last, "layer": 1})
    event = piece["notes"][last]["event"]
    assert piece["tokens"][event] == piece["notes"][last]["pitch"] and found["read"] == event + 1
    for head in found["heads"]:
        assert all(one["note"] < last for one in head["notes"])
        assert head["elsewhere"] + sum(one["share"] for one in head["notes"]) <= 1.001
    file = music.midi_file(model, {"tokens": piece["tokens"]})
    assert len(music.open_midi(model, file)["notes"]) == len(piece["notes"])


def test_labels_and_their_tokens(client: TestClient) -> None:
    text = "The violin is a string instrument, tuned in fifths and played with a bow."
    found = client.post("/api/classify", json={"model": "classify", "text": text}).json()
    assert found["label"] == found["scores"][0]["label"] == "Music"
    assert "".join(one["text"] for one in found["pieces"]) == text
    other = client.post("/api/classify", json={"model": "classify", "text": text, "label": "Art"}).json()
    assert other["label"] == "Art" and other["pieces"] != found["pieces"]


# ---- faults


@pytest.mark.parametrize(
    ("path", "asked", "message"),
    [
        ("next", {"text": 5}, "text is int, not text"),
        ("next", {"text": "a", "temperature": "hot"}, "temperature is 'hot', not a number"),
        ("next", {"text": "a", "temperature": -1}, "temperature is -1"),
        ("next", {"text": "a", "top_k": 1.5}, "top_k is 1.5, but must be a whole number"),
        ("next", {"text": "a", "tokens": [10**9]}, "token 1000000000 is not in the vocabulary"),
        ("next", {"text": "a", "tokens": "b"}, "tokens must be a list of ids"),
        ("next", {"text": "\ud800"}, "lone surrogate"),
        ("read", {"text": ""}, "there is nothing to read; write something"),
        ("read", {"text": "word " * 5000}, "but this view reads at most 4,096"),
        ("attention/grid", {"text": "a" * 200}, "but this view reads at most 48"),
        ("attention/layer", {"text": "a", "layer": 2}, "layer is 2, but must be a whole number from 0 to 1"),
        ("path", {"text": "a", "position": 1}, "position is 1, but must be a whole number from 0 to 0"),
        ("next", {"model": "gpt5", "text": "a"}, "no model 'gpt5' on this page"),
        ("next", {"model": "../lm", "text": "a"}, "no model '../lm' on this page"),
        ("next", {"model": "music", "text": "a"}, "has no tokenizer, so it reads no text; choose another model"),
        ("classify", {"text": "a"}, "was trained for lm; this view needs a model for classify"),
        ("translate", {"model": "translate", "text": "a", "source": "fr", "target": "de"}, "from fr to de; available:"),
        ("music/play", {"model": "music", "seconds": 1e9}, "seconds is 1e+09, but must be between"),
        ("music/attend", {"model": "music", "tokens": [], "note": 0}, "the piece has no notes"),
        (
            "music/attend",
            {"model": "music", "tokens": [400]},
            "tokens must be a list of event ids below 388",
        ),
    ],
)
def test_bad_input_is_answered_with_one_line(
    client: TestClient, path: str, asked: dict[str, Any], message: str
) -> None:
    body = json.dumps({"model": "tiny", **asked})
    answer = client.post(f"/api/{path}", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and message in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert client.post("/api/next", json={"model": "tiny", "text": "a"}).status_code == 200


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"MThd"])
def test_what_is_no_request_is_refused(client: TestClient, content: bytes) -> None:
    answer = client.post("/api/next", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "JSON" in answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"MThd\x00\x00\x00\x06\x00\x01", b"RIFF" * 100, bytes(range(256)) * 40])
def test_a_corrupt_midi_file_is_said_to_be_one(client: TestClient, content: bytes) -> None:
    headers = {"content-type": "application/octet-stream"}
    answer = client.post("/api/music/open?model=music", content=content, headers=headers)
    assert answer.status_code == 400 and "the file" in answer.json()["error"]


@pytest.mark.parametrize("stated", [True, False])
def test_five_megabytes_are_too_many(client: TestClient, stated: bool) -> None:
    """Also where the length is not stated: then the body is counted as it comes."""
    body = json.dumps({"model": "tiny", "text": "x" * 5 * 1024 * 1024}).encode()
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    content: Any = body if stated else pieces
    answer = client.post("/api/read", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 413 and "1,024 KiB" in answer.json()["error"]
    assert len(body) > LARGEST


# ---- who may ask


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com", "localhost.evil:8642", "", "evil:80"])
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    """A name of somebody else that resolves to this machine would make their page the same origin (DNS rebinding)."""
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:8642", "[::1]:8642", "127.0.0.1:1"])
def test_this_machine_is_known_by_its_names(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_sites_request_is_refused(client: TestClient, site: str) -> None:
    """Another port of this machine is the same site, and still somebody else."""
    ask = {"model": "tiny", "text": "a"}
    assert client.post("/api/next", json=ask, headers={"sec-fetch-site": site}).status_code == 403
    assert client.get("/api/models", headers={"sec-fetch-site": site, "sec-fetch-mode": "navigate"}).status_code == 403
    assert client.get("/static/main.js", headers={"sec-fetch-site": site}).status_code == 403
    assert client.get("/", headers={"sec-fetch-site": site, "sec-fetch-mode": "navigate"}).status_code == 200
    assert client.post("/api/next", json=ask, headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_browser_without_that_header_is_told_by_its_origin(client: TestClient) -> None:
    ask = {"model": "tiny", "text": "a"}
    assert client.post("/api/next", json=ask, headers={"origin": "https://example.com"}).status_code == 403
    assert client.post("/api/next", json=ask, headers={"origin": "null"}).status_code == 403
    assert client.post("/api/next", json=ask, headers={"origin": "http://127.0.0.1:8642"}).status_code == 200
    form = {"content-type": "text/plain"}
    assert client.post("/api/next", content=json.dumps(ask), headers=form).status_code == 415


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/models", "/nothing", "/static/../app.py"])
def test_every_answer_has_safe_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_a_folder_may_be_called_like_an_embedded_model(tiny: Path, tmp_path: Path) -> None:
    """Under its short name it would have been hidden behind the embedded one."""
    (tmp_path / "lm").symlink_to(tiny)
    with TestClient(create_app(str(tmp_path / "lm")), base_url="http://localhost") as client:
        first = client.get("/api/models").json()["first"]
        assert client.post("/api/model", json={"model": first}).json()["config"]["d_model"] == 32
        assert client.post("/api/model", json={"model": "lm"}).json()["config"]["d_model"] == 320


def test_nothing_but_the_page_is_served(client: TestClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert client.get(path).status_code == 404


# ---- one at a time


class Tab:
    """A request whose tab may close."""

    def __init__(self) -> None:
        self.gone = False

    async def is_disconnected(self) -> bool:
        return self.gone


def test_two_tabs_take_turns(client: TestClient) -> None:
    """Two generations at once give what each gives alone, and other questions are answered between their steps."""
    ask = {"model": "music", "seconds": 1}
    alone = [client.post("/api/music/play", json={**ask, "seed": seed}).json() for seed in (1, 2)]
    with ThreadPoolExecutor(3) as pool:
        both = [pool.submit(client.post, "/api/music/play", json={**ask, "seed": seed}) for seed in (1, 2)]
        other = pool.submit(client.post, "/api/next", json={"model": "tiny", "text": "a"})
        assert other.result().status_code == 200
        assert [one.result().json() for one in both] == alone


def test_a_closed_tab_ends_its_work() -> None:
    bench, tab, steps = Workbench({}), Tab(), []
    started = threading.Event()

    def work(turn: Turn) -> None:
        while len(steps) < 100_000:
            steps.append(1)
            started.set()
            turn.pause()

    async def scene() -> None:
        task = asyncio.create_task(bench.run(tab, work))  # type: ignore[arg-type]
        await asyncio.to_thread(started.wait)
        tab.gone = True
        with pytest.raises(Gone):
            await task
        assert await bench.run(Tab(), lambda turn: 5) == 5  # type: ignore[arg-type]

    asyncio.run(scene())
    assert len(steps) < 100_000


def test_the_lock_is_free_again_after_a_fault() -> None:
    bench = Workbench({})

    async def scene() -> None:
        with pytest.raises(ZeroDivisionError):
            await bench.run(Tab(), lambda turn: 1 / 0)  # type: ignore[arg-type]
        assert await bench.run(Tab(), lambda turn: 5) == 5  # type: ignore[arg-type]

    asyncio.run(scene())


def test_the_page_is_light() -> None:
    files = list((Path(inside.__file__).parent / "static").iterdir())
    assert sum(file.stat().st_size for file in files) < 250_000
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400, file.name
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "eval(" not in text, file.name


def test_a_thousand_tokens_of_one_layer_are_small_on_the_wire(client: TestClient) -> None:
    text = " ".join(f"{number} is followed by {number + 1}." for number in range(1, 160))
    summarize = load("summarize")
    assert summarize.tokenizer is not None
    text = summarize.tokenizer.decode(summarize.tokenizer.encode(text)[:1020])
    ask = {"model": "summarize", "text": text, "layer": 1}
    with client.stream("POST", "/api/attention/layer", json=ask, headers={"accept-encoding": "gzip"}) as answer:
        wire = sum(map(len, answer.iter_raw()))
    assert answer.status_code == 200 and answer.headers["content-encoding"] == "gzip"
    assert wire < 1_500_000
