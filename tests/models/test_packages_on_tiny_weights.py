"maverick-coref, fastcoref and BookNLP themselves: where they are set up, or with TEST_FULL=1."

from pathlib import Path
import pytest
import refnb
import tools
from models_packages import (
    EVIL,
    KINDS,
    TINY_BOOKNLP,
    TINY_FASTCOREF,
    as_checkpoint,
    by,
    in_place,
    stories,
)
from refnb.core.documents import Document
from refnb.core.settings import load_settings
from refnb.core.types import RefnbError, Span
from refnb.metrics.windows import split
from refnb.models.environments import environment_state, set_up, the_environment
from refnb.models.live import canaries


def environment(name: str, folder: Path):
    "An environment of this machine's, or, when everything is tried, one that is made."
    place = the_environment(name, load_settings(Path(__file__).parent))
    if environment_state(place) == "ready":
        return place
    if not tools.FULL:
        pytest.skip(f"needs the environment {name}: refnb setup {name}, or TEST_FULL=1")
    s = load_settings("/", env={}, cache=str(folder), offline=False)
    return set_up(name, s, say=lambda line: None)


@pytest.fixture(scope="module")
def maverick(tmp_path_factory):
    return environment("maverick", tmp_path_factory.mktemp("environments"))


@pytest.fixture(scope="module")
def fastcoref(tmp_path_factory):
    return environment("fastcoref", tmp_path_factory.mktemp("environments"))


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    "A tiny encoder that knows the letters of the canaries and most words of some stories."
    from refnb.models.pairs.scorers import tiny_encoder

    texts = [" ".join(d.tokens) for d in [*stories()[:4], *canaries()]]
    return tiny_encoder(tmp_path_factory.mktemp("base"), texts)


def refused(text: str, docs, system):
    "An error of one line that says this."
    with pytest.raises(RefnbError) as e:
        refnb.run(docs, system, s=system.settings)
    assert text in str(e.value) and "\n" not in str(e.value)


def runs(system):
    "Both of two beginnings of stories are answered with clusters."
    docs = [Document(d.doc_key, d.sentences[:6]) for d in stories()[:2]]
    done = refnb.run(docs, system, s=system.settings)
    assert done.complete and all(a.clusters for a in done.answers().values())
    return done.answers()


def test_maverick_runs_and_slices_only_what_is_long(maverick, base, tmp_path):
    own = dict(checkpoint=str(as_checkpoint(tmp_path / "weights", base)), encoder=str(base))
    found = runs(in_place(maverick, "maverick", tmp_path, **own))
    assert runs(in_place(maverick, "maverick", tmp_path, long="naive", **own)) == found


def test_the_pipeline_asks_maverick_for_windows_and_groups(maverick, base, tmp_path):
    sentences = (("\n",), *stories()[0].sentences)  # of the seeds, words, the package finds some
    spans = [Span(i, i) for i in range(sum(map(len, sentences)))]
    d = Document("d", sentences, (spans[::4], spans[1::4]), ("One", "Other"))
    s = in_place(maverick, "maverick", tmp_path).settings
    how = dict(s=s, linker="pattern", window=60, group=2, instead={"linked": d.clusters})

    def annotate(folder):
        name = f"maverick[checkpoint={folder},encoder={base},canary=wiring,device=cpu]"
        return refnb.annotate(d, d.names, system=name, **how)

    done = annotate(as_checkpoint(tmp_path / "weights", base))
    found = done.document
    assert all({*seeds} <= {*c} for seeds, c in zip(d.clusters, found.clusters))
    assert done.stages["windows"].counts["grown"] and "grouped" in done.stages
    assert len({*found.mentions}) == len(found.mentions)
    other = as_checkpoint(tmp_path / "other", base, _target_="models.model_s2e.Maverick_s2e")
    with pytest.raises(RefnbError, match="Maverick_s2e completes no clusters"):
        annotate(other)


def test_a_checkpoint_of_maverick_runs_no_code(maverick, base, tmp_path):
    (tmp_path / "evil").mkdir()
    by(maverick, EVIL, tmp_path / "evil/weights.ckpt")
    other = as_checkpoint(tmp_path / "other", base, _target_="os.system")
    for folder, text in (
        (tmp_path / "evil", "UnpicklingError: Weights only load failed"),
        (other, "the checkpoint is of system, not of Maverick_mes"),
    ):
        own = dict(checkpoint=str(folder), encoder=str(base))
        refused(text, stories()[:1], in_place(maverick, "maverick", tmp_path, **own))


@pytest.mark.parametrize("name", KINDS)
def test_fastcoref_runs(fastcoref, base, tmp_path, name):
    by(fastcoref, TINY_FASTCOREF, base, tmp_path / "weights", *KINDS[name])
    runs(in_place(fastcoref, name, tmp_path, checkpoint=str(tmp_path / "weights")))


def test_lingmess_leaves_out_no_text_in_silence(fastcoref, base, tmp_path):
    by(fastcoref, TINY_FASTCOREF, base, tmp_path / "weights", *KINDS["lingmess"])
    long = Document("d", stories()[0].sentences * 3)
    system = in_place(fastcoref, "lingmess", tmp_path, checkpoint=str(tmp_path / "weights"))
    refused("leaves out texts of more than 300 pieces; run it on windows", [long], system)
    assert refnb.run(split(long, 40), system, s=system.settings).complete


def test_fastcoref_goes_on_with_no_random_weights(fastcoref, base, tmp_path):
    import safetensors.torch as st

    by(fastcoref, TINY_FASTCOREF, base, tmp_path / "weights", *KINDS["fcoref"])
    path = tmp_path / "weights/model.safetensors"
    kept = {k: v for k, v in st.load_file(path).items() if "antecedent_s2s" not in k}
    st.save_file(kept, path, {"format": "pt"})
    system = in_place(fastcoref, "fcoref", tmp_path, checkpoint=str(tmp_path / "weights"))
    refused("2 missing weights in the checkpoint", stories()[:1], system)


def test_booknlp_keeps_its_place_behind_line_feeds(fastcoref, base, tmp_path):
    weights = tmp_path / "weights"
    weights.mkdir()
    by(fastcoref, TINY_BOOKNLP, base, weights, 1)
    own = dict(checkpoint=str(weights), encoder=str(weights), parser=str(weights / "parser"))
    system = in_place(fastcoref, "booknlp", tmp_path, **own)
    feeds = Document("feeds", ((("\n",),) + stories()[0].sentences[:2] + (("\n", "\n"),)) * 3)
    runs(system)
    [found] = refnb.run([feeds], system, s=system.settings).answers().values()
    spans = {s for c in found.clusters for s in c}
    assert spans and not any(feeds.tokens[i] == "\n" for s in spans for i in s)
