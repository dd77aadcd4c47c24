"""Sentences of a text: where they end, and that nothing between them is lost."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.data.sentences import Span, clause_spans, replace_spans, rewrap, sentence_spans, unwrap

# a bar stands where a sentence ends
SENTENCES = """
en|Dr. Smith met Mr. Jones at 5 p.m. on Friday.|They talked.
en|It costs 3.5 dollars.|That is not much.
en|He said: "I am leaving."|Then he left.
en|"Are you coming?" she asked.|"No," he said.
en|J. R. R. Tolkien wrote it in 1937.|It sold well.
en|The U.S. Army arrived.|Nobody knew why.
en|I live in the U.S.|It is large.
en|See e.g. Fig. 3 and pp. 4-7, i.e. the appendix.|Good.
en|Wait... what?|I don't know...|Really.
en|Visit www.example.com or mail a.b@c.org.|Thanks!
en|What?!|No!!!|Yes.
en|We met at Apple Inc. in California, etc. and so on.|End.
en|Mozart (b. 1756) was great.|(He died young.)|So it goes.
en|Version 2.0.1 is out.|Update now.
en|Yahoo! is a company.|It exists.
en|He was born in St. Louis, vs. what they say.|OK.
en|No. 5 is alive.|No.|Nothing.
en|“It works.”|“Does it?”
en|I was there in Jan. 2020.|It rained.
en|all small.|nobody shouts.
de|Das ist z. B. ein Satz.|Das ist noch einer.
de|Er mag z.B. Der Spiegel.|Gut.
de|Am 3. Mai kam er an.|Er blieb bis zum 5. Juni 2020.
de|Dr. Müller und Prof. Schmidt kommen.|Hr. Meier nicht.
de|Das kostet 3,50 Euro bzw. 4,00 Euro usw. pro Stück.|Gut.
de|„Kommst du?“, fragte er.|„Nein“, sagte sie.
de|„Ich gehe.“|Dann ging er.
de|Er sagte: »Das ist gut.«|Sie nickte.
de|»Nein.«|»Doch.«
de|Im 19. Jahrhundert war das anders.|Heute nicht.
de|Kaiser Wilhelm II. regierte lange.|Dann nicht mehr.
de|Vgl. S. 5 ff. und Abb. 3.|Das reicht.
de|Es war d. h. es ist so.|U. a. deshalb.
de|Wir sehen uns am 24.12. um 18.30 Uhr.|Bis dann!
de|Das war 1999.|Danach kam 2000.
de|Ich weiß nicht ... vielleicht.|Gut.
de|Die Fa. Meier & Co. liefert ca. 100 Stück.|Prima.
de|Er wohnt in der Hauptstr. 5 in Köln.|Sie auch.
fr|M. Dupont et Mme. Durand sont là.|Ils parlent.
fr|Il y a p. ex. des pommes.|Il y a aussi des poires.
fr|« Viens-tu ? »|Elle ne répondit pas.
fr|« Viens-tu ? » demanda-t-elle.|Non.
fr|Que fais-tu ?|Rien !
fr|C'est au XIXe s. av. J.-C. que tout commence.|Voilà.
fr|Le 1er mai, nous partons.|Le 2 mai, nous revenons.
fr|Cela coûte 3,5 euros, etc.|C'est tout.
fr|Voir p. 5 et suiv. pour les détails.|Merci.
fr|J. Dupont est venu.|Il est parti.
fr|Il est 10 h. 30 environ.|On y va.
ja|これはペンです。|はい。
"""


def pieces(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


@pytest.mark.parametrize("line", SENTENCES.strip().splitlines())
def test_sentences_end_where_a_reader_ends_them(line: str) -> None:
    language, *sentences = line.split("|")
    assert pieces(" ".join(sentences), language) == sentences


def test_layout_is_no_part_of_a_sentence() -> None:
    """A model that saw "1. " or an indentation would translate it away."""
    text = (
        "# Title\r\n\r\n1. One thing.  Another\r  - inner (a) x\n> > quoted\n>* [x] done\n\ta) last\x85\n---\n 3. Mai"
    )
    assert pieces(text) == ["Title", "One thing.", "Another", "inner (a) x", "quoted", "done", "last", "---", "Mai"]
    assert pieces("3. Mai 2020\n19. Jahrhundert\n4. Käse", "de") == ["3. Mai 2020", "19. Jahrhundert", "Käse"]


def test_letters_mark_lists() -> None:
    """ "a. " was translated away; what begins with an abbreviation, an initial or the word I is no item of a list."""
    assert pieces("a. The dog.\nb. A cat.\nc) Birds.") == ["The dog.", "A cat.", "Birds."]
    for text in ("I. Kant wrote.", "J. Smith came.", "p. 5 has it.", "I am."):
        assert pieces(text) == [text]
    for text in ("z. B. der Hund.", "v. Chr. war das so."):
        assert pieces(text, "de") == [text]
    assert pieces("p. ex. des pommes.", "fr") == ["p. ex. des pommes."]


def test_code_between_fences_is_no_text() -> None:
    """Of a block of code the opening line was translated, and the code with it."""
    text = "One thing\n\n```python\nprint('two things')\n~~~\n```\nThree.\r\n> ~~~~\r\n> code\r\n> ~~~~~\r\nFour.\n"
    assert pieces(text) == ["One thing", "Three.", "Four."]
    assert pieces("```python\nnot closed") == ["```python", "not closed"], "a line of backticks alone loses no text"
    assert pieces("```python``` is\ninline\n```\n") == ["```python``` is", "inline", "```"]


def test_a_row_of_a_table_is_not_one_sentence() -> None:
    """Its columns came out as one list of words, and the tabs were gone."""
    assert pieces("Haus\tEin Hund.\tKatze\n| a | b |\n|---|---|\n\tin") == [
        "Haus",
        "Ein Hund.",
        "Katze",
        "a",
        "b",
        *["---"] * 2,
        "in",
    ]


def test_emoji_stay_outside() -> None:
    """Byte-level models turn an emoji that they never saw into other bytes."""
    assert pieces("👍🏽 Super! 😀 Das war ❤️ gut. 🎉\n😀", "de") == ["Super!", "Das war ❤️ gut."]


def test_lines_that_were_full_go_on() -> None:
    """E-mail is wrapped at 72 characters; line by line its sentences would be translated as fragments."""
    text = "> This is the first line of a letter that has been wrapped by\n> a mail program. Yes.\n"
    assert pieces(text) == [text[2:-6], "Yes."]
    capital = (
        "Diese Zeile ist so lang, dass sie umgebrochen worden ist, bevor der\nSatz zu Ende war, und das ist nicht "
    )
    capital += "schlimm, denn so macht es\njedes Programm."
    assert pieces(capital, "de") == [capital]


@pytest.mark.parametrize(
    "text", ["eggs\nmilk\nbread", "Roses are red\nViolets are blue", "A heading\nThen text goes on"]
)
def test_short_lines_stay_alone(text: str) -> None:
    assert pieces(text) == text.split("\n")


def test_line_ends_within_a_sentence_come_back() -> None:
    original = "It rained\n  all day\r\n> long."
    assert unwrap(original) == "It rained all day long."
    assert rewrap("Es regnete den ganzen lieben Tag.", original) == "Es regnete\n  den ganzen\r\n> lieben Tag."
    assert rewrap("Regen", original) == "Regen\n  \r\n> ", "too few spaces, and still every line end"
    assert rewrap("Regen", "rain") == "Regen"


LAYOUT = st.sampled_from(
    [
        "\r\n",
        "\r",
        "\n",
        "\n\n",
        "\x85",
        "\u2028",
        " ",
        "  ",
        "\t",
        "- ",
        "1. ",
        "> ",
        "# ",
        "😀",
        "👩‍👩‍👧",
        "...",
        "? ",
        ". ",
    ]
)
WORDS = st.sampled_from(
    ["Dr", "the", "Mai", "3", "z.B", "U.S", "étude", "»", "“", "(", ")", ",", ";", "und", "wort" * 9]
)
TEXTS = st.text() | st.lists(LAYOUT | WORDS | st.text(max_size=3), max_size=40).map("".join)


@given(text=TEXTS, language=st.sampled_from(["en", "de", "fr", "xx"]))
def test_nothing_is_lost_whatever_the_text(text: str, language: str) -> None:
    spans = sentence_spans(text, language)
    assert all(start < end for start, end in spans)
    assert all(before.end <= after.start for before, after in itertools.pairwise(spans))
    assert replace_spans(text, spans, [text[start:end] for start, end in spans]) == text
    for start, end in spans:
        parts = clause_spans(text, Span(start, end), lambda part: len(part) <= 7, language)
        assert all(0 < part.end - part.start <= 7 for part in parts)
        assert "".join("".join(text[a:b] for a, b in parts).split()) == "".join(text[start:end].split())
        assert parts[0].start == start and parts[-1].end == end


@given(text=TEXTS)
def test_words_lie_in_sentences(text: str) -> None:
    """What lies between sentences is not translated, so no words may."""
    between = replace_spans(text, sentence_spans(text), [" "] * len(sentence_spans(text)))
    assert not [word for word in between.split() if sum(map(str.isalpha, word)) > 2], between


@given(sentence=st.lists(WORDS).map(" ".join), original=TEXTS)
def test_rewrapping_keeps_words_and_line_ends(sentence: str, original: str) -> None:
    wrapped = rewrap(sentence, original)
    assert "".join(wrapped.replace(">", "").split()) == "".join(sentence.split())
    assert wrapped.count("\n") == original.count("\n") and wrapped.count("\x85") == original.count("\x85")
    assert unwrap(wrapped).split() == sentence.split()


def test_a_sentence_is_cut_at_its_best_border() -> None:
    text = "I came, because it was late and dark; she went home, since she was tired of all that."
    [whole] = sentence_spans(text)

    def cut(limit: int) -> list[str]:
        return [text[start:end] for start, end in clause_spans(text, whole, lambda part: len(part) <= limit)]

    assert cut(100) == [text]
    assert cut(60) == ["I came, because it was late and dark;", "she went home, since she was tired of all that."]
    assert cut(37)[1:] == ["she went home,", "since she was tired of all that."]
    assert cut(24) == [
        "I came,",
        "because it was late",
        "and dark;",
        "she went home,",
        "since she was",
        "tired of all that.",
    ]


def test_ten_thousand_words_are_cut_in_little_time() -> None:
    """Measuring every prefix anew took quadratic time; so did looking for the end of a line of dots."""
    text = "word " * 10_000
    measured = 0

    def fits(part: str) -> bool:
        nonlocal measured
        measured += len(part)
        return len(part) <= 300

    [span] = sentence_spans(text)
    parts = clause_spans(text, span, fits)
    assert len(parts) < 250 and sum(end - start for start, end in parts) > 49_000 - 250
    assert measured < 100 * len(text)
    for awful in (
        "." * 100_000,
        ". " * 50_000,
        "\n" * 100_000,
        "> " * 50_000,
        "- " * 50_000,
        "?!" * 50_000,
        ")" * 100_000,
    ):
        assert replace_spans(awful, sentence_spans(awful), [""] * len(sentence_spans(awful))).strip(".?!)>- \n") == ""
