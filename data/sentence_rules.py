"""Words by which the end of a sentence is found in English, German and French."""

from __future__ import annotations

import re
from typing import NamedTuple


class Language(NamedTuple):
    """Words that decide whether a full stop ends a sentence.

    Args:
        hard: abbreviations after which a sentence never ends.
        soft: abbreviations after which it ends only before one of the `starters`.
        before_numbers: words that are abbreviations only where a digit follows.
        starters: words that begin sentences often, and follow abbreviations rarely.
        ordinals: whether a number with a full stop is an ordinal ("3. Mai"), which then counts as soft.
        conjunctions: words before which a sentence that is too long may be cut.
    """

    hard: re.Pattern[str]
    soft: re.Pattern[str]
    before_numbers: re.Pattern[str]
    starters: frozenset[str]
    ordinals: bool
    conjunctions: re.Pattern[str]


def _ends_with(words: str) -> re.Pattern[str]:
    """Matches text that ends in one of the words; within "z.B" there may be spaces, and * is any letters."""
    parts = (re.escape(word).replace(r"\.", r"\.[ \u00a0\u202f]?").replace(r"\*", r"\w*") for word in words.split())
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})$", re.IGNORECASE)


def _language(
    *, hard: str, soft: str, before_numbers: str, starters: str, conjunctions: str, ordinals: bool = False
) -> Language:
    return Language(
        hard=_ends_with(hard),
        soft=_ends_with(soft),
        before_numbers=_ends_with(before_numbers),
        starters=frozenset(starters.split()),
        ordinals=ordinals,
        conjunctions=re.compile(rf"\s(?=(?:{'|'.join(conjunctions.split())})\s)"),
    )


_ENGLISH = _language(
    hard="mr mrs ms dr prof rev hon gen col maj capt lt sgt cpl cmdr adm gov sen rep messrs mme mlle e.g i.e eg ie cf "
    "viz vs approx",
    soft="st mt jr sr inc ltd co corp bros dept est etc al ed eds vol ch fig figs eq pp ave blvd rd jan feb apr jun "
    "jul aug sep sept oct nov dec ph.d",
    before_numbers="no nos art sec mar",
    starters="The A An This That These Those It He She They We I You There Here His Her Their Our My Your Its In On At "
    "By For From To With After Before When While If As Since Although But And Or So Then Now Not No Yes What Who Why "
    "How Where Which All Some Many Most One Everyone Nobody However Today Later",
    conjunctions="and or but because although though while when whereas which who that if so then until unless",
)
_GERMAN = _language(
    hard="dr prof hr hrn fr frl st hl z.b d.h i.d.r m.e u.u z.t z.zt o.g s.o s.u v.a bzw vgl ca sog ggf evtl inkl exkl "
    "bspw nr abb bd kap fa tel geb gest verh dipl ing med phil jur rer nat bes allg insb einschl",
    soft="usw etc u.a u.s.w o.ä u.ä u.v.m *str co jh mio mrd ff f s aufl hrsg abs mag jan feb apr jun jul aug sep sept "
    "okt nov dez n.chr v.chr",
    before_numbers="art z seite no",
    starters="Der Die Das Den Dem Des Ein Eine Einen Einem Einer Er Sie Es Ich Wir Ihr Du Man Dies Diese Dieser Dieses "
    "Da Dann Dort Hier Heute Gestern Nun Jetzt Danach Dabei Deshalb Daher Doch Aber Und Oder Auch Als Wenn Weil Wie "
    "Was Wer Wo Warum In Im Am An Auf Bei Mit Nach Von Vor Zu Zum Zur Für Durch Seit Trotz Während Kein Keine Nein Ja "
    "Nicht Nur So Alle Viele Mein Meine Sein Seine Ihre Unser Unsere Bis Später Damals Prima Gut",
    conjunctions="und oder aber denn weil dass daß obwohl während wenn sondern damit sodass bevor nachdem",
    ordinals=True,
)
FRENCH = _language(
    hard="m mm mme mmes mlle mlles dr pr me mgr st ste p.ex c.-à-d cf vs env av boul bd tél n°",
    soft="etc apr j.-c fig vol chap pp éd suiv janv févr avr juil sept oct nov déc",
    before_numbers="no art p s",
    starters="Le La Les L' Un Une Des Il Elle Ils Elles On Je J' Tu Nous Vous Ce C' Cet Cette Ces Ça Cela Et Mais Ou "
    "Où Donc Or Car Ni Dans En Au Aux À Pour Par Sur Avec Sans Sous Quand Comme Si Que Qu' Qui Quel Quelle Mon Ma Mes "
    "Son Sa Ses Notre Nos Votre Vos Leur Leurs Ne N' Puis Alors Ensuite Depuis Après Avant Voilà Voici Merci Oui Non "
    "Rien Tout Toute Tous D' S' Aujourd'",
    conjunctions="et ou mais car donc parce puisque quand lorsque comme si que qui dont où tandis",
)
_LANGUAGES = {"en": _ENGLISH, "de": _GERMAN, "fr": FRENCH}


def language_rules(language: str) -> Language:
    """Return the rules of a language by its code, such as "de" or "fr-CA"; English for one that is not known."""
    return _LANGUAGES.get(re.split("[-_]", language)[0].lower(), _ENGLISH)
