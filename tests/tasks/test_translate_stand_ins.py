"""What a translation lost comes back through stand-ins: links, long numbers, rare names."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite import pipeline
from suite.tasks.translate.stand_ins import StandIns, respaced, stand_ins


def made(source: str, translation: str, languages: tuple[str, str] = ("en", "de")) -> StandIns | None:
    return stand_ins(source, translation, languages, lambda word: len(word) > 6)


def test_each_thing_has_a_stand_in_that_the_sentence_lacks() -> None:
    found = made("Mail Tom 1,250 pages at ann@mail.org. Ask Winifred in 1984.", "...")
    assert found is not None
    assert found.source == "Mail Tom 30 pages at Boston. Ask John in 2013."
    assert found.things == (("30", "1.250"), ("Boston", "ann@mail.org"), ("John", "Winifred"), ("2013", "1984"))
    assert found.restored("Bostons 30, Tom; John 2013") == "ann@mail.orgs 1.250, Tom; Winifred 1984"


def test_stand_ins_must_come_out_just_once() -> None:
    found = made("See www.example.org.", "Siehe da.")
    assert found is not None and found.source == "See Tom."
    assert found.restored("Siehe Tom.") == "Siehe www.example.org."
    for wrong in ("Siehe Thomas.", "Tom und Tom.", ""):
        assert found.restored(wrong) is None


def test_what_is_not_lost_needs_none() -> None:
    kept = [
        ("In 1984 he left.", "1984 ging er."),
        ("It has 1,250 pages.", "Es hat 1.250 Seiten."),
        ("It has 12 pages.", "Es hat zwölf Seiten."),  # short numbers are written out
        ("It is Monday at home.", "Es ist Montag."),  # a word that is not rare
        ("Photosynthesis is hard.", "Fotosynthese ist schwer."),  # a first word
        ("See www.a.org/b.", "Siehe www.a.org/b."),
    ]
    assert [made(*one) for one in kept] == [None] * len(kept)
    assert made("Das ist die Photosynthese.", "x", ("de", "en")) is None  # German nouns have capitals
    assert made(" and ".join(f"10{n}" for n in range(9)), "x") is None  # more than stand-ins


@pytest.mark.parametrize(
    ("number", "languages", "expected"),
    [
        ("1,250.50", ("en", "de"), "1.250,50"),
        ("1.250,50", ("de", "en"), "1,250.50"),
        ("12,5", ("fr", "en"), "12.5"),
        ("1\u202f000\u202f000", ("fr", "de"), "1.000.000"),
        ("2013", ("en", "fr"), "2013"),
        ("1,2,3", ("en", "de"), "1,2,3"),
        ("1,250", ("en", "xx"), "1,250"),
    ],
)
def test_separators_follow_the_language(number: str, languages: tuple[str, str], expected: str) -> None:
    assert respaced(number, *languages) == expected


def test_the_embedded_translator_keeps_addresses_and_numbers() -> None:
    """An address became several sentences from nowhere, and 638 meters became 683."""
    translate = pipeline("translate", source="en", target="de")
    results = translate(["Please have a look at https://www.thunder-pepper.org/49.", "He ran 306,640 meters."])
    assert "https://www.thunder-pepper.org/49" in results[0].text and "306.640" in results[1].text
    for result in results:
        [sentence] = result.sentences
        tokenizer = translate.tokenizer
        assert tokenizer.decode(sentence.tokens) == sentence.text
        assert not any("missing" in warning for warning in result.warnings)


def test_alternatives_and_a_forced_start_stay(tmp_path: Path) -> None:
    translate = pipeline("translate", source="en", target="de")
    [sentence] = translate("He ran 306,640 meters.", n_best=2).sentences
    assert "306.640" in sentence.text and len(sentence.alternatives) == 1
    [forced] = translate("He ran 306,640 meters.", prefix="Er ging").sentences
    assert forced.text.startswith("Er ging")
