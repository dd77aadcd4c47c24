"""Summarising: the selection, the sequences, and what the pipeline makes of an article."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import suite
from suite.checkpoint import save_checkpoint
from suite.data.articles import Article, Section
from suite.data.pages import read_pages
from suite.data.paragraphs import tidy
from suite.data.tables import Notes
from suite.errors import CheckpointError, ConfigError, DataError
from suite.model import ModelConfig, Transformer
from suite.task import find_task
from suite.task.kit.prepare import spread
from suite.tasks.summarize.extract import Extractor
from suite.tasks.summarize.format import ArticleFormat
from suite.tasks.summarize.options import Style
from suite.tasks.summarize.pipeline import Summarizer
from suite.tasks.summarize.prepare import fit_ranker, fitted, hold_out
from suite.tasks.summarize.select import (
    FEATURES,
    REDUNDANCY,
    Ranker,
    features,
    is_said,
    pairs_of,
    pick,
    sentences_of,
    usefulness,
    words_of,
)
from suite.tasks.summarize.standing import Standing
from suite.tasks.summarize.summary import Summary, written
from suite.text.tokenizer import Tokenizer
from suite.training.recipe import Recipe

TOKENIZER = Tokenizer.bytes(("<eos>", "<pad>", "<bos>", "<sep>", "<cls>"))
BODY = (
    "The violin has four strings. They are tuned in fifths.\nIts bow is strung with horsehair. It was made in Cremona.",
    "Many composers wrote for it. Bach wrote three sonatas for a violin alone. His partitas are as famous.",
)
ARTICLE = Article(
    title="Violin",
    lead="The violin is a string instrument with four strings tuned in fifths.",
    sections=tuple(Section(heading=f"Part {number}", text=text) for number, text in enumerate(BODY)),
)


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory: pytest.TempPathFactory) -> Summarizer:
    """A model that has learnt nothing, with a ranker that likes the start of the body."""
    torch.manual_seed(0)
    config = ModelConfig(
        vocab_size=TOKENIZER.vocab_size, context=256, d_model=16, n_layer=1, n_head=2, position="rotary", norm="rms"
    )
    weights = [0.0] * len(FEATURES)
    weights[0] = -1.0
    settings = {
        "style": "extract",
        "source_tokens": 120,
        "lead_tokens": 60,
        "attention": "causal",
        "ranker": weights,
        "extractor": [*weights, 0.0, 0.0],
    }
    directory = tmp_path_factory.mktemp("summarizer")
    state = Transformer(config).state_dict()
    save_checkpoint(directory, config, state, TOKENIZER, task="summarize", extra=settings)
    return Summarizer(suite.load(str(directory)))


# ---- selection


def test_sentences_stand_where_they_say() -> None:
    """Offsets are those of the body, across paragraphs and sections, or --show-source would mark other words."""
    sentences = sentences_of(ARTICLE)
    assert len(sentences) == 7
    assert all(ARTICLE.body[one.start : one.end] == one.text for one in sentences)
    assert [one.paragraph for one in sentences] == [0, 0, 1, 1, 2, 2, 2]
    assert [one.opens for one in sentences] == [True, False, False, False, True, False, False]


def test_empty_sections_move_no_offset() -> None:
    """A heading directly below another has an empty text, which the body leaves out."""
    sections = (Section(heading="a", text=""), Section(heading="b", text="One thing. Two things."))
    article = Article(sections=(*sections, Section(heading="c", text=""), *sections))
    assert all(article.body[one.start : one.end] == one.text for one in sentences_of(article))


def test_ranker_learns_what_leads_say() -> None:
    """Fitted on articles whose leads repeat the first sentence of the body, it ranks that first elsewhere too."""
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(300)]

    def article() -> Article:
        sentences = [" ".join(["Then", *random.choice(words, 8)]) + "." for _ in range(12)]
        return Article(title="", lead=sentences[0], sections=(Section(heading="", text=" ".join(sentences)),))

    ranker = fit_ranker([article() for _ in range(60)])
    other = sentences_of(article())
    assert int(ranker.scores(features("", other)).argmax()) == 0


def test_ridge_finds_the_weights_that_made_its_targets() -> None:
    """Without noise, weights come back whatever the features' scales."""
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [1, 100, 0.01]
    found = Ranker.fit(rows, rows @ np.array([2.0, -0.03, 5.0]), penalty=1e-6)
    assert found.weights == pytest.approx((2.0, -0.03, 5.0), rel=1e-4)


def test_usefulness() -> None:
    """A sentence of the lead is all useful, one of other words not at all."""
    first, *_, last = usefulness("Four strings tuned in fifths.", sentences_of(ARTICLE)).tolist()
    assert first > 0 and last == 0


def test_pick_avoids_what_was_said() -> None:
    """Of two sentences that say much of the same, the second waits for a third that is new."""
    text = "The old bridge fell in the great storm. In the great storm the old mill burnt. Nobody was hurt at all."
    sentences = sentences_of(Article(sections=(Section(heading="", text=text),)))
    scores = np.array([1.0, 0.62, 0.6])
    assert pick(sentences, scores, lambda _: True, 2) == [0, 2]
    assert pick(sentences, scores, lambda _: True) == [0, 1, 2]
    assert pick(sentences, scores, lambda new: new[0].start == 0) == [0]


def test_nothing_is_said_twice() -> None:
    """The same sentence in two places is taken once, from where it scores best."""
    sentences = sentences_of(Article(sections=(Section(heading="", text="One is. Two is. One is! Three is."),)))
    assert pick(sentences, np.array([0.5, 0.4, 0.9, 0.1]), lambda _: True) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_not_compared_again_was_not_the_best(seed: int) -> None:
    """Looking at the likeliest alone gives what comparing all sentences at each step does."""
    random = np.random.default_rng(seed)
    lines = [" ".join(["It", *random.choice([*"abcd"], 5)]) + "." for _ in range(60)]
    sentences = sentences_of(Article(sections=(Section(heading="", text=" ".join(lines)),)))
    scores = random.normal(size=len(sentences)).round(1)
    words = [words_of(one.text) for one in sentences]
    chosen: list[int] = []
    while len(chosen) < 20:
        said = {pair for place in chosen for pair in pairs_of(words[place])}
        shares = [len(pairs_of(one) & said) / len(pairs_of(one)) for one in words]
        now = scores - REDUNDANCY * scores.std() * np.array(shares)
        now[
            [place for place, one in enumerate(words) if is_said(one, [set(words[taken]) for taken in chosen])]
        ] = -np.inf
        if not np.isfinite(now).any():
            break
        chosen.append(int(now.argmax()))
    assert pick(sentences, scores, lambda _: True, 20) == sorted(chosen)


# ---- sequences


def test_prompt() -> None:
    """Title, selected sentences with a paragraph a line, and separators; a body never exceeds its room."""
    format = ArticleFormat(tokenizer=TOKENIZER, source_tokens=80, title_tokens=4)
    sentences = sentences_of(ARTICLE)
    chosen = format.select(sentences, np.arange(len(sentences), 0, -1.0))
    prompt = format.prompt(ARTICLE, [sentences[place] for place in chosen])
    text = TOKENIZER.decode(prompt, skip_specials=False)
    assert text == "<bos>Viol<sep>The violin has four strings. They are tuned in fifths.<sep>"
    long = format.around("Violin", "x" * 500)
    assert len(long) == 80 + 4 + 3


def test_a_tokenizer_without_separators_is_refused() -> None:
    """GPT-2's tokens cannot part a body from its lead; the message names the one that is missing."""
    with pytest.raises(CheckpointError, match="<bos>"):
        ArticleFormat(tokenizer=Tokenizer.bytes(), source_tokens=10)


def test_leads_are_cut_at_a_sentence() -> None:
    """A lead over the limit ends with a whole sentence, and only a first sentence alone is cut within."""
    assert TOKENIZER.decode(fitted("One is. Two is.", TOKENIZER, 9)) == "One is."
    assert TOKENIZER.decode(fitted("One is. Two is.", TOKENIZER, 99)) == "One is. Two is."
    assert TOKENIZER.decode(fitted("One is. Two is.", TOKENIZER, 4)) == "One "


def test_spread() -> None:
    """A part of the articles comes from all over them."""
    assert spread(range(10), 3) == [0, 3, 6] and spread(range(3), 0) == [0, 1, 2] and spread(range(3), 9) == [0, 1, 2]


# ---- the model's likelihoods


def test_likelihoods_are_those_of_one_pass(summarizer: Summarizer) -> None:
    """A batch of texts behind a cached prompt scores as each alone without a cache."""
    prompt = summarizer.format.around("Violin", BODY[0][:40])
    texts = ["Short.", "A somewhat longer sentence.", "x"]
    found = summarizer.extractor.likelihoods(prompt, texts)
    for text, score in zip(texts, found, strict=True):
        ids = TOKENIZER.encode(text)
        with torch.inference_mode():
            logits = summarizer.model.transformer(torch.tensor([[*prompt, *ids]]))[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).mean()
        assert score == pytest.approx(float(expected), abs=1e-5)


def test_candidates_have_both_likelihoods(summarizer: Summarizer) -> None:
    """The last two columns are the log-probability behind the body, and what the body adds to it."""
    found = summarizer.extractor.candidates(ARTICLE, sentences_of(ARTICLE), 3)
    assert [one.text for one in found.sentences] == [one.text for one in sentences_of(ARTICLE)[:3]]
    assert found.rows.shape == (3, len(FEATURES) + 2)
    alone = summarizer.extractor.likelihoods(summarizer.format.around("Violin", ""), [found.sentences[1].text])
    assert found.rows[1, -2] - found.rows[1, -1] == pytest.approx(alone[0], abs=1e-5)


def test_likelihoods_count(summarizer: Summarizer) -> None:
    """With weight on the likelihood alone, the likeliest sentence is taken, wherever it stands."""
    weights = Ranker(weights=(*[0.0] * len(FEATURES), 1.0, 0.0))
    old = summarizer.extractor
    extractor = Extractor(old.transformer, old.format, old.ranker, weights, prefix=False)
    found = extractor.candidates(ARTICLE, sentences_of(ARTICLE))
    standing = Standing("", sentences_of(ARTICLE))
    standing.pronouns = [""] * len(standing.pronouns)
    assert extractor.extract(standing, found, lambda _: True, 1) == [found.places[int(found.rows[:, -2].argmax())]]


def test_beginnings_of_lists_come_last(summarizer: Summarizer) -> None:
    """A heading or a line that ends in a colon is no sentence of a summary, unless there is nothing else."""
    text = "The parts are:\nThe violin has strings. It has a bow.\nOther instruments"
    article = Article(title="Violin", sections=(Section(heading="", text=text),))
    assert summarizer(article, sentences=2).text == "The violin has strings. It has a bow."
    assert summarizer("The parts are:").text == "The parts are:"


# ---- summaries


@pytest.mark.parametrize("limit", [{"sentences": 2}, {"max_words": 12}, {}])
def test_extracts_are_the_articles_own_words(summarizer: Summarizer, limit: dict[str, int]) -> None:
    """Every sentence stands in the body where it says, in order, and no more of them than asked for."""
    found = summarizer(ARTICLE, **limit)
    assert found.style == "extract" and found.of == 7
    for one in found.sentences:
        assert one.start is not None and ARTICLE.body[one.start : one.end] == one.text and one.share == 1
    starts = [one.start or 0 for one in found.sentences]
    assert starts == sorted(starts) and found.text == " ".join(one.text for one in found.sentences)
    assert len(found.sentences) <= limit.get("sentences", 7) and len(found.text.split()) <= limit.get("max_words", 100)


def test_a_first_sentence_too_long_is_said(summarizer: Summarizer) -> None:
    """An extract never cuts a sentence; where even one is too long it is given whole, with a warning."""
    found = summarizer(ARTICLE, max_words=2)
    assert len(found.sentences) == 1 and "more than 2 words" in found.warnings[0]


def test_plain_text(summarizer: Summarizer) -> None:
    """A string is an article without a title; one sentence is its own summary."""
    assert summarizer("One sentence alone.").text == "One sentence alone."
    assert summarizer("no end of a sentence").text == "no end of a sentence"


def test_a_text_is_read_as_a_file_of_it(summarizer: Summarizer) -> None:
    """Its sentences ended where a line was full; now they are a text file's, and their places those in the string."""
    text = (
        "The violin\n\n* * *\n"
        + textwrap.fill(" ".join(BODY) * 2, 50)
        + "\n\n---\n\nA bow has a soft\u00adened  end.\n"
    )
    [page] = read_pages(text, Notes(), kind="text")
    for style in ("extract", "write"):
        found, expected = (summarizer(one, sentences=9, style=style) for one in (text, page))
        assert [one.text for one in found.sentences] == [one.text for one in expected.sentences]
        for one, other in zip(found.sentences, expected.sentences, strict=True):
            if one.start is not None:
                assert tidy(text[one.start : one.end]) == page.body[other.start : other.end]
    found = summarizer(text, sentences=9)
    assert found.title == "The violin" and any("\n" in text[one.start : one.end] for one in found.sentences)
    assert found.sentences[-1].text == "A bow has a softened end."


@pytest.mark.parametrize("options", [{"sentences": 60}, {"max_words": 300}])
def test_long_extracts(summarizer: Summarizer, options: dict[str, int]) -> None:
    """However many sentences were asked for, there were never more than those whose likelihood was looked at."""
    lines = [f"A heading of {number}\nThis is fact {number}." for number in range(90)]
    article = Article(sections=(Section(heading="", text="\n".join(lines)),))
    found = summarizer(article, **options)
    assert len(found.sentences) == options.get("sentences", 75)


@pytest.mark.parametrize("style", ["write", "tldr"])
def test_written_summaries(summarizer: Summarizer, style: str) -> None:
    """A model that has learnt nothing writes something, twice the same, within the limit of words."""
    first, second = (summarizer(ARTICLE, style=style, max_words=6, seed=3) for _ in range(2))
    assert first == second and first.style == style and len(first.text.split()) <= 6


def test_sources_and_doubts_of_what_was_written() -> None:
    """A written sentence points at the sentence it shares most with, and a number from nowhere is named."""
    text = "The violin has four strings. It was made in 1555. And a cut"
    limits = {"max_words": None, "sentences": None}
    found = written(ARTICLE, sentences_of(ARTICLE), text, finished=False, style="write", read=7, **limits)
    assert [one.text for one in found.sentences] == ["The violin has four strings.", "It was made in 1555."]
    first, second = found.sentences
    assert ARTICLE.body[first.start : first.end] == first.text and first.share == 1
    assert ARTICLE.body[second.start : second.end] == "It was made in Cremona." and 0 < second.share < 1
    assert found.warnings == ("the number '1555' is not in the article",)


@pytest.mark.parametrize("text", ["", "   \n\n "])
def test_nothing_to_sum_up(summarizer: Summarizer, text: str) -> None:
    """No text is said to be none, instead of a summary made up from nothing."""
    with pytest.raises(DataError, match="no text"):
        summarizer(text)


def test_impossible_wishes(summarizer: Summarizer) -> None:
    """What cannot be is refused in one line."""
    for options in ({"max_words": 0}, {"sentences": 0}):
        with pytest.raises(ConfigError, match="at least 1"):
            summarizer(ARTICLE, **options)
    with pytest.raises(ConfigError, match="no style 'haiku'"):
        summarizer(ARTICLE, style="haiku")


def test_any_language_model_can_do_tldr_alone() -> None:
    """A model that was not trained to summarise says what it can do."""
    model = Summarizer(suite.load("lm"))
    with pytest.raises(ConfigError, match="only the style tldr"):
        model(ARTICLE, style="write")
    assert model.style == "tldr"


def test_long_articles_are_selected(summarizer: Summarizer, tmp_path: Path) -> None:
    """Of a text over the context the model reads the best sentences, and how many is said."""
    text = " ".join(f"This is fact {number}." for number in range(500))
    long = Article(title="Long", sections=(Section(heading="", text=text),))
    found = summarizer(long, sentences=2)
    assert found.of == 500 and found.read < 15


@pytest.mark.parametrize(
    ("style", "stages"),
    [("extract", ["ranking sentences", "scoring sentences"]), ("write", ["ranking sentences", "writing"])],
)
def test_progress(summarizer: Summarizer, style: Style, stages: list[str]) -> None:
    """Whoever waits for a long text is told what is done, never more than there is."""
    heard: list[tuple[str, int, int]] = []
    summarizer(ARTICLE, style=style, progress=lambda *what: heard.append(what))
    assert list(dict.fromkeys(stage for stage, _, _ in heard)) == stages
    assert all(0 <= done <= of for _, done, of in heard)
    assert ("ranking sentences", 7, 7) in heard


@pytest.mark.parametrize("given", [list, tuple, iter, np.array])
def test_several_articles_at_once(summarizer: Summarizer, given: Callable[[list[str]], Any]) -> None:
    """A sequence of any kind gives a list, each as if it came alone."""
    texts = ["One is. Two is. Three is.", "Four was. Five was."]
    assert summarizer(given(texts), sentences=1) == [summarizer(text, sentences=1) for text in texts]


def test_one_gives_one_and_several_give_a_list(summarizer: Summarizer) -> None:
    """An article among several was taken as well as a text; numpy's strings, and none at all, had not been tried."""
    text = "One is. Two is."
    [first, second] = summarizer([ARTICLE, text], sentences=1)
    assert first == summarizer(ARTICLE, sentences=1) and second == summarizer(np.str_(text), sentences=1)
    assert summarizer([]) == [] and summarizer(one for one in [ARTICLE]) == [summarizer(ARTICLE)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "not NoneType"),
        (5, "not int"),
        (b"One is.", "not bytes"),
        ({"text": "One is."}, "not dict"),
        ({"One is."}, "not set"),
        ([None], "text 0 is NoneType, not a string or an Article"),
        (["One is.", 5], "text 1 is int"),
        (["One is.", " \n"], "text 1: no text"),
    ],
)
def test_what_is_no_article_is_refused_in_one_line(summarizer: Summarizer, given: Any, message: str) -> None:
    """`None` was a TypeError's traceback, and a dict was summarised by its keys."""
    with pytest.raises(DataError, match=message) as caught:
        summarizer(given)
    assert "\n" not in str(caught.value)


def test_a_summary_prints_as_its_text_and_turns_into_plain_values(summarizer: Summarizer) -> None:
    """`print(summary)` showed the dataclass."""
    found: Summary = summarizer(ARTICLE, sentences=1)
    assert str(found) == found.text
    values = found.to_dict()
    assert json.loads(json.dumps(values)) == values and values["warnings"] == []
    [sentence] = values["sentences"]
    assert sentence == {"text": found.text, "start": 0, "end": len(found.text), "share": 1.0}


def test_likelihoods_in_another_type(summarizer: Summarizer) -> None:
    """The cache takes the type of the weights: half precision met float32 keys."""
    wide = summarizer.extractor
    half = suite.load(str(summarizer.model.directory), dtype=torch.bfloat16).transformer
    short = Extractor(half, wide.format, wide.ranker, None, wide.prefix)
    prompt = summarizer.format.around("Violin", "")
    texts = ["It has strings.", "Bach."]
    np.testing.assert_allclose(short.likelihoods(prompt, texts), wide.likelihoods(prompt, texts), rtol=0.02)


def test_articles_too_short_to_weigh_on_are_told_of_before_training(tmp_path: Path) -> None:
    """They were found out about after it, with nothing saved."""
    whole = {"title": "A", "lead": "A lead.", "sections": [{"heading": "", "text": BODY[1]}]}
    short = {"title": "B", "lead": "A lead.", "sections": [{"heading": "", "text": "One. Two."}]}
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(one) for one in (short, *[whole] * 5)))
    (tmp_path / "v.jsonl").write_text(json.dumps(whole))
    lines = [f"data.train=['{tmp_path / 'a.jsonl'}']", f"data.valid=['{tmp_path / 'v.jsonl'}']"]
    recipe = Recipe.load(find_task("summarize").default_recipe(), [*lines, "summarize.weigh_on=1"])
    with pytest.raises(DataError, match="weigh_on"):
        find_task("summarize").prepare(recipe, tmp_path)


@pytest.mark.parametrize("count", [2, 3, 10])
@pytest.mark.parametrize("share", [1e-9, 0.05, 0.34, 0.5, 0.7, 0.9, 0.999])
def test_one_article_is_held_out_and_never_all(count: int, share: float) -> None:
    """A share above two thirds held out every article."""
    articles = [Article(title=str(number), lead="", sections=()) for number in range(count)]
    train, valid = hold_out(articles, share)
    assert train and valid and sorted(one.title for one in (*train, *valid)) == sorted(one.title for one in articles)
    hundred = [Article(title=str(number), lead="", sections=()) for number in range(100)]
    assert len(hold_out(hundred, 0.05)[1]) == 5 and len(hold_out(hundred, 0.9)[1]) == 90


def test_the_article_held_out_is_one_with_a_body(tmp_path: Path) -> None:
    """The first of few articles was held out even where its body was too short, so nothing was left to validate on."""
    whole = {"title": "Violin", "lead": ARTICLE.lead, "body": "\n".join(BODY)}
    short = {**whole, "title": "Short", "body": "One sentence."}
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(one) for one in (short, whole, whole)))
    recipe = Recipe.load(find_task("summarize").default_recipe(), [f"data.train=['{tmp_path / 'a.jsonl'}']"])
    data = find_task("summarize").prepare(recipe, tmp_path)
    assert len(data.valid) == 1 and "1 article for training, 1 for validation" in data.notes[-1]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tokenizer.kind=bytes", "reads no tokenizer.kind; available: model"),
        ("summarize.window=3", "reads no summarize.window"),
        ("data.lead=summary", "reads no data.lead"),
        ("data.valid_limit=-1", "data.valid_limit is -1"),
    ],
)
def test_no_setting_is_ignored(tmp_path: Path, setting: str, message: str) -> None:
    """`--set tokenizer.kind=bytes` was taken, and did nothing."""
    recipe = Recipe.load(find_task("summarize").default_recipe(), ["data.train=['a.jsonl']", setting])
    with pytest.raises(ConfigError, match=message):
        find_task("summarize").prepare(recipe, tmp_path)
