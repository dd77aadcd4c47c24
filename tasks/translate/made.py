"""Made pairs of sentences: openings and closings of letters, and sentences around links, dates, amounts and names.

What must survive a translation (links, numbers, names) is drawn anew for each pair, so that a model learns to copy it
and cannot learn it by heart. `VALUES` say how each kind of it is written in each language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from suite.data.parallel import Pair
from suite.tasks.translate.names import NameMaker

LANGUAGES = ("en", "de", "fr")

SALUTATIONS = (
    ("Dear Mrs {name},", "Sehr geehrte Frau {name},", "Chère Madame {name},"),
    ("Dear Ms {name},", "Sehr geehrte Frau {name},", "Chère Madame {name},"),
    ("Dear Mr {name},", "Sehr geehrter Herr {name},", "Cher Monsieur {name},"),
    ("Dear Dr {name},", "Sehr geehrter Herr Dr. {name},", "Cher Docteur {name},"),
    ("Dear Professor {name},", "Sehr geehrter Herr Professor {name},", "Cher Professeur {name},"),
    ("Dear Mr and Mrs {name},", "Sehr geehrte Frau {name}, sehr geehrter Herr {name},", "Chers M. et Mme {name},"),
    ("Dear Sir or Madam,", "Sehr geehrte Damen und Herren,", "Madame, Monsieur,"),
    ("Ladies and gentlemen,", "Meine Damen und Herren,", "Mesdames et Messieurs,"),
    ("Dear colleagues,", "Liebe Kolleginnen und Kollegen,", "Chers collègues,"),
    ("Dear friends,", "Liebe Freunde,", "Chers amis,"),
    ("Dear all,", "Hallo zusammen,", "Bonjour à tous,"),
    ("Dear {name},", "Liebe {name},", "Chère {name},"),
    ("Dear {name} and {other},", "Liebe {name}, lieber {other},", "Chère {name}, cher {other},"),
    ("Hi {name},", "Hallo {name},", "Salut {name},"),
    ("Hello {name},", "Hallo {name},", "Bonjour {name},"),
    ("Hello, Mrs {name}.", "Guten Tag, Frau {name}.", "Bonjour, Madame {name}."),
    ("Hello, Mr {name}.", "Guten Tag, Herr {name}.", "Bonjour, Monsieur {name}."),
    ("Good morning, {name}!", "Guten Morgen, {name}!", "Bonjour, {name} !"),
    ("Good evening, Mr {name}.", "Guten Abend, Herr {name}.", "Bonsoir, Monsieur {name}."),
)
CLOSINGS = (
    ("Best regards,", "Viele Grüße", "Cordialement,"),
    ("Kind regards,", "Freundliche Grüße", "Bien cordialement,"),
    ("Yours sincerely,", "Mit freundlichen Grüßen", "Veuillez agréer mes salutations distinguées,"),
    ("Best wishes, {name}", "Herzliche Grüße, {name}", "Amicalement, {name}"),
    ("Best regards, {name} {other}", "Viele Grüße, {name} {other}", "Cordialement, {name} {other}"),
    ("Love, {name}", "Alles Liebe, {name}", "Je t'embrasse, {name}"),
    ("See you soon, {name}", "Bis bald, {name}", "À bientôt, {name}"),
    ("Many thanks and best regards,", "Vielen Dank und viele Grüße", "Merci et bien cordialement,"),
    ("Thank you in advance.", "Vielen Dank im Voraus.", "Merci d'avance."),
    (
        "I look forward to hearing from you.",
        "Ich freue mich auf Ihre Antwort.",
        "Dans l'attente de votre réponse.",
    ),
    (
        "Thank you for your letter of {date}.",
        "Vielen Dank für Ihren Brief vom {date}.",
        "Merci pour votre lettre du {date}.",
    ),
    ("Thank you for your e-mail.", "Vielen Dank für Ihre E-Mail.", "Merci pour votre courriel."),
    (
        "Please find the file {file} attached.",
        "Anbei finden Sie die Datei {file}.",
        "Voir {file} ci-joint.",
    ),
)
SENTENCES = (
    ("You can find it at {link}.", "Sie finden es unter {link}.", "Vous le trouverez sur {link}."),
    ("See {link} for details.", "Einzelheiten unter {link}.", "Voir {link} pour plus de détails."),
    ("Our website is {link}.", "Unsere Webseite ist {link}.", "Notre site est {link}."),
    ("I read it on {link}.", "Ich habe es auf {link} gelesen.", "Je l'ai lu sur {link}."),
    ("Please click on {link}.", "Bitte klicken Sie auf {link}.", "Cliquez sur {link}, s'il vous plaît."),
    ("Write to {mail}.", "Schreiben Sie an {mail}.", "Écrivez à {mail}."),
    ("My address is {mail}.", "Meine Adresse ist {mail}.", "Mon adresse est {mail}."),
    ("Send the file {file} to {mail}.", "Schick die Datei {file} an {mail}.", "Envoie le fichier {file} à {mail}."),
    ("I cannot open {file}.", "Ich kann {file} nicht öffnen.", "Je n'arrive pas à ouvrir {file}."),
    ("The file {file} is missing.", "Die Datei {file} fehlt.", "Le fichier {file} est absent."),
    ("Call me at {phone}.", "Ruf mich unter {phone} an.", "Appelle-moi au {phone}."),
    ("My number is {phone}.", "Meine Nummer ist {phone}.", "Mon numéro est le {phone}."),
    ("The train leaves at {time}.", "Der Zug fährt um {time} ab.", "Le train part à {time}."),
    ("We will meet at {time}.", "Wir treffen uns um {time}.", "Nous nous retrouverons à {time}."),
    ("The shop closes at {time}.", "Das Geschäft schließt um {time}.", "Le magasin ferme à {time}."),
    ("We meet on {date} at {time}.", "Wir treffen uns am {date} um {time}.", "Nous nous voyons le {date} à {time}."),
    ("The meeting is on {date}.", "Das Treffen ist am {date}.", "La réunion est le {date}."),
    ("I was born on {date}.", "Ich bin am {date} geboren.", "Je suis né le {date}."),
    ("He died on {date}.", "Er starb am {date}.", "Il est mort le {date}."),
    ("Please answer by {date}.", "Bitte antworten Sie bis zum {date}.", "Merci de répondre avant le {date}."),
    ("It costs {amount}.", "Es kostet {amount}.", "Ça coûte {amount}."),
    ("I paid {amount} for it.", "Ich habe {amount} dafür bezahlt.", "Je l'ai payé {amount}."),
    ("{name} owes me {amount}.", "{name} schuldet mir {amount}.", "{name} me doit {amount}."),
    ("The price rose by {percent}.", "Der Preis stieg um {percent}.", "Le prix a augmenté de {percent}."),
    ("Only {percent} agreed.", "Nur {percent} stimmten zu.", "Seulement {percent} étaient d'accord."),
    ("{number} people live here.", "Hier leben {number} Menschen.", "{number} personnes vivent ici."),
    ("It is {number} kilometers away.", "Es ist {number} Kilometer entfernt.", "C'est à {number} kilomètres."),
    ("I live at number {small}.", "Ich wohne in Nummer {small}.", "J'habite au numéro {small}."),
    ("My room is number {small}.", "Mein Zimmer hat die Nummer {small}.", "Ma chambre est la numéro {small}."),
    ("This house was built in {year}.", "Dieses Haus wurde {year} gebaut.", "Cette maison a été construite en {year}."),
    ("He was born in {year}.", "Er wurde {year} geboren.", "Il est né en {year}."),
    ("The war ended in {year}.", "Der Krieg endete {year}.", "La guerre s'est terminée en {year}."),
    ("{name} was born on {date}.", "{name} wurde am {date} geboren.", "{name} est né le {date}."),
    ("My name is {name} {other}.", "Ich heiße {name} {other}.", "Je m'appelle {name} {other}."),
    ("{name} and {other} are here.", "{name} und {other} sind hier.", "{name} et {other} sont là."),
    ("Do you know {name} {other}?", "Kennst du {name} {other}?", "Connais-tu {name} {other} ?"),
    ("I met {name} in {other}.", "Ich habe {name} in {other} getroffen.", "J'ai rencontré {name} à {other}."),
    ("{name} lives in {other}.", "{name} wohnt in {other}.", "{name} habite à {other}."),
    ("The invoice number is {code}.", "Die Rechnungsnummer lautet {code}.", "Le numéro de facture est {code}."),
    ("Flight {code} is late.", "Flug {code} hat Verspätung.", "Le vol {code} est en retard."),
)
ADDED = ("{link}", "({link})", "({year})", "{mail}", "({name})", "{file}", "(+{number})", "[{small}]", "{code}")

MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
ENDINGS = ("com", "org", "net", "de", "fr", "co.uk", "eu", "info", "io", "ch")
FILES = ("pdf", "txt", "docx", "csv", "jpg", "png", "zip", "py", "xlsx", "mp3")
LETTERS, CODES = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHJKLMNPQRSTUVWXYZ"
_SLOT = re.compile(r"\{(\w+)\}")

Values = dict[str, str]  # how one thing is written, by language


class PairMaker:
    """Makes pairs in two of `LANGUAGES`.

    Args:
        source, target: the languages.
        names: draws names.

    Example:
        >>> PairMaker("en", "de", NameMaker(["Anna"])).fill(("Room {small}", "Zimmer {small}", ""), Random(1))
        Pair(source='Room 139', target='Zimmer 139', place=0)
    """

    def __init__(self, source: str, target: str, names: NameMaker) -> None:
        self.source, self.target, self.names = source, target, names

    def letter(self, random: Random) -> Pair:
        """The opening or the closing of a letter."""
        return self.fill(random.choice(SALUTATIONS if random.random() < 0.6 else CLOSINGS), random)

    def sentence(self, random: Random) -> Pair:
        """A sentence with something to copy."""
        return self.fill(random.choice(SENTENCES), random)

    def extended(self, pair: Pair, random: Random) -> Pair:
        """A pair with the same link, number or name after both sides."""
        added = self.fill((random.choice(ADDED),) * len(LANGUAGES), random)
        return Pair(f"{pair.source} {added.source}", f"{pair.target} {added.target}", pair.place)

    def fill(self, template: tuple[str, ...], random: Random) -> Pair:
        """A pair of a template, each of whose slots is drawn once."""
        texts = dict(zip(LANGUAGES, template, strict=True))
        slots = dict.fromkeys(_SLOT.findall(texts[self.source]))
        drawn = {slot: self.value(slot, random) for slot in slots}
        sides = [
            texts[language].format(**{slot: values[language] for slot, values in drawn.items()})
            for language in (self.source, self.target)
        ]
        return Pair(sides[0], sides[1], 0)

    def value(self, slot: str, random: Random) -> Values:
        """What stands in a slot, in each language."""
        if slot in ("name", "other"):
            return _same(self.names.draw(random))
        return VALUES[slot](random)


def link(random: Random) -> Values:
    """The same address of a page in all languages."""
    path = "".join(f"/{_word(random)}" for _ in range(random.choice((0, 0, 1, 1, 2))))
    start = random.choice(("https://", "https://www.", "http://", "www."))
    end = random.choice(("", "", "", f"?id={random.randrange(1000)}", ".html")) if path else ""
    return _same(f"{start}{_word(random)}.{random.choice(ENDINGS)}{path}{end}")


def mail(random: Random) -> Values:
    """The same e-mail address in all languages."""
    name = _word(random) + random.choice(("", f".{_word(random)}", f"_{_word(random)}", str(random.randrange(100))))
    return _same(f"{name}@{_word(random)}.{random.choice(ENDINGS)}")


def file(random: Random) -> Values:
    """The same name of a file in all languages."""
    middle = random.choice(("", f"_{random.randrange(3000)}", f"-{_word(random)}", f"_v{random.randrange(1, 10)}"))
    return _same(f"{_word(random)}{middle}.{random.choice(FILES)}")


def phone(random: Random) -> Values:
    """The same phone number in all languages."""
    groups = [str(random.randrange(10, 10 ** random.randrange(2, 5))) for _ in range(random.randrange(2, 4))]
    return _same(random.choice(("+49 ", "+33 ", "+44 ", "0", "0")) + " ".join(groups))


def clock(random: Random) -> Values:
    """A time of day: "7:30", "7:30 Uhr", "7 h 30"."""
    hour, minute = random.randrange(24), f"{random.randrange(60):02}"
    french = random.choice((f"{hour} h {minute}", f"{hour}h{minute}", f"{hour}:{minute}"))
    return {"en": f"{hour}:{minute}", "de": f"{hour}{random.choice((':', '.'))}{minute} Uhr", "fr": french}


def date(random: Random) -> Values:
    """A date in words or in figures."""
    day, month, year = random.randrange(1, 29), random.randrange(12), random.randrange(1500, 2100)
    months = {language: names.split()[month] for language, names in MONTHS.items()}
    kind = random.random()
    if kind < 0.15:
        return _same(f"{year}-{month + 1:02}-{day:02}")
    if kind < 0.3:
        figures = (f"{day:02}", f"{month + 1:02}", str(year))
        return {"en": "/".join(figures), "de": ".".join(figures), "fr": "/".join(figures)}
    after = {"en": f" {year}", "de": f" {year}", "fr": f" {year}"} if kind < 0.8 else dict.fromkeys(LANGUAGES, "")
    english = f"{day} {months['en']}{after['en']}"
    if random.random() < 0.5:
        english = f"{months['en']} {day}" + (f", {year}" if after["en"] else "")
    ordinal = "1er" if day == 1 else str(day)
    return {
        "en": english,
        "de": f"{day}. {months['de']}{after['de']}",
        "fr": f"{ordinal} {months['fr']}{after['fr']}",
    }


def number(random: Random) -> Values:
    """A whole number from 10 to 10 millions, with separators as each language writes them."""
    value = random.randrange(10, 10 ** random.randrange(2, 8))
    plain = f"{value:,}"
    return {"en": plain, "de": plain.replace(",", "."), "fr": plain.replace(",", "\u202f")}


def amount(random: Random) -> Values:
    """An amount of money."""
    value = f"{random.randrange(1, 10 ** random.randrange(2, 6)):,}"
    if random.random() < 0.5:
        value += f".{random.randrange(100):02}"
    german = value.translate(str.maketrans(",.", ".,"))
    french = value.translate(str.maketrans(",.", "\u202f,"))
    if random.random() < 0.6:
        return {"en": f"€{value}", "de": f"{german} €", "fr": f"{french}\u00a0€"}
    return {"en": f"{value} euros", "de": f"{german} Euro", "fr": f"{french} euros"}


def percent(random: Random) -> Values:
    """A percentage."""
    value = str(random.randrange(2, 100)) + random.choice(("", f".{random.randrange(1, 10)}"))
    comma = value.replace(".", ",")
    return {"en": f"{value}%", "de": f"{comma} %", "fr": f"{comma}\u00a0%"}


def code(random: Random) -> Values:
    """The same code of letters and figures in all languages."""
    letters = "".join(random.choice(CODES) for _ in range(random.randrange(1, 4)))
    return _same(letters + random.choice(("", "-", " ")) + str(random.randrange(10, 10 ** random.randrange(2, 6))))


VALUES: dict[str, Callable[[Random], Values]] = {
    "link": link,
    "mail": mail,
    "file": file,
    "phone": phone,
    "time": clock,
    "date": date,
    "number": number,
    "amount": amount,
    "percent": percent,
    "code": code,
    "small": lambda random: _same(str(random.randrange(2, 1000))),
    "year": lambda random: _same(str(random.randrange(1000, 2100))),
}


def _same(text: str) -> Values:
    return dict.fromkeys(LANGUAGES, text)


def _word(random: Random) -> str:
    """A word of an address: letters, mostly with vowels among them."""
    if random.random() < 0.2:
        return "".join(random.choice(LETTERS) for _ in range(random.randrange(2, 8)))
    syllables = [random.choice("bcdfghjklmnprstvwz") + random.choice("aeiou") for _ in range(random.randrange(1, 4))]
    return "".join(syllables) + random.choice(("", "n", "r", "s", "t", "l", "x"))
