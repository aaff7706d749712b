"""Strings that look like real ones: seeded, so the same in every run; shared beginnings, skewed lengths, few repeated."""

import hashlib
import itertools
import os
import random

from measure import ADJECTIVES, DOMAINS, FIRST_NAMES, NOUNS, SECTIONS, SHOPS, SURNAME_ENDS, SURNAME_STARTS

SYLLABLES = """ba be bi bo bra bri ca ce cla co cra da de di do dra e fa fe fi flo fo ga ge gli go gra ha he hi ho in ja
    jo ka ke kli la le li lo lu ma me mi mo na ne ni no o pa pe pla po pra qui ra re ri ro sa sca se shi so spe sta str
    ta te ti to tra tri u va ve vi wa we wi ya zo""".split()
PREFIXES = [""] * 12 + """un re in dis over under pre inter non counter anti super trans micro""".split()
SUFFIXES = """s ed ing er ly ness able ment tion al ity ful less ist ism ous ize ized izing ship hood wise ability
    fulness lessness""".split()
ACCENTED = """André Björn Chloé Dóra Émile François Göran Hélène İbrahim José Jürgen Łukasz Márta Núria Øyvind Renée
    Søren Þóra Zoë Željko""".split()
PARTICLES = ["de", "van der", "von", "Mc", "O'"]
ROOTS = """/usr/share/doc /usr/lib/python3/dist-packages /usr/src/linux/drivers /var/lib/docker/overlay2 /var/log/journal
    /home/{user}/projects /home/{user}/Documents /home/{user}/.cache/thumbnails /opt/application/releases/current
    /srv/www/site/static""".split()
EXTENSIONS = "py c h html js json md txt png jpg rs so gz xml yaml log tar.xz min.js test.tsx".split()


def skewed(rng, words):
    """One of the words: the first ones come far more often than the last."""
    return words[int(len(words) * rng.random() ** 2.5)]


def stem(rng):
    return "".join(rng.choice(SYLLABLES) for _ in range(skewed(rng, (2, 3, 4, 5))))


def word(rng):
    """A form of a word, sometimes of two put together."""
    first = rng.choice(PREFIXES) + stem(rng)
    if rng.random() < 0.15:
        first += rng.choice(NOUNS)
    return first + (skewed(rng, SUFFIXES) if rng.random() < 0.7 else "")


def surname(rng):
    name = (rng.choice(SURNAME_STARTS) + rng.choice(SURNAME_ENDS)).capitalize()
    if rng.random() < 0.08:
        particle = rng.choice(PARTICLES)
        return particle + ("" if particle in ("Mc", "O'") else " ") + name
    return name + ("-" + rng.choice(SURNAME_STARTS).capitalize() if rng.random() < 0.05 else "")


def name(rng):
    """A person's: family name first, a few per cent with accents; some have many given names."""
    given = [skewed(rng, FIRST_NAMES).capitalize()]
    if rng.random() < 0.04:
        given[0] = rng.choice(ACCENTED)
    while rng.random() < 0.5 and len(given) < 4:
        given.append(rng.choice(FIRST_NAMES).capitalize())
    if rng.random() < 0.3:
        given.append(rng.choice("ABCDEFGHJKLMNPRSTW") + ".")
    return f"{surname(rng)}, {' '.join(given)}"


def email(rng):
    first, last = skewed(rng, FIRST_NAMES), rng.choice(SURNAME_STARTS) + rng.choice(SURNAME_ENDS)
    user = rng.choice((f"{first}.{last}", f"{first[0]}{last}", f"{first}_{last}", f"{last}.{first}"))
    number = "" if rng.random() < 0.2 else str(int(10 ** rng.uniform(1, 5)))
    return f"{user}{number}@{skewed(rng, DOMAINS)}"


def slug(rng):
    return "-".join([rng.choice(ADJECTIVES) for _ in range(skewed(rng, (1, 2, 3, 4)))] + [rng.choice(NOUNS)])


def url(rng):
    """A few hosts; articles by number, and some with queries."""
    address = f"https://{skewed(rng, SHOPS)}/{skewed(rng, SECTIONS)}/{slug(rng)}-{rng.randrange(10_000_000)}"
    if rng.random() < 0.3:
        address += f"?utm_source={rng.choice(('newsletter', 'search', 'partner'))}&page={rng.randrange(1, 90)}"
    return address


def path(rng):
    """A file's, mostly deep in a few trees."""
    root = skewed(rng, ROOTS).replace("{user}", skewed(rng, FIRST_NAMES))
    deep = [skewed(rng, NOUNS) for _ in range(rng.randrange(1, 6))]
    return "/".join([root, *deep, f"{stem(rng)}_{rng.randrange(1000)}.{skewed(rng, EXTENSIONS)}"])


def md5(rng):
    return hashlib.md5(rng.getrandbits(64).to_bytes(8, "big")).hexdigest()


FAMILIES = {"words": word, "names": name, "emails": email, "urls": url, "paths": path, "md5": md5}


def endless(family):
    """Strings of a family, in no order; the same each time."""
    rng = random.Random(f"fpbtree {family}")
    make = FAMILIES[family]
    while True:
        yield make(rng)


def strings(family, count):
    """So many strings of a family."""
    return itertools.islice(endless(family), count)


def distinct(family, count):
    """So many strings of a family, each of which comes once."""
    seen = set()
    fresh = (one for one in endless(family) if not (one in seen or seen.add(one)))
    return itertools.islice(fresh, count)


def need_table(bench, family, make=strings):
    """Makes the table of the texts that a kind of this family consists of, if there is a family and no table yet."""
    table = f"texts_{family}"
    if not family or table in bench.ready:
        return
    path = bench.server.script(f"{family}.txt", make(family, bench.rows), end="\n")
    bench.session.query(f'CREATE TABLE {table} (i int4 GENERATED ALWAYS AS IDENTITY, t text COLLATE "C")')
    bench.session.query(f"COPY {table} (t) FROM '{path}'; ALTER TABLE {table} ADD PRIMARY KEY (i)")
    bench.session.query(f"VACUUM (FREEZE, ANALYZE) {table}")
    os.remove(path)
    bench.ready.add(table)
