"""Every architecture that is read must mean the same here as in `transformers`, and what is written must load there."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from suite.checkpoint import Model, foreign, load
from suite.checkpoint.families import FAMILIES
from suite.errors import CheckpointError, ConfigError
from suite.model import ModelConfig, Transformer
from suite.sampling import Sampling, generate

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

# odd shapes: grouped heads, a vocabulary and a width inside the MLP that are no round numbers
SMALL: dict[str, Any] = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 76,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 96,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GROUPED = SMALL | {"num_key_value_heads": 2}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 24,
}
TIED = {"tie_word_embeddings": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", SMALL),
    "llama, grouped": ("llama", GROUPED | {"rms_norm_eps": 1e-3}),
    "llama, one key/value head, tied": ("llama", SMALL | TIED | {"num_key_value_heads": 1}),
    "llama 3": ("llama", GROUPED | TIED | {"rope_parameters": LLAMA3}),
    "llama, linear": (
        "llama",
        GROUPED | {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}},
    ),
    "llama, wide heads and biases": ("llama", GROUPED | {"head_dim": 12, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("mistral", GROUPED | {"sliding_window": None}),
    "mistral, window": ("mistral", GROUPED | {"sliding_window": 7, "head_dim": 10}),
    "qwen2": ("qwen2", GROUPED),
    "qwen2, tied, some windows": (
        "qwen2",
        GROUPED | TIED | {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", GROUPED | {"head_dim": 16}),
    "qwen3, tied, biases": ("qwen3", GROUPED | TIED | {"head_dim": 6, "attention_bias": True}),
    "pythia": ("gpt_neox", SMALL),
    "gpt_neox, one after another": (
        "gpt_neox",
        SMALL
        | TIED
        | {"use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new"}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0}},
    ),
    "gpt_neox, half": (
        "gpt_neox",
        SMALL | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    ),
    "nemotron": ("nemotron", GROUPED),
    "nemotron, whole heads": (
        "nemotron",
        GROUPED
        | TIED
        | {"head_dim": 14, "mlp_bias": True, "hidden_act": "gelu", "norm_eps": 1e-3}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 1.0}},
    ),
}


def with_weights_that_bite(model: Any) -> Any:
    """Random weights of a size that tells models apart; a library's own start with norms of one and biases of zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
            else:
                table = parameter.shape[0] == model.config.vocab_size
                parameter.normal_(std=0.2 if table else 1.2 / parameter.shape[1] ** 0.5, generator=generator)
            assert parameter.isfinite().all(), name
    return model.eval()


def reference(model_type: str, settings: dict[str, Any], directory: Path, **options: Any) -> Any:
    """A model of `transformers` with random weights, saved to a directory."""
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(model_type, **json.loads(json.dumps(settings)))
    model = with_weights_that_bite(transformers.AutoModelForCausalLM.from_config(config))
    model.save_pretrained(directory, **options)
    return model


def assert_same_model(ours: Transformer, theirs: Any, stated: float = 1e-4) -> None:
    """Equal logits over 60 random tokens of two rows, and equal greedy continuations of 20."""
    tokens = torch.randint(ours.config.vocab_size, (2, 60), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(tokens).logits
        difference = (ours(tokens) - expected).abs().max().item()
    print(f"largest logit difference: {difference:.2e} of {expected.abs().max().item():.1f}")
    assert expected.std() > 0.1, "logits that are all alike would agree by accident"
    assert difference <= stated
    prompt = tokens[:1, :16]
    options = {"do_sample": False, "max_new_tokens": 20, "pad_token_id": 0}
    theirs.generation_config.eos_token_id = None  # nothing ends before its 20 tokens
    expected = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    [greedy] = generate(ours, prompt.tolist(), max_new_tokens=20, sampling=Sampling(temperature=0.0))
    assert list(greedy.tokens) == expected[0, 16:].tolist()
    assert len(set(greedy.tokens)) > 2, "one token again and again would agree by accident"


@pytest.mark.parametrize("case", CASES)
def test_their_model_loads_here(case: str, tmp_path: Path) -> None:
    theirs = reference(*CASES[case], tmp_path)
    model = load(tmp_path)
    assert_same_model(model.transformer, theirs)
    assert (model.transformer.head.weight is model.transformer.tokens.weight) == bool(theirs.config.tie_word_embeddings)
    assert all(parameter.requires_grad for parameter in model.transformer.parameters())


@pytest.mark.parametrize("case", CASES)
def test_there_and_back_is_the_same_model(case: str, tmp_path: Path) -> None:
    """Read and written again, it is the same architecture there, and the same numbers."""
    theirs = reference(*CASES[case], tmp_path / "a")
    model = load(tmp_path / "a")
    foreign.export(model, tmp_path / "b")
    assert_loads_there(model, tmp_path / "b")
    again = load(tmp_path / "b")
    written = json.loads((tmp_path / "b" / "config.json").read_text())["model_type"]
    if written == theirs.config.model_type:
        assert again.config == model.config
    else:
        same = [("llama", "mistral"), ("nemotron", "gpt_neox")]  # without a window; with one part after another
        assert (written, theirs.config.model_type) in same


def assert_loads_there(model: Model, directory: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
        directory, output_loading_info=True, dtype="auto"
    )
    assert not any(report.values()), "no tensor is missing, left over or of another shape"
    assert_same_model(model.transformer, theirs.eval())


OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "our default shape": ("nemotron", {"activation": "relu2", "bias": False}),
    "our default shape, untied, grouped": (
        "nemotron",
        {"activation": "relu2", "bias": False, "tie_embeddings": False, "n_kv_head": 2, "d_ff": 70},
    ),
    "squared ReLU with biases": ("nemotron", {"activation": "relu2"}),
    "GELU without biases": ("nemotron", {"activation": "gelu_tanh", "bias": False}),
    "llama's": ("llama", {"activation": "swiglu", "norm": "rms", "bias": False}),
    "windows": ("mistral", {"activation": "swiglu", "norm": "rms", "bias": False, "windows": (6, 6)}),
    "windows here and there": ("qwen2", {"activation": "swiglu", "norm": "rms", "bias": False, "windows": (0, 6)}),
    "parallel": ("gpt_neox", {"activation": "gelu", "parallel_residual": True, "bias": False, "rotary_width": 2}),
    "a window as wide as the context": (
        "llama",
        {"activation": "swiglu", "norm": "rms", "bias": False, "windows": (96, 0)},
    ),
}


def ours(directory: Path, **settings: Any) -> Model:
    fields: dict[str, Any] = {"vocab_size": 211, "context": 96, "d_model": 48, "n_layer": 2, "n_head": 4}
    transformer = with_weights_that_bite(Transformer(ModelConfig(**(fields | {"position": "rotary"} | settings))))
    return Model(transformer=transformer, tokenizer=None, task="lm", name="ours", directory=directory)


@pytest.mark.parametrize("case", OURS)
def test_our_model_loads_there(case: str, tmp_path: Path) -> None:
    model_type, settings = OURS[case]
    model = ours(tmp_path, **settings)
    foreign.export(model, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == model_type
    assert_loads_there(model, tmp_path / "out")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"activation": "swiglu", "bias": False}, ["llama, the nearest", "model.norm cannot be 'layer'"]),
        ({"position": "relative", "norm": "rms"}, ["position", "'relative'"]),
        ({"norm": "rms", "activation": "swiglu", "compress": (3, 0)}, ["llama", "compress"]),
        ({"norm": "rms", "activation": "swiglu", "qk_norm": True}, ["qk_norm"]),
        ({"activation": "relu2", "restart_positions": True}, ["nemotron", "restart_positions"]),
        ({"activation": "gelu", "qk_norm": True, "parallel_residual": True}, ["gpt_neox", "qk_norm"]),
    ],
)
def test_what_none_can_hold_is_named(settings: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        foreign.export(ours(tmp_path, **settings), tmp_path / "out")
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_head_is_not_dropped(tmp_path: Path) -> None:
    model = replace(ours(tmp_path, activation="relu2"), head=torch.nn.Linear(48, 3), task="classify")
    with pytest.raises(ConfigError, match="no place for the head"):
        foreign.export(model, tmp_path / "out")


@pytest.mark.parametrize("model_type", FAMILIES)
def test_bfloat16(model_type: str, tmp_path: Path) -> None:
    """Loosely: bfloat16 has 8 bits, and the two libraries round in different places."""
    settings = SMALL if model_type == "gpt_neox" else GROUPED | {"head_dim": 8}
    theirs = reference(model_type, settings, tmp_path / "full").to(torch.bfloat16)
    theirs.save_pretrained(tmp_path / "half")
    model = load(tmp_path / "half", dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.transformer.parameters()} == {torch.bfloat16}
    tokens = torch.arange(0, 200, 5)[None]
    with torch.no_grad():
        expected, found = theirs(tokens).logits.float(), model.transformer(tokens)
    assert (found - expected).std() < 0.05 * expected.std()


def test_shards(tmp_path: Path) -> None:
    theirs = reference("llama", GROUPED, tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="60KB")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 1
    whole, parts = (load(tmp_path / name).transformer.state_dict() for name in ("whole", "shards"))
    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())


def test_settings_as_they_were_before_version_5(tmp_path: Path) -> None:
    """`rope_scaling` with `type`, `rope_theta` and `rotary_pct` at the top, frequencies and masks among the weights."""
    theirs = reference("llama", GROUPED | {"rope_parameters": LLAMA3}, tmp_path / "llama")
    edit_config(
        tmp_path / "llama",
        rope_parameters=None,
        rope_theta=500.0,
        rope_scaling={"type": "llama3"} | {key: LLAMA3[key] for key in LLAMA3 if not key.startswith("rope")},
    )
    edit_weights(tmp_path / "llama", **{"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)})
    assert_same_model(load(tmp_path / "llama").transformer, theirs)
    theirs = reference("gpt_neox", SMALL, tmp_path / "neox")
    edit_config(tmp_path / "neox", rope_parameters=None, rotary_pct=0.25, rotary_emb_base=10000)
    tensors = load_file(tmp_path / "neox" / "model.safetensors")
    head = tensors.get("embed_out.weight", tensors.get("lm_head.weight"))
    masks = {"gpt_neox.layers.0.attention.bias": torch.ones(1, 1, 96, 96, dtype=torch.bool)}
    edit_weights(tmp_path / "neox", **masks, **{"embed_out.weight": head, "lm_head.weight": None})
    assert_same_model(load(tmp_path / "neox").transformer, theirs)


# ---- what is wrong with a directory is one line


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def make(model_type: str) -> Path:
        if model_type not in made:
            made[model_type] = tmp_path_factory.mktemp("models") / model_type
            reference(model_type, SMALL if model_type == "gpt_neox" else GROUPED | {"head_dim": 8}, made[model_type])
        return made[model_type]

    return make


def edit_weights(directory: Path, **changes: torch.Tensor | None) -> None:
    tensors = {name: tensor.clone() for name, tensor in load_file(directory / "model.safetensors").items()} | changes
    save_file({n: t for n, t in tensors.items() if t is not None}, directory / "model.safetensors")


def edit_config(directory: Path, **changes: Any) -> None:
    settings = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(settings | changes))


def one_line(directory: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(directory)
    message = str(caught.value)
    assert "\n" not in message and str(directory) in message
    return message


@pytest.mark.parametrize(
    ("model_type", "changes", "words"),
    [
        ("llama", {"model_type": "falcon"}, ["'falcon'", "gpt2, llama, mistral, qwen2, qwen3, nemotron, gpt_neox"]),
        ("llama", {"model_type": None}, ["None", "llama"]),
        ("llama", {"model_type": ["llama"]}, ["model type", "llama"]),
        ("llama", {"hidden_act": "relu"}, ["hidden_act", "'relu'", "silu"]),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, ["'yarn'", "default, linear, llama3"]),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, ["'dynamic'", "default, linear, llama3"]),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, ["low_freq_factor"]),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 0.5}}, ["factor", "0.5"]),
        ("llama", {"rope_parameters": {"full_attention": {"rope_type": "default"}}}, ["layer to layer"]),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, ["partial_rotary_factor"]),
        ("llama", {"rope_theta": "many", "rope_parameters": None}, ["rotary"]),
        ("llama", {"quantization_config": {"bits": 4}}, ["quantized"]),
        ("llama", {"hidden_size": "48"}, ["hidden_size", "'48'"]),
        ("llama", {"num_attention_heads": 0}, ["n_head"]),
        (
            "llama",
            {"num_attention_heads": 5, "head_dim": None, "num_key_value_heads": None},
            ["d_model 48", "n_head 5"],
        ),
        ("llama", {"num_key_value_heads": 4}, ["n_kv_head 4"]),
        ("llama", {"rms_norm_eps": None}, ["not a number"]),
        ("llama", {"head_dim": 10}, ["q_proj", "(60, 48)"]),
        ("llama", {"num_hidden_layers": 4}, ["model.layers.3.", "missing"]),
        ("llama", {"num_hidden_layers": 2}, ["model.layers.2.", "not part of"]),
        ("llama", {"attention_bias": True}, ["q_proj.bias", "missing"]),
        ("llama", {"tie_word_embeddings": True}, ["lm_head.weight", "tie_word_embeddings"]),
        ("mistral", {"sliding_window": 0}, ["sliding_window"]),
        ("qwen2", {"layer_types": ["full_attention", "linear", "x"], "use_sliding_window": True}, ["'linear'"]),
        ("qwen2", {"layer_types": ["full_attention"], "use_sliding_window": True}, ["layer_types", "1 entries"]),
        ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": 0.4}}, ["rotary_width is 3"]),
        ("gpt_neox", {"hidden_act": "silu"}, ["'silu'", "gelu"]),
    ],
    ids=str,
)
def test_a_config_that_is_not_supported_is_refused(
    model_type: str, changes: dict[str, Any], words: list[str], good: Callable[[str], Path], tmp_path: Path
) -> None:
    """Each of these would load, and give other numbers than the model's authors saw, or a traceback."""
    directory = Path(shutil.copytree(good(model_type), tmp_path / "broken"))
    edit_config(directory, **({"sliding_window": 5} | changes if model_type == "qwen2" else changes))
    message = one_line(directory)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("model_type", "name", "tensor", "words"),
    [
        ("llama", "model.layers.1.mlp.gate_proj.weight", None, ["layers.1.mlp.gate_proj.weight", "missing"]),
        ("llama", "model.layers.1.self_attn.k_proj.weight", torch.ones(48, 48), ["k_proj", "(48, 48)", "(16, 48)"]),
        ("llama", "model.layers.0.self_attn.q_norm.weight", torch.ones(8), ["q_norm", "not part of"]),
        ("llama", "lm_head.weight", None, ["lm_head.weight", "missing"]),
        ("llama", "model.norm.weight", torch.ones(48, dtype=torch.int64), ["model.norm.weight", "int64"]),
        ("gpt_neox", "gpt_neox.layers.1.attention.query_key_value.bias", None, ["query_key_value.bias", "missing"]),
    ],
)
def test_a_wrong_tensor_is_named(
    model_type: str,
    name: str,
    tensor: torch.Tensor | None,
    words: list[str],
    good: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    directory = Path(shutil.copytree(good(model_type), tmp_path / "broken"))
    edit_weights(directory, **{name: tensor})
    message = one_line(directory)
    assert all(word in message for word in words), message


def test_a_shard_that_is_missing_or_cut_short_is_named(tmp_path: Path) -> None:
    reference("llama", GROUPED, tmp_path, max_shard_size="60KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    content = shards[1].read_bytes()
    shards[1].write_bytes(content[: len(content) // 2])
    assert f"{shards[1]} is damaged" in one_line(tmp_path)
    shards[1].unlink()
    message = one_line(tmp_path)
    assert str(shards[1]) in message and f"{len(shards) - 1} of {len(shards)} files" in message
