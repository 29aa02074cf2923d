"The rules that every question of the released AltEntities keeps."

import re
from rapidfuzz.distance import Levenshtein
from refnb.benchmarks.altentities.questions import SECTIONS, USED, Written, asked_as
from refnb.benchmarks.altentities.questions import as_seen, bare_title


def departures(q: Written) -> list[str]:
    "What no question of the release has."
    names, texts = [c.name for c in q.choices], [c.description for c in q.choices if c.description]
    songs, recipes = q.domain == "SONGS", q.domain == "RECIPES"
    same_name, similar = (q.sampling_method == x for x in ("SAME_NAME", "SIMILAR_NAME"))
    bare = {as_seen(bare_title(name)) for name in names}
    rules = {
        "the choices are not two": len(q.choices) == 2,
        "another section": q.description_section in SECTIONS[q.domain],
        "another method": q.sampling_method in USED[q.domain],
        "another template": q.question == asked_as(names, q.domain),
        "two have one name": len(set(map(as_seen, names))) == len(names),
        "two have one description": songs or len(set(texts)) == len(texts),
        "not of one name": not same_name or len(bare) == 1,
        "no similar titles": not similar or Levenshtein.distance(*names) < 4,
    }
    for c in q.choices:
        short = len(c.unshown_background) < 5000 and len(c.description) <= 754
        rules |= {
            f"{c.name}: a text is empty": c.description.strip() and c.infobox.strip(),
            f"{c.name}: another infobox": c.infobox.startswith(": "),
            f"{c.name}: background without infobox": c.unshown_background.startswith(c.infobox),
            f"{c.name}: a text is too long": short,
            f"{c.name}: HTML": songs or not re.search(r"</?[a-zA-Z][^<>]*>", c.description),
            f"{c.name}: image": bool(c.image_url) == recipes,
        }
    return [fault for fault, kept in rules.items() if not kept]
