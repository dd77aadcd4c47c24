"""Extracts: pronouns with their nouns, decisions before talk, and nothing said twice. All texts here are made."""

import numpy as np
import pytest

from suite.data.articles import Article, Section
from suite.tasks.summarize.outcomes import emphasis, outcome
from suite.tasks.summarize.pipeline import page_of
from suite.tasks.summarize.select import BodySentence, is_said, pick, sentences_of
from suite.tasks.summarize.standing import Standing, pronoun

LIFE = (
    "Adler was born in Ulm. He learnt to bind books.\n"
    "In 1850 he moved to Trier. His shop burnt down. Weber, a rival, bought the ruin. He sold it at once.\n"
    "They quarrelled for years. Such quarrels were common.\n"
    "Adler wrote one book. He died in 1890."
)
MINUTES = (
    "Present were Anna, Ben, Carla and David. Anna wants to release on 3 June, because two customers wait. Ben thinks "
    "that the tests are not ready. David suggested a release without the manual.\n"
    "After some discussion the team decided to release on 17 June. Ben suggested buying two machines for 3,000 euros. "
    "The team agreed to buy one machine for 1,400 euros. David told a story about his holiday."
)
REPORT = (
    "We wondered whether beans grow faster under blue light. Earlier work suggested that beans might grow 40% "
    "faster. Forty "
    "beans were planted in two boxes. Each plant was watered every morning. The results show that beans under "
    "blue light "
    "grew 12% faster than the others. The lamps were borrowed from another school."
)
MAIL = (
    "Thank you for the many answers about the canteen. Some of you proposed to open the canteen at 11:00. Others would "
    "prefer 12:30. A salad bar was suggested. The board approved the opening of the canteen at 11:30. Please "
    "tell your teams."
)


def body(text: str, title: str = "") -> list[BodySentence]:
    return sentences_of(Article(title=title, sections=(Section(heading="", text=text),)))


def chosen(text: str, wanted: list[str], title: str = "", most: int = 0) -> list[str]:
    """The extract of as many sentences, or `most`, when those that begin as `wanted` score best, in that order."""
    sentences = body(text, title)
    scores = np.arange(len(sentences)) / -100
    for rank, beginning in enumerate(wanted):
        [place] = [place for place, one in enumerate(sentences) if one.text.startswith(beginning)]
        scores[place] = 9 - rank
    standing = Standing(title, sentences)
    return standing.texts(pick(sentences, scores, lambda _: True, most or len(wanted), standing.before))


# ---- pronouns


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("They are tuned in fifths.", "they"),
        ("However, it has no strings.", "it"),
        ("In 1725, he moved.", "he"),
        ("To date, it is the best.", "it"),
        ("The latter was built of stone.", "the latter"),
        ("\u201cThis is new\u201d, said Ada.", "this"),
        ("It was agreed that Ada writes the notes.", ""),
        ("It is possible to see the sea from the hill.", ""),
        ("It rained all day.", ""),
        ("Items are sold.", ""),
        ("In Trier he learnt Greek.", ""),
        ("Thesis and antithesis met.", ""),
    ],
)
def test_pronouns_at_the_beginning(text: str, word: str) -> None:
    """An extract began with "They are tuned in fifths." and nobody knew what was."""
    assert pronoun(text) == word


def test_a_pronoun_brings_its_sentence_or_is_swapped() -> None:
    """Two sentences about the strings if there is room for two; with room for one, another sentence."""
    text = "A harp has strings. They are made of gut. Players need strong hands. The frame is of wood."
    assert chosen(text, ["They"], most=2) == ["A harp has strings.", "They are made of gut."]
    assert chosen(text, ["They", "The frame"]) == ["A harp has strings.", "The frame is of wood."]


def test_a_pronoun_that_opens_a_paragraph_is_not_taken_without_its_noun() -> None:
    """The sentence before it in another paragraph need not have the noun."""
    text = "Harps and lutes are old.\nThese are made of gut. The frame is of wood."
    assert chosen(text, ["These", "The frame"]) == ["Harps and lutes are old.", "The frame is of wood."]


def test_the_title_stands_for_its_own_pronoun() -> None:
    """In a life, "He" at the beginning of a paragraph is the one whose life it is; brackets tell of it."""
    assert chosen(LIFE, ["In 1850"], "Karl Adler") == ["In 1850 [Karl Adler] moved to Trier."]
    assert chosen(LIFE, ["His shop"], "Karl Adler (binder)") == ["[Karl Adler]'s shop burnt down."]
    assert chosen(LIFE, ["Adler was", "In 1850", "His"], "Karl Adler") == [
        "Adler was born in Ulm.",
        "In 1850 he moved to Trier.",
        "His shop burnt down.",
    ]


def test_the_title_stands_for_nobody_else() -> None:
    """After a sentence about a rival, "He" is the rival; "They" and "Such" are not the article's pronoun."""
    assert chosen(LIFE, ["He sold"], "Karl Adler", 2) == ["Weber, a rival, bought the ruin.", "He sold it at once."]
    for wanted in (["They quarrelled"], ["Such quarrels"]):
        assert not chosen(LIFE, wanted, "Karl Adler")[0].startswith(("They", "Such", "[Karl"))


@pytest.mark.parametrize("title", ["", "History of binding", "The Rock (film)"])
def test_a_title_that_is_nobody_stands_for_nobody(title: str) -> None:
    """ "[The Rock] said" would be made up: the article on a film has many who say something."""
    assert all("[" not in text for text in chosen(LIFE, ["In 1850", "His shop", "Adler wrote"], title))


@pytest.mark.parametrize("seed", range(20))
def test_no_extract_has_a_pronoun_without_its_noun(seed: int) -> None:
    """Whatever the scores: each follows its own predecessor, or what was said of the title's subject."""
    random = np.random.default_rng(seed)
    sentences = body(LIFE, "Karl Adler")
    standing = Standing("Karl Adler", sentences)
    places = pick(sentences, random.normal(size=len(sentences)), lambda _: True, 4, standing.before)
    texts = standing.texts(places)
    subject = False
    for number, (place, text) in enumerate(zip(places, texts, strict=True)):
        if pronoun(text):
            adjacent = number > 0 and places[number - 1] == place - 1 and sentences[place].place > 0
            assert adjacent or (subject and standing.means_title(place))
        subject = "Adler" in text or (subject and standing.means_title(place))


# ---- decisions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The team decided to release on 17 June.", 1),
        ("Decision: we buy one machine.", 1),
        ("It was finally agreed to wait.", 1),
        ("The results show no difference.", 1),
        ("Carla will finish the manual by 10 June.", 0.5),
        ("Anna wants to release on 3 June.", 0),
        ("No decision was made on the budget.", 0),
        ("The board has not yet agreed to it.", 0),
        ("Everyone asked whether the board approved the plan.", 0),
        ("The river flows north.", 0),
    ],
)
def test_outcomes(text: str, value: float) -> None:
    assert outcome(text) == value


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        (MINUTES, "the team decided to release on 17 June", "Anna wants to release on 3 June"),
        (MINUTES, "agreed to buy one machine for 1,400", "buying two machines for 3,000"),
        (REPORT, "grew 12% faster", "might grow 40%"),
        (MAIL, "approved the opening", "proposed to open the canteen at 11:00"),
    ],
)
def test_decisions_gain_and_what_they_settled_loses(text: str, first: str, last: str) -> None:
    """An extract of minutes kept "Anna wants to release on 3 June" and left out the decision for 17 June."""
    sentences = body(text)
    gains = emphasis(sentences)
    [gained] = [gain for gain, one in zip(gains, sentences, strict=True) if first in one.text]
    [lost] = [gain for gain, one in zip(gains, sentences, strict=True) if last in one.text]
    assert gained > 0 > lost


def test_a_text_without_decisions_is_scored_as_before() -> None:
    """The signal adds nothing to an encyclopaedia's sentences; talk that nobody settled keeps its score."""
    assert not emphasis(body(LIFE)).any()
    assert not emphasis(body("Anna wants to release on 3 June. Ben thinks that is early.")).any()
    assert emphasis([]).tolist() == []


@pytest.mark.parametrize(
    ("text", "kept", "left"),
    [
        (MINUTES, ["17 June", "1,400 euros"], "3 June"),
        (REPORT, ["12% faster"], "40%"),
        (MAIL, ["at 11:30"], "at 11:00"),
    ],
)
def test_extracts_have_the_decision(text: str, kept: list[str], left: str) -> None:
    """Of made minutes, a report and a mail, the embedded model takes what was decided or found."""
    import suite

    found = suite.pipeline("summarize")(text, sentences=len(kept)).text
    assert all(one in found for one in kept) and left not in found


# ---- repetition


def test_nearly_the_same_is_not_said_again() -> None:
    """The same sentence with other words about it was taken twice; one with another number is another fact."""
    text = "The old bridge fell in 1820. In 1820 the bridge fell. The old bridge fell in 1830. Nobody was hurt."
    sentences = body(text)
    assert pick(sentences, np.array([4.0, 3.9, 3.8, 3.7]), lambda _: True) == [0, 2, 3]
    assert is_said(["the", "bridge", "fell"], [{"old", "the", "bridge", "fell"}])
    assert not is_said(["the", "bridge", "fell", "in", "1821"], [{"the", "bridge", "fell", "in", "1820"}])


def test_an_article_given_as_text_has_its_places(title: str = "Karl Adler") -> None:
    """A sentence with a name for its pronoun still says where it comes from."""
    import suite

    article = Article(title=title, sections=page_of(LIFE, "a text").sections)
    found = suite.pipeline("summarize")(article, sentences=5)
    for one in found.sentences:
        assert one.start is not None and one.end is not None
        source = article.body[one.start : one.end]
        assert (one.share == 1 and one.text == source) or ("[Karl Adler]" in one.text and one.share < 1)
