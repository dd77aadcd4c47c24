"""Translation from pairs to figures, on models small enough to train in a test."""

import math
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu.metrics.chrf import CHRF

from suite import load
from suite.checkpoint import Model
from suite.cli.main import main
from suite.data.parallel import Corpus, Pair
from suite.errors import CheckpointError, ConfigError, DataError
from suite.model import ModelConfig, Transformer
from suite.task import TrainingData, find_task
from suite.tasks.translate.corpora import FilteredCorpus, concatenate, hold_out, length_ratios
from suite.tasks.translate.evaluate import evaluate, multi30k_tokens, nearest
from suite.tasks.translate.format import Languages, encode, prompt, special_tokens, tag
from suite.tasks.translate.options import TranslateEvalOptions
from suite.tasks.translate.pipeline import Translator
from suite.tasks.translate.task import TranslateTask
from suite.text.tokenizer import Tokenizer
from suite.training.fit import fit
from suite.training.recipe import Recipe

CHOICES = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "translate.py"))["CHOICES"]
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ZAHLEN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
LINES = [
    f"{a} {b}\t{c} {d}" for a, c in zip(NUMBERS, ZAHLEN, strict=True) for b, d in zip(NUMBERS, ZAHLEN, strict=True)
]
TINY = [
    "model.context=64",
    "model.d_model=32",
    "model.n_head=2",
    "model.n_layer=2",
    "model.dropout=0.0",
    "tokenizer.vocab_size=300",
    "batch.tokens=512",
    "run.steps=2",
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return file


def prepare(tmp_path: Path, *overrides: str) -> TrainingData:
    recipe = Recipe.load(TranslateTask().default_recipe(), [*TINY, *overrides])
    return TranslateTask().prepare(recipe, tmp_path / "cache")


def notes(data: TrainingData) -> str:
    return "\n".join(data.notes)


# ---- the sequence


def test_source_and_target_tag_are_the_prefix_and_the_loss_starts_after_them() -> None:
    tokenizer = Tokenizer.bytes(special_tokens(["de", "en"]))
    names = tokenizer.specials
    tokens, prefix, start = encode(tokenizer, "ab", "c", "en", "de")
    assert tokens == [names["<bos>"], names["<en>"], 97, 98, names["<de>"], 99, names["<eos>"]]
    assert prefix == start == 5
    assert encode(tokenizer, "ab", "c", "en", "de", causal=True)[1:] == (0, 5)


def test_a_prompt_is_the_start_of_its_example_and_forced_text_is_no_prefix() -> None:
    # were forced text part of the prefix, the source would see what in training it never sees
    tokenizer = Tokenizer.bytes(special_tokens(["de", "en"]))
    tokens, prefix, start = encode(tokenizer, "ab", "cd", "en", "de")
    made = prompt(tokenizer, "ab", "en", "de", forced="c")
    assert (list(made.tokens), made.prefix) == (tokens[: start + 1], prefix)


def test_a_tag_in_the_text_is_text() -> None:
    tokenizer = Tokenizer.bytes(special_tokens(["de", "en"]))
    tokens, _, _ = encode(tokenizer, "<de>", "<eos>", "en", "de")
    assert tokens.count(tokenizer.specials["<de>"]) == tokens.count(tokenizer.specials["<eos>"]) == 1


def test_languages_that_are_none_or_unknown_are_errors() -> None:
    with pytest.raises(ConfigError, match="would have the tag <bos>"):
        tag("bos")
    with pytest.raises(ConfigError, match="not a language code"):
        tag("<en")
    tokenizer = Tokenizer.bytes(special_tokens(["de", "en"]))
    with pytest.raises(ConfigError, match="does not know the language 'fr'; available: de, en"):
        encode(tokenizer, "a", "b", "en", "fr")


def test_what_a_checkpoint_says_of_its_languages_comes_back() -> None:
    known = Languages(
        languages=("de", "en"),
        directions=(("de", "en"),),
        attention="causal",
        source_limit=9,
        length_ratio={"de-en": (0.1, 0.2)},
    )
    assert Languages.from_extra(known.to_extra(), "x") == known
    assert known.targets("de") == ["en"] and known.targets("en") == []
    with pytest.raises(CheckpointError, match="x is not a translation model"):
        Languages.from_extra({}, "x")


# ---- from pairs to examples


def test_each_pair_is_learnt_both_ways(tmp_path: Path, pairs: Path) -> None:
    data = prepare(tmp_path, f"data.train=['en-de={pairs}']", f"data.valid=['en-de={pairs}']", "data.valid_pairs=7")
    assert len(data.train.examples) == 200 and len(data.valid) == 14  # type: ignore[attr-defined]
    known = Languages.from_extra(data.extra, "data")
    assert known.directions == (("de", "en"), ("en", "de"))
    assert data.tokenizer is not None
    first, second = data.valid[:2]
    assert data.tokenizer.decode(first.tokens[: first.target]) == data.tokenizer.decode(second.tokens[second.target :])
    assert first.prefix == first.target
    one_way = prepare(tmp_path, f"data.train=['en-de={pairs}']", "data.both_ways=false", "translate.attention='causal'")
    known = Languages.from_extra(one_way.extra, "data")
    assert known.directions == (("en", "de"),) and known.causal
    assert all(example.prefix == 0 for example in one_way.valid)


def test_what_does_not_fit_is_dropped_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(
        "\n".join([*LINES, "one two " * 40 + "\t" + "eins zwei " * 40, "\t", "same\tsame"]), encoding="utf-8"
    )
    data = prepare(tmp_path, f"data.train=['en-de={file}']", "data.held_out=0.01")
    assert "dropped 1 empty (first: line 102), 1 a copy of the source (first: line 103)" in notes(data)
    assert "training pairs dropped: 1 with more than 30 tokens on a side" in notes(data)
    assert "held out for validation: 1 pair" in notes(data)


def test_an_impossible_limit_or_no_data_is_a_clear_error(tmp_path: Path, pairs: Path) -> None:
    with pytest.raises(ConfigError, match="no training pairs; give them with --data"):
        prepare(tmp_path)
    with pytest.raises(DataError, match="which languages"):
        prepare(tmp_path, f"data.train=['{pairs}']")
    with pytest.raises(ConfigError, match=r"model\.context 64, which has room for 30"):
        prepare(tmp_path, f"data.train=['en-de={pairs}']", "data.max_tokens=31")
    with pytest.raises(ConfigError, match=r"reads no data\.both_way; did you mean data\.both_ways\?"):
        prepare(tmp_path, f"data.train=['en-de={pairs}']", "data.both_way=true")
    with pytest.raises(ConfigError, match=r"loss\.source_weight needs translate\.attention=causal"):
        prepare(tmp_path, f"data.train=['en-de={pairs}']", "loss.source_weight=0.1")
    with pytest.raises(ConfigError, match=r"restart_positions needs translate\.attention=prefix"):
        prepare(tmp_path, f"data.train=['en-de={pairs}']", "translate.attention=causal", "model.restart_positions=true")


def test_an_option_that_another_task_reads_is_an_error(tmp_path: Path, pairs: Path) -> None:
    """`--set lm.window=3` and `--set data.limit=3` trained on as if nothing had been said."""
    with pytest.raises(ConfigError, match=r"unknown key 'lm'"):
        prepare(tmp_path, f"data.train=['en-de={pairs}']", "lm.window=3")
    hints = {
        "data.limit": "available: train, ",
        "tokenizer.size": "did you mean tokenizer.vocab_size",
        "translate.window": "available: attention",
    }
    for key, hint in hints.items():
        with pytest.raises(ConfigError, match=f"the task 'translate' reads no {key}; {hint}"):
            prepare(tmp_path, f"data.train=['en-de={pairs}']", f"{key}=3")


def test_a_context_without_room_is_told_before_anything_is_read(tmp_path: Path) -> None:
    """After reading millions of pairs and training a tokenizer it is too late."""
    for context in (0, 5):
        with pytest.raises(ConfigError, match=r"model\.context .* is missing or too small"):
            prepare(tmp_path, "data.train=['en-de=nowhere.tsv']", f"model.context={context}")


def test_nothing_held_out_is_learnt_from() -> None:
    # a sentence with several translations would stand in both parts, and the validation loss would flatter
    corpus = Corpus(source="en", target="de", name="x")
    texts = [Pair(f"Source {n // 2}", f"Ziel {n}", n) for n in range(100)]
    [train], [valid], note = hold_out([FilteredCorpus(corpus=corpus, pairs=texts, note="")], 0.1, seed=1)
    assert len(valid.pairs) == 10
    assert not {pair.source for pair in train.pairs} & {pair.source for pair in valid.pairs}
    beside = 90 - len(train.pairs)
    assert beside > 0 and f"{beside} more pairs sharing a sentence" in note
    with pytest.raises(DataError, match="too few"):
        hold_out([FilteredCorpus(corpus=corpus, pairs=texts[:1], note="")], 0.1, seed=1)


@pytest.mark.parametrize("share", [1e-9, 0.5, 0.99])
@pytest.mark.parametrize("seed", range(4))
def test_one_pair_is_held_out_and_never_all(share: float, seed: int) -> None:
    """Two pairs and a share of 0.99 left nothing to learn from; neither did a draw that shared sentences with all."""
    corpus = Corpus(source="en", target="de", name="x")
    for texts in ([("a", "1"), ("b", "2")], [("a", "1"), ("a", "2"), ("b", "2")]):
        pairs = [Pair(source, target, n) for n, (source, target) in enumerate(texts)]
        [train], [valid], _ = hold_out([FilteredCorpus(corpus=corpus, pairs=pairs, note="")], share, seed=seed)
        assert train.pairs and valid.pairs
        assert not {pair.source for pair in train.pairs} & {pair.source for pair in valid.pairs}


def test_concatenated_pairs_stay_in_step() -> None:
    corpus = Corpus(source="en", target="de", name="x")
    texts = [Pair(f"s{n}", f"t{n}", n) for n in range(20)]
    joined = concatenate(FilteredCorpus(corpus=corpus, pairs=texts, note=""), 0.5, (1, 0)).pairs
    assert len(joined) == 10
    assert all(pair.target == pair.source.replace("s", "t") for pair in joined)
    assert {len(pair.source.split()) for pair in joined} == {2, 3}


def test_length_ratios_are_opposite_in_opposite_directions() -> None:
    corpus = Corpus(source="en", target="de", name="x")
    pairs = FilteredCorpus(corpus=corpus, pairs=[Pair("ab", "abcd", 1), Pair("ab", "abcdefgh", 2)], note="")
    ratios = length_ratios([pairs], both_ways=True)
    assert ratios["en-de"] == pytest.approx((1.5 * math.log(2), 0.5 * math.log(2)))
    assert ratios["de-en"] == pytest.approx((-1.5 * math.log(2), 0.5 * math.log(2)))
    assert list(length_ratios([pairs], both_ways=False)) == ["en-de"]


# ---- from recipe to checkpoint


def test_nothing_but_a_file_of_pairs_makes_a_checkpoint(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "run"
    arguments = ["train", "translate", "--data", str(pairs), "--source", "en", "--target", "de", "--out", str(out)]
    assert main([*arguments, *(word for override in TINY for word in ("--set", override))]) == 0
    model = load(out)
    assert model.task == "translate"
    assert Languages.from_extra(model.extra, "run").languages == ("de", "en")


@pytest.mark.parametrize("name", ["recipe.toml", "multi30k.toml", "small.toml"])
def test_the_recipes_are_valid(name: str) -> None:
    recipe = Recipe.load(TranslateTask().default_recipe().with_name(name))
    assert recipe.model_config(8000).vocab_size == 8000


@pytest.mark.parametrize("choice", CHOICES)
def test_the_choices_of_the_ablation_train(choice: str, tmp_path: Path, pairs: Path) -> None:
    """One of them that does not start would be found after an hour."""
    recipe = Recipe.load(
        TranslateTask().default_recipe().with_name("ablation.toml"),
        [f"data.train=['en-de={pairs}']", *CHOICES[choice], "tokenizer.kind=bytes", "run.steps=2"],
    )
    fitted = fit(recipe, tmp_path / "run", cache=tmp_path / "cache")
    found = Translator(load(fitted.checkpoint), source="en", target="de", beams=2)("one")
    assert isinstance(found.text, str)


# ---- figures


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    """A model that knows the numbers to ten by heart, and a file of them."""
    folder = tmp_path_factory.mktemp("translate")
    file = folder / "pairs.tsv"
    file.write_text("\n".join(map("\t".join, zip(NUMBERS, ZAHLEN, strict=True))), encoding="utf-8")
    rates = ["schedule.warmup=5", "optimizer.lr=1e-2", "optimizer.matrix_lr=2e-2", "loss.smoothing=0.0"]
    corpus = [f"data.train=['en-de={file}']", f"data.valid=['en-de={file}']"]
    recipe = Recipe.load(find_task("translate").default_recipe(), [*TINY, *corpus, *rates, "run.steps=60"])
    fit(recipe, folder / "run", cache=folder / "cache")
    return load(folder / "run"), file


def test_a_trained_model_beats_its_baselines(trained: tuple[Model, Path]) -> None:
    model, file = trained
    counted: list[int] = []
    corpus = [f"en-de={file}"]
    options = TranslateEvalOptions(source="en", target="de", train=tuple(corpus), beams=2)
    found = evaluate(model, corpus, options, progress=counted.append)
    assert found["sentences"] == sum(counted) == 10
    results = found["results"]
    assert results["model"]["chrF2"]["score"] > 60 > results["copy"]["chrF2"]["score"]
    assert results["nearest training sentence"]["chrF2"]["score"] > 90  # it has the very sentences
    for figures in results.values():
        assert figures["chrF2"]["low"] <= figures["chrF2"]["score"] <= figures["chrF2"]["high"]
    assert "tok:13a" in found["signatures"]["BLEU"] and "case:mixed" in found["signatures"]["BLEU"]
    assert "tok:none" in found["signatures"]["BLEU lowercased"]


def test_the_report_is_the_same_as_a_table_and_as_values(trained: tuple[Model, Path]) -> None:
    """Through the task too, by keywords; a name that is no option was once taken and passed over."""
    model, file = trained
    report = TranslateTask().evaluate(model, [f"en-de={file}"], source="en", target="de", beams=1)
    bleu = report["results"]["copy"]["BLEU"]
    assert f"| copy | {bleu['score']:.1f} [{bleu['low']:.1f}, {bleu['high']:.1f}] | " in report.markdown()
    assert report.to_dict()["beams"] == 1 and "- 10 sentences from en to de in " in report.markdown()
    with pytest.raises(TypeError, match="beam"):
        TranslateTask().evaluate(model, [f"en-de={file}"], source="en", target="de", beam=1)


def test_the_intervals_are_those_that_are_published(trained: tuple[Model, Path]) -> None:
    """Resampled with another seed, the figures of the model card could not be had again."""
    model, file = trained
    found = evaluate(model, [f"en-de={file}"], TranslateEvalOptions(source="en", target="de", beams=1))
    random = np.random.default_rng(12345)
    metric = CHRF()
    statistics = np.array(metric._extract_corpus_statistics(NUMBERS, [ZAHLEN]), dtype=float)
    sums = [statistics[random.integers(10, size=10)].sum(0) for _ in range(1000)]
    scores = [metric._compute_score_from_stats(one).score for one in sums]
    copied = found["results"]["copy"]["chrF2"]
    assert (copied["low"], copied["high"]) == pytest.approx(tuple(np.percentile(scores, (2.5, 97.5))))


def test_evaluation_turns_a_corpus_round(trained: tuple[Model, Path], tmp_path: Path) -> None:
    model, _ = trained
    german = tmp_path / "german.tsv"
    german.write_text("zwei\ttwo\n\t\nneun\tnine\nzehn\tten\n", encoding="utf-8")
    [one, other] = [
        evaluate(model, [f"{languages}={file}"], TranslateEvalOptions(source="de", target="en", limit=2))
        for languages, file in (("de-en", german), ("en-de", _swapped(german)))
    ]
    assert one["left_out_empty"] == 1 and one["sentences"] == 2
    assert one["results"] == other["results"]
    with pytest.raises(ConfigError, match="does not translate en to fr; available: de to en, en to de"):
        evaluate(model, [str(german)], TranslateEvalOptions(source="en", target="fr"))
    with pytest.raises(DataError, match="is in en and fr, not in en and de"):
        evaluate(model, [f"en-fr={german}"], TranslateEvalOptions(source="en", target="de"))


def _swapped(file: Path) -> Path:
    lines = file.read_text(encoding="utf-8").splitlines()
    other = file.with_name("swapped.tsv")
    other.write_text("\n".join("\t".join(line.split("\t")[::-1]) for line in lines), encoding="utf-8")
    return other


def test_a_batch_translates_as_each_sentence_alone(trained: tuple[Model, Path], tmp_path: Path) -> None:
    model, file = trained
    options = TranslateEvalOptions(source="en", target="de", limit=9)
    together = evaluate(model, [f"en-de={file}"], options)
    alone = evaluate(model, [f"en-de={file}"], replace(options, batch=1))
    assert together["results"] == alone["results"]


def test_the_tags_steer_the_direction() -> None:
    # the source's positions must know the target language: the target's tag is inside the bidirectional prefix
    tokenizer = Tokenizer.bytes(special_tokens(["de", "en", "fr"]))
    config = ModelConfig(vocab_size=tokenizer.vocab_size, context=32, d_model=32, n_layer=2, n_head=2)
    torch.manual_seed(0)
    transformer = Transformer(config).eval()
    hidden = []
    for target in ("de", "fr"):
        made = prompt(tokenizer, "ab", "en", target)
        hidden.append(transformer.hidden(torch.tensor([made.tokens]), prefix=torch.tensor([made.prefix])))
    assert not torch.allclose(hidden[0][0, 2], hidden[1][0, 2])


def test_the_nearest_sentence_is_found_by_its_words() -> None:
    memory = [("the cat sleeps", "die Katze schläft"), ("a dog", "ein Hund")]
    assert nearest(["The dog", "my cat sleeps"], memory) == ["ein Hund", "die Katze schläft"]


def test_multi30k_text_is_lowercased_and_tokenised() -> None:
    assert multi30k_tokens(["Ein T-Shirt, das „gut“ sitzt."], "de") == ["ein t-shirt , das &quot; gut &quot; sitzt ."]


def test_examples_keep_their_tokens_small(tmp_path: Path, pairs: Path) -> None:
    data = prepare(tmp_path, f"data.train=['en-de={pairs}']")
    assert data.train[0].tokens.dtype == np.uint16  # a million pairs have to fit in memory


def test_a_translator_goes_on_learning_in_its_own_vocabulary(pairs: Path, tmp_path: Path) -> None:
    """`suite train translate --base`; a language that the base has no tag for cannot be added."""
    data = [f"data.train=['{pairs}']", "data.source=en", "data.target=de"]
    recipe = Recipe.load(TranslateTask().default_recipe(), [*TINY, *data])
    fit(recipe, tmp_path / "first", cache=tmp_path)
    lines = [f"base='{tmp_path / 'first'}'", *data, "run.epochs=1", "run.least_steps=1"]
    fit(Recipe.load(TranslateTask().default_recipe(base=True), lines), tmp_path / "second", cache=tmp_path)
    before, after = load(tmp_path / "first").tokenizer, load(tmp_path / "second").tokenizer
    assert before and after and before.digest == after.digest
    with pytest.raises(ConfigError, match="no special token <fr>"):
        TranslateTask().prepare(
            Recipe.load(TranslateTask().default_recipe(base=True), [*lines, "data.target=fr"]), tmp_path
        )
