"""Classification from labelled texts to results, on models small enough to train in a test."""

import csv
import dataclasses
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from suite import load, pipeline
from suite.checkpoint import Model, convert
from suite.data.labelled import Labelled
from suite.errors import CheckpointError, ConfigError, DataError
from suite.model import ModelConfig, Transformer
from suite.model.heads import Headed
from suite.task import find_task
from suite.tasks.classify.codec import ClassifyCodec
from suite.tasks.classify.loss import classification
from suite.tasks.classify.pipeline import Classifier, fine_tune
from suite.tasks.classify.results import Classified, classified, read_texts
from suite.tasks.classify.task import draw
from suite.text.tokenizer import Tokenizer
from suite.training.batches import Batch, Example
from suite.training.fit import fit
from suite.training.recipe import Recipe

WORDS = {"fruit": ["apple", "pear", "plum"], "tool": ["saw", "drill", "file"], "bird": ["owl", "rook", "wren"]}
NEW = [
    'base=""',
    "tokenizer.kind=bytes",
    "model.context=48",
    "model.d_model=32",
    "model.n_layer=2",
    "model.n_head=2",
    "model.position=rotary",
    "model.dropout=0.0",
    "run.epochs=40",
    "run.valid_every=1000",
    "optimizer.lr=5e-3",
    "batch.tokens=1024",
    "run.least_steps=1",
]


def texts(count: int, seed: int = 0) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        label = rng.choice(list(WORDS))
        rows.append((f"{rng.choice(['a', 'the', 'one'])} {rng.choice(WORDS[label])} {rng.randrange(1000)}", label))
    return rows


def write_csv(path: Path, rows: list[tuple[str, str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return str(path)


def recipe_of(source: str, *settings: str) -> Recipe:
    return Recipe.load(find_task("classify").default_recipe(), [f"data.train=['{source}']", *NEW, *settings])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a classifier of fruit, tools and birds."""
    folder = tmp_path_factory.mktemp("classify")
    source = write_csv(folder / "things.csv", texts(300))
    fit(recipe_of(source), folder / "run")
    return folder


def test_a_file_becomes_a_classifier(folder: Path) -> None:
    classify = pipeline("classify", str(folder / "run"))
    rows = texts(60, seed=1)
    found = classify([text for text, _ in rows])
    assert sum(one.label == label for one, (_, label) in zip(found, rows, strict=True)) >= 57
    for one in found:
        assert list(one.scores.values()) == sorted(one.scores.values(), reverse=True)
        assert sum(one.scores.values()) == pytest.approx(1, abs=1e-5) and one.labels == (one.label,)
    settings = json.loads((folder / "run" / "checkpoint" / "config.json").read_text())
    assert settings["extra"]["labels"] == ["bird", "fruit", "tool"] and settings["extra"]["temperature"] != 1.0


def test_a_text_does_not_depend_on_its_batch(folder: Path) -> None:
    """Also not a long one, which is read in pieces."""
    classify = pipeline("classify", str(folder / "run"))
    rows = ["", "the owl 7", "a saw " * 100, "<cls><pad>", "\U0001f600"]
    for row, together in zip(rows, classify(rows), strict=True):
        alone = classify(row)
        assert together.text == row and together.pieces == alone.pieces
        assert together.scores == pytest.approx(alone.scores, abs=1e-4)
    assert classify("a saw " * 100).pieces == 14  # 600 bytes, 46 at a time


def test_doubt_is_said(folder: Path) -> None:
    classify = pipeline("classify", str(folder / "run"))
    unsure = classify("the owl 7", min_probability=1.0)
    assert unsure.label is None and unsure.labels == () and 0 < unsure.probability < 1 and str(unsure) == "unsure"
    with pytest.raises(ConfigError, match=r"min_probability is 1\.5"):
        classify("the owl 7", min_probability=1.5)


def test_an_explanation_gives_the_text_back_and_names_the_word(folder: Path) -> None:
    """And its weights are the gradient's: a small step along the input moves the head's logit by their sum.

    What words add through the linear model comes on top.
    """
    classifier = pipeline("classify", str(folder / "run"))
    assert isinstance(classifier, Classifier)
    explained = classifier.explain("the owl 7 \U0001f600")
    assert explained.label == "bird" and "".join(explained.pieces) == "the owl 7 \U0001f600"
    assert len(explained.pieces) == len(explained.weights)
    whole, words = sum(classifier.explain("owl", "bird").weights), classifier.words
    assert words is not None
    classifier.words = None
    table = classifier.model.transformer.tokens.weight
    before = classifier.logits(["owl"])[0][0]
    weights = sum(classifier.explain("owl", "bird").weights)
    ids = classifier.codec.tokenizer.encode("owl")
    with torch.no_grad():
        table[ids] *= 1.001
        after = classifier.logits(["owl"])[0][0]
        table[ids] /= 1.001
    place = classifier.labels.index("bird")
    assert float(after[place] - before[place]) == pytest.approx(0.001 * weights, rel=0.05, abs=1e-5)
    added = classifier.codec.ngram_weight * (words.logits(["owl"])[0, place] - words.bias[place])
    assert whole - weights == pytest.approx(added, rel=1e-3)
    with pytest.raises(DataError, match="no label 'fish'"):
        classifier.explain("owl", "fish")
    with pytest.raises(DataError, match="more than the 48 tokens"):
        classifier.explain("owl " * 50)


@pytest.mark.parametrize("kind", ["lora", "head"])
def test_what_is_added_to_a_base_is_small_and_finds_it_again(folder: Path, tmp_path: Path, kind: str) -> None:
    """The checkpoint holds the additions alone, gives what the trained model gave, and refuses another base."""
    base = tmp_path / "base"
    convert(folder / "run", base, to="suite")
    settings = [
        f"base={base}",
        f"tune.kind={kind}",
        "tune.rank=2",
        "tokenizer.kind=base",
        "run.epochs=20",
        "optimizer.lr=1e-2",
    ]
    recipe = Recipe.load(find_task("classify").default_recipe(), [f"data.train=['{folder / 'things.csv'}']", *settings])
    fitted = fit(recipe, tmp_path / "run")
    assert (fitted.checkpoint / "model.safetensors").stat().st_size < (base / "model.safetensors").stat().st_size / 3
    assert not (fitted.checkpoint / "tokenizer.json").exists()
    classify = pipeline("classify", str(tmp_path / "run"))
    assert classify("the owl 7").label == "bird"
    convert(tmp_path / "run", tmp_path / "whole", to="suite")  # merged, with its head
    whole = pipeline("classify", str(tmp_path / "whole"))
    assert whole("the owl 7").scores == pytest.approx(classify("the owl 7").scores, abs=1e-5)
    shutil.rmtree(base)
    convert(
        fit(recipe_of(str(folder / "things.csv"), "seed=5", "run.epochs=1"), tmp_path / "other").checkpoint,
        base,
        to="suite",
    )
    with pytest.raises(CheckpointError, match="trained on a different version of its base"):
        load(tmp_path / "run")


def test_a_model_from_scratch_has_its_bases_shape_and_nothing_it_learnt(folder: Path, tmp_path: Path) -> None:
    """What fine-tuning is compared with must not have read what the base has."""
    base = tmp_path / "base"
    convert(folder / "run", base, to="suite")
    settings = [f"base={base}", "seed=9", "tune.kind=scratch", "tokenizer.kind=base", "run.epochs=0", "run.steps=1"]
    recipe = Recipe.load(
        find_task("classify").default_recipe(),
        [f"data.train=['{folder / 'things.csv'}']", *settings, "optimizer.lr=1e-9", "optimizer.matrix_lr=1e-9"],
    )
    fitted = fit(recipe, tmp_path / "run")
    ours, theirs = (load(place).transformer for place in (fitted.checkpoint, base))
    assert ours.config == theirs.config and (fitted.checkpoint / "tokenizer.json").exists()
    similar = torch.cosine_similarity(ours.tokens.weight.flatten(), theirs.tokens.weight.flatten(), dim=0)
    assert abs(similar.item()) < 0.1


def test_several_labels(tmp_path: Path) -> None:
    rows = []
    for text, label in texts(300):
        other, second = texts(1, seed=len(rows))[0]
        rows.append({"text": f"{text} {other}", "labels": sorted({label, second})})
    source = tmp_path / "several.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    fit(recipe_of(str(source), "run.epochs=50"), tmp_path / "run")
    classify = pipeline("classify", str(tmp_path / "run"))
    assert classify.multi
    both = classify("the owl 7 a saw 5")
    assert set(both.labels) == {"bird", "tool"} and both.scores["fruit"] < 0.5
    none = pipeline("classify", str(tmp_path / "run"), threshold=1.0)("the owl 7")
    assert none.labels == ()


def test_three_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = texts(200)
    classifier = fine_tune([text for text, _ in rows], [label for _, label in rows], settings=[*NEW])
    assert classifier("one plum 9").label == "fruit"
    assert capsys.readouterr() == ("", "")
    with pytest.raises(DataError, match="2 texts came with 1 labels"):
        fine_tune(["a", "b"], ["x"])


@pytest.mark.parametrize(
    ("given", "labels", "settings", "message"),
    [
        (["a", None], ["x", "y"], [], "text 1 is NoneType, not text"),
        (["a", ("b", None)], ["x", "y"], [], "text 1 is NoneType, not text"),
        (["a", ()], ["x", "y"], [], "text 1 is 0 texts; a pair is two"),
        (["a", "b"], ["x", None], [], "text 1: no label"),
        (["a", "b"], ["x", 0.5], [], "text 1: the label is float"),
        (["a", "b"], ["x", "y"], ["data.heldout=0.2"], "reads no data.heldout; did you mean data.held_out"),
        (["a", "b"], ["x", "y"], ["data.held_out=2"], "data.held_out is 2.0, and must be between 0 and 1"),
        (["a", "b"], ["x", "y"], ["data.separator=;"], "data.separator is about files"),
        (["a", "b"], ["x", "y"], ["classify.ngram=true"], "reads no classify.ngram; did you mean classify.ngrams"),
        (["a", "b"], ["x", "y"], ["loss.source_weight=0.5"], "reads no loss.source_weight"),
    ],
)
def test_lists_that_cannot_be_learnt_from(
    given: list[Any], labels: list[Any], settings: list[str], message: str
) -> None:
    """A setting that does nothing was taken without a word, and a missing text ended in a traceback."""
    with pytest.raises((ConfigError, DataError), match=message):
        fine_tune(given, labels, settings=[*NEW, *settings])


def test_lists_are_read_as_files_are() -> None:
    """Labels that are numbers or truth values, spaces around them, several of them, and the limit."""
    rows = [(f"text {number}", [True, 3, " x ", [3, "x"]][number % 4]) for number in range(40)]
    lines: list[str] = []
    texts, labels = zip(*rows, strict=True)
    settings = [*NEW, "run.epochs=0", "run.steps=1", "data.limit=8"]
    classifier = fine_tune(texts, labels, settings=settings, say=lines.append)
    assert classifier.labels == ("3", "true", "x") and classifier.multi
    assert any(line.startswith("8 records for training") for line in lines)


def test_pairs_are_told_from_single_texts() -> None:
    """A classifier of pairs gave an answer to half a question, and one of texts read a second one it never learnt."""
    settings = [*NEW, "run.epochs=0", "run.steps=1"]
    texts = [f"text {number}" for number in range(8)]
    single = fine_tune(texts, [0, 1] * 4, settings=settings)
    pairs = fine_tune([(text, "b") for text in texts], [0, 1] * 4, settings=settings)
    assert (single.pairs, pairs.pairs) == (False, True)
    for given in ("a", ["a"], ["a", "b"], ("a", "b", "c")):
        with pytest.raises(DataError, match="trained on pairs; give the second text too"):
            pairs(given)
    with pytest.raises(DataError, match="trained on pairs; give the second text too"):
        pairs.explain("a")
    for call in (lambda: single([("a", "b")]), lambda: single.explain(("a", "b"))):
        with pytest.raises(DataError, match="trained on single texts; leave out the second"):
            call()
    assert isinstance(pairs(("a", "b")), Classified) and len(pairs([("a", "b")] * 2)) == 2
    assert [result.text for result in single(("a", "b"))] == ["a", "b"]


def test_a_tuple_of_two_is_a_pair_only_for_a_model_of_pairs() -> None:
    """`classify(("ab", "cd"))` was read as a pair by a model that knows none."""
    for pairs in (False, None):
        assert read_texts(("ab", "cd"), pairs) == (["ab", "cd"], True)
    assert read_texts(("ab", "cd"), True) == ([("ab", "cd")], False)
    assert read_texts([("ab", "cd")], None) == ([("ab", "cd")], True)  # older models do not say
    [pair], _ = read_texts([(np.str_("ab"), "cd")], True)
    assert type(pair[0]) is str


NO_TEXTS: list[Any] = [
    None,
    5,
    b"ab",
    {"a": 1},
    {"a"},
    [None],
    ["a", 5],
    [("a", None)],
    [("a", "b", "c")],
    [["a", "b"]],
]


@pytest.mark.parametrize("given", NO_TEXTS, ids=repr)
def test_what_is_no_text_is_one_line(folder: Path, given: Any) -> None:
    classify = pipeline("classify", str(folder / "run"))
    zero_shot = pipeline("classify", str(folder / "run"), labels=["a", "b"])
    for call in (classify, zero_shot):
        with pytest.raises(DataError) as caught:
            call(given)
        assert "\n" not in str(caught.value)


def test_one_text_gives_one_result_and_several_a_list(folder: Path) -> None:
    """Also numpy's strings, generators and arrays; zero-shot likewise."""
    for classify in (
        pipeline("classify", str(folder / "run")),
        pipeline("classify", str(folder / "run"), labels=["bird", "tool"]),
    ):
        one = classify("the owl 7")
        assert isinstance(one, Classified) and isinstance(classify(np.str_("the owl 7")), Classified)
        for given in (["the owl 7"], ("the owl 7",), (text for text in ["the owl 7"]), np.array(["the owl 7"])):
            [found] = classify(given)
            assert found.scores == pytest.approx(one.scores, abs=1e-6)
        assert classify([]) == []


def test_a_result_prints_as_its_labels_and_has_plain_values() -> None:
    found = classified(("a", "b"), ["x", "y", "z"], [0.75, 0.25, 0.5], 0.0, 0.5, 2)
    assert str(found) == "x, z"
    assert json.loads(json.dumps(found.to_dict())) == {
        "text": "a",
        "label": "x",
        "probability": 0.75,
        "labels": ["x", "z"],
        "scores": {"x": 0.75, "z": 0.5, "y": 0.25},
        "pieces": 2,
    }


def test_columns_by_number_and_the_header_are_settings(tmp_path: Path) -> None:
    """A note told of an option that training lacked, and `data.text=1` was refused."""
    source = tmp_path / "a.csv"
    source.write_text("mood,words\n" + "".join(f"{label},{text}\n" for text, label in texts(40)))
    columns = ["data.text=2", "data.label=1"]
    task, cache = find_task("classify"), tmp_path / "cache"
    with_header = task.prepare(recipe_of(str(source), *columns, "data.header=true"), cache)
    assert with_header.extra["labels"] == ["bird", "fruit", "tool"]
    guessed = task.prepare(recipe_of(str(source), *columns, "data.text=[2]"), cache)
    assert "mood" in guessed.extra["labels"] and any("data.header=true" in note for note in guessed.notes)


def test_zero_shot_takes_out_what_is_common_anyway() -> None:
    """A model that ignores its input must give even odds, however likely one label is by itself."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=261, context=64, d_model=16, n_layer=1, n_head=2, position="rotary")
    transformer = Transformer(config).eval()
    for block in transformer.blocks:
        torch.nn.init.zeros_(block.attention.out.weight)  # each position sees itself alone
    model = Model(
        transformer=transformer,
        tokenizer=Tokenizer.bytes(("<eos>", "<pad>", "<bos>", "<sep>", "<cls>")),
        task="lm",
        name="deaf",
        directory=Path(),
    )
    classify = pipeline("classify", model, labels=["a", "zebra crossing"])
    found = classify("any text at all, and longer than the model's context of 64 tokens, twice as long in fact")
    assert found.scores == pytest.approx({"a": 0.5, "zebra crossing": 0.5}, abs=1e-4)
    assert found.pieces == 4  # 88 bytes, 25 at a time: its middle is not lost
    with pytest.raises(ConfigError, match="template and labels take"):
        pipeline("classify", model, labels=["a", "b"], template="{}" + "x" * 70)
    for labels in (["a"], ["a", "a"], ["a", " "]):
        with pytest.raises(ConfigError, match="at least two, all different"):
            pipeline("classify", model, labels=labels)
    with pytest.raises(DataError, match="was not trained to classify"):
        pipeline("classify", model)


def test_zero_shot_scores_are_gains_over_an_empty_text() -> None:
    """Read once with the labels behind it, a text gives what a plain pass over text and label gives for each."""
    torch.manual_seed(0)
    transformer = Transformer(ModelConfig(vocab_size=257, context=64, d_model=16, n_layer=2, n_head=2))
    for parameter in transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    tokenizer = Tokenizer.bytes(("<eos>",))
    model = Model(transformer=transformer.eval(), tokenizer=tokenizer, task="lm", name="x", directory=Path())
    labels = ["cat", "a zebra", "of"]

    def mean(text: str, label: str) -> float:
        prompt, answer = [256, *tokenizer.encode(f"Q: {text}, A:")], tokenizer.encode(f" {label}")
        with torch.inference_mode():
            logprobs = transformer(torch.tensor([[*prompt, *answer]]))[0, len(prompt) - 1 : -1].log_softmax(-1)
        return float(logprobs.gather(1, torch.tensor(answer)[:, None]).mean())

    gains = torch.tensor([mean("meow", label) - mean("", label) for label in labels])
    found = pipeline("classify", model, labels=labels, template="Q: {}, A:")("meow")
    assert found.scores == pytest.approx(dict(zip(labels, gains.softmax(0).tolist(), strict=True)), abs=1e-5)


def codec(**choices: object) -> ClassifyCodec:
    return dataclasses.replace(
        ClassifyCodec(Tokenizer.bytes(("<eos>", "<bos>", "<sep>", "<cls>")), labels=("a", "b"), max_tokens=12),
        **choices,
    )


def test_sequences() -> None:
    """`<bos> text <cls>`; special tokens' names in a text are plain text; nothing of a long text is lost."""
    writer = codec()
    bos, sep, cls = (writer.tokenizer.specials[name] for name in ("<bos>", "<sep>", "<cls>"))
    plain = writer.tokenizer.encode
    assert writer.pieces("ab") == [[bos, *plain("ab"), cls]]
    assert writer.pieces(("ab", "c")) == [[bos, *plain("ab"), sep, *plain("c"), cls]]
    assert cls not in writer.pieces("<cls>")[0][1:-1]
    long = writer.pieces("abcdefghijklmnopqrstuvwxyz")
    assert [token for piece in long for token in piece[1:-1]] == plain("abcdefghijklmnopqrstuvwxyz")
    assert max(map(len, long)) <= 12 and [len(piece) for piece in long] == [11, 10, 11]
    pair = writer.pieces(("abc", "defghijklmnopqrstuvwxyz"))
    assert all(piece[:5] == [bos, *plain("abc"), sep] and len(piece) <= 12 for piece in pair)
    assert "".join(writer.tokenizer.decode(piece[5:-1]) for piece in pair) == "defghijklmnopqrstuvwxyz"


def test_a_vocabulary_without_our_special_tokens_serves_too() -> None:
    """GPT-2 has `<eos>` alone."""
    writer = codec(tokenizer=Tokenizer.bytes(("<eos>",)))
    eos = writer.tokenizer.eos
    assert writer.pieces("a")[0] == [eos, *writer.tokenizer.encode("a"), eos]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("x", "a"), ("y", "a")], "one class|needs two classes|only one|same"),
        ([("x", "a"), ("y", "")], "label"),
    ],
)
def test_labels_that_cannot_be_learnt(tmp_path: Path, rows: list[tuple[str, str]], message: str) -> None:
    source = write_csv(tmp_path / "bad.csv", rows * 10)
    with pytest.raises(DataError, match=message):
        fit(recipe_of(source), tmp_path / "run")


def test_a_column_of_free_text_is_not_taken_for_classes(tmp_path: Path) -> None:
    """A table whose `target` was a sentence a row was trained on, one class a row."""
    file = tmp_path / "notes.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [("text", "target", "kind"), *((f"text {n}", f"note {n}", "ab"[n % 2]) for n in range(40))]
        )
    with pytest.raises(DataError) as caught:
        fit(recipe_of(str(file)), tmp_path / "run")
    assert str(caught.value) == (
        "column 'target': 40 distinct labels in 40 rows, such as 'note 10', are free text and no classes; name the "
        "label's column with --set data.label=NAME (there are text, target, kind), or learn them all the same with "
        "--set classify.free_labels=true"
    )
    task = find_task("classify")
    assert len(task.prepare(recipe_of(str(file), "data.label=kind"), tmp_path).extra["labels"]) == 2
    # as it is taken where classes are learnt that occur once, and are validated on the same
    forced = recipe_of(str(file), f"data.valid=['{file}']", "classify.free_labels=true")
    assert len(task.prepare(forced, tmp_path).extra["labels"]) == 40


def test_texts_and_labels_the_wrong_way_round_are_told() -> None:
    given = texts(60)
    labels, swapped = [label for _, label in given], [f"{text} {n}" for n, (text, _) in enumerate(given)]
    with pytest.raises(
        DataError, match=r"labels: 60 distinct labels in 60 rows, such as .* fine_tune\(texts, labels\)"
    ):
        fine_tune(labels, swapped, settings=NEW)
    with pytest.raises(DataError, match="no class has two different texts"):  # the next thing that is wrong with them
        fine_tune(labels, swapped, settings=[*NEW, "classify.free_labels=true"])


def test_a_validation_label_nobody_taught(tmp_path: Path) -> None:
    train = write_csv(tmp_path / "train.csv", texts(30))
    valid = write_csv(tmp_path / "valid.csv", [("a carp 3", "fish")])
    with pytest.raises(DataError, match=r"valid.csv, line 2: label 'fish'"):
        fit(recipe_of(train, f"data.valid=['{valid}']"), tmp_path / "run")


def test_few_drawn_texts_keep_every_class() -> None:
    records = [Labelled(text=str(place), labels=("common",)) for place in range(50)]
    records.append(Labelled(text="x", labels=("rare",)))
    drawn = draw(records, 5, seed=3)
    assert len(drawn) == 5 and {record.labels[0] for record in drawn} == {"common", "rare"}


def test_losses_of_a_cut_batch_add_up() -> None:
    """The sum and the divisor are those of the whole batch, with the language modelling loss beside the label's."""
    torch.manual_seed(0)
    model = Headed(Transformer(ModelConfig(vocab_size=20, context=16, d_model=16, n_layer=1, n_head=2)), 3)
    torch.nn.init.normal_(model.output.weight)
    examples = [Example(torch.randint(20, (size,)).numpy(), label=size % 3) for size in (4, 7, 5, 9)]
    loss = classification(lm_weight=0.5)
    whole, count, extras = loss(model, Batch.collate(examples))
    parts = [loss(model, Batch.collate(examples[at : at + 2])) for at in (0, 2)]
    assert count == sum(part[1] for part in parts) == 4
    assert sum(part[0].item() for part in parts) == pytest.approx(whole.item(), rel=1e-5)
    assert float(sum(part[2]["accuracy"] for part in parts)) == float(extras["accuracy"])
    without, _, _ = classification()(model, Batch.collate(examples))
    assert whole.item() - without.item() == pytest.approx(0.5 * 4 * 3.0, rel=0.3)  # near log 20 a row


def test_a_rank_without_examples_still_takes_part() -> None:
    """Its batch has no labels; the other ranks wait for its gradients."""
    transformer = Transformer(ModelConfig(vocab_size=16, context=16, d_model=8, n_layer=1, n_head=2))
    model = Headed(transformer, 3)
    total, count, sums = classification()(model, Batch.collate([Example(np.arange(5), target=5)]))
    total.backward()
    assert total == count == sums["accuracy"] == 0
    assert all(parameter.grad is not None for parameter in model.output.parameters())


def test_a_run_does_not_go_on_with_other_data(folder: Path, tmp_path: Path) -> None:
    """A finished run got the new labels' names on the old weights."""
    rows = texts(60)
    source = write_csv(tmp_path / "things.csv", rows)
    recipe = recipe_of(source, "run.epochs=1")
    fit(recipe, tmp_path / "run")
    fit(recipe, tmp_path / "run")  # the same once more is a run that is finished
    write_csv(tmp_path / "things.csv", [(text, label.upper()) for text, label in rows])
    with pytest.raises(ConfigError, match="different data"):
        fit(recipe, tmp_path / "run")
