"""The viewer as a local server, for evaluations too large for pages: it filters all rows at once.

It listens on 127.0.0.1 alone and answers only to that name, so no other machine, and no page of another site
that a browser has open, can read what it shows.
"""

import io
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from PIL import Image

from data_prep.errors import UserError
from recipes.viewer import assets, environment, form_fields, picture_name, policy, render_item
from recipes.viewer_rows import Filter, choices, filtered, load, questions

HOST = "127.0.0.1"
ROWS = 25  # a screen
_PICTURE = "/picture/"


class Viewer:
    """The questions of some evaluations, and the pages and pictures about them."""

    def __init__(self, runs: Mapping[str, Path], title: str, side: int) -> None:
        self._title, self._side = title, side
        self._models = load(runs)
        self._questions = questions(self._models)
        self._templates = environment()
        shown = (one for question in self._questions for one in question.pictures)
        self._files = {picture_name(one.file): one.file for one in shown}

    def page(self, fields: Mapping[str, str]) -> str:
        """A screen of the rows that the form's `fields` ask for, from row `from` on."""
        wanted = Filter.read(fields, len(self._models))
        start = int(fields["from"]) if fields.get("from", "").isdecimal() else 0
        total = sum(1 for _ in filtered(self._questions, wanted))
        here = list(islice(filtered(self._questions, wanted), start, start + ROWS))
        pictures = {
            picture_name(one.file): {
                "data": f"{_PICTURE}{picture_name(one.file)}",
                "width": one.image.width,
                "height": one.image.height,
            }
            for question in here
            for one in question.pictures
        }
        own = form_fields(self._models, fields)

        def link(to: int) -> str:
            return "/?" + urlencode({**{k: v for k, v in own.items() if v}, "from": to})

        return self._templates.get_template("viewer.html.j2").render(
            {
                "title": self._title,
                "models": self._models,
                "pictures": pictures,
                "items": [
                    render_item(
                        self._templates, self._models, q, [picture_name(one.file) for one in q.pictures]
                    )
                    for q in here
                ],
                "choices": choices(self._questions),
                "fields": own,
                "served": True,
                "total": total,
                "earlier": link(max(start - ROWS, 0)) if start else None,
                "later": link(start + ROWS) if start + ROWS < total else None,
                "policy": POLICY,
                **assets(),
            }
        )

    def picture(self, name: str) -> bytes | None:
        """A picture of some row as JPEG, downscaled; None for any other name."""
        file = self._files.get(name)
        if file is None:
            return None
        content = io.BytesIO()
        with Image.open(file) as stored:
            picture = stored.convert("RGB")
        picture.thumbnail((2 * self._side, 2 * self._side))
        picture.save(content, "JPEG", quality=85)
        return content.getvalue()


POLICY = policy("'self'", form="'self'")


def server(viewer: Viewer, port: int) -> ThreadingHTTPServer:
    """A server of `viewer` on this machine's own address; port 0 takes any free one.

    Raises:
        UserError: the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bound = self.server.server_address[1]
            if self.headers.get("Host") not in (f"{HOST}:{bound}", f"localhost:{bound}"):
                self.send_error(HTTPStatus.FORBIDDEN, "another host")
                return
            address = urlsplit(self.path)
            if address.path == "/":
                page = viewer.page(dict(parse_qsl(address.query)))
                self._send(page.encode(), "text/html; charset=utf-8")
            elif address.path.startswith(_PICTURE):
                found = viewer.picture(address.path.removeprefix(_PICTURE))
                if found is None:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                self._send(found, "image/jpeg")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """A line for every picture would bury the address."""

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise UserError(
            f"port {port} of {HOST} cannot be used ({error.strerror}): give another report.port=."
        ) from error


def serve(
    runs: Mapping[str, Path], title: str, side: int, port: int, say: Callable[[str], None] = print
) -> None:
    """Serve until Ctrl-C.

    Raises:
        UserError: as `load`, `questions` and `server` do.
    """
    viewer = Viewer(runs, title, side)
    with server(viewer, port) as http:
        say(f"viewer: http://{HOST}:{http.server_address[1]}/ (Ctrl-C ends it)")
        http.serve_forever()
