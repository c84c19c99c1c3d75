"""Rollouts through a server: real HTTP on this machine, in vLLM's protocol, with a small model behind it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from turngym.agents import LLMPolicy, collect_rollout, tiny
from turngym.agents.generation import CachedSequences
from turngym.agents.models import PolicyModel
from turngym.agents.sampling import Sampling, sample
from turngym.agents.served import ServedPolicy, ServerError, VLLMServer
from turngym.baselines import ppo_llm
from turngym.baselines.importance import correct, importance_metrics

ENV_ID = "turngym:TextFrozenLake-v0"


class Server(ThreadingHTTPServer):
    """Completes token ids with a model of its own, whose weights it reads from disk when it is told to."""

    daemon_threads = True

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = PolicyModel(tiny.build_model(seed, width=32, layers=2, heads=2), tiny.build_tokenizer(), "served")
        self.url, self.routes, self.faults = f"http://127.0.0.1:{self.server_port}", list[str](), dict[str, Any]()
        self.lock = threading.Lock()

    def complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As vLLM answers, as far as it is asked for."""
        sequence, rng = CachedSequences(self.model), np.random.default_rng(asked["seed"])
        sequence.append(0, asked["prompt"])
        sampling, ids, log_probs = Sampling(temperature=asked["temperature"]), list[int](), list[float]()
        while len(ids) < asked["max_tokens"] and not (ids and ids[-1] in asked["stop_token_ids"]):
            logits = self.model.logits(sequence.read([0]))
            token, log_prob = sample(logits, torch.tensor([rng.random()], dtype=torch.float64), sampling)
            ids, log_probs = [*ids, token.item()], [*log_probs, log_prob.item()]
            sequence.append(0, ids[-1:])
        choice = {"token_ids": ids, "logprobs": {"token_logprobs": log_probs}, "text": self.model.decode(ids)}
        return {"choices": [choice | self.faults]}

    def load(self, folder: str) -> None:
        """Take over weights as transformers saved them."""
        self.model.lm.load_state_dict(load_file(Path(folder) / "model.safetensors"), strict=False)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        asked, route, answer = json.loads(self.rfile.read(length) or "{}"), self.path.strip("/"), {}
        with self.server.lock, torch.inference_mode():
            self.server.routes.append(route)
            if route == "v1/completions":
                answer = self.server.complete(asked)
            elif route == "update_weights":
                self.server.load(asked["update_info"]["path"])
        status = 404 if route == self.server.faults.get("missing") else 200
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Tests are silent."""


@pytest.fixture
def served() -> Iterator[Server]:
    server = Server(seed=1)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def model() -> PolicyModel:
    return PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")


@pytest.fixture
def envs() -> list[gymnasium.Env]:
    return [gymnasium.make(ENV_ID, max_turns=4) for _ in range(4)]


def test_after_a_load_the_server_samples_from_the_trainers_policy(served, model, envs, tmp_path) -> None:
    server = VLLMServer(f"{served.url}/v1", "served", tmp_path / "weights")
    settings = {"max_new_tokens": 3, "seed": 5}
    ours = collect_rollout(LLMPolicy(model, temperature=0.0, **settings), envs, range(6))
    assert all(before.ids != after.ids for before, after in greedy_pairs(server, model, envs, ours, settings))
    server.load(model)
    server.load(model)
    for trajectory, own in greedy_pairs(server, model, envs, ours, settings):
        lists = ("ids", "policy_mask", "turn_id", "segment", "rewards", "truncated", "terminated", "state_keys")
        assert all(getattr(trajectory, name) == getattr(own, name) for name in lists)
        assert trajectory.log_probs == pytest.approx(own.log_probs, abs=1e-4)
    update = ["start_weight_update", "update_weights", "finish_weight_update", "resume"]
    routes = [route for route in served.routes if route != "v1/completions"]
    assert routes == ["pause", "init_weight_transfer_engine", *update, "pause", *update]


def greedy_pairs(server, model, envs, ours, settings):
    theirs = collect_rollout(ServedPolicy(model, server, temperature=0.0, **settings), envs, range(6))
    return list(zip(theirs, ours, strict=True))


def test_weights_of_what_another_policy_sampled(served, model, envs, tmp_path) -> None:
    server = VLLMServer(served.url, "served", tmp_path)
    trajectories = collect_rollout(ServedPolicy(model, server, max_new_tokens=3), envs, range(6))
    sampled = [[each.log_probs[at] for at in each.policy_positions()] for each in trajectories]
    correct(model, trajectories, cap=1.1, max_tokens=512)
    with torch.no_grad():
        expected = model.score(trajectories)
    own = np.concatenate([[each.log_probs[at] for at in each.policy_positions()] for each in trajectories])
    assert own == pytest.approx(expected.log_probs.numpy(), abs=1e-5)
    ratios = np.exp(own - np.concatenate(sampled))
    weights = np.concatenate([each.importance for each in trajectories])
    assert weights == pytest.approx(np.minimum(ratios, 1.1), abs=1e-4)
    assert ratios.max() > 1.1 > 1 > ratios.min()
    assert importance_metrics(trajectories)["importance"] == pytest.approx(weights.mean())
    assert importance_metrics(collect_rollout(LLMPolicy(model, max_new_tokens=3), envs, range(2))) == {}


@pytest.mark.parametrize(
    ("faults", "words"),
    [({"token_ids": None}, "vLLM 0.10.2"), ({"logprobs": None}, "vLLM 0.10.2"), ({"missing": "v1/completions"}, "404")],
)
def test_a_server_that_cannot_be_used_is_named(served, model, envs, tmp_path, faults, words) -> None:
    served.faults = faults
    with pytest.raises(ServerError, match=words):
        collect_rollout(ServedPolicy(model, VLLMServer(served.url, "served", tmp_path)), envs, [0])


def test_no_server(model, envs, tmp_path) -> None:
    with pytest.raises(ServerError, match="cannot be reached"):
        VLLMServer("http://127.0.0.1:9", "served", tmp_path).load(model)


def test_ppo_learns_from_what_a_server_samples(served, tmp_path) -> None:
    served.model = PolicyModel(tiny.build_model(1), tiny.build_tokenizer(), "tiny")
    settings = """--demonstration-episodes 8 --sft-epochs 1 --iterations 2 --episodes 4 --validate-every 2
        --validation-episodes 2 --evaluation-episodes 2 --workers 1""".split()  # noqa: SIM905
    command = ["--server", served.url, "--output-dir", str(tmp_path / "run"), *settings]
    assert ppo_llm.main(command) == 0
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    trained = [line for line in lines if line["stage"] == "ppo"]
    assert len(trained) == 2
    for line in trained:
        assert line["importance"] == pytest.approx(1, abs=1e-3)  # the same kernels on both sides
        assert line["importance_error"] < 1e-3
