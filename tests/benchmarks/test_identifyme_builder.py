"IdentifyMe built from its corpora: the released half word for word, laws of questions, bad input."

import ast, hashlib
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from refnb.benchmarks.identifyme.builder import (
    NONE,
    PAPER,
    QUESTION_KINDS,
    RELEASED,
    RULES_OF_THUMB,
    Known,
    build_identifyme,
    eligible_mentions,
    likeness,
    mention_table,
    ranked,
    tidied,
)
from refnb.benchmarks.identifyme.entities import Label, align_names, auto_names, profiles
from refnb.benchmarks.identifyme.released import (
    answer_rows,
    implied_ranks,
    lists_of_names,
    named_documents,
    rebuilt,
    released_dialogue,
    released_labels,
    released_questions,
    row_id,
)
from refnb.benchmarks.identifyme.entities import build, documents_with_names
from refnb.benchmarks.tasks import task_questions
from refnb.core.conll import conllu_text
from refnb.core.corpora import load
from refnb.core.documents import Document
from refnb.core.files import read_jsonl
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, Question, Span
from refnb.metrics.choice import credit
from refnb.models.language.prompts import mark_mention
from refnb.models.registry import find_system
import tools

FULL = "KawshikManikantan/IdentifyMe/analysis_data/info/gpt4o_mention_info.csv"
REJECTED = {1064, 160, 2084, 2095, 219, 2489, 2775, 32, 33, 36, 41, 4300, 550, 876, 8867}


@pytest.fixture(scope="module")
def s(upstream, tmp_path_factory):
    home = tmp_path_factory.mktemp("builder")
    folders = {k: str(home / k) for k in ("cache", "runs", "reports")}
    return load_settings("/", env={}, upstream=str(upstream), offline=True, **folders)


@pytest.fixture(scope="module")
def rows(s):
    return answer_rows(FULL, s)


@pytest.fixture(scope="module")
def litbank(rows):
    return [r for r in rows if r["dataset"] == "litbank"]


@pytest.fixture(scope="module")
def documents(s):
    return list(named_documents("LitBank", s))


@pytest.fixture(scope="module")
def built(s):
    return rebuilt(s, corpora=["LitBank"])


@pytest.fixture(scope="module")
def test_set(built):
    return built.questions("test")


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


# The released half


def same_as_released(questions, litbank):
    "Ids, options and answers are those of the released rows, in their order."
    for q, r in zip(questions, litbank, strict=True):
        assert q.id == row_id(r)
        assert [o.name for o in q.options] == ast.literal_eval(r["options"]), q.id
        assert q.options[q.right[0]].name == r["answer"], q.id


@pytest.mark.full
def test_the_task_is_the_released_half_and_says_what_the_release_says(s, litbank):
    "The next test asks the same of the command, which tells less."
    test_set = task_questions("identifyme/litbank/test", s)
    same_as_released(test_set, litbank)
    known, dialogue = {q.id: q for q in released_questions(s)}, released_dialogue(s)
    for q in test_set:
        assert q.meta.items() >= known[q.id].meta.items(), q.id
        if q.meta["type"] == "pronominal":
            assert q.meta["dialogue"] == dialogue[q.id], q.id
    for part in ("dev", "random3"):
        assert len(task_questions(f"identifyme/litbank/{part}", s)) == 300


def test_the_command_builds_the_released_half(upstream, litbank, tmp_path, capsys, monkeypatch):
    "A rule that is given with its usual value changes nothing."
    monkeypatch.setenv("REFNB_UPSTREAM", str(upstream))
    out, rules = tmp_path / "q.jsonl", ("--set", "window=10", "--set", "seed=0")
    asked = ("--corpus", "litbank", "--names", "authors", "--out", out, *rules)
    said = tools.here(capsys, "build", "identifyme", *asked)
    assert said.status == 0, said.err
    questions = list(read_jsonl(out, Question))
    same_as_released(questions, litbank)
    assert sum(q.meta["answer"] == "none" for q in questions) == 60


def test_texts_have_their_hashes(built, test_set):
    def lines(questions):
        return "\n".join("\t".join(q.id.rsplit(":", 1)) for q in questions)

    assert md5(lines(test_set)) == "529e861fc57fb05254dade88dc86f7d3"
    assert md5(lines(built.questions("dev"))) == "cd650d5882c2cc568d5dfc07239149e6"
    texts = list(map(mark_mention, test_set))
    assert sum(map(len, texts)) == 6_068_226
    assert md5("\n".join(texts)) == "acd9d566579dbb057340e6c472cf2278"
    # the one question that was released in full: mention 300 of Great Expectations
    [q] = [q for q in test_set if q.id == "1400_great_expectations_brat_0:300"]
    assert md5(mark_mention(q)) == "002dc5ff8f65ccbd45e7f9fcf01cde71"


def test_baselines_have_their_known_scores(test_set):
    for system, right in (("most-frequent", 154), ("nearest-mention", 111), ("always-none", 60)):
        answer = find_system(system).f
        assert sum(credit(q, answer(q)) for q in test_set) == right, system


def test_stories_and_pools_have_the_paper_s_sizes(built):
    stories, every = built.stories.values(), {"PRON": 10_653, "NOM": 6_019, "PROP": 2_519}
    assert {int(k.split("_")[0]) for k in built.rejected} == REJECTED
    assert all("have no named entity" in why for why in built.rejected.values())
    assert len(stories) == 65 and sum(len(x.mentions) for x in stories) == 19_191
    assert {k: sum(int((x.mentions.kind == k).sum()) for x in stories) for k in every} == every
    named = {"PRON": 8_984, "NOM": 2_210, "PROP": 1_929}
    assert dict(built.mentions.kind.value_counts()) == named
    assert sum(len(x.names) for x in stories) == 608
    assert [len(eligible_mentions(built.mentions, k)) for k in QUESTION_KINDS] == [1_386, 1_361]


def test_all_the_authors_names_find_their_clusters(s, litbank, documents):
    labels = released_labels(s)
    docs = {d.doc_key: d for d in documents}
    assert list(docs) == [k for k in labels if k in docs]  # the order of the split's list
    found = sum(sum(map(bool, d.names)) for d in documents)
    assert found == sum(len(labels[k]) for k in docs) == 733
    tidy = {k: tidied(d).doc for k, d in docs.items()}
    for r in litbank:
        assert tidy[r["doc_key"]].names[int(r["mentions_vs_clusters"])] == r["entity_name"]


@pytest.mark.parametrize("kind, most, cut", [("NOM", 5412.5, 3255.0), ("PRON", 5127.0, 3224.5)])
def test_the_ranking_needs_no_help(built, litbank, kind, most, cut):
    """Without the released order every test item is among the 450, and points never rise along it.
    An item has a point for each that it is harder than, half of one where they are equal."""
    pool = ranked(eligible_mentions(built.mentions, kind), kind)
    criteria = [-pool.fuzzy if kind == "NOM" else pool.net]
    criteria += [pool[c] for c in ("nearest", "nearest_nominal", "nearest_like")]
    values = np.array(criteria)[:, :, None]
    others = values.swapaxes(1, 2)
    wins = ((values > others) + 0.5 * (values == others)).sum(2) - 0.5
    assert pool.points.tolist() == wins.sum(0).tolist()
    points, ranks = dict(zip(pool.id, pool.points, strict=True)), implied_ranks(litbank)
    asked = sorted((row_id(r) for r in litbank if r["category"] == kind), key=ranks.get)
    assert set(asked) <= set(pool.id[:450]) and np.all(np.diff([points[i] for i in asked]) <= 0)
    first, last, next_ = (pool.points.iloc[i] for i in (0, 449, 450))
    assert (first, last) == (most, cut) and next_ < cut


def test_the_implied_ranks_decide_between_equals_alone(documents, built, litbank):
    plain = build_identifyme(documents)

    def ids(b, kind):
        return [q.id for q in b.blocks["LitBank", "test", kind]]

    moved = [sum(map(str.__ne__, ids(plain, k), ids(built, k))) for k in QUESTION_KINDS]
    assert dict(zip(QUESTION_KINDS, moved, strict=True)) == {"NOM": 15, "PRON": 36}
    with pytest.raises(DataError, match="are the documents and names those of the release"):
        build_identifyme(documents[:20], known=Known(implied_ranks(litbank), {}, {}))


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


def test_twenty_columns_of_features_are_the_released_ones(built, litbank):
    "Fourteen of the table, the span, nesting, and four that are told of asked mentions only."
    table = built.mentions.set_index("id")
    for r in litbank:
        m, story, i = table.loc[row_id(r)], built.stories[r["doc_key"]], int(r["mention_ind"])
        t, names = story.mentions, story.mentions.entity
        assert {c: str(m[c]) for c in COLUMNS} == {c: r[k] for c, k in COLUMNS.items()}
        assert f"[{m.start}, {m.end}]" == r["mentions_vs_tbound"]
        assert str(int(m.nested)) == r["is_nested"]
        over = (t.start <= m.start) & (t.end >= m.end) | (t.start >= m.start) & (t.end <= m.end)
        around = {names[j] or "Others" for j in np.flatnonzero(over) if j != i}
        assert around == set(ast.literal_eval(r["nested_entities"]))
        assert sum(map(bool, names[max(0, i - 10) : i + 11])) == int(r["num_major_mentions_neigh"])
        others = t.words[(t.cluster == m.cluster) & (t.kind != "PRON")].tolist()
        mean = -1.0 if m.kind == "PRON" else float(np.mean([likeness(w, m.words) for w in others]))
        assert mean == pytest.approx(float(r["avg_fuzzy_scores"]))
        assert str(any(w.lower() in ("they", "we") for w in others)) == r["is_plural"]
        assert r["answer"] == NONE or story.genders[m.entity] == r["ans_gender"]


def test_fantasycoref_options_come_from_the_same_stream(s, built, rows):
    """FantasyCoref's blocks follow LitBank's in both generators, so turning its options back proves
    LitBank's development questions too; all questions of a story agree, or this raises."""
    labels, full = released_labels(s), lists_of_names(built, rows)
    names = {k: [l.name for l in labels[k]] for k in full}
    unique = {k for k, ns in full.items() if len(set(ns)) == len(ns)}
    assert all(full[k] == names[k] for k in unique) and len(full) - len(unique) == 14
    assert all(set(full[k]) == set(names[k]) for k in full)
    fantasy = [r for r in rows if r["dataset"] == "fantasy"]
    # the one question of this story is a None of the Above, which lacks a name
    assert {r["doc_key"] for r in fantasy} - set(full) == {"058_The_Dog_and_the_Sparrow_0"}
    assert sum(r["doc_key"] not in set(full) - unique for r in fantasy) == 446
    options = [ast.literal_eval(r["options"]) for r in fantasy]
    assert sum(len(set(o)) < len(o) for o in options) == 154


def test_the_paper_mode_does_as_the_text_says(documents):
    b = build_identifyme(documents, "paper")
    assert not any(q.meta["doubled_option"] for q in b.questions()) and b.rules == PAPER
    nominal, pronominal = (eligible_mentions(b.mentions, kind, PAPER) for kind in QUESTION_KINDS)
    assert len(nominal) == 1_336 and nominal.fuzzy.max() < 75 and pronominal.net.min() == 0
    pronouns = b.mentions.words[b.mentions.kind == "PRON"]
    assert not pronouns.str.endswith(" 's").any()


# Other corpora


def test_names_by_rule_are_like_those_that_the_authors_gave(documents):
    named = ((auto_names(d.changed(names=())).names, d.names) for d in documents[::4])
    pairs = [(a, b) for ours, theirs in named for a, b in zip(ours, theirs, strict=True) if b]
    assert sum(bool(a) for a, _ in pairs) >= 0.98 * len(pairs)
    assert sum(likeness(b, a) > 75 for a, b in pairs if a) >= 0.8 * len(pairs)


def test_names_by_rule_find_their_clusters_again_and_are_asked_about(s):
    "But no name that the rule took from a proper noun is asked about."
    docs = [auto_names(d) for d in load("fantasycoref", "dev", s)[:12]]
    b = build_identifyme(documents_with_names(docs))
    proper = set(b.mentions.id[b.mentions.kind == "PROP"])
    assert b.questions() and proper.isdisjoint(q.id for q in b.questions())
    for d in docs:
        known = [(d.names[p.cluster], p.gender) for p in profiles(d) if d.names[p.cluster]]
        labels = [Label(name, gender, gender is None) for name, gender in known]
        again = align_names(d.changed(names=()), labels).names
        assert again == tuple(n or "" for n in d.names), d.doc_key


def test_a_whole_book_has_small_questions_with_a_context_of_their_own(s):
    [book] = load("animal-farm", s=s)
    b = build_identifyme(documents_with_names([book]), context=200, max_others=1.0)
    assert b.questions() and max(len(q.text) for q in b.questions()) < 5_000


def test_a_folder_of_corefud_is_a_corpus(tmp_path, monkeypatch):
    "It makes most of the questions that the corpus itself makes; heads are first words here."
    tag = {"PROP": "PROPN", "NOM": "NOUN", "PRON": "PRON"}
    for part, docs in (("train", load("sample")[:3]), ("dev", load("sample")[3:])):
        text, kinds = conllu_text([d.changed(names=()) for d in docs]).split("\n"), []
        for d in docs:
            at = dict.fromkeys(range(d.size), "X")
            for c, own in zip(d.clusters, d.labels["kind"], strict=True):
                at |= {span.start: tag[k] for span, k in zip(c, own, strict=True)}
            kinds += at.values()
        words = [i for i, line in enumerate(text) if line[:1].isdigit()]
        for i, upos in zip(words, kinds, strict=True):
            cells = text[i].split("\t")
            text[i] = "\t".join([*cells[:3], upos, *cells[4:]])
        (tmp_path / f"en_sample-corefud-{part}.conllu").write_text("\n".join(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFNB_COREFUD", str(tmp_path))
    assert len(load("corefud")) == 6 and len(load("corefud", "dev")) == 3
    got, want = (
        {q.id for q in build("identifyme", c, names="auto")} for c in ("corefud", "sample")
    )
    assert len(got) > 200 and len(got & want) > 0.6 * len(want)
    monkeypatch.delenv("REFNB_COREFUD")
    with pytest.raises(DataError, match="corefud: needs files of your own"):
        load("corefud")


# Laws

WORDS = ("he", "his", "she", "it", "Ann", "the dog", "Bo")


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(WORDS)), min_size=1, max_size=40),
    st.integers(1, 6),
    st.booleans(),
)
def test_what_makes_a_mention_hard_is_counted_as_defined(mentions, window, itself):
    tokens, clusters = [], {}
    for cluster, words in mentions:
        start = len(tokens)
        tokens += words.split()
        clusters.setdefault(cluster, []).append(Span(start, len(tokens) - 1))
    rules = RELEASED.changed(window=window, count_itself=itself)
    names = tuple("Ann" if k % 2 else "" for k in range(len(clusters)))
    t = mention_table(
        Document("d", (tuple(tokens),), tuple(map(tuple, clusters.values())), names), rules
    )
    cl, k, nominal = t.cluster.tolist(), t.pronoun_class.tolist(), (t.kind != "PRON").tolist()
    like = [n and x > rules.max_fuzzy for n, x in zip(nominal, t.fuzzy, strict=True)]
    every = range(len(t))
    for i in every:
        others = [j for j in every if j != i and cl[j] == cl[i]]
        for column, fits in (
            ("nearest", [True] * len(t)),
            ("nearest_nominal", nominal),
            ("nearest_like", like),
        ):
            expected = min((abs(i - j) for j in others if fits[j]), default=-1)
            assert t[column][i] == expected, column
        if k[i] < 0:
            assert (t.helpers[i], t.distractors[i]) == (-1, -2)
            continue
        near = [j for j in every if abs(i - j) <= window and (j != i or itself) and k[j] >= 0]
        alike = [(cl[j] == cl[i], k[j] == k[i]) for j in near]
        assert t.helpers[i] == alike.count((True, True))
        assert t.distractors[i] == sum(a != b for a, b in alike)


@given(st.sets(st.tuples(st.integers(0, 20), st.integers(0, 6)), min_size=1, max_size=25))
def test_a_mention_is_nested_that_holds_another_or_is_held(spans):
    spans = sorted((a, a + n) for a, n in spans)

    def holds(x, y):
        return x != y and x[0] <= y[0] and y[1] <= x[1]

    d = Document("d", (("w",) * 27,), (tuple(Span(*x) for x in spans),))
    expected = [any(holds(x, y) or holds(y, x) for y in spans) for x in spans]
    assert mention_table(d).nested.tolist() == expected


@tools.examples(15)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["released", "paper"]),
    st.integers(2, 9),
    st.integers(0, 60),
)
def test_every_question_marks_its_mention_and_has_its_answer_once(seed, mode, options, context):
    b = build_identifyme(load("sample"), mode, seed=seed, options=options, context=context)
    table = b.mentions.set_index("id")
    for split in ("test", "dev"):
        questions = b.questions(split)
        assert len({q.id for q in questions}) == len(questions)
        for q in questions:
            row, names = table.loc[q.id], [o.name for o in q.options]
            assert q.text[slice(*q.chars)] == row.words
            assert names[-1] == NONE and len(names) <= options + 1
            none = q.meta["answer"] == "none"
            assert names[q.right[0]] == (NONE if none else row.entity)
            assert not (none and row.entity in names)
            assert all(0 <= q.meta[f] < len(names) for f in RULES_OF_THUMB)


def test_each_rule_changes_something():
    docs = load("sample")

    def asked(**rules):
        return [(q.id, q.options) for q in build("identifyme", docs, **rules)]

    plain = asked()
    rules = (dict(window=4), dict(neighbours="pronouns"), dict(max_chars=12))
    for changed in (*rules, dict(most=40, test=30), dict(none_share=0.5), dict(seed=1)):
        assert asked(**changed) != plain, changed


def test_the_order_of_clusters_and_mentions_means_nothing():
    def turned(d):
        labels = {k: tuple(x[::-1] for x in v[::-1]) for k, v in d.labels.items()}
        clusters = tuple(c[::-1] for c in d.clusters[::-1])
        return d.changed(clusters=clusters, names=d.names[::-1], labels=labels)

    docs = load("sample")
    again = build("identifyme", list(map(turned, docs)))
    assert [q.id for q in again] == [q.id for q in build("identifyme", docs)]


# Documents that cannot be used


def test_documents_that_cannot_be_used_are_left_out_and_told():
    first, *others = load("sample")
    empty = Document("empty", (("a", "b"),))
    assert build_identifyme([first, *others, empty]).rejected == {"empty": "no clusters"}
    for mark in ("x{{y", "(#This is the marked mention)"):  # with which prompts mark the mention
        d = first.changed(sentences=(*first.sentences, tuple(mark.split(" "))))
        assert "mark" in build_identifyme([d, *others]).rejected[first.doc_key], mark
    with pytest.raises(DataError, match="none of the 1 documents can be used: no clusters"):
        build_identifyme([empty])
    with pytest.raises(DataError, match="the document appears twice"):
        build_identifyme([first, *others, others[1]])


def test_names_that_do_not_fit_are_refused():
    d = load("sample")[0]
    with pytest.raises(ValueError, match="field names: 1 for 20 clusters"):
        d.changed(names=("Ann",))
    with pytest.raises(DataError, match="names do not fit"):
        align_names(d, [Label(f"Name {i}", "Male") for i in range(15)])
    with pytest.raises(DataError, match="not those of the clusters"):
        build_identifyme([d], known=Known(order={d.doc_key: ["Nobody"]}))


def test_a_story_of_one_entity():
    "As in the release it offers one name and None of the Above; the paper mode leaves it out."
    tokens = "The old sorter slept . He woke and the clerk saw him .".split()
    clusters = (Span(0, 2), Span(5, 5), Span(11, 11)), (Span(8, 9),)
    d = Document("d", (tuple(tokens),), clusters, ("Abel", ""))
    how = dict(min_tokens=0, max_others=1.0)
    b = build_identifyme([d], **how, min_net=-9)
    assert {tuple(o.name for o in q.options) for q in b.questions("all")} == {("Abel", NONE)}
    with pytest.raises(DataError, match="no mention is hard enough"):
        build_identifyme([d], **how, min_net=99, max_fuzzy=0, max_chars=1)
    with pytest.raises(DataError, match="1 named clusters, fewer than 2"):
        build_identifyme([d], "paper", **how)


def test_rules_modes_and_splits_that_cannot_be_are_refused():
    docs = load("sample")
    for how, said in (
        (dict(window=0), "the least is 1"),
        (dict(max_others=1.5), "not a share"),
        (dict(test=451), "more would be test questions"),
        (dict(options=1), "one option is no choice"),
        (dict(windwo=3), "did you mean window"),
        (dict(mode="releesed"), "did you mean released"),
        (dict(split="tset"), "did you mean test"),
    ):
        with pytest.raises(CallError, match=said):
            build("identifyme", docs, **how)
