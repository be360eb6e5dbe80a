"""An OpenAI-compatible server in a thread that answers with a real model through transformers.

Prompts are made from the request's messages alone: the server's own chat template, processor and decoding,
with pictures decoded from their data URLs.
"""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

import base64
import io
import socket
import threading
import time
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

NAME = "real"


class ModelServer:
    """`with ModelServer(checkpoint, pixels) as server: server.base_url`.

    `pixels` is the largest area of a picture. `tokenize` is what /tokenize gives: the prompt with its
    pictures (expanded), before they take their places (plain), or nothing (none). `spoil` changes a prompt's
    text, as another chat template would; `usage` is whether tokens are counted.
    """

    def __init__(
        self, checkpoint: Path, pixels: int, tokenize: str = "expanded", spoil: str = "", usage: bool = True
    ) -> None:
        self.processor = AutoProcessor.from_pretrained(checkpoint)
        self.processor.image_processor.size.longest_edge = pixels
        self.model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32).eval()
        self.tokenize, self.spoil, self.usage = tokenize, spoil, usage
        self._one_at_a_time = threading.Lock()
        app = FastAPI()
        app.get("/v1/models")(lambda: {"data": [{"id": NAME, "owned_by": "vllm"}]})
        app.get("/version")(lambda: {"version": "0.0.model"})
        app.post("/v1/chat/completions")(self._complete)
        if tokenize != "none":
            app.post("/tokenize")(self._tokenize)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _inputs(self, messages: list[dict[str, Any]]) -> tuple[str, Any]:
        pictures, parts = [], []
        for part in messages[-1]["content"]:
            if part["type"] == "image_url":
                content = base64.b64decode(part["image_url"]["url"].split(",")[1])
                pictures.append(Image.open(io.BytesIO(content)).convert("RGB"))
                parts.append({"type": "image"})
            else:
                parts.append({"type": "text", "text": part["text"] + self.spoil})
        chat = [{"role": "user", "content": parts}]
        text = self.processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        return text, self.processor(text=[text], images=pictures or None, return_tensors="pt")

    def _tokenize(self, body: dict[str, Any]) -> dict[str, Any]:
        text, inputs = self._inputs(body["messages"])
        expanded = inputs["input_ids"][0].tolist()
        plain = self.processor.tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens = expanded if self.tokenize == "expanded" else plain
        return {"count": len(tokens), "tokens": tokens}

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._one_at_a_time, torch.inference_mode():
            _, inputs = self._inputs(body["messages"])
            output = self.model.generate(
                **inputs, max_new_tokens=body["max_tokens"], do_sample=False, temperature=None, top_p=None
            )
        prompt = inputs["input_ids"].shape[1]
        ids = output[0, prompt:].tolist()
        ended = ids[-1] in self.model.generation_config.eos_token_id
        text = self.processor.tokenizer.decode(ids, skip_special_tokens=True)
        usage = {"prompt_tokens": prompt, "completion_tokens": len(ids)}
        return {
            "choices": [{"message": {"content": text}, "finish_reason": "stop" if ended else "length"}],
            **({"usage": usage} if self.usage else {}),
        }
