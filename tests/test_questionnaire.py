"A questionnaire: drawn, shown in a browser, handed in, counted; and nobody is named."
import hashlib, json, math, re
from base64 import b64encode
from html.parser import HTMLParser
from typing import NamedTuple
import pytest
from hypothesis import given, strategies as st
from browser import Tab, nothing_leaves, port  # noqa: F401 (a fixture)
from servers import Tree
from test_formats import good_or_one_line, mutated
from test_looking import NASTY
from tools import wait
from refnb.benchmarks.kitmus.questionnaire import (CANT_SAY, COLORS, VERSION, Answers, Example, Given, Item, Mention, _by_item, choose, _expected,
                                            item_of_words, page, _pieces, _questionnaire_id, read_all_answers, _read_answers, study, _token_chars, _worked_examples)
from refnb.core.settings import packaged
from refnb.core.types import CallError, DataError, FormatError

NAMES = ("Ann", "Bo", "Cy", "Di", "Ed")
PEOPLE = st.characters(exclude_categories=["Cs"])
DECENT = [t for t in NASTY if t and "\ud800" not in t]  # a page and a file of answers are UTF-8
LETTERS = "abcdefghijkmnopqrstuvwxyz2345678"

def item(n: int = 2, k: int = 0, knowledge: bool = True, mark: str = "") -> Item:
    "A small item; `mark` makes its questionnaire another."
    fact = f"{NAMES[k % n]} bakes. " if knowledge else ""
    text = f"{fact}{' and '.join(NAMES[:n])} met on day {k}. She kneads."
    names = tuple(Mention(m.span(), o) for o in range(n) for m in re.finditer(rf"\b{NAMES[o]}\b", text))
    return Item(f"{mark}{'full' if knowledge else 'task'}/{n}:{k}", n, knowledge, text, (len(text) - 11, len(text) - 8), NAMES[:n], k % n, names)

def pools(size: int) -> tuple[dict, dict]: return tuple({n: [item(n, k, knowledge) for k in range(size)] for n in (2, 3, 4)} for knowledge in (True, False))

SIX = [item(n, k, knowledge) for n in (2, 3, 4) for k, knowledge in ((1, True), (0, False))]

def handed_in(items=SIX, who: int = 0, say=_expected, skip=()) -> dict:
    "What the page would write."
    code = "".join(LETTERS[who // 32**p % 32] for p in range(10))
    said = [{"id": i.id, "choice": say(i), "seconds": 2.5} for k, i in enumerate(items) if k not in skip]
    return {"questionnaire": _questionnaire_id(items), "version": VERSION, "participant": code, "order": [i.id for i in items], "answers": said}

def answers(**how) -> Answers: return _read_answers(json.dumps(handed_in(**how)).encode(), how.get("items", SIX))


# Items

FAULTS = [(dict(id=""), "field id: empty"), (dict(options=("Ann",)), "field options"), (dict(subtask=3), "2 names for a subtask of 3"), (dict(right=2), "field right"),
          (dict(right=-1), "field right"), (dict(right=-2, knowledge=False), "field right"), (dict(pronoun=(9, 9)), "field pronoun"), (dict(pronoun=(-1, 3)), "field pronoun"),
          (dict(pronoun=(0, 99)), "field pronoun"), (dict(pronoun=(1, 2)), "overlaps"), (dict(mentions=(Mention((0, 3), 2),)), "outside the 2 options"),
          (dict(mentions=(Mention((0, 3), 0), Mention((2, 4), 1))), "overlaps"), (dict(text="\ud800" + SIX[0].text[1:]), "field text: half"), (dict(options=("a", "\udfff")), "field options: half")]

@pytest.mark.parametrize("change, said", FAULTS)
def test_an_item_that_cannot_be_is_refused(change, said):
    with pytest.raises(ValueError, match=re.escape(said)): SIX[0].changed(**change)

@given(st.lists(st.tuples(st.text(PEOPLE, min_size=1), st.integers(-1, 2)), min_size=1), st.text(PEOPLE, min_size=1))
def test_pieces_are_the_text(parts, pronoun):
    text, at = "", []
    for t, o in parts:
        if o >= 0: at.append(Mention((len(text), len(text) + len(t)), o))
        text += t
    i = Item("i", 3, False, text + pronoun, (len(text), len(text) + len(pronoun)), ("a", "b", "c"), mentions=tuple(at))
    assert "".join(t for t, _ in _pieces(i)) == i.text
    assert [(t, o) for t, o in _pieces(i) if o is not None] == [(i.text[slice(*m.chars)], m.option) for m in at] + [(pronoun, "pronoun")]

@given(st.lists(st.tuples(st.text(PEOPLE, min_size=1).filter(lambda t: not re.search(r"\s", t)), st.booleans()), min_size=1))
def test_tokens_are_found_in_their_text(tokens):
    text = "".join((" " if apart else "") + t for t, apart in tokens)
    assert [text[s:e] for s, e in _token_chars([t for t, _ in tokens], text)] == [t for t, _ in tokens]

class Word(NamedTuple):
    "As the generator has them."
    token: str
    tag: str
    entity: int = 0

def test_an_instance_becomes_an_item():
    knowledge = [Word("Kim", "NNP", 2), Word("is", "VBZ"), Word("a", "DT"), Word("judge", "NN"), Word(".", ".")]
    task = [Word("Park", "NNP", 1), Word("and", "CC"), Word("Kim", "NNP", 2), Word("met", "VBD"), Word(".", "."), Word("Park", "NN"), Word("life", "NN"), Word("!", "."),
            Word("She", "PRP", 2), Word("judged", "VBD"), Word(".", ".")]
    for words, text in ((knowledge + task, "Kim is a judge. Park and Kim met. Park life! She judged."), (task, "Park and Kim met. Park life! She judged.")):
        at = next(k for k, w in enumerate(words) if w.tag == "PRP" and w.entity)
        i = item_of_words("x", [(w.token, w.entity) for w in words], at, text, ["Park", "Kim"], 1, len(words) > len(task))
        assert i.text[slice(*i.pronoun)] == "She" and sorted(i.text[slice(*m.chars)] for m in i.mentions) == ["Kim"]*(1 + i.knowledge) + ["Park"]
        assert all(i.options[m.option] == i.text[slice(*m.chars)] for m in i.mentions)


# Drawing

@given(st.integers(1, 9), st.integers(0, 10**6), st.randoms())
def test_the_rule_is_kept_whatever_the_order(each, seed, rng):
    groups, without = pools(20)
    got = choose(groups, without, each, seed)
    assert all(sum((i.subtask, i.knowledge) == (n, k) for i in got) == each for n in (2, 3, 4) for k in (True, False)) and len(got) == 6*each
    assert len({i.id.partition("/")[2] for i in got}) == len(got), "an instance is drawn with its knowledge, or without, or not at all"
    for pool in (groups, without):
        for p in pool.values(): rng.shuffle(p)
    assert choose(groups, without, each, seed) == got

def test_seeds_draw_differently_and_all_are_drawn():
    draws = [choose(*pools(10), 5, seed) for seed in range(40)]
    assert len({tuple(i.id for i in d) for d in draws}) == 40
    assert {i.id for d in draws for i in d} == {i.id for pool in pools(10) for p in pool.values() for i in p}
    assert {d[0].knowledge for d in draws} == {True, False}, "the order is random"

def test_what_cannot_be_drawn_is_said():
    groups, without = pools(8)
    for args, kind, said in [((groups, without, 9), DataError, "choose, subtask 2: 9 items are to be drawn with knowledge, there are 8"),
                             ((groups, without, 5), DataError, "without knowledge, there are 3"), ((groups, without, 0), CallError, "each is 0"),
                             ((groups, {2: without[2]}), CallError, "subtasks with knowledge are [2, 3, 4], without [2]"),
                             (({2: groups[3]}, {2: without[2]}), DataError, "is of subtask 3 with knowledge, and stands under 2 with")]:
        with pytest.raises(kind) as e: choose(*args)
        assert said in str(e.value)
    with pytest.raises(DataError, match="the id 'full/2:0' stands twice"): choose({2: [groups[2][0]]*2}, {2: without[2][1:]}, 2)


# The page as a file

class Parsed(HTMLParser):
    "Tags, attributes, and the text of scripts."
    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attrs, self.texts = [], [], {}
        self.feed(text); self.close()
    def handle_starttag(self, tag, attrs): self.tags.append(tag); self.attrs += attrs
    def handle_data(self, data): self.texts.setdefault(self.tags[-1] if self.tags else "", []).append(data)

def data(text: str) -> dict: return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])

def test_nothing_is_loaded_from_anywhere():
    got = Parsed(page(SIX))
    assert {t for t in got.tags} & {"img", "iframe", "object", "embed", "base", "audio", "video"} == set()
    assert [v for k, v in got.attrs if k in ("src", "href", "action", "srcset")] == ["data:,"]
    assert not [k for k, _ in got.attrs if k.startswith("on") or k == "style"], "the policy would refuse them"
    css, js = ("".join(packaged(f"data/{name}.{kind}").read_text() for name in ("pages/base", "questionnaire/page")) for kind in ("css", "js"))
    assert not re.search(r"url\(|@import|https?:", css)
    assert not re.search(r"https?:|fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|import\(", js)

def test_the_policy_knows_the_style_and_the_script():
    text = page(SIX)
    policy = re.search('Content-Security-Policy" content="([^"]+)"', text)[1]
    for tag in ("style", "script"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        assert f"{tag}-src 'sha256-{b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy

def test_right_answers_are_not_in_the_page():
    other = [i.changed(right=(i.right + 1) % i.subtask) for i in SIX]
    assert page(other) == page(SIX) == page([i.changed(knowledge=not i.knowledge) for i in SIX])
    assert {k for q in data(page(SIX))["items"] for k in q} == {"id", "parts", "options"}

def test_seeds_are_other_orders_of_one_questionnaire():
    orders = {tuple(q["id"] for q in data(page(SIX, seed=s))["items"]) for s in range(20)}
    assert len(orders) > 15 and {frozenset(o) for o in orders} == {frozenset(i.id for i in SIX)}
    assert {data(page(SIX[::k], seed=3))["questionnaire"] for k in (1, -1)} == {_questionnaire_id(SIX)}
    assert page(SIX, seed=3) == page(SIX[::-1], seed=3) and page(SIX) != page(SIX[::-1])

CHANGES = [dict(id="other"), dict(text=SIX[0].text.replace("day", "Day")), dict(options=("Ann", "Bob")), dict(mentions=()), dict(pronoun=(SIX[0].pronoun[0], SIX[0].pronoun[0] + 1))]

@pytest.mark.parametrize("change", CHANGES)
def test_what_is_asked_makes_the_hash(change): assert _questionnaire_id([SIX[0].changed(**change), *SIX[1:]]) != _questionnaire_id(SIX)

def test_there_are_items_and_their_ids_differ():
    with pytest.raises(DataError, match="page: no items"): page([])
    with pytest.raises(DataError, match="stands twice"): page([SIX[0], SIX[0]])

def hostile(text: str, mark: str = "") -> Item:
    "An item that is made of a text."
    whole = f"{text} {text}{text}"
    return Item(f"{mark}{text}", 2, False, whole, (0, len(text)), (text, text), mentions=(Mention((len(text) + 1, 2*len(text) + 1), 1),))

@pytest.mark.parametrize("text", DECENT)
def test_f53_nothing_of_the_data_becomes_markup(text):
    plain, made = Parsed(page(SIX[:1])), page([hostile(text)], [Example(hostile(text), text)], title=text, send=text)
    got = Parsed(made)
    assert got.tags == plain.tags and [k for k, _ in got.attrs] == [k for k, _ in plain.attrs]
    told = data(made)
    assert [q["id"] for q in told["items"]] == [text] and told["send"] == told["examples"][0]["why"] == text
    assert "".join(t for t, _ in told["items"][0]["parts"]) == f"{text} {text}{text}" and told["items"][0]["options"] == [text, text]

@pytest.mark.parametrize("text", DECENT)
def test_f53_an_item_in_a_notebook(text):
    shown = Parsed(hostile(text)._repr_html_())
    assert set(shown.tags) <= {"p", "code", "blockquote", "b", "span", "sup", "ol", "li"} and {k for k, _ in shown.attrs} == {"style"}

def test_the_examples_are_as_the_paper_has_them():
    got = _worked_examples()
    assert len(got) == 4 and [_expected(e.item) == CANT_SAY for e in got] == [False, True, False, False]
    assert {e.item.text[slice(*e.item.pronoun)].lower() for e in got} == {"she", "he", "they", "ey"}
    for e in got:
        named = "Can't say" if not e.item.knowledge else e.item.options[e.item.right]
        assert named in e.why.rpartition("So the answer is")[2]
        assert {m.option for m in e.item.mentions} == set(range(e.item.subtask))

def _light(color: str) -> float:
    "Relative luminance, as WCAG has it."
    r, g, b = (c/12.92 if c <= .03928 else ((c + .055)/1.055)**2.4 for c in (int(color[k:k + 2], 16)/255 for k in (1, 3, 5)))
    return .2126*r + .7152*g + .0722*b

def contrast(a: str, b: str) -> float: return (max(map(_light, (a, b))) + .05)/(min(map(_light, (a, b))) + .05)

def test_letters_stand_out_in_both_looks():
    css = packaged("data/pages/base.css").read_text()
    looks = [dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", css, re.S)]
    assert len(looks) == 2 and looks[0].keys() == looks[1].keys()
    for v in looks:
        pairs = [("ink", "card"), ("ink", "page"), ("soft", "page"), ("soft", "card"), ("soft", "chosen"), ("ink", "chosen"), ("on-main", "main"), ("main", "chosen"), ("pronoun", "card"), ("ink", "notice")]
        assert min(contrast(v[a], v[b]) for a, b in pairs) >= 4.5
        assert min(contrast(v["line"], v[b]) for b in ("card", "page", "chosen")) >= 3, "the edges of what can be pressed"
    assert min(contrast("#1b1b1b", c) for c in COLORS) >= 7


# Reading answers

ONE = {"id": SIX[0].id, "choice": 0, "seconds": 1.5}
BAD = [(dict(questionnaire="0"*16), "field questionnaire: the answers are to questionnaire '0000000000000000'"), (dict(version=2), "field version: 2 is unknown"),
       (dict(participant="Ann Smith"), "field participant: this is no code"), (dict(participant=7), "field participant"), (dict(order=[i.id for i in SIX[1:]]), "field order"),
       (dict(order=[i.id for i in SIX] + [SIX[0].id]), "field order"), (dict(answers=[ONE | {"id": "zz"}]), "field answers[0].id: 'zz' is no item"),
       (dict(answers=[ONE | {"choice": 2}]), "field answers[0].choice: 2 is outside the 2 options"), (dict(answers=[ONE | {"choice": -2}]), "field answers[0].choice"),
       (dict(answers=[ONE | {"choice": None}]), "field answers[0].choice"), (dict(answers=[ONE | {"choice": "0"}]), "field answers[0].choice"), (dict(answers=[ONE | {"choice": True}]), "field answers[0].choice"),
       (dict(answers=[ONE, ONE]), "field answers[1].id: 'full/2:1' is answered twice"), (dict(answers=[ONE | {"seconds": -1}]), "field answers[0].seconds"),
       (dict(answers=[{"id": SIX[0].id, "choice": 0}]), "missing required field `seconds`"), (dict(answers=[ONE | {"name": "Ann"}]), "unknown field `name`"),
       (dict(email="ann@x.org"), "unknown field `email`"), (dict(answers={}), "field answers")]

@pytest.mark.parametrize("change, said", BAD)
def test_f40_a_file_that_cannot_be_is_refused(tmp_path, change, said):
    path = tmp_path/"answers.json"
    path.write_text(json.dumps(handed_in() | change))
    with pytest.raises(FormatError) as e: _read_answers(path, SIX)
    assert str(e.value).startswith(f"{path}") and said in str(e.value) and "\n" not in str(e.value) and "Ann Smith" not in str(e.value)

WHOLE = json.dumps(handed_in(), indent=1).encode()
RAW = [(b"", "line 1: no JSON"), (WHOLE[:-60], "no JSON"), (b"null", "answers: Expected `object`, got `null`"), (b"[]", "Expected `object`"), (b"\xff\xfe", "not UTF-8"),
       (WHOLE.replace(b"2.5", b"NaN", 1), "answers"), (WHOLE.replace(b"2.5", b"1e999", 1), "answers"), (WHOLE.replace(b'"version": 1', b'"version": 1, "version": 1'), "the key 'version' stands twice"),
       (b"["*100_000, "answers"), (WHOLE + WHOLE, "extra data"), (WHOLE.replace(b"full/2:1", b"\\ud800"), "answers")]

@pytest.mark.parametrize("raw, said", RAW)
def test_f40_json_that_is_broken(raw, said):
    with pytest.raises(FormatError, match=re.escape(said)) as e: _read_answers(raw, SIX)
    assert "\n" not in str(e.value)

def test_f40_mutated_files_are_read_or_refused_in_one_line(tmp_path):
    path, whole = tmp_path/"answers.json", answers()
    for d in mutated(WHOLE, 23):
        path.write_bytes(d)
        got = good_or_one_line(lambda: _read_answers(path, SIX), path)
        assert got is None or (got.questionnaire == whole.questionnaire and sorted(got.order) == sorted(whole.order))

def test_a_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path/"a.json"
    path.write_bytes(b"\xef\xbb\xbf" + WHOLE.replace(b"\n", b"\r\n"))
    got = _read_answers(path, SIX[::-1])
    assert [(g.id, g.choice) for g in got.answers] == [(i.id, _expected(i)) for i in SIX] and got == answers()
    with pytest.raises(DataError, match="no such file"): _read_answers(tmp_path/"b.json", SIX)

def test_a_participant_comes_once():
    files = [json.dumps(handed_in(who=k)).encode() for k in (3, 1, 2)]
    assert [a.participant for a in read_all_answers(files, SIX)] == sorted(handed_in(who=k)["participant"] for k in (1, 2, 3))
    with pytest.raises(DataError, match="answers 2 and 4 are by the same participant"): read_all_answers([*files, files[1]], SIX)
    with pytest.raises(DataError, match="same participant"): study([answers(), answers()], SIX)


# What was said

def test_all_agree():
    got = study([answers(who=k) for k in range(6)], SIX)
    assert (got.df[["as expected", "majority", "kappa"]] == 1).all(axis=None) and not got.df[["missing", "ties"]].any(axis=None)
    assert got.df["can't say"].to_dict() == {(k, n): {"with": 0, "without": 1, "all": .5}[k] for k in ("with", "without", "all") for n in ("2", "3", "4", "all")}
    assert got.df["rated"].to_list() == got.df["items"].to_list() == [1, 1, 1, 3]*2 + [2, 2, 2, 6]

def test_one_participant_has_a_majority_and_no_kappa():
    got = study([answers(say=lambda i: 0)], SIX).df
    assert got.kappa.isna().all() and got.loc[("all", "all"), "as expected"] == got.loc[("all", "all"), "majority"] == 0
    assert "1 participant, 6 items" in repr(study([answers()], SIX))

def test_missing_answers_count_and_are_told():
    full, part = answers(who=1), answers(who=2, skip=(0, 1))
    got = study([full, part], SIX).df.loc[("all", "all")]
    assert (got["missing"], got["rated"], got["answers"]) == (2, 4, 10) and got["as expected"] == 10/12 and got["majority"] == 1
    none = study([answers(who=1, skip=range(6))], SIX).df.loc[("all", "all")]
    assert (none["missing"], none["rated"], none["as expected"], none["majority"], none["ties"]) == (6, 0, 0, 0, 0)

def test_a_tie_is_no_majority():
    got = study([answers(who=1), answers(who=2, say=lambda i: (_expected(i) + 1) % i.subtask)], SIX)
    assert got.items.majority.isna().all() and got.df.loc[("all", "all"), "ties"] == 6 and got.df.loc[("all", "all"), "majority"] == 0

def test_without_items_of_one_kind():
    known = [i for i in SIX if i.knowledge]
    got = study([answers(items=known)], known).df
    assert set(got.index.get_level_values("knowledge")) == {"with", "all"}

choices = st.lists(st.lists(st.integers(-1, 3) | st.none(), min_size=6, max_size=6), min_size=1, max_size=5)

def said(table: list[list]) -> list[Answers]:
    "Answers of several participants; None: no answer."
    rows = [[None if c is None else min(c, i.subtask - 1) for c, i in zip(row, SIX, strict=True)] for row in table]
    return [Answers(_questionnaire_id(SIX), VERSION, LETTERS[k]*10, tuple(i.id for i in SIX), tuple(Given(i.id, c, 1.) for i, c in zip(SIX, row) if c is not None)) for k, row in enumerate(rows)]

@given(choices, st.randoms())
def test_laws_of_a_study(table, rng):
    a = said(table)
    got = study(a, SIX)
    shares = got.df[["as expected", "majority", "can't say"]]
    assert ((0 <= shares) & (shares <= 1)).all(axis=None) and (got.df.kappa.isna() | (got.df.kappa <= 1)).all()
    assert (got.df.answers + got.df.missing == got.df["items"]*len(a)).all() and (got.df["majority"]*got.df["items"] + got.df.ties <= got.df["items"] + 1e-9).all()
    rng.shuffle(a)
    renamed = [x.changed(participant=LETTERS[k + 9]*10, answers=x.answers[::-1], order=x.order[::-1]) for k, x in enumerate(a)]
    again = study(renamed, SIX)
    assert got.df.equals(again.df) and got.items.equals(again.items), "who, in which order, makes no difference"

@given(choices)
def test_nobody_is_named(table):
    a = said(table)
    got = study(a, SIX)
    for shown in (repr(got), got._repr_html_(), got.df.to_csv(), got.items.to_csv(), repr(a), str(a[0])):
        assert not any(x.participant in shown for x in a)
    assert list(_by_item(a, SIX).index) == [i.id for i in SIX]

@given(choices.filter(lambda t: len(t) > 1))
def test_kappa_is_that_of_statsmodels(table):
    statsmodels = pytest.importorskip("statsmodels.stats.inter_rater")
    a = said(table)
    full = [[next(g.choice for g in x.answers if g.id == i.id) + 1 for x in a] for i in SIX if all(any(g.id == i.id for g in x.answers) for x in a)]
    got = study(a, SIX).df.loc[("all", "all")]
    assert got.rated == len(full)
    counts = [[row.count(c) for c in range(5)] for row in full]
    if not full: assert math.isnan(got.kappa)
    elif sum(map(any, zip(*counts))) == 1: assert got.kappa == 1
    else: assert math.isclose(got.kappa, statsmodels.fleiss_kappa(counts), abs_tol=1e-12)


# In a browser

KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""), " ": (32, " "), "Escape": (27, "")}

class Desk:
    "A participant before the page: only what a participant can do."
    def __init__(self, tab: Tab, folder):
        self.tab, self.folder = tab, folder
        self.js, self.wait = tab.js, tab.wait
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        tab.call("Page.bringToFront")

    def open(self, text: str):
        (self.folder/"page.html").write_text(text, encoding="utf-8")
        self.tab.open(f"{self.folder}/page"[1:])
        self.wait("document.activeElement.tagName == 'H2'")

    def press(self, *keys: str, shift: bool = False):
        for key in keys:
            number, text = KEYS.get(key, (ord(key[0].upper()), key))
            how = dict(key=key, code=key, windowsVirtualKeyCode=number, modifiers=8 if shift else 0)
            self.tab.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **how, **({"text": text} if text else {}))
            self.tab.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def title(self) -> str: return self.js("document.querySelector('main > :not([hidden]) h2').innerText")
    def notice(self) -> str: return self.js("document.querySelector('#notice').innerText")
    def passage(self) -> str: return self.js("[...document.querySelector('#passage').childNodes].map(n => n.lastChild?.data ?? n.data).join('')")
    def chosen(self): return self.js("document.querySelector('#question :checked')?.value")
    def click(self, what: str): self.js(f"document.querySelector({json.dumps(what)}).click()")
    def begin(self):
        for _ in range(5): self.press("Enter")

    def downloaded(self, number: int = 1) -> bytes:
        done = lambda: [p for p in self.folder.glob("answers-*.json")]
        found = wait(lambda: len(done()) == number and sorted(done(), key=lambda p: p.stat().st_mtime_ns), "the file is downloaded")
        return wait(found[-1].read_bytes, "the file is written")

    def choose_file(self, path):
        node = self.tab.call("DOM.querySelector", nodeId=self.tab.call("DOM.getDocument")["root"]["nodeId"], selector="#file")["nodeId"]
        self.tab.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

@pytest.fixture
def desk(port, tmp_path):  # noqa: F811
    "A page; when the test is over, it has asked nobody, and said no error."
    tab = Tab(port, "file://")
    yield Desk(tab, tmp_path)
    try:
        asked = tab.requests()
        assert asked, "no request was seen"
        assert not [u for u in asked if not u.startswith((f"file://{tmp_path}/", "data:", "blob:", "about:"))]
        assert not tab.errors()
    finally: tab.close()

@pytest.fixture
def six(request) -> list[Item]:
    "Items of this test alone: what the browser keeps of another test's is not theirs."
    return [i.changed(id=f"{request.node.name}/{i.id}") for i in SIX]

SAYS = [0, CANT_SAY, 2, 1, CANT_SAY, 3]

def test_a_questionnaire_is_answered_by_keyboard_with_a_reload_in_between(desk, six):
    desk.open(page(six))
    assert desk.title() == "What you will do"
    for title in [*(f"Example {k} of 4" for k in (1, 2, 3, 4)), "Question 1 of 6"]:
        desk.press("Enter")
        assert desk.title() == title
    for k, (i, choice) in enumerate(zip(six, SAYS)):
        assert desk.title() == f"Question {k + 1} of 6" and desk.passage() == i.text
        desk.press("0" if choice == CANT_SAY else str(choice + 1))
        assert desk.chosen() == str(choice)
        if k == 2:
            desk.tab.call("Page.reload")
            desk.wait("document.readyState == 'complete' && document.querySelector('#count').innerText == '3 of 6 answered' && document.activeElement.tagName == 'H2'")
            assert desk.title() == "Question 3 of 6" and desk.chosen() == "2", "it goes on where it was"
        desk.press("Enter")
    assert desk.title() == "That was the last question" and "Nobody has your answers yet" in desk.js("document.querySelector('#reminder').innerText")
    desk.press("Tab", "Tab", "Enter")
    got = _read_answers(desk.downloaded(), six)
    assert [(g.id, g.choice) for g in got.answers] == [(i.id, c) for i, c in zip(six, SAYS)] and list(got.order) == [i.id for i in six]
    assert all(0 <= g.seconds < 60 for g in got.answers) and "are downloaded" in desk.js("document.querySelector('#reminder').innerText")
    assert study([got], six).df.loc[("all", "all"), "answers"] == 6

def test_arrows_tab_and_going_back(desk, six):
    desk.open(page(six, seed=1))
    desk.begin()
    desk.press("Tab", "ArrowDown", "ArrowDown")
    assert desk.chosen() in ("1", "2", "-1"), "arrows move within the options"
    first = desk.chosen()
    desk.press("Enter", "1", "Enter")
    assert desk.title() == "Question 3 of 6"
    desk.press("Tab", "Tab", "Enter")
    assert desk.title() == "Question 2 of 6" and desk.chosen() == "0"
    desk.press("2", "Tab", "Enter")
    assert desk.title() == "Question 1 of 6" and desk.chosen() == first
    desk.press("Enter")
    assert desk.chosen() == "1", "an answer can be changed"

def test_going_on_needs_an_answer(desk, six):
    desk.open(page(six))
    desk.begin()
    desk.press("Enter")
    assert desk.title() == "Question 1 of 6" and "Please choose" in desk.js("document.querySelector('[role=alert]').innerText")
    assert desk.js("document.activeElement.type") == "radio" and desk.chosen() is None, "the focus is where the answer is; nothing is chosen"
    desk.press("9", "7")
    assert desk.chosen() is None, "there is no such option"
    desk.press("2")
    assert desk.js("document.querySelector('[role=alert]').innerText") == ""

def test_a_copy_goes_on_elsewhere_and_clearing_forgets(desk, six):
    desk.open(page(six))
    desk.begin()
    desk.press("1", "Enter", "0", "Enter")
    code = desk.js("state.participant")
    desk.click("details .save")
    copy = desk.downloaded()
    assert len(_read_answers(copy, six).answers) == 2
    desk.press("1")
    desk.click("#clear")
    desk.press("Escape")
    desk.wait("!document.querySelector('dialog').open")
    assert desk.title() == "Question 3 of 6" and desk.js("answered()") == 3, "asked, and kept"
    desk.click("#clear")
    desk.press("Tab", "Enter")
    desk.wait("state.screen == 0 && answered() == 0")
    assert desk.js("state.participant") != code and code not in desk.js("Object.values(localStorage).join()")
    (desk.folder/"copy.json").write_bytes(copy)
    desk.choose_file(desk.folder/"copy.json")
    desk.wait("answered() == 2")
    assert desk.title() == "Question 3 of 6" and desk.js("state.participant") == code and desk.notice() == "2 answers were loaded."

def test_a_copy_that_is_none_is_refused(desk, six):
    desk.open(page(six))
    good = handed_in(six)
    bad = [b"", b"[]", b"null", b"{", *(json.dumps(good | change).encode() for change, _ in BAD if change)]
    for k, content in enumerate(bad):
        path = desk.folder/f"copy{k}.json"
        path.write_bytes(content)
        desk.choose_file(path)
        desk.wait(f"document.querySelector('#notice').innerText.startsWith('copy{k}.json cannot be used')")
    assert desk.js("answered()") == 0
    (desk.folder/"good.json").write_text(json.dumps(good))
    desk.choose_file(desk.folder/"good.json")
    desk.wait("answered() == 6")
    assert desk.title() == "That was the last question"

def test_answers_that_would_be_lost_are_asked_for(desk, six):
    desk.open(page(six))
    desk.begin()
    desk.press("1")
    (desk.folder/"good.json").write_text(json.dumps(handed_in(six)))
    desk.choose_file(desk.folder/"good.json")
    desk.wait("document.querySelector('dialog').open")
    desk.press("Enter")
    assert desk.js("answered()") == 1, "Enter keeps"
    desk.choose_file(desk.folder/"good.json")
    desk.wait("document.querySelector('dialog').open")
    desk.click("#yes")
    desk.wait("answered() == 6")

@pytest.mark.parametrize("kept", ["{", "null", '{"record": {}, "screen": 2}', '{"record": null}', '"x"'])
def test_what_was_kept_may_be_damaged(desk, six, kept):
    key = f"refnb-questionnaire-{_questionnaire_id(six)}"
    desk.tab.call("Page.addScriptToEvaluateOnNewDocument", source=f"localStorage.setItem({json.dumps(key)}, {json.dumps(kept)})")
    desk.open(page(six))
    assert desk.title() == "What you will do" and "damaged" in desk.notice()
    assert desk.js(f"localStorage.getItem({json.dumps(key + '-damaged')})") == kept
    desk.begin()
    desk.press("1", "Enter")
    assert desk.title() == "Question 2 of 6" and desk.notice() == ""

def test_a_browser_that_keeps_nothing_is_told(desk, six):
    desk.tab.call("Page.addScriptToEvaluateOnNewDocument", source="Storage.prototype.setItem = Storage.prototype.getItem = () => { throw new Error('no') }")
    desk.open(page(six))
    assert "does not keep your answers" in desk.notice()
    desk.begin()
    for _ in six: desk.press("0", "Enter")
    assert "does not keep" in desk.notice()
    desk.click("#end .save")
    assert [g.choice for g in _read_answers(desk.downloaded(), six).answers] == [CANT_SAY]*6

def test_two_tabs_are_one_participant(desk, six, port):  # noqa: F811
    desk.open(page(six))
    other = Tab(port, "file://")
    try:
        other.open(f"{desk.folder}/page"[1:])
        desk.tab.call("Page.bringToFront")
        desk.begin()
        other.wait("state.screen == 5 && document.querySelector('#question h2').innerText == 'Question 1 of 6'")
        other.js("choose(1)")
        desk.wait("document.querySelector('#question :checked')?.value == '1'")
        assert desk.js("state.participant") == other.js("state.participant")
    finally: other.close()

def test_f53_hostile_texts_are_texts(desk, request):
    items = [hostile(t, f"{request.node.name}{k}") for k, t in enumerate(DECENT)]
    items.append(hostile("__proto__"))
    whole = "".join(DECENT)
    desk.open(page(items, [Example(hostile(whole), whole)], title=whole, send=whole))
    for _ in range(2): desk.press("Enter")
    elements = "[...new Set([...document.querySelectorAll('main > :not([hidden]) *')].map(e => e.localName))].sort().join(' ')"
    for i in items:
        assert desk.js("state.order[state.screen - first]") == i.id
        assert desk.js("document.querySelector('#passage').textContent") == "marked pronoun: " + i.text
        assert desk.js("[...document.querySelectorAll('#question .option .person')].map(e => e.textContent)") == list(i.options)
        assert desk.js(elements) == "button div fieldset h2 input kbd label legend p span strong"
        assert desk.js("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the window"
        desk.press("2", "Enter")
    desk.click("#end .save")
    got = _read_answers(desk.downloaded(), items)
    assert [(g.id, g.choice) for g in got.answers] == [(i.id, 1) for i in items]

def test_the_policy_stops_every_request(port, six, tmp_path):  # noqa: F811
    tab = Tab(port, "file://")
    try:
        with Tree(tmp_path) as tree:
            desk = Desk(tab, tmp_path)
            desk.open(page(six))
            nothing_leaves(desk.js, tab, tree)
    finally: tab.close()

def test_names_and_roles(desk, six):
    desk.open(page(six))
    desk.begin()
    nodes = [(n["role"]["value"], n["name"]["value"]) for n in desk.tab.call("Accessibility.getFullAXTree")["nodes"] if "role" in n and n.get("name", {}).get("value")]
    assert [name for role, name in nodes if role == "radio"] == ["Ann 1", "Bo 2", "Can't say 0"]
    assert ("group", "Who is meant by “She”?") in nodes and ("heading", "Question 1 of 6") in nodes and ("progressbar", "0 of 6 answered") in nodes
    assert "marked pronoun:" in [name.strip() for role, name in nodes if role == "StaticText"]
    assert {name for role, name in nodes if role == "button"} == {"Back", "Next"}, "what is hidden is hidden to all"

@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks(desk, six, scheme):
    desk.tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    desk.open(page(six))
    desk.begin()
    style = "(s => [s.color, s.borderTopStyle, s.fontWeight])(getComputedStyle(document.querySelector('#passage .pronoun')))"
    assert desk.js(style) == ["rgb(179, 0, 27)" if scheme == "light" else "rgb(255, 143, 143)", "solid", "700"], "red, and boxed"
    assert len(set(desk.js("[...document.querySelectorAll('.option .person')].map(e => getComputedStyle(e).backgroundColor)"))) == 2
    assert desk.js("[...document.querySelectorAll('#passage .person')].map(e => getComputedStyle(e, '::after').content)") == ['"2"', '"1"', '"2"'], "and numbered"
    desk.tab.phone()
    for screen in range(12):
        desk.js(f"show({screen})")
        assert desk.js("document.documentElement.scrollWidth") <= 390
        assert desk.js("[...document.querySelectorAll('main > :not([hidden]) button')].every(b => b.getBoundingClientRect().height >= 44)")

def test_seconds_count_while_the_question_is_in_sight(desk, six):
    desk.open(page(six))
    desk.begin()
    desk.js("new Promise(done => setTimeout(done, 1200))")
    desk.press("1", "Enter", "1", "Enter")
    desk.click("details .save")
    first, second = _read_answers(desk.downloaded(), six).answers
    assert 1 < first.seconds < 30 and second.seconds < first.seconds
