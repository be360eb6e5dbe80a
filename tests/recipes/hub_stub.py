"""A hub for tests: takes a repository and its files as huggingface_hub sends them, or refuses."""

import json
import threading
from base64 import b64decode
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hub:
    """`with Hub() as hub: hub.address`. `files` holds what was committed: path -> content.

    `tokens` are those that requests came with; `refuse` answers each one with status 403, and repeats the
    token in its message as careless servers do.
    """

    refuse: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    private: bool | None = None
    _large: dict[str, bytes] = field(default_factory=dict)

    def __enter__(self) -> "Hub":
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if not body and self.headers.get("Transfer-Encoding") == "chunked":
                    body = self._chunks()
                said = self.headers.get("Authorization", "")
                if not self.path.startswith("/put/"):
                    hub.tokens.add(said.removeprefix("Bearer "))
                status, answer = hub.answer(self.path, body, said)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_PUT = do_POST

            def _chunks(self) -> bytes:
                whole = b""
                while size := int(self.rfile.readline().strip() or b"0", 16):
                    whole += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return whole

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: bytes, said: str) -> tuple[int, dict]:
        if self.refuse:
            return 403, {"error": f"{said} may not write here"}
        if path == "/api/repos/create":
            asked = json.loads(body)
            self.private = asked.get("private", asked.get("visibility") == "private")
            return 200, {"url": f"{self.address}/{asked.get('organization', 'me')}/{asked['name']}"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if "/preupload/" in path:
            files = [file["path"] for file in json.loads(body)["files"]]
            kinds = {name: "lfs" if name.endswith(".safetensors") else "regular" for name in files}
            return 200, {
                "files": [
                    {"path": name, "uploadMode": kind, "shouldIgnore": False} for name, kind in kinds.items()
                ]
            }
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            return 200, {
                "transfer": "basic",
                "objects": [
                    {**o, "actions": {"upload": {"href": f"{self.address}/put/{o['oid']}"}}} for o in objects
                ],
            }
        if path.startswith("/put/"):
            self._large[path.removeprefix("/put/")] = body
            return 200, {}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.files[value["path"]] = b64decode(value["content"])
                if line["key"] == "lfsFile":
                    self.files[value["path"]] = self._large[value["oid"]]
            return 200, {"commitUrl": f"{self.address}/me/model/commit/0", "commitOid": "0" * 40}
        return 404, {"error": f"no {path}"}
