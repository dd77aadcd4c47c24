"""The server of `suite explore`: a Starlette app with a static page and one address a question.

Questions are POST requests with JSON; the answer is JSON, or bytes where there are many numbers. An error is a JSON
object with one line under `error`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from suite.cli.models import GPT2
from suite.errors import ConfigError, DataError, SuiteError
from suite.explore import inside, maps, music, pairs, texts
from suite.explore.guard import Guard
from suite.explore.work import Gone, Turn, Workbench
from suite.task import embedded

STATIC = Path(__file__).parent / "static"
LEVEL = 4  # of gzip: most cells are alike, so more effort saves little
CLOSED = 499  # nobody reads it: the tab is gone

Asked = Mapping[str, Any]
Question = Callable[[Turn, Asked], Any]


def about(question: Callable[[Any, Asked], Any]) -> Question:
    """A question that is about the model named in the request."""
    return lambda turn, asked: question(turn.model(asked.get("model")), asked)


QUESTIONS: dict[str, Question] = {
    "model": lambda turn, asked: describe(turn, str(asked.get("model"))),
    "next": about(texts.next_token),
    "read": about(texts.read),
    "attention/grid": about(inside.attention_grid),
    "attention/layer": about(inside.attention_layer),
    "path": about(inside.path),
    "translate": about(pairs.translate),
    "summarize": about(pairs.summarize),
    "classify": about(pairs.classify),
    "music/play": music.play,
    "music/attend": about(music.attend),
    "music/midi": about(music.midi_file),
}


def describe(turn: Turn, name: str) -> dict[str, Any]:
    """What the page needs to know of a model."""
    model = turn.model(name)
    return {
        "name": name,
        "task": model.task,
        "parameters": model.parameters,
        "config": model.config.to_dict() | {"kv_heads": model.config.kv_heads, "head_width": model.config.head_width},
        **pairs.frames(model),
    }


def create_app(model: str = "lm") -> Starlette:
    """The app, showing `model` first; it also offers the embedded models.

    Args:
        model: as for `suite.load`.

    Raises:
        SuiteError: the model cannot be loaded.
    """
    names = {name: str(folder) for name, folder in sorted(embedded().items())}
    first = model
    if model not in names:
        short = Path(model).name
        first = model if not short or short in names else short  # a folder may be called like an embedded model
        names = {first: model, **names}
    bench = Workbench(names)
    bench.load(first)  # an error now, not on the page
    tasks = {name: maps.task_of(path) for name, path in names.items()}

    async def list_models(_: Request) -> Response:
        listed = [{"name": name, "task": task} for name, task in tasks.items()]
        return JSONResponse({"models": listed, "first": first, "sizes": list(GPT2)})

    async def page(_: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    async def map_of(request: Request) -> Response:
        return JSONResponse(maps.model_map(bench, request.query_params.get("model", first)))

    async def open_midi(request: Request) -> Response:
        content, name = await request.body(), request.query_params.get("model", "music")
        return JSONResponse(await bench.run(request, lambda turn: music.open_midi(turn.model(name), content)))

    def answer(question: Question) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            asked = _object(await request.body())
            found = await bench.run(request, lambda turn: question(turn, asked))
            if isinstance(found, bytes):
                packed = await asyncio.to_thread(gzip.compress, found, LEVEL)
                headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
                return Response(packed, media_type="application/octet-stream", headers=headers)
            return JSONResponse(found)

        return respond

    routes = [
        Route("/", page),
        Route("/api/models", list_models),
        Route("/api/map", map_of),
        Route("/api/music/open", open_midi, methods=["POST"]),
        *(Route(f"/api/{path}", answer(question), methods=["POST"]) for path, question in QUESTIONS.items()),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard), Middleware(GZipMiddleware, minimum_size=1024, compresslevel=LEVEL)],
        exception_handlers={SuiteError: _told, Gone: _gone, RuntimeError: _out_of_memory, MemoryError: _out_of_memory},
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError:
        raise DataError("the request is not JSON") from None
    if not isinstance(asked, dict):
        raise DataError("the request is not a JSON object")
    return asked


def _told(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": " ".join(str(error).splitlines())}, 400)


def _gone(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the page was closed"}, CLOSED)


def _out_of_memory(_: Request, error: Exception) -> Response:
    if isinstance(error, RuntimeError) and "memory" not in str(error):
        raise error
    return JSONResponse({"error": "not enough memory; try a shorter text or a smaller model"}, 507)


def serve(model: str, port: int, ready: Callable[[str], object]) -> None:
    """Serve the page on 127.0.0.1 until it is stopped.

    Args:
        model: shown first.
        port: 0 for any that is free.
        ready: called with the page's address when it can be opened.

    Raises:
        ConfigError: the port is taken.
    """
    app = create_app(model)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"port {port} cannot be used ({error.strerror}); choose another with --port") from None
    listener.listen()
    ready(f"http://127.0.0.1:{listener.getsockname()[1]}/")  # it listens: a browser's first request waits
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[listener])
