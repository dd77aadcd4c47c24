"""Texts in, translations out: layout, languages, warnings, forced words, alignment."""

import dataclasses
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite import load, pipeline
from suite.checkpoint import Model
from suite.data.language import language_probabilities, same_language
from suite.data.sentences import replace_spans
from suite.errors import CheckpointError, ConfigError, DataError
from suite.tasks.translate import search as module
from suite.tasks.translate.align import find_words, plot
from suite.tasks.translate.checks import concerns, has_words, loop
from suite.tasks.translate.format import prompt
from suite.tasks.translate.glossary import contains, read_glossary
from suite.tasks.translate.pipeline import Translator


@pytest.fixture(scope="module")
def model(words: str) -> Model:
    return load(words)


@pytest.fixture(scope="module")
def translate(model: Model) -> Translator:
    return Translator(model, target="en")


def limited(model: Model, tokens: int) -> Translator:
    """A translator whose model says that it has seen no longer sources."""
    return Translator(
        dataclasses.replace(model, extra={**model.extra, "source_limit": tokens}), source="de", target="en", beams=2
    )


# ---- layout


def test_a_document_keeps_its_layout(translate: Translator) -> None:
    text = "# heute\r\n\r\n1. der Hund sieht.  Katze liebt Haus.\n\t- der Vogel sucht. 😀\n\n---\n> Haus | Hund\x85 \n"
    found = translate(text)
    assert found.text == (
        "# today\r\n\r\n1. the dog sees.  cat loves house.\n\t- the bird seeks. 😀\n\n---\n> house | dog\x85 \n"
    ).replace("today", found.sentences[0].text).replace(
        "house | dog", " | ".join(one.text for one in found.sentences[-2:])
    )
    assert found.source_text == text
    assert [text[one.start : one.end] for one in found.sentences][1:3] == ["der Hund sieht.", "Katze liebt Haus."]
    assert found.source == "de" and found.target == "en" and found.probability is not None


def test_wrapped_lines_are_one_sentence(translate: Translator) -> None:
    """Translated line by line, a wrapped letter is a row of fragments."""
    text = "> der                                    Hund\n> sieht Katze.\n"
    [sentence] = translate(text, source="de").sentences
    assert sentence.source == "der Hund sieht Katze."
    assert sentence.text.replace("\n> ", " ") == "the dog sees cat." and sentence.text.count("\n> ") == 1


@pytest.mark.parametrize(
    "text", ["", " \n", "😀", "---", "42", "3,5 %", "https://example.org/der-Hund", "a.b@example.org"]
)
def test_what_has_no_words_is_passed_through(translate: Translator, text: str) -> None:
    """Models invent a sentence for an emoji or a number."""
    found = translate(text)
    assert (found.text, found.sentences, found.warnings, found.score) == (text, (), (), 0.0)
    assert found.alignment == ()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=40) | st.lists(st.sampled_from(["\r\n", "\n\n", "- ", "Hund", " ", ". ", "😀"])).map("".join)
)
def test_what_stands_between_sentences_stays(translate: Translator, text: str) -> None:
    found = translate(text, source="de", beams=1)
    spans = [(one.start, one.end) for one in found.sentences]
    mark = "\ud800"  # which no text has
    gaps = replace_spans(text, spans, [mark] * len(spans)).split(mark)  # type: ignore[arg-type]
    position = 0
    for gap, sentence in zip(gaps, found.sentences, strict=False):
        assert found.text.startswith(gap + sentence.text, position)
        position += len(gap) + len(sentence.text)


def test_a_lone_surrogate_is_one_line(translate: Translator) -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        translate("Hund \ud800", source="de")


def test_special_tokens_in_a_text_are_text(model: Model) -> None:
    """ "<en>" typed by somebody must not end the source."""
    found = limited(model, 30)("der <en> Hund <eos>")
    assert found.sentences[0].source == "der <en> Hund <eos>"


# ---- batches and scores


def test_a_translation_does_not_depend_on_its_batch(model: Model, translate: Translator) -> None:
    texts = ["der Hund.", "Katze sieht Haus und Vogel. Haus.", "", "le chien voit.", "der Hund."]
    together = translate(texts)
    small = Translator(model, target="en", batch_tokens=1)(texts)
    for text, one, alone in zip(texts, together, small, strict=True):
        single = translate(text)
        assert one.text == single.text == alone.text
        assert one.score == pytest.approx(single.score, abs=1e-4) == pytest.approx(alone.score, abs=1e-4)


def test_equal_sentences_are_translated_once(translate: Translator) -> None:
    counted: list[int] = []
    translate(["der Hund.\nder Hund.", "der Hund."], source="de", progress=counted.append)
    assert sum(counted) == 1


def test_scores_are_the_models_own(model: Model, translate: Translator) -> None:
    """With a forced start the score once left out its tokens, and compared with nothing."""
    for prefix in ("", "the bird"):
        found = translate("der Hund sieht. Katze.", source="de", prefix=prefix)
        total = count = 0.0
        for one in found.sentences:
            assert model.tokenizer is not None
            start = prompt(model.tokenizer, one.source, "de", "en")
            target = [*one.tokens, model.tokenizer.specials["<eos>"]]
            rows = torch.tensor([[*start.tokens, *target]])
            with torch.no_grad():
                scores = model.transformer(rows, prefix=torch.tensor([start.prefix])).log_softmax(-1)[0]
            expected = sum(float(scores[len(start.tokens) - 1 + n, id]) for n, id in enumerate(target))
            assert one.logprob == pytest.approx(expected, abs=1e-3)
            assert one.score == pytest.approx(expected / len(target), abs=1e-3)
            total, count = total + expected, count + len(target)
        assert found.score == pytest.approx(total / count, abs=1e-3)


def test_alternatives_are_the_next_best(translate: Translator) -> None:
    [sentence] = translate("der Hund sieht.", source="de", n_best=3).sentences
    assert len(sentence.alternatives) == 2
    assert sentence.score >= sentence.alternatives[0].score >= sentence.alternatives[1].score
    assert sentence.text not in [other.text for other in sentence.alternatives]
    with pytest.raises(ConfigError, match="n_best is 3"):
        translate("der Hund.", n_best=3, beams=2)
    with pytest.raises(ConfigError, match="beams is 0"):
        translate("der Hund.", beams=0)


# ---- what goes in and comes out


def test_one_text_gives_one_result_and_several_give_a_list(translate: Translator) -> None:
    """A single text gave a list of one, and a generator, a number or None failed deep inside."""
    one = translate("Hund.", source="de")
    assert str(one) == one.text == "dog."
    for several in (["Hund."], ("Hund.",), (text for text in ["Hund."]), np.array(["Hund."])):
        assert translate(several, source="de") == [one]
    assert translate(np.array(["Hund."])[0], source="de") == one
    assert translate([]) == [] and translate("").sentences == ()


@pytest.mark.parametrize("wrong", [None, 3, b"Hund.", {"a": "Hund."}, {"Hund."}, [None], [["Hund."]]])
def test_what_is_no_text_is_one_line(translate: Translator, wrong: object) -> None:
    with pytest.raises(DataError, match="text") as error:
        translate(wrong)
    assert "\n" not in str(error.value)


def test_a_result_is_plain_values(translate: Translator) -> None:
    found = translate("Hund. Katze.", source="de", n_best=2)
    values = json.loads(json.dumps(found.to_dict(align=True)))
    first = values["sentences"][0]
    assert (values["text"], values["source"], first["text"]) == ("dog. cat.", "de", "dog.")
    assert list(first["alternatives"][0]) == ["text", "score"] and "tokens" not in first
    assert np.allclose(np.sum(first["alignment"]["weights"], axis=1), 1, atol=1e-3)
    assert "alignment" not in found.to_dict()["sentences"][0] and not [key for key in values if key.startswith("_")]


# ---- languages


def test_the_language_is_identified_among_those_of_the_model(translate: Translator) -> None:
    german, french = translate(["der Hund sieht der Katze und Haus.", "le chien voit le chat et maison."])
    assert (german.source, french.source) == ("de", "fr")
    assert 0.5 < (german.probability or 0) <= 1
    assert french.text == "the dog sees the cat and house." or french.warnings == ()


def test_unknown_languages_and_directions_are_refused(model: Model) -> None:
    with pytest.raises(ConfigError, match="does not know the language 'es'; available: de, en, fr"):
        Translator(model, source="es")
    with pytest.raises(ConfigError, match="not trained to translate from en to fr; available: de to en, en to de"):
        Translator(model)("a", source="en", target="fr")
    with pytest.raises(ConfigError, match="does not know the language ''"):
        Translator(model, target="en")("a", target="")
    assert Translator(model, source="de")("Hund.").target == "en", "the only one"
    both = {**model.extra, "directions": [["de", "en"], ["de", "fr"]], "length_ratio": {}}
    with pytest.raises(ConfigError, match=r"target language needed: --to en or --to fr"):
        Translator(dataclasses.replace(model, extra=both))("Hund.")
    with pytest.raises(CheckpointError, match="not a translation model"):
        Translator(dataclasses.replace(model, extra={}))


def test_text_in_another_language_draws_a_warning(translate: Translator) -> None:
    english = translate("The weather has been quite awful for the whole week.", source="de")
    assert "looks like en" in english.warnings[0] and "translated from de" in english.warnings[0]
    spanish = translate("No sé por qué la gente habla tanto de este libro.")
    assert "looks like es" in spanish.warnings[0] and "cannot translate" in spanish.warnings[0]
    assert not translate("Hund.", source="fr").warnings, "a word tells little"


def test_language_codes() -> None:
    assert list(language_probabilities("Wo ist der Bahnhof?", ["en", "de-AT", "tlh"])) == ["de-AT", "en"]
    assert language_probabilities("", ["en", "de"]) == {"en": 0.5, "de": 0.5}
    assert same_language("pt", "pt-BR") and not same_language("pt", "es")


# ---- warnings


def test_a_sentence_over_the_limit_is_cut_with_a_warning(model: Model) -> None:
    """Truncating it silently is what people complain of most."""
    text = "der Hund sieht Katze und der Vogel liebt Haus heute."
    found = limited(model, 9)(text)
    assert [one.source for one in found.sentences] == ["der Hund sieht Katze", "und der Vogel liebt Haus heute."]
    assert "the model reads 9 at once; translated in 2 parts: der Hund" in found.warnings[0]
    assert len(limited(model, 12)(text).sentences) == 1


def test_ten_thousand_words_without_punctuation(model: Model) -> None:
    text = "der Hund sieht Katze " * 2500
    found = limited(model, 8)(text)
    assert sum(len(one.source.split()) for one in found.sentences) == 10_000
    assert "parts" in found.warnings[0] and found.text.count("dog") >= 2000


def test_a_translation_that_was_cut_off_is_told(translate: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROWTH", 0)
    monkeypatch.setattr(module, "ROOM", 2)
    found = translate("der Hund sieht Katze.", source="de")
    assert found.sentences[0].finish == "length" and any("cut off after 2 tokens" in line for line in found.warnings)


def test_what_is_conspicuous_is_told() -> None:
    usual = (0.0, 0.2)
    assert concerns("Das ist ein guter Tag.", "This is a good day.", usual) == []
    assert "missing" in concerns("Das ist ein guter Tag, und ich bin froh darüber.", "Yes.", usual)[0]
    assert "made up" in concerns("Ja.", "Yes, that is what I have always been saying.", usual)[0]
    assert concerns("Ja.", "Certainly.", usual) == [], "short sentences vary"
    assert concerns("Er ist da.", "He is here, he is here, he is here, he.", None) == [
        '"He is here," is repeated 3 times in a row'
    ]
    assert concerns("Nein, nein, nein!", "No, no, no!", None) == [], "so does the source"
    assert concerns("x", "haaaaaaaaaaa", None) == ['"a" is repeated 11 times in a row']
    assert concerns("Um 1.500 Euro im Jahr 1984", "For 1,500 euros", None) == ["1984 is missing"]
    assert concerns("Siehe www.example.org.", "See there.", None) == ["www.example.org. is missing"]
    assert concerns("Um 12 Uhr", "At noon", None) == []
    assert concerns("Ja", " ", None) == ["the translation is empty"]
    assert loop("") == ("", 0) and not has_words("17 https://a.de 😀") and has_words("é")


def test_checks_take_no_quadratic_time() -> None:
    """A megabyte without a space once took minutes to be looked through for addresses."""
    for text in ("a" * 300_000, "a." * 100_000, "1" * 300_000, "a@" * 100_000):
        has_words(text)
    concerns("x", "ab " * 20_000, None)


# ---- forced words


def test_a_forced_start_is_kept(translate: Translator) -> None:
    first, second = translate("der Hund sieht. Katze.", source="de", prefix="the bird ").sentences
    assert first.text.startswith("the bird") and first.text.endswith(".")
    assert not second.text.startswith("the bird"), "a text has one start"


def test_the_glossary_is_followed_where_its_term_stands(translate: Translator) -> None:
    [plain, other] = translate(["der Hund sieht Katze.", "der Vogel."], source="de", glossary={"hund": "house"})
    assert plain.text.startswith("the house") and not plain.warnings
    assert other.text == "the bird."
    two = translate("der Hund sieht Katze.", source="de", glossary={"Katze": "bird", "Hund": "house"})
    assert contains(two.text, "house") and contains(two.text, "bird")


def test_a_term_that_is_not_in_is_told(translate: Translator) -> None:
    found = translate("der Hund sieht Katze.", source="de", prefix="the dog sees cat.", glossary={"Hund": "house"})
    assert any("Hund is not translated as house, as the glossary says" in line for line in found.warnings)


def test_a_glossary_file(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("Hund\thound\n\n große Katze \t big cat\n")
    assert read_glossary(file) == {"Hund": "hound", "große Katze": "big cat"}
    file.write_text("Hund\thound\nKatze cat\n")
    with pytest.raises(DataError, match=r"line 2: .*'Katze cat'"):
        read_glossary(file)


# ---- alignment


def test_words_are_aligned_with_those_they_came_from(translate: Translator) -> None:
    """The row of the position that reads a word, not of the one that predicts it, points to the next word's source."""
    german, english = (
        "der Hund Katze Haus Vogel sieht liebt sucht und heute .",
        "the dog cat house bird sees loves seeks",
    )
    meant = dict(zip(f"{english} and today .".split(), german.split(), strict=True))
    chance = random.Random(1)
    texts = [" ".join(chance.sample(german.split()[:-1], 4)) + "." for _ in range(20)]
    right = 0
    for found in translate(texts, source="de"):
        [alignment] = found.alignment
        assert alignment.weights.shape == (len(alignment.target), len(alignment.source))
        assert np.allclose(alignment.weights.sum(axis=1), 1) and (alignment.weights >= 0).all()
        right += sum(meant[target] == source for target, source, _ in alignment.pairs)
    assert right >= 90, "of a hundred"


def test_a_direction_without_its_reverse_is_aligned_too(translate: Translator) -> None:
    [alignment] = translate("le chien voit.", source="fr").alignment
    assert alignment.weights.shape == (4, 4) and np.allclose(alignment.weights.sum(axis=1), 1)


def test_sub_word_tokens_become_words(model: Model) -> None:
    assert model.tokenizer is not None
    text = "Don't  pay 3.50 € … für Köln!"
    found = find_words(model.tokenizer, model.tokenizer.encode(text))
    assert found.words == ("Don't", "pay", "3.50", "€", "…", "für", "Köln", "!")
    assert [text[start:].startswith(word) for start, word in zip(found.starts, found.words, strict=True)] == [True] * 8
    assert (found.shares.sum(axis=0) == 1).all(), "each token belongs to one word"
    broken = find_words(model.tokenizer, model.tokenizer.encode("é")[:1] + model.tokenizer.encode(" a"))
    assert broken.words[-1] == "a"


def test_the_picture_is_drawn_without_a_display(
    translate: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dollar signs are formulas to matplotlib, and half a formula is an error."""
    monkeypatch.delenv("DISPLAY", raising=False)
    found = translate("der $ Hund $x^.\nKatze sieht Haus.", source="de")
    for name in ("a.png", "a.svg"):
        plot(found.alignment, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    plot([], tmp_path / "empty.png")
    with pytest.raises(ConfigError, match="kind 'xyz'"):
        plot(found.alignment, tmp_path / "a.xyz")


def test_the_pipeline_is_found_by_its_name(words: str) -> None:
    options: dict[str, Any] = {"source": "de", "target": "en", "beams": 1}
    found = pipeline("translate", words, **options)("der Hund.")
    assert found.text == "the dog." and math.isfinite(found.score) and len(found.alignment) == 1
