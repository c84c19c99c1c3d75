"""A policy whose tokens a vLLM server samples, and whose weights stay here: rollouts there, learning in PyTorch.

    VLLM_SERVER_DEV_MODE=1 vllm serve <folder with the model> --weight-transfer-config '{"backend": "disk"}'

Tokens go in and come out as ids, so that nothing is written and read again in between. Log-probabilities are those of
the server, which differ a little from the trainer's: `turngym.baselines.importance` corrects for that. Needs nothing
but HTTP here; the server needs vLLM of 2026 for its weights to be replaced, 0.10.2 for its ids.

Source: vLLM's documentation of `return_token_ids` and of weight transfer by shared disk.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from turngym.agents.llm_policy import LLMPolicy
from turngym.agents.models import PolicyModel

_CONCURRENCY = 256
"""Most requests at a time; the server batches them."""


class ServerError(RuntimeError):
    """The server cannot be reached, refuses a request, or answers without what is needed."""


class VLLMServer:
    """A vLLM server, as far as rollouts need it.

    Args:
        url: Where it is, without the /v1.
        model: What it calls the model.
        folder: Where weights are handed over, a folder that both see under the same path.
        timeout_s: Longest wait for an answer.
    """

    def __init__(self, url: str, model: str, folder: Path, *, timeout_s: float = 600.0) -> None:
        self.url, self.model, self.folder = url.rstrip("/").removesuffix("/v1"), model, folder.resolve()
        self._timeout_s, self._begun = timeout_s, False

    def complete(self, ids: Sequence[int], limit: int, **settings: Any) -> tuple[list[int], list[float]]:
        """Sample a reply.

        Args:
            ids: What it replies to.
            limit: Longest reply, in tokens.
            settings: Further fields of the request.

        Returns:
            The ids of the reply, and the natural logarithm of the probability with which the model gives each.

        Raises:
            ServerError: If there is no such answer.
        """
        asked = {"model": self.model, "prompt": list(ids), "max_tokens": limit, "logprobs": 1, "return_token_ids": True}
        answer = self._post("v1/completions", {**asked, **settings})["choices"][0]
        sampled, log_probs = answer.get("token_ids"), (answer.get("logprobs") or {}).get("token_logprobs")
        if not sampled or log_probs is None or len(sampled) != len(log_probs):
            raise ServerError(f"{self.url} gives no token ids with log-probabilities: vLLM 0.10.2 or later does")
        return sampled, log_probs

    def load(self, model: PolicyModel) -> None:
        """Have the server sample from a model's present weights; what it kept of earlier ones is dropped.

        Raises:
            ValueError: If the model has adapters, whose weights are not those of the architecture.
            ServerError: If the server does not take them.
        """
        if any("lora_" in name for name, _ in model.lm.named_parameters()):
            raise ValueError("a server takes whole weights: train all of them, without adapters")
        model.lm.save_pretrained(self.folder)
        self._post("pause", None)
        if not self._begun:
            self._post("init_weight_transfer_engine", {"init_info": {}})
            self._begun = True
        self._post("start_weight_update", {})
        self._post("update_weights", {"update_info": {"path": str(self.folder)}})
        self._post("finish_weight_update", {})
        self._post("resume", None)

    def _post(self, route: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/{route}", data=data, method="POST", headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:200]
            raise ServerError(f"{self.url}/{route}: {error.code} {error.reason}: {said}") from error
        except OSError as error:
            raise ServerError(f"{self.url}/{route} cannot be reached: {error}") from error
        return dict(json.loads(text)) if text.strip() else {}


class ServedPolicy(LLMPolicy):
    """An `LLMPolicy` whose replies a server writes, each as soon as it can.

    It has no critic: `values` and `bootstrap_value` of its trajectories are 0 until `importance.py` fills them in.

    Args:
        model: Its template and tokenizer are used, and its weights where `server.load` takes them.
        server: Samples the replies.
        settings: Those of `LLMPolicy`.
    """

    def __init__(self, model: PolicyModel, server: VLLMServer, **settings: Any) -> None:
        self._server, self._asked = server, dict[Future[tuple[list[int], list[float]]], int]()
        self._threads = ThreadPoolExecutor(_CONCURRENCY)
        super().__init__(model, **settings)

    def value(self, observations: Sequence[str], indices: Sequence[int]) -> list[float]:
        """Not to be had from a server.

        Raises:
            ValueError: Always.
        """
        raise ValueError("a server estimates no values")

    def reply(self, index: int) -> None:
        """Have a live episode's next reply written, by the server.

        Raises:
            ValueError: If `max_tokens` leave no room for it.
        """
        super().reply(index)
        sampling = self.sampling
        settings = {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or -1,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "seed": int(self._streams[index].integers(2**31)),
            "stop": list(self.stop),
            "include_stop_str_in_output": True,
            "stop_token_ids": [self.model.format.end],
            "skip_special_tokens": False,
        }
        ids, limit = list(self.sequences.ids(index)), self._writing[index].limit
        self._asked[self._threads.submit(self._server.complete, ids, limit, **settings)] = index

    def close(self, index: int, observation: str) -> None:
        """Let a live episode end with an observation that nothing answers."""
        self._hear(index, observation)
        self.release([index])

    def advance(self, indices: Sequence[int] | None = None) -> dict[int, str]:
        """Wait until a reply is complete; returns the texts of all that are, by episode.

        Raises:
            ServerError: If a request failed.
        """
        if not self._asked:
            return {}
        done = wait(self._asked, return_when=FIRST_COMPLETED).done
        return {self._asked[each]: self._answered(each) for each in [each for each in self._asked if each in done]}

    def _answered(self, future: Future[tuple[list[int], list[float]]]) -> str:
        index = self._asked.pop(future)
        reply = self._writing[index]
        reply.ids, reply.log_probs = future.result()
        reply.values = [0.0] * len(reply.ids)
        self.sequences.append(index, reply.ids)
        return self._end(index)
