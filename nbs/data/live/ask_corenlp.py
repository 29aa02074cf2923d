"""Stanford CoreNLP (4.5) as a worker: its own server on loopback, asked with our tokens and sentences.

The checkpoint is a folder with CoreNLP's jars, its models among them; a Java of version 8 or later is on the path. Four
traps are minded. The server refuses texts of more than 100,000 letters and gives up after 15 seconds; both limits are
lifted. It listens on all addresses of a machine, unless it is told otherwise. A token of white space would be lost; it
is left out, and what is behind it keeps its place. And sentences or tokens that are not read as they were sent are an
error, for all places behind them would be wrong.
"""

import ctypes, json, shutil, socket, subprocess, sys, time, urllib.error, urllib.parse, urllib.request
from pathlib import Path
from refnb_worker import one_line, serve

MAIN = "edu.stanford.nlp.pipeline.StanfordCoreNLPServer"
STEPS = {
    "statistical": "depparse,coref",
    "neural": "parse,coref",
    "deterministic": "parse,dcoref",
}  # behind tags, lemmas and names
DAY = 86400  # seconds for an answer: refnb's own patience ends a worker


def dies_with_us():
    "Let a process end with the worker, even if the worker is killed."
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)


class Server:
    "A server of CoreNLP, until the worker ends."

    def __init__(self, settings):
        folder = Path(settings["checkpoint"])
        if not any(folder.glob("*.jar")):
            raise ValueError("there are no jars in the checkpoint's folder")
        java = shutil.which(settings["java"])
        if not java:
            raise ValueError(
                f"there is no program {settings['java']}: install Java 8 or later, or set java=PATH"
            )
        self.algorithm, self.port = settings["algorithm"], free_port()
        if self.algorithm not in STEPS:
            raise ValueError(f"unknown algorithm {self.algorithm!r}: {', '.join(STEPS)}")
        how = [
            "-host",
            "127.0.0.1",
            "-port",
            str(self.port),
            "-timeout",
            str(DAY * 1000),
            "-maxCharLength",
            "0",
            "-quiet",
            "true",
        ]
        self.p = subprocess.Popen(
            [java, f"-Xmx{settings['memory']}", "-cp", str(folder / "*"), MAIN, *how],
            stdin=subprocess.DEVNULL,
            stdout=2,
            stderr=2,
            preexec_fn=dies_with_us,
        )
        self.wait(float(settings["start"]))

    def wait(self, seconds):
        "Wait until it answers."
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.p.poll() is not None:
                raise ValueError(f"CoreNLP's server ended with status {self.p.returncode}")
            try:
                return self.ask("/ready")
            except OSError:
                time.sleep(0.05)
        raise ValueError(
            f"CoreNLP's server is not ready after {seconds:g} seconds; set start= to more"
        )

    def ask(self, path, data=None):
        "What it answers."
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data,
            {"Content-Type": "text/plain; charset=utf-8"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=DAY) as got:
                return got.read()
        except urllib.error.HTTPError as e:
            why = f"HTTP {e.code}: {one_line(e.read().decode('utf-8', 'replace'))}"
            raise (OSError if e.code == 503 else ValueError)(
                why
            ) from None  # 503: it is not ready yet

    def annotated(self, text):
        "A text of one line a sentence, annotated."
        how = {
            "annotators": f"tokenize,ssplit,pos,lemma,ner,{STEPS[self.algorithm]}",
            "outputFormat": "json",
            "tokenize.whitespace": "true",
            "ssplit.eolonly": "true",
        }
        if self.algorithm != "deterministic":
            how["coref.algorithm"] = self.algorithm
        return json.loads(
            self.ask("/?" + urllib.parse.urlencode({"properties": json.dumps(how)}), text.encode())
        )

    def end(self):
        "End it."
        self.p.kill()
        self.p.wait()


def free_port():
    "A port of loopback that nobody listens on."
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def bare(sentences):
    "The sentences without tokens of white space, and the place of each token in the text."
    at, out = 0, []
    for s in sentences:
        out.append([(at + i, "".join(t.split())) for i, t in enumerate(s) if t.strip()])
        at += len(s)
    return [s for s in out if s]


def asked(server, sentences):
    "CoreNLP's own reading of a text, which must have its sentences and tokens; and the tokens' places."
    kept = bare(sentences)
    if not kept:
        return [], {}, []
    got = server.annotated("\n".join(" ".join(w for _, w in s) for s in kept))
    read = [[t["originalText"] or t["word"] for t in s["tokens"]] for s in got["sentences"]]
    if list(map(len, read)) != list(map(len, kept)):
        raise ValueError(
            f"CoreNLP reads {sum(map(len, read)):,} tokens in {len(read):,} sentences, the text has {sum(map(len, kept)):,} in {len(kept):,}"
        )
    return kept, got, read


def clusters_of(server, sentences):
    "The chains that CoreNLP finds; its indices begin at 1, and the end is the token behind."
    kept, got, _ = asked(server, sentences)
    return [
        [
            (
                kept[m["sentNum"] - 1][m["startIndex"] - 1][0],
                kept[m["sentNum"] - 1][m["endIndex"] - 2][0],
            )
            for m in chain
        ]
        for chain in got.get("corefs", {}).values()
    ]


def words_of(server, sentences):
    "The words that CoreNLP reads."
    kept, _, read = asked(server, sentences)
    out = [""] * sum(map(len, sentences))
    for s, words in zip(kept, read):
        for (i, _), word in zip(s, words):
            out[i] = word
    return out


def main():
    "Answer until the input ends, and end the server."
    started = []

    def load(settings):
        started.append(Server(settings))
        return started[0]

    try:
        serve(load, clusters_of, words_of)
    finally:
        for server in started:
            server.end()


if __name__ == "__main__":
    main()
