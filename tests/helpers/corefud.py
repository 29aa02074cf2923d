"Documents in CoNLL-U made from a seed, for comparison with CorefUD's scorer: crossing, nested and torn mentions, equal heads, singletons, zeros."

import random

Mention = tuple[tuple[str, ...], int]  # IDs of its words in one sentence, index of its head
WORDS = ("the", "old", "dog", "of", "a", "man", "who", "barked", ",", "it", "saw", "house")


class Sentence:
    "Words, empty nodes with dependencies, mentions by entity."

    def __init__(self, words: list[str], parents: list[int], empty: dict[str, str]):
        self.words, self.parents, self.empty = words, parents, empty
        self.mentions: list[tuple[int, Mention]] = []  # with their entities

    @property
    def ids(self) -> list[str]:
        "IDs of words and empty nodes, in order."
        return sorted(
            [*map(str, range(1, len(self.words) + 1)), *self.empty],
            key=lambda i: tuple(map(int, i.split("."))),
        )


def sentence(rng: random.Random) -> Sentence:
    n = rng.randint(3, 9)
    parents = [0] + [rng.randint(1, i) for i in range(1, n)]
    empty = {f"{rng.randint(0, n)}.1": "" for _ in range(rng.choice((0, 0, 1, 2)))}
    for id in [*empty]:
        if rng.random() < 0.3:
            empty[f"{id[:-1]}2"] = ""
    return Sentence(
        [rng.choice(WORDS) for _ in range(n)], parents, {id: deps(rng, n) for id in empty}
    )


def deps(rng: random.Random, n: int) -> str:
    found = {
        (rng.randint(0, n), rng.choice(("nsubj", "obj", "obl:arg")))
        for _ in range(rng.choice((1, 1, 1, 2, 3)))
    }
    return "|".join(f"{p}:{r}" for p, r in sorted(found))


def mention(rng: random.Random, s: Sentence) -> Mention:
    ids, zeros = s.ids, [*s.empty]
    if zeros and rng.random() < 0.4:
        return (rng.choice(zeros),), 0
    start = rng.randrange(len(ids))
    words = ids[start : start + rng.choice((1, 1, 2, 2, 3, 4, 6))]
    if len(words) > 2 and rng.random() < 0.25:
        del words[rng.randint(1, len(words) - 2)]
    return tuple(words), rng.randrange(len(words))


def near(rng: random.Random, s: Sentence, m: Mention) -> Mention:
    "A mention that differs from another one in its head, its end or its beginning."
    ids, words = s.ids, [w for w in m[0] if w in s.ids]
    if not words:
        return mention(rng, s)
    change, at, to = rng.randrange(5), ids.index(words[0]), ids.index(words[-1])
    head = m[0][m[1]]
    if change == 1:
        words = words[1:] or words
    if change == 2:
        words = words[:-1] or words
    if change == 3 and at:
        words = [ids[at - 1], *words]
    if change == 4 and to + 1 < len(ids):
        words = [*words, ids[to + 1]]
    return tuple(words), words.index(
        head
    ) if change and head in words and rng.random() < 0.8 else rng.randrange(len(words))


def fits(ids: list[str], mine: list[Mention], all_: list[Mention], m: Mention) -> bool:
    "Whether the format can hold a mention beside the others of its entity: they nest, and what is torn stands apart."
    if any(set(m[0]) == set(o[0]) for o in all_):
        return False
    hull = lambda x: (ids.index(x[0][0]), ids.index(x[0][-1]))
    torn = lambda x: len(x[0]) <= hull(x)[1] - hull(x)[0]
    (a, b), size = hull(m), len(m[0])
    for o in mine:
        c, d = hull(o)
        if b < c or d < a:
            continue
        if torn(m) or torn(o) or not (a <= c and d <= b or c <= a and b <= d):
            return False
    return size > 0


def put(s: Sentence, entity: int, m: Mention):
    if fits(s.ids, [o for e, o in s.mentions if e == entity], [o for _, o in s.mentions], m):
        s.mentions.append((entity, m))


def gold(rng: random.Random) -> list[Sentence]:
    text = [sentence(rng) for _ in range(rng.randint(1, 4))]
    for _ in range(rng.randint(0, 14)):
        s = rng.choice(text)
        put(s, rng.randrange(6), mention(rng, s))
        if s.mentions and rng.random() < 0.3:
            put(s, rng.randrange(6), near(rng, s, rng.choice(s.mentions)[1]))
    return text


def moved(rng: random.Random, s: Sentence) -> Sentence:
    "The same words with other empty nodes."
    kept = {
        id: d if rng.random() < 0.6 else deps(rng, len(s.words))
        for id, d in s.empty.items()
        if rng.random() < 0.85
    }
    if rng.random() < 0.3:
        kept.setdefault(f"{rng.randint(0, len(s.words))}.1", deps(rng, len(s.words)))
    if rng.random() < 0.4:  # the nodes change places, their dependencies do not
        values = [*kept.values()]
        rng.shuffle(values)
        kept = dict(zip(kept, values))
    return Sentence(s.words, s.parents, kept)


def predicted(rng: random.Random, text: list[Sentence]) -> list[Sentence]:
    out, sure = (
        [
            moved(rng, s) if rng.random() < 0.5 else Sentence(s.words, s.parents, s.empty)
            for s in text
        ],
        rng.random(),
    )
    if rng.random() < 0.04:
        return out
    for s, o in zip(text, out):
        for entity, m in s.mentions:
            to = rng.randrange(6) if rng.random() < 0.25 else entity
            if rng.random() < 0.1:
                continue
            put(o, to, near(rng, o, m) if rng.random() < sure or not set(m[0]) <= set(o.ids) else m)
            if rng.random() < 0.15:
                put(o, rng.randrange(6), near(rng, o, m))
        if rng.random() < 0.3:
            put(o, rng.randrange(7), mention(rng, o))
    return out


def document(seed: int) -> tuple[list[Sentence], list[Sentence]]:
    rng = random.Random(seed)
    first = gold(rng)
    return first, predicted(rng, first)


# As text


def brackets(s: Sentence, name: str) -> dict[str, str]:
    "The value of Entity at each ID."
    ids, ends, starts, alone = s.ids, {}, {}, {}
    for entity, (words, head) in s.mentions:
        at, parts = [ids.index(w) for w in words], []
        for i in at:
            if parts and parts[-1][1] == i - 1:
                parts[-1][1] = i
            else:
                parts.append([i, i])
        for k, (a, b) in enumerate(parts, 1):
            id = f"{name}e{entity}" + (f"[{k}/{len(parts)}]" if len(parts) > 1 else "")
            if a == b:
                alone.setdefault(ids[a], []).append(f"({id}--{head + 1})")
            else:
                starts.setdefault(ids[a], []).append((-b, f"({id}--{head + 1}"))
                ends.setdefault(ids[b], []).append(f"{id})")
    return {
        i: "".join(ends.get(i, []))
        + "".join(t for _, t in sorted(starts.get(i, [])))
        + "".join(alone.get(i, []))
        for i in ids
    }


def rows(s: Sentence, name: str) -> list[str]:
    marks, out = brackets(s, name), []
    for id in s.ids:
        entity = f"Entity={marks[id]}" if marks[id] else "_"
        if "." in id:
            out.append("\t".join((id, "_", *"_____", "_", s.empty[id], entity)))
        else:
            out.append(
                "\t".join(
                    (
                        id,
                        s.words[int(id) - 1],
                        *"____",
                        str(s.parents[int(id) - 1]),
                        "dep",
                        "_",
                        entity,
                    )
                )
            )
    return out


def text(documents: dict[str, list[Sentence]]) -> str:
    "Documents as one CoNLL-U file."
    out = []
    for name, sentences in documents.items():
        out += [f"# newdoc id = {name}", "# global.Entity = eid-etype-head-other"]
        for n, s in enumerate(sentences, 1):
            out += [f"# sent_id = {name}-{n}", *rows(s, name), ""]
    return "\n".join([*out, ""])


def files(seeds) -> tuple[str, str]:
    "Gold and prediction of many documents."
    made = {f"d{seed}": document(seed) for seed in seeds}
    return tuple(text({name: sides[k] for name, sides in made.items()}) for k in (0, 1))
