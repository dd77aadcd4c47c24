"""What stands before the app: only this machine's own page may ask, and not for too much.

A page of another site can make a browser send requests to a local server. It cannot forge `Host`, `Origin` or
`Sec-Fetch-Site`, so these decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = frozenset(("127.0.0.1", "localhost", "[::1]"))
LARGEST = 1024 * 1024  # bytes of a request's body
SECURITY = {
    # blob: is for pictures that the page makes of its own figures
    "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class TooLarge(Exception):
    """A body grew past `LARGEST` while it was read."""


class Guard:
    """ASGI middleware: trusted hosts, requests of the page alone, bodies of at most `LARGEST` bytes, safe headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY.items():
                    headers[name] = value
            await send(message)

        headers = Headers(scope=scope)
        if fault := refusal(scope["method"], scope["path"], headers):
            status, text = fault
            await JSONResponse({"error": text}, status)(scope, receive, secured)
            return
        read = 0

        async def capped() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > LARGEST:
                raise TooLarge
            return message

        try:
            await self.app(scope, capped, secured)
        except TooLarge:
            await JSONResponse({"error": TOO_LARGE}, 413)(scope, receive, secured)


TOO_LARGE = f"that is more than the {LARGEST // 1024:,} KiB that this page reads at once; give it a part"


def refusal(method: str, path: str, headers: Headers) -> tuple[int, str] | None:
    """Status and message for a request that is refused; None for one that may pass."""
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name not in HOSTS:
        return 421, f"this server answers on 127.0.0.1 and localhost, not as {host or 'a host without a name'}"
    site = headers.get("sec-fetch-site", "")
    opened = method == "GET" and headers.get("sec-fetch-mode") == "navigate" and not path.startswith("/api/")
    if site not in ("", "same-origin", "none") and not opened:
        return 403, "this request comes from another site; open the page itself"
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return 403, "this request comes from another site; open the page itself"
    if path.startswith("/api/") and method == "POST" and not site and origin is None:
        kind = headers.get("content-type", "").partition(";")[0]
        if kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            return 415, "send JSON, with the header content-type: application/json"
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > LARGEST:
        return 413, TOO_LARGE
    return None
