"""GPT-2 must mean the same here as in `transformers`, in both directions, and a wrong file must be told by name."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from suite.checkpoint import Model, gpt2, load, skeleton
from suite.errors import CheckpointError, ConfigError
from suite.model import ModelConfig, Transformer
from suite.sampling import Sampling, generate
from suite.text.tokenizer import Tokenizer

TINY = {"vocab_size": 211, "n_positions": 96, "n_embd": 48, "n_layer": 3, "n_head": 4, "bos_token_id": 0}
TEXTS = [
    "The planet earth, it's 4.5 billion years old.",
    "  two spaces\n\n\nthree lines\t tab \r\n",
    "naïve Ünïcödé — 日本語 🙂🏳️‍🌈 \u200b\ufeff",
    "I'll don't we've 'S\u00a0nbsp  ",
    "",
    "x" * 300,
]


def reference(directory: Path, **settings: Any) -> Any:
    """A GPT-2 of `transformers` with weights that bite, saved to a directory.

    That library's own initial weights are small, its biases zero and its norms one: a bias at the wrong place would go
    unseen, and greedy decoding would say its last token again and again.
    """
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**(TINY | {"eos_token_id": 0} | settings))).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
            else:
                table = name.endswith(("wte.weight", "wpe.weight", "lm_head.weight"))
                parameter.normal_(std=0.1 if table else 1.5 / model.config.n_embd**0.5, generator=generator)
    model.save_pretrained(directory)
    return model


def random_model(directory: Path, tokenizer: Tokenizer | None = None, **settings: Any) -> Model:
    """A model of ours that GPT-2's format can hold, with no weight at a value it starts from."""
    fields: dict[str, Any] = {"vocab_size": 280, "context": 96, "d_model": 48, "n_layer": 2, "n_head": 4}
    transformer = Transformer(ModelConfig(**(fields | settings))).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return Model(transformer=transformer, tokenizer=tokenizer, task="lm", name="random", directory=directory)


def assert_same_model(ours: Transformer, theirs: Any, length: int, stated: float = 1e-4) -> None:
    """Equal logits over `length` random tokens, and equal greedy continuations of 64."""
    tokens = torch.randint(ours.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        difference = (ours(tokens) - theirs(tokens).logits).abs().max().item()
    print(f"largest logit difference over {length} tokens: {difference:.2e}")
    assert difference <= stated
    prompt = tokens[:, :16]
    options = {"do_sample": False, "max_new_tokens": 64, "pad_token_id": 0}
    theirs.generation_config.eos_token_id = None  # nothing ends before its 64 tokens
    expected = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    [greedy] = generate(ours, prompt.tolist(), max_new_tokens=64, sampling=Sampling(temperature=0.0))
    assert list(greedy.tokens) == expected[0, 16:].tolist()
    assert len(set(greedy.tokens)) > 4, "one token again and again would agree by accident"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation_function": "gelu"},
        {"activation_function": "relu2"},
        {"tie_word_embeddings": False},
        {"n_inner": 80, "layer_norm_epsilon": 1e-3},
    ],
    ids=str,
)
def test_their_model_loads_here(settings: dict[str, Any], tmp_path: Path) -> None:
    """Each setting that changes a number must arrive: the two GELUs differ by 1e-3 in the logits."""
    theirs = reference(tmp_path, **settings)
    assert_same_model(load(tmp_path).transformer, theirs, 96)


@pytest.mark.parametrize(
    "settings",
    [{}, {"activation": "gelu"}, {"activation": "relu2"}, {"tie_embeddings": False}, {"d_ff": 80, "norm_eps": 1e-3}],
    ids=str,
)
def test_our_model_loads_there(settings: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = random_model(tmp_path, **settings)
    gpt2.export(model, tmp_path / "out")
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values()), "no tensor is missing, left over or of another shape"
    assert_same_model(model.transformer, theirs.eval(), 96)


@pytest.mark.parametrize("attention_dropout", [None, 0.0, 0.125])
def test_there_and_back_keeps_every_bit(attention_dropout: float | None, tmp_path: Path) -> None:
    model = random_model(tmp_path, tokenizer=Tokenizer.bytes(), dropout=0.25, attention_dropout=attention_dropout)
    gpt2.export(model, tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.config == model.config
    expected = model.transformer.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in again.transformer.state_dict().items())


def test_tied_weights_stay_one_parameter(tmp_path: Path) -> None:
    """Assigned one by one, the table and the head would be two parameters, and training would part them."""
    reference(tmp_path)
    transformer = load(tmp_path).transformer
    assert transformer.head.weight is transformer.tokens.weight
    assert all(parameter.is_contiguous() and parameter.requires_grad for parameter in transformer.parameters())


def test_export_keeps_the_storage_type(tmp_path: Path) -> None:
    model = random_model(tmp_path)
    gpt2.export(model, tmp_path / "half", storage="float16")
    assert {tensor.dtype for tensor in load_file(tmp_path / "half" / "model.safetensors").values()} == {torch.float16}
    loaded = load(tmp_path / "half").transformer
    assert loaded.tokens.weight.dtype == torch.float32
    torch.testing.assert_close(loaded.tokens.weight, model.transformer.tokens.weight, rtol=1e-3, atol=1e-6)
    assert load(tmp_path / "half", dtype=torch.bfloat16).transformer.positions.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_their_tokenizer_reads_ours(kind: str, tmp_path: Path) -> None:
    """GPT2Tokenizer rebuilds a tokenizer from its own ideas; the file must be read as it stands."""
    transformers = pytest.importorskip("transformers")
    specials = ("<eos>", "<pad>", "<bos>")
    tokenizer = Tokenizer.train(TEXTS * 3, 280, specials) if kind == "bpe" else Tokenizer.bytes(specials)
    model = random_model(tmp_path, tokenizer, vocab_size=tokenizer.vocab_size)
    gpt2.export(model, tmp_path / "out")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert theirs.encode(text, add_special_tokens=False) == ids
        assert theirs.decode(ids) == text
    ends = {name: tokenizer.specials[f"<{name}>"] for name in ("eos", "pad", "bos")}
    assert {"eos": theirs.eos_token_id, "pad": theirs.pad_token_id, "bos": theirs.bos_token_id} == ends
    generation = transformers.GenerationConfig.from_pretrained(tmp_path / "out")
    assert {name: getattr(generation, f"{name}_token_id") for name in ends} == ends
    config = transformers.AutoConfig.from_pretrained(tmp_path / "out")
    assert {name: getattr(config, f"{name}_token_id") for name in ends} == ends
    assert load(tmp_path / "out").tokenizer is not None


def test_without_a_tokenizer_no_token_ends_a_text(tmp_path: Path) -> None:
    """Where config.json is silent, GPT2Config says 50256, which a small vocabulary has not."""
    transformers = pytest.importorskip("transformers")
    gpt2.export(random_model(tmp_path), tmp_path / "out")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "out")
    assert config.eos_token_id is None and config.bos_token_id is None
    assert load(tmp_path / "out").tokenizer is None


def test_shards(tmp_path: Path) -> None:
    theirs = reference(tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="60KB")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 1
    whole, parts = (load(tmp_path / name).transformer.state_dict() for name in ("whole", "shards"))
    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())


def test_files_as_openai_community_has_them(tmp_path: Path) -> None:
    """The published files have no prefix, carry the causal masks, and a sparse config.json."""
    theirs = reference(tmp_path / "new", **{name: TINY[name] for name in ("n_embd", "n_layer")})
    tensors = load_file(tmp_path / "new" / "model.safetensors")
    old = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for layer in range(TINY["n_layer"]):
        old[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 96, 96).tril()
        old[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    old["lm_head.weight"] = old["wte.weight"].clone()
    (tmp_path / "old").mkdir()
    save_file(old, tmp_path / "old" / "model.safetensors")
    sparse = {"model_type": "gpt2", "n_ctx": 96} | {name: TINY[name] for name in TINY if name.startswith(("n_", "v"))}
    (tmp_path / "old" / "config.json").write_text(json.dumps(sparse))
    assert_same_model(load(tmp_path / "old").transformer, theirs, 96)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("gpt2")
    gpt2.export(random_model(directory, tokenizer=Tokenizer.bytes()), directory / "model")
    return directory / "model"


@pytest.fixture
def broken(exported: Path, tmp_path: Path) -> Path:
    """A good directory, to be broken."""
    return Path(shutil.copytree(exported, tmp_path / "broken"))


def one_line(directory: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(directory)
    message = str(caught.value)
    assert "\n" not in message and str(directory) in message
    return message


def edit_weights(directory: Path, **changes: torch.Tensor | None) -> None:
    tensors = {name: tensor.clone() for name, tensor in load_file(directory / "model.safetensors").items()} | changes
    save_file({n: t for n, t in tensors.items() if t is not None}, directory / "model.safetensors")


def edit_config(directory: Path, **changes: Any) -> None:
    settings = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(settings | changes))


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("transformer.h.1.mlp.c_fc.weight", None, ["h.1.mlp.c_fc.weight", "missing"]),
        ("transformer.h.2.ln_1.weight", torch.ones(48), ["h.2.ln_1.weight", "not part of"]),
        ("score.weight", torch.ones(2, 48), ["score.weight", "not part of"]),
        ("transformer.h.0.mlp.c_fc.weight", torch.ones(192, 48), ["h.0.mlp.c_fc.weight", "(192, 48)", "(48, 192)"]),
        ("transformer.wpe.weight", torch.ones(95, 48), ["wpe.weight", "(95, 48)", "(96, 48)"]),
        ("transformer.ln_f.bias", torch.ones(48, dtype=torch.int64), ["ln_f.bias", "int64"]),
        ("lm_head.weight", torch.ones(280, 48), ["lm_head.weight", "tie_word_embeddings"]),
    ],
)
def test_a_wrong_tensor_is_named(name: str, tensor: torch.Tensor | None, words: list[str], broken: Path) -> None:
    """A square Conv1D weight read untransposed, or a tensor left at its initial value, gives no error of its own."""
    edit_weights(broken, **{name: tensor})
    message = one_line(broken)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bert"}, ["'bert'", "gpt2, llama, mistral"]),
        ({"activation_function": "silu"}, ["activation_function", "'silu'"]),
        ({"scale_attn_weights": False}, ["scale_attn_weights"]),
        ({"scale_attn_by_inverse_layer_idx": True}, ["scale_attn_by_inverse_layer_idx"]),
        ({"reorder_and_upcast_attn": True}, ["reorder_and_upcast_attn"]),
        ({"add_cross_attention": True}, ["add_cross_attention"]),
        ({"quantization_config": {"bits": 4}}, ["quantized"]),
        ({"n_layer": 3}, ["tensors of 2 layers", "says 3"]),
        ({"n_embd": "48"}, ["n_embd", "'48'"]),
        ({"n_head": 5}, ["n_head", "multiple"]),
        ({"layer_norm_epsilon": None}, ["config.json"]),
        ({"vocab_size": None}, ["vocab_size", "None"]),
    ],
)
def test_a_configuration_that_is_not_gpt2_is_refused(changes: dict[str, Any], words: list[str], broken: Path) -> None:
    """Each of these would load, and give other numbers than the model's authors saw."""
    edit_config(broken, **changes)
    message = one_line(broken)
    assert all(word in message for word in words), message


def test_pickled_weights_are_refused_with_the_reason(broken: Path) -> None:
    (broken / "model.safetensors").rename(broken / "pytorch_model.bin")
    message = one_line(broken)
    assert "pickle" in message and "save_pretrained" in message


def test_a_truncated_file_is_named(broken: Path) -> None:
    content = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(content[: len(content) // 2])
    assert str(broken / "model.safetensors") in one_line(broken)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"weight_map": []}',
        '{"weight_map": {"wte.weight": 3}}',
        '{"weight_map": {"wte.weight": "../elsewhere.safetensors"}}',
        '{"weight_map": {"wte.weight": "model-00001-of-00002.safetensors"}}',
    ],
)
def test_a_broken_index_is_named(content: str, broken: Path) -> None:
    """A shard that was not copied, or an index that points elsewhere on the disk."""
    (broken / "model.safetensors").unlink()
    (broken / "model.safetensors.index.json").write_text(content)
    one_line(broken)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"position": "rotary"}, "position"),
        ({"position": "relative"}, "position"),
        ({"norm": "rms"}, "norm"),
        ({"activation": "swiglu"}, "activation"),
        ({"bias": False}, "bias"),
        ({"n_kv_head": 2}, "n_kv_head"),
        ({"windows": (0, 16)}, "windows"),
        ({"qk_norm": True}, "qk_norm"),
        ({"compress": (3, 0)}, "compress"),
        ({"qk_norm": True, "position": "rotary"}, "position"),
    ],
)
def test_export_names_what_gpt2_cannot_say(settings: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"model.{field} is "):
        gpt2.export(random_model(tmp_path, **settings), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_export_drops_no_head(tmp_path: Path) -> None:
    """A classifier came out as a language model, and nothing said so."""
    model = replace(random_model(tmp_path), head=torch.nn.Linear(32, 3), task="classify")
    with pytest.raises(ConfigError, match="no place for the head"):
        gpt2.export(model, tmp_path / "out")


def test_a_window_as_wide_as_the_context_is_none(tmp_path: Path) -> None:
    gpt2.export(random_model(tmp_path, windows=(0, 96)), tmp_path / "out")
    assert load(tmp_path / "out").config == replace(random_model(tmp_path).config)


@pytest.mark.parametrize(
    ("size", "parameters"),
    [("124M", 124_439_808), ("355M", 354_823_168), ("774M", 774_030_080), ("1558M", 1_557_611_200)],
)
def test_parameter_counts(size: str, parameters: int) -> None:
    """Those of the released models, tied weights counted once; the paper's table is off."""
    assert sum(parameter.numel() for parameter in skeleton(ModelConfig.gpt2(size)).parameters()) == parameters


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("n_embd", "n_layer", "n_head"), [(768, 12, 12), (1024, 24, 16)], ids=["124M", "355M"])
def test_full_size(n_embd: int, n_layer: int, n_head: int, tmp_path: Path) -> None:
    """Rounding grows with width and depth; 1e-4 must hold where people use it."""
    shape = {"vocab_size": 50257, "n_positions": 1024, "n_embd": n_embd, "n_layer": n_layer, "n_head": n_head}
    theirs = reference(tmp_path, **shape)
    assert_same_model(load(tmp_path).transformer, theirs, 1024)
