"""A Llama of `transformers` with its own tokenizer works as any model does, from the command line too."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from suite import Model, load, pipeline
from suite.checkpoint import foreign
from suite.cli.main import main
from suite.errors import CheckpointError, ConfigError
from suite.model import ModelConfig, Transformer
from suite.text.tokenizer import Tokenizer

tokenizers = pytest.importorskip("tokenizers")
TEXTS = ["The river rises in the mountains of the north.", "A bridge was built, and the town grew."] * 4
ROLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}


def sentencepiece() -> Any:
    """BPE with bytes for what has no token, as Llama 2 has it."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    prepend, replace = tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")
    made.normalizer = tokenizers.normalizers.Sequence([prepend, replace])
    parts = tokenizers.decoders
    steps = [parts.Replace("▁", " "), parts.ByteFallback(), parts.Fuse(), parts.Strip(" ", 1, 0)]
    made.decoder = parts.Sequence(steps)
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(TEXTS, tokenizers.trainers.BpeTrainer(vocab_size=330, special_tokens=specials))
    document = json.loads(made.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    return tokenizers.Tokenizer.from_str(json.dumps(document))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("llama")
    made = sentencepiece()
    made.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps(ROLES))
    torch.manual_seed(0)
    shape = {"context": 48, "d_model": 32, "n_layer": 2, "n_head": 4, "n_kv_head": 2, "vocab_size": 336}
    config = ModelConfig(**shape, position="rotary", norm="rms", activation="swiglu", bias=False)  # type: ignore[arg-type]
    tokenizer = Tokenizer.load(directory)
    model = Model(
        transformer=Transformer(config), tokenizer=tokenizer, task="lm", name="llama", directory=directory / "none"
    )
    foreign.export(model, directory)
    generation = {"eos_token_id": [2, 7], "temperature": 0.5, "top_p": 0.9, "repetition_penalty": 1.1}
    (directory / "generation_config.json").write_text(json.dumps(generation | {"do_sample": True}))
    return str(directory)


def result(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must succeed writes to stdout."""
    assert main(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_commands(llama: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(result(capsys, "models", "show", llama, "--json"))
    assert shown["parameters"] == load(llama).parameters and shown["config"]["n_kv_head"] == 2
    assert shown["bytes_on_disk"] == (Path(llama) / "model.safetensors").stat().st_size
    likely = json.loads(result(capsys, "next", "The river", "--model", llama, "-k", "3", "--json"))
    assert likely["prompt_tokens"] == 1 + len(load(llama).tokenizer.encode("The river")), "<s> is counted"  # type: ignore[union-attr]
    words = ("run", "lm", "The river", "--model", llama, "-n", "5", "--seed", "1")
    written = json.loads(result(capsys, *words, "--json"))
    streamed = result(capsys, *words)
    assert streamed.rstrip("\n") == "The river" + written["text"], "streamed and whole are the same text"
    (tmp_path / "text.txt").write_text("\n".join(TEXTS))
    report = json.loads(result(capsys, "eval", "lm", str(tmp_path / "text.txt"), "--model", llama, "--json"))
    assert 1 < report["results"]["model"]["bits_per_byte"] < 20
    assert report["bytes"] == pytest.approx(len("\n".join(TEXTS)), abs=2)


def test_a_prompt_begins_as_the_model_was_trained(llama: str) -> None:
    writer = pipeline("lm", model=llama)
    tokenizer = load(llama).tokenizer
    assert tokenizer is not None and tokenizer.opening == (1,)
    assert writer.encode("The river") == [1, *tokenizer.encode("The river")]
    assert writer.encode("") == [1]
    assert 1 not in tokenizer.encode("<s> The river")


def test_the_models_defaults_hold_unless_the_user_says_otherwise(llama: str) -> None:
    writer = pipeline("lm", model=llama)
    assert (writer.sampling.temperature, writer.sampling.top_p, writer.sampling.repetition_penalty) == (0.5, 0.9, 1.1)
    assert pipeline("lm", model=llama, temperature=0).sampling.temperature == 0
    assert writer.stop_tokens == (2, 7)
    logits_of_the_end = {7: 1e4}
    assert writer("The river", logit_bias=logits_of_the_end, max_new_tokens=5).finish == "stop"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"temperature": "hot"}', "temperature is 'hot'"),
        ('{"eos_token_id": [2, "</s>"]}', "eos_token_id is '</s>'"),
    ],
)
def test_damaged_defaults_are_one_line(content: str, message: str, llama: str, tmp_path: Path) -> None:
    load(llama).save_pretrained(tmp_path, to="transformers")
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(CheckpointError, match=f"generation_config.json.*{message}"):
        load(tmp_path)


def test_save_pretrained_and_back(llama: str, tmp_path: Path) -> None:
    """In both formats the same model comes back, with its tokenizer; in that of `transformers` its defaults too."""
    model = Model.from_pretrained(llama)
    tokens = torch.arange(30)[None]
    for to in ("suite", "transformers"):
        model.save_pretrained(tmp_path / to, to=to)  # type: ignore[arg-type]
        again = Model.from_pretrained(tmp_path / to)
        assert again.config == model.config
        assert torch.equal(again.transformer(tokens), model.transformer(tokens))
        assert again.tokenizer is not None and model.tokenizer is not None
        assert again.tokenizer.digest == model.tokenizer.digest
    assert again.generation == model.generation
    with pytest.raises(ConfigError, match="int8"):
        model.save_pretrained(tmp_path / "c", to="transformers", storage="int8")


def test_auto_tokenizer_reads_what_is_written(llama: str, tmp_path: Path) -> None:
    """For every tokenizer there is: our own in Nemotron's directory, and a foreign one in Llama's."""
    transformers = pytest.importorskip("transformers")
    own = load("lm")
    own.save_pretrained(tmp_path / "own", to="transformers")
    assert json.loads((tmp_path / "own" / "config.json").read_text())["model_type"] == "nemotron"
    load(llama).save_pretrained(tmp_path / "llama", to="transformers")
    for directory, tokenizer in ((tmp_path / "own", own.tokenizer), (tmp_path / "llama", load(llama).tokenizer)):
        theirs = transformers.AutoTokenizer.from_pretrained(directory)
        assert tokenizer is not None
        for text in (*TEXTS[:2], "naïve — 日本 🙂", "The  river\n\n 4500"):
            assert theirs.encode(text, add_special_tokens=False) == tokenizer.encode(text)
        assert theirs.eos_token_id == tokenizer.eos
    there = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "own")
    ids = torch.tensor([own.tokenizer.encode("The university was founded in the year")])  # type: ignore[union-attr]
    with torch.no_grad():
        torch.testing.assert_close(own.transformer(ids), there(ids).logits, rtol=0, atol=1e-4)
