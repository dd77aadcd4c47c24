"""Written summaries: names and numbers of the article alone, no pronoun first. All texts here are made."""

import numpy as np
import pytest

import suite
from suite.data.articles import Article, Section
from suite.sampling.text_grammar import TextGrammar, TokenTrie
from suite.tasks.summarize.copying import TYPOGRAPHY, SourceWords
from suite.tasks.summarize.metrics import foreign_words
from suite.tasks.summarize.select import sentences_of
from suite.tasks.summarize.summary import Summary, written
from suite.text.tokenizer import Tokenizer

TITLE = "Ada Adler"
BODY = (
    "Adler was born on 12 May 1843 in the United States. She moved to St. Louis and met Charles B. Brook, an Italian. "
    "In 1871 they sold 3.5 tons of paper in a café. On July 11, 1902, her shop burnt down. "
    "The loss was twelve books and 40 chairs. She saw the New café and the Big iPod."
)
WORDS = SourceWords(TITLE, BODY)
ARTICLE = Article(title=TITLE, sections=(Section(heading="", text=BODY),))


@pytest.mark.parametrize(
    "text",
    [
        "Adler met Brook in 1871.",
        "Ada Adler's shop was in St. Louis",
        "Adler met Charles Brook and two Italians.",
        "Shop and paper: 3.5 tons.",
        "Adler was born on 12 May 1843. She met seven men.",
        "However the loss was twelve books, 40 chairs and a café.",
        "On July 11, 1902 Adler died.",
        "Adler (born 1843) was in the United States.",
    ],
)
def test_what_the_article_has_may_be_written(text: str) -> None:
    assert WORDS.reads(text)


@pytest.mark.parametrize(
    "text",
    [
        "Adler met Goethe.",  # a name from nowhere
        "Adler met Brooks.",
        "Charles Adler met Brook.",  # two names put together
        "Adler sold 4 tons.",
        "Adler sold 3 tons.",  # a part of a number
        "Adler sold 3.5 million tons.",
        "Adler had thirteen sons.",
        "Adler was in the United.",  # half a name
        "Adler was in the United Brook.",
        "Adler had 12 sons.",  # a day without its month
        "It fell on 12 July.",
        "Adler met an iAda.",
        "Adler was naïve.",
        "She met Brook.",  # whose noun stayed behind
        "Adler met Br",
    ],
)
def test_what_it_lacks_may_not(text: str) -> None:
    """Half of the names and numbers in written summaries were in no article."""
    assert not WORDS.reads(text)


def test_a_title_may_begin_with_a_pronoun() -> None:
    assert SourceWords("They Drive", "They Drive is a film.").reads("They Drive is a film.")


@pytest.mark.parametrize("seed", range(3))
def test_there_is_always_a_next_token_and_all_that_is_written_is_supported(seed: int) -> None:
    """Tokens drawn at random among those allowed never end in a state without a next one."""
    tokenizer = Tokenizer.train([BODY * 3, "In a The of Lon don eleven twenty"], 320, ("<eos>",))
    trie = TokenTrie([tokenizer.token_bytes(id) for id in range(tokenizer.vocab_size)])
    grammar = TextGrammar(trie, WORDS, alphabet={*BODY, *TYPOGRAPHY}, ends=[0])
    random = np.random.default_rng(seed)
    tokens: list[int] = []
    state = grammar.start([])
    for _ in range(400):
        choices = np.flatnonzero(grammar.allowed(state).numpy())
        assert len(choices)
        choices = choices[choices > 0] if len(choices) > 1 else choices
        if choices[0] == 0:
            break
        tokens.append(int(random.choice(choices)))
        state = grammar.advance(state, tokens[-1])
    import re

    text = tokenizer.decode(tokens)
    assert set(re.findall(r"\d+(?:[.,]\d+)*", text)[:-1]) <= set(re.findall(r"\d+(?:[.,]\d+)*", BODY))


def test_the_embedded_model_writes_no_name_from_nowhere() -> None:
    """By the crude count, which shares no code with the rule; it wrote names that the article lacks."""
    found = suite.pipeline("summarize")(ARTICLE, style="write", max_words=60)
    assert found.text and found.warnings == ()
    assert foreign_words(found.text, f"{TITLE}\n{BODY}")[0] == 0


# ---- what was written


def kept(text: str, **limits: int | None) -> Summary:
    options = {"max_words": None, "sentences": None, **limits}
    return written(ARTICLE, sentences_of(ARTICLE), text, finished=True, style="tldr", read=5, **options)


def test_nothing_is_said_twice() -> None:
    """A small model writes the same sentence again and again."""
    found = kept("Adler met Brook in 1871. Brook met Adler in 1871. Adler met Brook in 1902. Adler met Brook.")
    assert [one.text for one in found.sentences] == ["Adler met Brook in 1871.", "Adler met Brook in 1902."]


def test_a_pronoun_at_the_beginning_is_left_out_or_told() -> None:
    """A TL;DR continues the article, and began with "She"."""
    assert kept("She met Brook. Adler sold paper. She died.", sentences=2).text == "Adler sold paper. She died."
    found = kept("She met Brook.")
    assert found.text == "She met Brook." and "begins with a pronoun" in found.warnings[0]


def test_empty_brackets_are_left_out() -> None:
    """Pronunciations were cut from the articles that the model learnt from."""
    assert kept('Adler (; born 1843) was a binder () of "" books.').text == "Adler (born 1843) was a binder of books."
