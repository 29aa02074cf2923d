"IdentifyMe built from its corpora: the released half word for word, laws of the builder, bad input."

import ast, hashlib
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from refnb.benchmarks.identifyme.building import build, build_benchmark
from refnb.benchmarks.identifyme.builder import (
    KINDS,
    NONE,
    PAPER,
    RELEASED,
    RULES_OF_THUMB,
    Known,
    Rules,
    Story,
    Streams,
    block,
    build_identifyme,
    candidates,
    copeland,
    distances,
    helpers_and_distractors,
    likeness,
    nested,
    ranked,
    the_rules,
    tidied,
)
from refnb.benchmarks.identifyme.entities import (
    Label,
    align_names,
    auto_names,
    genders_of,
    profiles,
)
from refnb.models.language.prompts import marked
from refnb.benchmarks.identifyme.released import (
    answer_rows,
    dev_ranks,
    implied_ranks,
    lists_of_names,
    named_documents,
    rebuilt,
    released_dialogue,
    released_labels,
    released_questions,
    row_id,
)
from refnb.benchmarks.tasks import task_questions
from refnb.core.conllu import conllu_text
from refnb.core.corpora import load
from refnb.core.documents import Document
from refnb.core.files import read_jsonl
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, Question, Span
from refnb.models.registry import find_system
from refnb.metrics.choice import credit
import tools
from tools import examples

FULL = "KawshikManikantan/IdentifyMe/analysis_data/info/gpt4o_mention_info.csv"
REJECTED = {1064, 160, 2084, 2095, 219, 2489, 2775, 32, 33, 36, 41, 4300, 550, 876, 8867}


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("builder")
    return load_settings(
        "/",
        env={},
        upstream=str(upstream),
        offline=True,
        **{k: str(home / k) for k in ("cache", "runs", "reports")},
    )


@pytest.fixture(scope="module")
def rows(s):
    return answer_rows(FULL, s)


@pytest.fixture(scope="module")
def litbank(rows):
    return [r for r in rows if r["dataset"] == "litbank"]


@pytest.fixture(scope="module")
def litbank_documents(s):
    return list(named_documents("LitBank", s))


@pytest.fixture(scope="module")
def built(s):
    return rebuilt(s, corpora=["LitBank"])


@pytest.fixture(scope="module")
def test_set(built):
    return built.questions("test")


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


# The released half (spec, sections 2 and 8)


def test_stories_and_pools(built):
    stories, every = built.stories.values(), {"PRON": 10_653, "NOM": 6_019, "PROP": 2_519}
    assert {int(k.split("_")[0]) for k in built.rejected} == REJECTED
    assert all("have no named entity" in why for why in built.rejected.values())
    assert len(stories) == 65 and sum(len(x.mentions) for x in stories) == 19_191
    assert {k: sum(int((x.mentions.kind == k).sum()) for x in stories) for k in every} == every
    named = {"PRON": 8_984, "NOM": 2_210, "PROP": 1_929}
    assert dict(built.mentions.kind.value_counts()) == named
    assert sum(len(x.names) for x in stories) == 608
    assert [len(candidates(built.mentions, k)) for k in KINDS] == [1_386, 1_361]


def test_alignment_finds_all_names(s, litbank, litbank_documents):
    docs, labels = {d.doc_key: d for d in litbank_documents}, released_labels(s)
    assert (
        sum(sum(map(bool, d.names)) for d in docs.values())
        == sum(len(labels[k]) for k in docs)
        == 733
    )
    assert list(docs) == list(
        dict.fromkeys(k for k in labels if k in docs)
    )  # the order of the split's list
    tidy = {k: tidied(d).doc for k, d in docs.items()}
    for r in litbank:
        assert tidy[r["doc_key"]].names[int(r["mentions_vs_clusters"])] == r["entity_name"]
    genders = {k: genders_of(d) for k, d in docs.items()}
    rule = [(l, genders[k][l.name]) for k in docs for l in labels[k]]
    assert sum(l.gender == g if g else l.asked for l, g in rule) == 733


@pytest.mark.parametrize(
    ("kind", "most", "cut"), [("NOM", 5412.5, 3255.0), ("PRON", 5127.0, 3224.5)]
)
def test_ranking_needs_no_help(built, litbank, kind, most, cut):
    "Without the released order: every test item is among the 450, and points never rise along it."
    pool = ranked(candidates(built.mentions, kind), kind)
    points = dict(zip(pool.id, pool.points, strict=True))
    ranks = implied_ranks(litbank)
    asked = sorted((row_id(r) for r in litbank if r["category"] == kind), key=ranks.get)
    assert set(asked) <= set(pool.id[:450]) and np.all(np.diff([points[i] for i in asked]) <= 0)
    assert (pool.points.iloc[0], pool.points.iloc[449]) == (most, cut) and pool.points.iloc[
        450
    ] < cut


def test_what_the_implied_ranks_decide(built, litbank_documents):
    plain = build_identifyme(litbank_documents)
    moved = {
        k: sum(
            a.id != b.id
            for a, b in zip(
                plain.blocks["LitBank", "test", k], built.blocks["LitBank", "test", k], strict=True
            )
        )
        for k in KINDS
    }
    assert moved == {"NOM": 15, "PRON": 36} and len(dev_ranks()) == 28


def test_all_items_in_order(test_set, litbank):
    assert [q.id for q in test_set] == [row_id(r) for r in litbank]


def test_options_answers_and_none_rows(test_set, litbank):
    assert [[o.name for o in q.options] for q in test_set] == [
        ast.literal_eval(r["options"]) for r in litbank
    ]
    assert [q.options[q.right[0]].name for q in test_set] == [r["answer"] for r in litbank]
    assert [q.meta["answer"] == "none" for q in test_set] == [
        r["answer"] == NONE for r in litbank
    ] and sum(q.meta["answer"] == "none" for q in test_set) == 60


def test_the_command_builds_the_released_half(upstream, litbank, tmp_path, capsys, monkeypatch):
    "A rule that is given with its usual value changes nothing."
    monkeypatch.setenv("REFNB_UPSTREAM", str(upstream))
    out, rules = tmp_path / "q.jsonl", ("--set", "window=10", "--set", "seed=0")
    asked = ("--corpus", "litbank", "--names", "authors", "--out", out, *rules)
    said = tools.here(capsys, "build", "identifyme", *asked)
    assert said.status == 0, said.err
    questions = list(read_jsonl(out, Question))
    assert len(questions) == 600
    assert [(q.id, [o.name for o in q.options], q.options[q.right[0]].name) for q in questions] == [
        (row_id(r), ast.literal_eval(r["options"]), r["answer"]) for r in litbank
    ]


COLUMNS = {
    "words": "mentions_vs_mentionstr",
    "cluster": "mentions_vs_clusters",
    "kind": "category",
    "pronoun_class": "pronoun_class",
    "entity": "entity_name",
    "fuzzy": "name_fuzzy_scores",
    "nearest": "neighbour_distance",
    "nearest_nominal": "nominal_neighbour_distance",
    "nearest_like": "surface_neighbour_distance",
    "cluster_size": "cluster_size",
    "nominal_size": "nominal_size",
    "helpers": "num_helpers",
    "distractors": "num_dists",
    "net": "fin_dists",
}


def test_twenty_feature_columns(built, litbank):
    "Fourteen of the table, the span, nesting, and four that are told of asked mentions only."
    table = built.mentions.set_index("id")
    for r in litbank:
        m, story, i = table.loc[row_id(r)], built.stories[r["doc_key"]], int(r["mention_ind"])
        t = story.mentions
        assert {c: str(m[c]) for c in COLUMNS} == {c: r[k] for c, k in COLUMNS.items()}
        assert (
            f"[{m.start}, {m.end}]" == r["mentions_vs_tbound"]
            and str(int(m.nested)) == r["is_nested"]
        )
        over = (t.start <= m.start) & (t.end >= m.end) | (t.start >= m.start) & (t.end <= m.end)
        assert {story.entity[j] or "Others" for j in np.flatnonzero(over) if j != i} == set(
            ast.literal_eval(r["nested_entities"])
        )
        near = story.entity[max(0, i - 10) : i + 11]
        assert sum(map(bool, near)) == int(r["num_major_mentions_neigh"])
        others = t.words[(t.cluster == m.cluster) & (t.kind != "PRON")].tolist()
        mean = -1.0 if m.kind == "PRON" else float(np.mean([likeness(w, m.words) for w in others]))
        assert (
            mean == pytest.approx(float(r["avg_fuzzy_scores"]))
            and str(any(w.lower() in ("they", "we") for w in others)) == r["is_plural"]
        )
        assert story.genders[m.entity] == r["ans_gender"] or r["answer"] == NONE


def test_texts_by_their_hashes(built, test_set):
    lines = lambda qs: "\n".join("\t".join(q.id.rsplit(":", 1)) for q in qs)
    assert md5(lines(test_set)) == "529e861fc57fb05254dade88dc86f7d3"
    assert md5(lines(built.questions("dev"))) == "cd650d5882c2cc568d5dfc07239149e6"
    assert (
        sum(len(marked(q)) for q in test_set) == 6_068_226
        and md5("\n".join(map(marked, test_set))) == "acd9d566579dbb057340e6c472cf2278"
    )


def test_the_released_example(built):
    "Mention 300 of Great Expectations, the one question that was released in full."
    asked = built.mentions[built.mentions.id == "1400_great_expectations_brat_0:300"]
    [q] = block(asked, built.stories, Streams())
    assert md5(marked(q)) == "002dc5ff8f65ccbd45e7f9fcf01cde71"


def test_fantasycoref_options_come_from_the_same_stream(s, built, rows):
    "FantasyCoref's blocks follow LitBank's in both generators, so turning its options back proves LitBank's development questions too."
    labels, full = (
        released_labels(s),
        lists_of_names(built, rows),
    )  # all questions of a story agree, or this raises
    fantasy = [r for r in rows if r["dataset"] == "fantasy"]
    unique = {k: ns for k, ns in full.items() if len(set(ns)) == len(ns)}
    assert (
        all(ns == [l.name for l in labels[k]] for k, ns in unique.items())
        and len(full) - len(unique) == 14
    )
    assert all(set(ns) == {l.name for l in labels[k]} for k, ns in full.items())
    assert {r["doc_key"] for r in fantasy} - set(full) == {
        "058_The_Dog_and_the_Sparrow_0"
    }  # its one question is a None of the Above, which lacks a name
    assert (
        sum(r["doc_key"] not in set(full) - set(unique) for r in fantasy) == 446
        and sum(len(set(o)) < len(o) for o in (ast.literal_eval(r["options"]) for r in fantasy))
        == 154
    )


def test_parts(s, test_set):
    told = released_dialogue(s)
    part = task_questions("identifyme/litbank/test", s)
    assert [q.id for q in part] == [q.id for q in test_set] and all(
        q.meta["dialogue"] == told[q.id] for q in part if q.meta["type"] == "pronominal"
    )
    known = {q.id: q for q in released_questions(s)}
    for q in part:
        r = known[q.id]
        assert (q.options, q.right) == (r.options, r.right) and {
            k: q.meta[k] for k in r.meta
        } == r.meta
    assert (
        len(task_questions("identifyme/litbank/dev", s))
        == len(task_questions("identifyme/litbank/random3", s))
        == 300
    )


def test_baselines(test_set):
    known = {"most-frequent": 154, "nearest-mention": 111, "always-none": 60}
    for system, right in known.items():
        answer = find_system(system).f
        assert sum(credit(q, answer(q)) for q in test_set) == right


def test_paper_mode(s):
    b = rebuilt(s, "paper", ["LitBank"])
    assert not any(q.meta["doubled_option"] for q in b.questions()) and b.rules == PAPER
    nominal = candidates(b.mentions, "NOM", PAPER)
    assert (
        nominal.fuzzy.max() < 75
        and candidates(b.mentions, "PRON", PAPER).net.min() == 0
        and len(nominal) == 1_336
    )
    assert not any(
        w.endswith(" 's")
        for x in b.stories.values()
        for w, k in zip(x.mentions.words, x.mentions.kind, strict=True)
        if k == "PRON"
    )


def test_names_by_rule_on_litbank(litbank_documents):
    "Nearly all the clusters that the authors named get a name by rule, and most of these are like theirs."
    pairs = [
        (a, b)
        for d in litbank_documents[::4]
        for a, b in zip(auto_names(d.changed(names=())).names, d.names, strict=True)
        if b
    ]
    assert sum(bool(a) for a, _ in pairs) >= 0.98 * len(pairs)
    assert sum(likeness(b, a) > 75 for a, b in pairs if a) >= 0.8 * len(pairs)


def test_any_corpus(s):
    "Names that a rule gave find their clusters again, thirty and more of a story."
    docs = [auto_names(d) for d in load("fantasycoref", "dev", s)]
    b = build_benchmark("identifyme", docs)
    names = set(b.mentions.id[b.mentions.kind == "PROP"])
    assert b.questions() and names.isdisjoint(q.id for q in b.questions())
    for d in docs:
        known = [
            Label(d.names[p.cluster], p.gender, p.gender is None)
            for p in profiles(d)
            if d.names[p.cluster]
        ]
        assert align_names(d.changed(names=()), known).names == tuple(n or "" for n in d.names)


def test_a_whole_book(s):
    "Animal Farm has gold for its characters: a context of its own for each question keeps the questions small."
    [book] = load("animal-farm", s=s)
    b = build_benchmark("identifyme", [book], context=200, max_others=1.0)
    assert b.questions() and max(len(q.text) for q in b.questions()) < 5_000


# Laws


def document(tokens, clusters, names=(), kind=None):
    clusters = tuple(tuple(Span(*x) for x in c) for c in clusters)
    return Document("d", (tuple(tokens),), clusters, names, {"kind": kind} if kind else {})


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 3)), min_size=1, max_size=40),
    st.integers(1, 6),
    st.booleans(),
)
def test_helpers_and_distractors_as_written(mentions, window, itself):
    "The vectorised count is the definition's."
    cl, k = np.array([c for c, _ in mentions]), np.array([x for _, x in mentions])
    helpers, distractors = helpers_and_distractors(
        cl, k, RELEASED.changed(window=window, count_itself=itself)
    )
    for i in range(len(cl)):
        near = [
            j for j in range(max(0, i - window), min(len(cl), i + window + 1)) if j != i or itself
        ]
        if k[i] < 0:
            assert (helpers[i], distractors[i]) == (-1, -2)
            continue
        assert helpers[i] == sum(k[j] == k[i] and cl[j] == cl[i] for j in near)
        assert distractors[i] == sum(k[j] == k[i] and cl[j] != cl[i] for j in near) + sum(
            k[j] not in (-1, k[i]) and cl[j] == cl[i] for j in near
        )


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40))
def test_distances_as_written(mentions):
    cl, among = [c for c, _ in mentions], [a for _, a in mentions]
    expected = [
        min(
            (abs(i - j) for j in range(len(cl)) if j != i and cl[j] == cl[i] and among[j]),
            default=-1,
        )
        for i in range(len(cl))
    ]
    assert distances(cl, among) == expected


@given(st.sets(st.tuples(st.integers(0, 20), st.integers(0, 6)), min_size=1, max_size=25))
def test_nesting_as_written(spans):
    spans = sorted((a, a + n) for a, n in spans)
    expected = [
        any(
            x != y and (x[0] <= y[0] and y[1] <= x[1] or y[0] <= x[0] and x[1] <= y[1])
            for y in spans
        )
        for x in spans
    ]
    assert (
        nested(np.array([a for a, _ in spans]), np.array([b for _, b in spans])).tolist()
        == expected
    )


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=20), min_size=1, max_size=4).filter(
        lambda c: len({len(x) for x in c}) == 1
    )
)
def test_points_as_written(criteria):
    expected = [
        sum(sum((x > y) + 0.5 * (x == y) for y in c) - 0.5 for c in criteria for x in [c[i]])
        for i in range(len(criteria[0]))
    ]
    assert copeland(criteria).tolist() == expected


@examples(15)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["released", "paper"]),
    st.integers(2, 9),
    st.integers(0, 60),
)
def test_laws_of_questions(seed, mode, options, context):
    "Whatever the seed: the mention is where chars says, the right option is its entity or None, no question appears twice."
    b = build_identifyme(load("sample"), mode, seed=seed, options=options, context=context)
    rows = b.mentions.set_index("id")
    for split in ("test", "dev"):
        qs = b.questions(split)
        assert len({q.id for q in qs}) == len(qs)
        for q in qs:
            row, right = rows.loc[q.id], q.options[q.right[0]].name
            name = row.entity
            assert q.text[slice(*q.chars)] == row.words and right == (
                NONE if q.meta["answer"] == "none" else name
            )
            assert (
                q.options[-1].name == NONE
                and len(q.options) <= options + 1
                and (q.meta["answer"] == "entity" or name not in [o.name for o in q.options])
            )
            assert all(0 <= q.meta[f] < len(q.options) for f in RULES_OF_THUMB)


def test_each_rule_changes_something():
    def asked(**rules):
        return [(q.id, q.options) for q in build("identifyme", "sample", **rules)]

    plain = asked()
    rules = (dict(window=4), dict(neighbours="pronouns"), dict(max_chars=12))
    for changed in (*rules, dict(most=40, test=30), dict(none_share=0.5), dict(seed=1)):
        assert asked(**changed) != plain, changed


def test_order_of_clusters_and_mentions_means_nothing():
    docs = load("sample")
    turned = [
        d.changed(
            clusters=tuple(c[::-1] for c in d.clusters[::-1]),
            names=d.names[::-1],
            labels={k: tuple(x[::-1] for x in v[::-1]) for k, v in d.labels.items()},
        )
        for d in docs
    ]
    assert [q.id for q in build("identifyme", docs)] == [q.id for q in build("identifyme", turned)]


# Bad input: an error of one line, or a documented outcome


def test_f46_a_document_without_clusters_is_left_out():
    b = build_identifyme([*load("sample"), Document("empty", (("a", "b"),))])
    assert b.rejected == {"empty": "no clusters"}
    with pytest.raises(DataError, match="none of the 1 documents can be used: no clusters"):
        build_identifyme([Document("empty", (("a",),))])


def test_names_for_unknown_clusters():
    d = load("sample")[0]
    with pytest.raises(ValueError, match="field names: 1 for 20 clusters"):
        d.changed(names=("Ann",))
    with pytest.raises(DataError, match="names do not fit"):
        align_names(d, [Label(f"Name {i}", "Male") for i in range(15)])
    with pytest.raises(DataError, match="the names in their order are not those of the clusters"):
        Story(d, order=["Nobody"])


def test_one_entity_only():
    "As in the release its questions offer one name and None of the Above; the paper mode leaves the story out."
    tokens = "The old sorter slept . He woke and the clerk saw him .".split()
    d = document(tokens, [[(0, 2), (5, 5), (11, 11)], [(8, 9)]], ("Abel", ""))
    with pytest.raises(DataError, match="no mention is hard enough"):
        build_identifyme([d], min_tokens=0, max_others=1.0, min_net=99, max_fuzzy=0, max_chars=1)
    b = build_identifyme([d], min_tokens=0, max_others=1.0, min_net=-9)
    assert {tuple(o.name for o in q.options) for q in b.questions() + b.questions("dev")} == {
        ("Abel", NONE)
    }
    with pytest.raises(DataError, match="1 named clusters, fewer than 2"):
        build_identifyme([d], "paper", min_tokens=0, max_others=1.0)


@pytest.mark.parametrize("mark", ["x{{y", "(#This is the marked mention)"])
def test_a_text_that_holds_a_marker_is_left_out(mark):
    docs = load("sample")
    first = docs[0].changed(sentences=(*docs[0].sentences, tuple(mark.split(" "))))
    assert (
        "with which prompts mark the mention"
        in build_identifyme([first, *docs[1:]]).rejected[first.doc_key]
    )


def test_the_same_document_twice():
    with pytest.raises(DataError, match="the document appears twice"):
        build_identifyme([*load("sample"), load("sample")[2]])


def test_rules_modes_and_splits_that_cannot_be():
    for call, said in (
        (lambda: the_rules(window=0), "the least is 1"),
        (lambda: the_rules(max_others=1.5), "not a share"),
        (lambda: the_rules(test=451), "more would be test questions"),
        (lambda: the_rules(windwo=3), "did you mean window"),
        (lambda: the_rules("releesed"), "did you mean released"),
        (lambda: build("identifyme", "sample", split="tset"), "did you mean test"),
    ):
        with pytest.raises(CallError, match=said):
            call()
    with pytest.raises(ValueError, match="one option is no choice"):
        Rules(options=1)


def test_a_tie_that_the_release_cannot_have(litbank_documents, litbank):
    "Ranks of other names or other documents are refused, and never bend the order."
    docs, ranks = litbank_documents, implied_ranks(litbank)
    a, b = (row_id(litbank[i]) for i in (0, 1))
    with pytest.raises(DataError, match="are the documents and names those of the release"):
        build_identifyme(docs, known=Known(ranks | {a: ranks[b], b: ranks[a]}, {}, {}))


# Systems on questions


def test_a_folder_of_corefud_is_a_corpus(tmp_path, monkeypatch):
    "A corpus in CorefUD's form makes most of the questions that the corpus itself makes; heads are first words here."
    tag = {"PROP": "PROPN", "NOM": "NOUN", "PRON": "PRON"}
    for part, docs in (("train", load("sample")[:3]), ("dev", load("sample")[3:])):
        text, kinds = conllu_text([d.changed(names=()) for d in docs]).split("\n"), []
        for d in docs:
            at = dict.fromkeys(range(d.size), "X")
            for c, own in zip(d.clusters, d.labels["kind"]):
                at |= {
                    s.start: tag[k] for s, k in zip(c, own)
                }  # the writer's heads are first words
            kinds += at.values()
        words = [i for i, line in enumerate(text) if line[:1].isdigit()]
        for i, upos in zip(words, kinds, strict=True):
            cells = text[i].split("\t")
            text[i] = "\t".join([*cells[:3], upos, *cells[4:]])
        (tmp_path / f"en_sample-corefud-{part}.conllu").write_text("\n".join(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_COREFUD", str(tmp_path))
    assert len(load("corefud")) == 6 and len(load("corefud", "dev")) == 3
    got, want = (build("identifyme", c, names="auto") for c in ("corefud", "sample"))
    assert len(got) > 200 and len({q.id for q in got} & {q.id for q in want}) > 0.6 * len(want)
    kinds = {x for d in load("corefud") for c in d.labels["kind"] for x in c}
    assert kinds == {"PROP", "NOM", "PRON"}
    monkeypatch.delenv("REFNB_COREFUD")
    with pytest.raises(DataError, match="corefud: needs files of your own; unpack CorefUD"):
        load("corefud")
