"""A client of yaml-language-server over stdio: just enough of the Language Server Protocol for a test."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any

SECONDS = 60


class LanguageServer:
    """Use it in a ``with`` block. Positions are (line, character), from 0."""

    def __init__(self, command: list[str], root: Path) -> None:
        self.process = subprocess.Popen(
            [*command, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.diagnostics: queue.Queue[dict[str, Any]] = queue.Queue()
        self.number = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": root.as_uri(),
                "capabilities": {
                    "textDocument": {
                        "completion": {"completionItem": {"documentationFormat": ["markdown"]}},
                        "hover": {"contentFormat": ["markdown"]},
                        "publishDiagnostics": {},
                    }
                },
            },
        )
        self.notify("initialized", {})
        # no schema store: the test must not need a network
        self.notify(
            "workspace/didChangeConfiguration",
            {
                "settings": {
                    "yaml": {
                        "schemaStore": {"enable": False},
                        "yamlVersion": "1.1",
                        "validate": True,
                        "hover": True,
                        "completion": True,
                    }
                }
            },
        )

    def __enter__(self) -> LanguageServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def open(self, file: Path) -> list[dict[str, Any]]:
        """Open a document; what the server finds wrong in it."""
        uri = file.as_uri()
        self.notify(
            "textDocument/didOpen",
            {
                "textDocument": {
                    "uri": uri,
                    "languageId": "yaml",
                    "version": 1,
                    "text": file.read_text(encoding="utf-8"),
                }
            },
        )
        while True:
            told = self.diagnostics.get(timeout=SECONDS)
            if told["uri"] == uri:
                diagnostics: list[dict[str, Any]] = told["diagnostics"]
                return diagnostics

    def completions(self, file: Path, line: int, character: int) -> dict[str, dict[str, Any]]:
        answer = self.request("textDocument/completion", self._at(file, line, character))
        return {item["label"]: item for item in answer["items"]}

    def hover(self, file: Path, line: int, character: int) -> str:
        answer = self.request("textDocument/hover", self._at(file, line, character))
        return str(answer["contents"]["value"]) if answer else ""

    @staticmethod
    def _at(file: Path, line: int, character: int) -> dict[str, Any]:
        return {"textDocument": {"uri": file.as_uri()}, "position": {"line": line, "character": character}}

    def request(self, method: str, params: Any) -> Any:
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        while True:
            answer = self.answers.get(timeout=SECONDS)
            if answer["id"] == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while (message := _message(self.process.stdout)) is not None:
            if "method" in message and "id" in message:  # the server asks: every setting is null, everything is allowed
                items = message.get("params", {}).get("items", []) if isinstance(message.get("params"), dict) else []
                self._send({"id": message["id"], "result": [None] * len(items) if items else None})
            elif message.get("method") == "textDocument/publishDiagnostics":
                self.diagnostics.put(message["params"])
            elif "id" in message:
                self.answers.put(message)


def _message(stream: IO[bytes]) -> dict[str, Any] | None:
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    if not length:
        return None
    message: dict[str, Any] = json.loads(stream.read(length))
    return message
