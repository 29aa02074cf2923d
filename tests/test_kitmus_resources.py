"KITMUS resources: ours are in order, the release's known defects are found, made-up words do what they promise."
import ast, gzip, json, random, re, shutil
from importlib.util import find_spec
from pathlib import Path
import pytest
from refnb.benchmarks import kitmus_checks as kc
from refnb.benchmarks.fictional_words import CONTENT, Size, Lexicon, encode, decode, lexicon, sample, shorter, shuffle_by_tag, sift, train, triples, usable, why_not
from refnb.core.formats import read_yaml
from refnb.core.settings import packaged
from refnb.core.types import DataError, FormatError, MissingPackage

OURS = packaged("data/kitmus")
RELEASE = "mpoemsl/kitmus/a70fe8542b53198fcd2b232da5f3cef7f84b6547/resources"
PENN = set("CC CD DT EX IN JJ JJR JJS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB . ,".split())

@pytest.fixture(scope="module")
def release(upstream, tmp_path_factory) -> Path:
    "The release's resources, unpacked."
    folder = tmp_path_factory.mktemp("release")
    for p in (upstream/RELEASE).rglob("*.gz"):
        to = folder/p.relative_to(upstream/RELEASE).with_suffix("")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(gzip.decompress(p.read_bytes()))
    return folder

@pytest.fixture
def copy(tmp_path) -> Path: return Path(shutil.copytree(OURS, tmp_path/"kitmus"))

def spoil(folder: Path, name: str, change): (folder/name).write_text(change((folder/name).read_text()))
def table(kind: str) -> list[tuple]: return [(o, s) for _, o, s in kc.occupation_table(OURS, kind)]
def noise() -> dict[str, list]: return {p.name: [ast.literal_eval(l) for l in p.read_text().splitlines()] for p in (OURS/"noise").glob("*.txt")}


# Ours

def test_no_fault_in_ours(): assert kc.resource_faults(OURS) == {}

def test_sizes():
    assert len(kc.rows(OURS, "names.csv", ["lastname"])) >= 300 and len(kc.rows(OURS, "locations.csv", ["location", "noise_fp"])) >= 100
    assert {k: len(v) for k, v in noise().items()} == {k: 25 for k in noise()} and len(noise()) == 12
    assert [len(table(k)) for k in kc.kinds()] == [60]*6
    assert [len(kc.templates(OURS, n)) for n in kc.NEEDED] == [1, 1, 12, 9]
    assert list(json.loads((OURS/"templates/entity_mention_templates.json").read_text())) == [f"{n}_ent_mention" for n in range(2, 9)]

def test_pronouns_agree():
    pronouns = json.loads((OURS/"pronouns.json").read_text())["pronouns"]
    assert pronouns == [[0.4, "she", "was"], [0.4, "he", "was"], [0.1, "they", "were"], [0.05, "ze", "was"], [0.05, "ey", "was"]]
    assert any("be" in slots for _, slots in kc.templates(OURS, "pronoun_sentence"))

def test_tags_are_penns():
    texts = [s for n in noise().values() for s in n] + [s for k in kc.kinds() for _, s in table(k)] + [list(map(tuple, json.loads((OURS/"vocab.json").read_text()).values()))]
    texts += [ast.literal_eval(p) for _, (p, _) in kc.rows(OURS, "locations.csv", ["location", "noise_fp"])]
    assert {t for s in texts for _, t in s} <= PENN
    words = [(w.lower(), t) for s in texts for w, t in s]
    closed = {"the": {"DT"}, "a": {"DT"}, "an": {"DT"}, "and": {"CC"}, "of": {"IN"}, "is": {"VBZ"}, "was": {"VBD"}, "were": {"VBD"}, "had": {"VBD"}, "to": {"TO", "IN"}, "could": {"MD"}, ".": {"."}, ",": {","}, "!": {"."}}
    assert not [(w, t) for w, t in words if w in closed and t not in closed[w]]
    assert all(a[1] == ("TO" if b[1] == "VB" else "IN") for s in texts[:300] for a, b in zip(s, s[1:]) if a[0] == "to")

def test_texts_detokenise(): # what stands before ? and before quotes would keep a space
    assert not {w for n in noise().values() for s in n for w, _ in s} & set("?\"`'-:()")
    assert all(s[0][0][0].isupper() and s[-1][0] in ".!" for n in noise().values() for s in n)

def test_a_or_an():
    for kind in kc.kinds():
        for o, s in table(kind):
            assert not re.match("(u|eu|ho(u|n))", o), o
            assert all((a == "an") == (b[0] in "aeiou") for (a, _), (b, _) in zip(s, s[1:]) if a in ("a", "an")), s

def test_a_situation_tells_its_occupation_from_the_others():
    "No two situations share more than half of their content words."
    content = [{kc.stem(w) for w, t in s if t in CONTENT} for _, s in table("real_real")]
    assert all(2*len(a & b) <= min(len(a), len(b)) for i, a in enumerate(content) for b in content[:i])

def test_wordfict_keeps_grammar_and_no_word():
    real, made = table("real_real"), table("real_wordfict")
    assert [[t for _, t in s] for _, s in real] == [[t for _, t in s] for _, s in made]
    assert all(not {w for w, t in a if t in CONTENT} & {w for w, t in b if t in CONTENT} for (_, a), (_, b) in zip(real, made))
    count = lambda rows: sorted(w for _, s in rows for w, t in s if t in CONTENT)
    assert count(real) == count(made)

def test_provenance_says_what_is_there():
    told = read_yaml(OURS/"PROVENANCE.yaml", dict)
    for pool, place in zip(told["charfict"]["pools"], (lambda o, s: o, lambda o, s: s[0][0], lambda o, s: s[1][0])):
        words = [place(o, s) for o, s in table("charfict_charfict")]
        assert all(w.endswith(pool["suffix"]) for w in words) and len(words) == pool["committed"] <= pool["kept"] - pool["by_hand"]
        assert sum(pool["dropped"].values()) + pool["kept"] == pool["made"]
    assert f"{len(kc.rows(OURS, 'names.csv', ['lastname']))} invented" in told["written"]["names.csv"] and told["charfict"]["sampling"]["temperature"] == 0.5
    deal = shuffle_words(told["wordfict"])
    assert deal == [s for _, s in table("real_wordfict")]

def shuffle_words(told: dict) -> list:
    "The committed deal, dealt again."
    odd = {tuple(p.split()) for p in told["refused_by_hand"]}
    fault = lambda row, s: any((a, b) in odd for (a, _), (b, _) in zip(s, s[1:]))
    return shuffle_by_tag([s for _, s in table("real_real")], random.Random(told["seed"]), fault)


# The release

def test_the_releases_known_defects_are_found(release):
    assert kc.location_faults(release) == ["locations.csv, line 109: 'the school reunion' stands at locations.csv, line 90 already"]
    short = {re.match(r"noise/(.+)\.txt: (\d+) sentences", f)[1]: int(re.match(r"noise/(.+)\.txt: (\d+) sentences", f)[2]) for f in kc.noise_faults(release) if "sentences, not" in f}
    assert short == {"beach": 15, "book-club": 18, "community": 16, "gym": 16, "market": 17, "party": 15, "tour": 19}
    leaks = [f for f in kc.situation_faults(release) if f.startswith("occupations/real_real.csv") and "tells" in f]
    assert any("'bakery' tells the occupation 'baker'" in f for f in leaks) and len(leaks) > 10
    assert kc.alignment_faults(release) == [f"occupations/charfict_real.csv, line {n}: the situation or its tags differ from real_real.csv" for n in (30, 53)]
    assert kc.template_faults(release) == []

def test_no_text_of_the_release_is_in_ours(release):
    plain = lambda s: " ".join(w for w, _ in s).lower()
    places = lambda d: {plain(ast.literal_eval(p)) for _, (p, _) in kc.rows(d, "locations.csv", ["location", "noise_fp"])}
    said = lambda d: {plain(ast.literal_eval(l)) for p in (d/"noise").glob("*.txt") for l in p.read_text().splitlines() if l.strip()}
    situations = lambda d: {plain(s) for k in kc.kinds() for _, _, s in kc.occupation_table(d, k)}
    forms = lambda d: {" ".join(s) for n in ("meet_sentence", "pronoun_sentence", "background_knowledge_sentence", "entspec_knowledge_sentence") for _, s in kc.templates(d, n)}
    for of in (places, said, situations, forms): assert not of(release) & of(OURS)


# Checks

@pytest.mark.parametrize("name, change, check, told", [
    ("names.csv", lambda t: t + "Laura\n", "names", "'Laura' is a first name"),
    ("names.csv", lambda t: t + "Window\n", "names", "'Window' is a common word"),
    ("names.csv", lambda t: t + "McBole\n", "names", "one capital"),
    ("names.csv", lambda t: t + t.splitlines()[1] + "\n", "names", "stands at names.csv, line 2 already"),
    ("locations.csv", lambda t: t.replace("noise/cafe.txt", "noise/kaffee.txt", 1), "locations", "there is no noise/kaffee.txt"),
    ("locations.csv", lambda t: t.replace("('tea', 'NN')", "('dentist', 'NN')"), "locations", "names the occupation 'dentist'"),
    ("noise/park.txt", lambda t: t + t.splitlines()[0] + "\n", "noise", "stands at noise/park.txt, line 1 already"),
    ("noise/park.txt", lambda t: "\n".join(t.splitlines()[1:]), "noise", "24 sentences, not 25"),
    ("noise/park.txt", lambda t: t.replace("('clump', 'NN')", "('visitors', 'NNS')"), "noise", "the person 'visitors'"),
    ("noise/park.txt", lambda t: t.replace("('path', 'NN')", "('she', 'PRP')"), "noise", "the pronoun 'she'"),
    ("occupations/real_real.csv", lambda t: t.replace("'homework'", "'teaching'"), "situations", "'teaching' tells the occupation 'teacher'"),
    ("occupations/charfict_real.csv", lambda t: t.replace("'homework'", "'housework'"), "alignment", "differ from real_real.csv"),
    ("occupations/charfict_charfict.csv", lambda t: t.replace("liceder", "porter"), "fiction", "'porter' is a real word"),
    ("templates/pronoun_sentence.txt", lambda t: t.replace("{fondly}", "{gladly}"), "templates", "unknown slot 'gladly'"),
    ("templates/meet_sentence.txt", lambda t: t + "\n\n" + t.splitlines()[0] + "\n", "templates", "stands at templates/meet_sentence.txt, line 1 already"),
    ("templates/entity_mention_templates.json", lambda t: t.replace("{1}", "{0}", 1), "templates", "does not have the mentions 0 to 1 once each"),
])
def test_a_fault_is_found_and_told_with_its_place(copy, name, change, check, told):
    spoil(copy, name, change)
    faults = kc.resource_faults(copy)
    assert any(told in f for f in faults[check]) and all(re.match(r"[\w/-]+\.(csv|txt|json)(, | |:)", f) and "\n" not in f for v in faults.values() for f in v)

@pytest.mark.parametrize("name, change, told", [
    ("names.csv", lambda t: t.replace("lastname", "name", 1), "names.csv, line 1: the header is not lastname"),
    ("noise/cafe.txt", lambda t: "[('The', 'DT'\n" + t, "noise/cafe.txt, line 1: is not a list of (token, tag) pairs"),
    ("noise/cafe.txt", lambda t: "["*5000 + "\n" + t, "noise/cafe.txt, line 1: is not a list of (token, tag) pairs"),
    ("templates/meet_sentence.txt", lambda t: t.replace("{period}]", "{period}", 1), "templates/meet_sentence.txt, line 1: is not a list of slots"),
])
def test_a_broken_file_is_an_error_of_one_line(copy, name, change, told):
    spoil(copy, name, change)
    with pytest.raises(FormatError, match=re.escape(told)): kc.resource_faults(copy)

def test_splits_that_share():
    assert kc.split_faults({"train": {"names": ["A", "B"]}, "validation": {"names": ["C"]}, "test": {"names": ["B", "C"]}}) == ["train and test share 'B' of names", "validation and test share 'C' of names"]
    assert kc.split_faults({"train": {"names": ["A"]}, "test": {"noise": ["A"]}}) == []


# Made-up words

def test_words_go_through_numbers():
    for w in ("a", "zebra", "dentist"): assert decode(encode(w)) == w

def test_near_words_are_dropped():
    lex = lexicon(["plumber", "window"], common=1)
    for w in ("plumber", "plumbr", "plumbers", "pluumber", "plumbor", "pulmber"): assert why_not(w, "er", lex) in ("a word", "near a word"), w
    assert why_not("x"*13, "er", lex) == "length"

def test_a_pool_has_no_two_alike():
    words = ["gorlanter", "gorlenter", "gorlanter", "forvister"]
    lex = Lexicon(frozenset(), frozenset(), frozenset(t for w in words for t in triples(w)))
    assert sift(words, "er", lex).kept == ("gorlanter", "forvister") and sift(words, "er", lex, taken=["forvister"]).kept == ("gorlanter",)
    assert all(not shorter(a) & shorter(b) for a in sift(words, "er", lex).kept for b in sift(words, "er", lex).kept if a != b)

def test_a_deal_that_cannot_be():
    with pytest.raises(DataError, match="find no other place"): shuffle_by_tag([[("running", "VBG"), ("fast", "RB")]]*2, random.Random(0), tries=5)

def test_without_torch_training_says_what_to_install():
    if find_spec("torch"): pytest.skip("torch is here")
    with pytest.raises(MissingPackage, match="refnb\\[models\\]"): train(["word"])

def test_the_seed_decides():
    if not find_spec("torch"): pytest.skip("needs torch: pip install 'refnb[models]'")
    words = usable(kc.word_list("common_words"))
    (a, first), (b, second) = (train(words, epochs=2, size=Size(8, 16), seed=s) for s in (1, 1))
    assert first == second and sample(a, "ly", 20, seed=3) == sample(b, "ly", 20, seed=3) != sample(a, "ly", 20, seed=4)
