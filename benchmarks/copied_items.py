"""Two hundred made sentences with a name, a number, a date or an address that a translation must keep.

Neither the sentences nor the names are those that `suite.tasks.translate.made` makes training pairs of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

EACH = 50  # sentences of each kind
WAYS = (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
_NAMES = (
    "Ferdinand Hedwig Ottilie Bartholomew Winifred Cornelius Thaddeus Millicent Ignatius Rosalind Baumgartner "
    "Pfaffenrath Oberhuber Quisling Thistlewood Abernathy Featherstone Wolverton Beaumarchais Vaugelade Desrosiers "
    "Charpentier Kowalczyk Nakamura Okonkwo Petrosyan Salvatore Villanueva Bjornstad Haraldsen Chattopadhyay Mbeki"
)
NAMES = tuple(_NAMES.split())
MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
DATES = {"en": "{month} {day}, {year}", "de": "{day}. {month} {year}", "fr": "{day} {month} {year}"}
SENTENCES = {
    "name": {
        "en": ("Where is {}?", "I wrote a long letter to {}.", "{} is a good teacher.", "Is {} your doctor?"),
        "de": ("Wo ist {}?", "Ich habe {} gestern gesehen.", "{} ist ein guter Lehrer.", "Ist {} dein Arzt?"),
        "fr": ("Où est {} ?", "J'ai vu {} hier.", "{} est un bon professeur.", "Est-ce que {} est malade ?"),
    },
    "number": {
        "en": ("There are {} books in the library.", "My ticket has the number {}.", "He ran {} meters."),
        "de": ("In der Bibliothek sind {} Bücher.", "Meine Karte hat die Nummer {}.", "Er lief {} Meter."),
        "fr": ("Il y a {} livres à la bibliothèque.", "Mon billet porte le numéro {}.", "Il a couru {} mètres."),
    },
    "date": {
        "en": ("The school opened on {}.", "She arrived on {}.", "We got married on {}."),
        "de": ("Die Schule wurde am {} eröffnet.", "Sie kam am {} an.", "Wir haben am {} geheiratet."),
        "fr": ("L'école a ouvert le {}.", "Elle est arrivée le {}.", "Nous nous sommes mariés le {}."),
    },
    "address": {
        "en": ("I found the picture on {}.", "Please have a look at {}.", "Can you send it to {}?"),
        "de": ("Ich habe das Bild auf {} gefunden.", "Bitte sieh dir {} an.", "Kannst du es an {} schicken?"),
        "fr": ("J'ai trouvé la photo sur {}.", "Regarde {} s'il te plaît.", "Peux-tu l'envoyer à {} ?"),
    },
}
_WORDS = "garden silver lantern market harbour bicycle thunder meadow pepper window copper island"
WORDS = tuple(_WORDS.split())


@dataclass(frozen=True, kw_only=True)
class Item:
    """A sentence, and what its translation must have.

    Attributes:
        kind: "name", "number", "date" or "address".
        source, target: languages.
        text: to translate.
        wanted: words and figures that must stand in the translation.
    """

    kind: str
    source: str
    target: str
    text: str
    wanted: tuple[str, ...]

    def survives(self, translation: str) -> bool:
        """Whether a translation has all that is wanted; separators within a number do not count."""
        numbers = {re.sub(r"\D", "", found) for found in re.findall(r"\d[\d.,\u00a0\u202f ]*", translation)}
        return all(one in numbers if one.isdecimal() else one in translation for one in self.wanted)


def items() -> list[Item]:
    """The two hundred sentences, always the same."""
    random = Random(18)
    made = []
    for kind, sentences in SENTENCES.items():
        for number in range(EACH):
            source, target = WAYS[number % len(WAYS)]
            text, wanted = _thing(kind, source, target, random)
            sentence = random.choice(sentences[source]).format(text)
            made.append(Item(kind=kind, source=source, target=target, text=sentence, wanted=wanted))
    return made


def _thing(kind: str, source: str, target: str, random: Random) -> tuple[str, tuple[str, ...]]:
    """How a thing is written in the source, and what of it must stand in the target."""
    if kind == "name":
        name = random.choice(NAMES)
        return name, (name,)
    if kind == "number":
        figures = f"{random.randrange(100, 10 ** random.randrange(3, 7)):,}"
        separator = {"en": ",", "de": ".", "fr": "\u202f"}[source]
        return figures.replace(",", separator), (figures.replace(",", ""),)
    if kind == "date":
        day, month, year = random.randrange(2, 29), random.randrange(12), random.randrange(1600, 2100)
        text = DATES[source].format(day=day, month=MONTHS[source].split()[month], year=year)
        return text, (str(day), MONTHS[target].split()[month], str(year))
    first, second = random.sample(WORDS, 2)
    forms = (f"https://www.{first}-{second}.org/{random.randrange(100)}", f"{first}.{second}@example.net")
    address = random.choice((*forms, f"http://{first}.example.com/{second}.html"))
    return address, (address,)
