"""Stanford CoreNLP (4.5) as a worker: its own server on loopback, asked with our tokens and sentences.

The checkpoint is a folder with CoreNLP's jars, its models among them; a Java of version 8 or later is on the path. Four
traps are minded. The server refuses texts of more than 100,000 letters and gives up after 15 seconds; both limits are
lifted. It listens on all addresses of a machine, unless it is told otherwise. A token of white space would be lost; it
is left out, and what is behind it keeps its place. And sentences or tokens that are not read as they were sent are an
error, for all places behind them would be wrong.
"""

import atexit, ctypes, json, shutil, socket, subprocess, sys, time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode
from refnb_worker import one_line, serve

STEPS = {"statistical": "depparse,coref", "neural": "parse,coref", "deterministic": "parse,dcoref"}
DAY = 86400  # seconds for an answer: refnb's own patience ends a worker


def ask(port, path, text=""):
    "The status and the text of the server's answer."
    server = HTTPConnection("127.0.0.1", port, timeout=DAY)
    server.request("POST" if text else "GET", path, text.encode(), {"Content-Type": "text/plain"})
    answer = server.getresponse()
    return answer.status, answer.read().decode("utf-8", "replace")


def load(settings):
    "Start a server, which ends with the worker (on Linux, also where that is killed): its port, and how it is asked."
    algorithm, folder = settings["algorithm"], Path(settings["checkpoint"])
    if algorithm not in STEPS:
        raise ValueError(f"unknown algorithm {algorithm!r}: {', '.join(STEPS)}")
    if not any(folder.glob("*.jar")):
        raise ValueError("there are no jars in the checkpoint's folder")
    if not (java := shutil.which(settings["java"])):
        what = f"there is no program {settings['java']}"
        raise ValueError(f"{what}: install Java 8 or later, or set java=PATH")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [java, f"-Xmx{settings['memory']}", "-cp", str(folder / "*")]
    command += ["edu.stanford.nlp.pipeline.StanfordCoreNLPServer", "-host", "127.0.0.1"]
    command += f"-port {port} -timeout {DAY * 1000} -maxCharLength 0 -quiet true".split()
    dies = (lambda: ctypes.CDLL(None).prctl(1, 9)) if sys.platform == "linux" else None
    quiet = {"stdin": subprocess.DEVNULL, "stdout": 2, "stderr": 2}
    server = subprocess.Popen(command, preexec_fn=dies, **quiet)
    atexit.register(server.kill)
    end = time.monotonic() + settings["start"]
    while time.monotonic() < end:
        if server.poll() is not None:
            raise ValueError(f"CoreNLP's server ended with status {server.returncode}")
        with suppress(OSError):  # nobody listens yet
            if ask(port, "/ready")[0] == 200:
                steps = f"tokenize,ssplit,pos,lemma,ner,{STEPS[algorithm]}"
                how = {"annotators": steps, "outputFormat": "json"}
                how |= {"tokenize.whitespace": "true", "ssplit.eolonly": "true"}
                own = {} if algorithm == "deterministic" else {"coref.algorithm": algorithm}
                return port, urlencode({"properties": json.dumps(how | own)})
        time.sleep(0.05)
    raise ValueError(
        f"CoreNLP's server is not ready after {settings['start']} seconds; set start= to more"
    )


def asked(server, sentences):
    "CoreNLP's reading of a text, which must have its sentences and tokens; and the places of these in the text."
    places, at = [], 0
    for s in sentences:
        places.append([at + i for i, t in enumerate(s) if t.strip()])
        at += len(s)
    places = [p for p in places if p]
    if not places:
        return [], {"sentences": []}
    words = ["".join(t.split()) for s in sentences for t in s]
    port, how = server
    status, answer = ask(port, f"/?{how}", "\n".join(" ".join(words[i] for i in p) for p in places))
    if status != 200:
        raise ValueError(f"HTTP {status}: {one_line(answer)}")
    got = json.loads(answer)
    read = [len(s["tokens"]) for s in got["sentences"]]
    if read != list(map(len, places)):
        what = f"CoreNLP reads {sum(read):,} tokens in {len(read):,} sentences, the text has"
        raise ValueError(f"{what} {sum(map(len, places)):,} in {len(places):,}")
    return places, got


def clusters_of(server, sentences):
    "The chains that CoreNLP finds; its indices begin at 1, and the end is the token behind."
    places, got = asked(server, sentences)

    def span(m):
        own = places[m["sentNum"] - 1]
        return own[m["startIndex"] - 1], own[m["endIndex"] - 2]

    return [[span(m) for m in chain] for chain in got.get("corefs", {}).values()]


def words_of(server, sentences):
    "The words that CoreNLP reads."
    places, got = asked(server, sentences)
    out = [""] * sum(map(len, sentences))
    for own, read in zip(places, got["sentences"]):
        for i, t in zip(own, read["tokens"]):
            out[i] = t["originalText"] or t["word"]
    return out


if __name__ == "__main__":
    serve(load, clusters_of, words_of)
