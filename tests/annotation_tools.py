"Writers of what annotation tools export, to be read back: one story in each of their formats."

import html, io, json, zipfile
from refnb.core.documents import Document


def text_of(d: Document) -> tuple[str, list[tuple[int, int]]]:
    "A document's text, a sentence a line, and the characters of each token."
    text, places = "", []
    for s in d.sentences:
        for w in s:
            places.append((len(text), len(text) + len(w)))
            text += w + " "
        text = text[:-1] + "\n"
    return text, places


def units(text: str, offset: int) -> int:
    "An offset in UTF-16 units."
    return len(text[:offset].encode("utf-16-le", "surrogatepass")) // 2


def marks(d: Document, utf16: bool) -> list[list[tuple[int, int]]]:
    "The characters of each mention, chain by chain."
    text, places = text_of(d)
    at = (lambda o: units(text, o)) if utf16 else int
    return [[(at(places[s.start][0]), at(places[s.end][1])) for s in c] for c in d.clusters]


def brat(d: Document, equiv: bool = True) -> tuple[bytes, bytes]:
    "The `.ann` and the `.txt` of brat's."
    text, lines, n = text_of(d)[0], [], 0
    for c in marks(d, False):
        ids = [f"T{n + i}" for i in range(len(c))]
        lines += [
            f"{id}\tMention {a} {b}\t{' '.join(text[a:b].split())}" for id, (a, b) in zip(ids, c)
        ]
        if equiv and len(c) > 1:
            lines.append("*\tEquiv " + " ".join(ids))
        elif not equiv:
            lines += [
                f"R{n + i}\tCoref Arg1:{b} Arg2:{a}\t"
                for i, (a, b) in enumerate(zip(ids, ids[1:]), 1)
            ]
        n += len(c)
    return "".join(line + "\n" for line in lines).encode(), text.encode()


DKPRO = "de.tudarmstadt.ukp.dkpro.core.api."
ANNOTATOR = "de.unistuttgart.ims.coref.annotator.api."


def structures(d: Document, tool: str = "inception", title: str = "") -> list[dict]:
    "The feature structures of a CAS, as JSON has them."
    text, places = text_of(d)
    out = [
        {
            "%ID": 1,
            "%TYPE": "uima.cas.Sofa",
            "sofaNum": 1,
            "sofaID": "_InitialView",
            "sofaString": text,
        }
    ]

    def add(type: str, **features) -> int:
        out.append({"%ID": len(out) + 1, "%TYPE": type, **features})
        return len(out)

    def annotation(type: str, a: int, b: int, **features) -> int:
        return add(type, **{"@sofa": 1, "begin": a, "end": b}, **features)

    if title:
        annotation(
            f"{DKPRO}metadata.type.DocumentMetaData",
            0,
            units(text, len(text)),
            documentTitle=title,
            documentId="anna",
        )
    n = 0
    for s in d.sentences:
        chars = [tuple(units(text, o) for o in places[n + i]) for i in range(len(s))]
        annotation(f"{DKPRO}segmentation.type.Sentence", chars[0][0], chars[-1][1])
        for a, b in chars:
            annotation(f"{DKPRO}segmentation.type.Token", a, b)
        n += len(s)
    for i, c in enumerate(marks(d, True)):
        if tool == "inception":
            first = len(out) + 1
            for k, (a, b) in enumerate(c):
                annotation(
                    f"{DKPRO}coref.type.CoreferenceLink",
                    a,
                    b,
                    referenceType="x",
                    **({"@next": len(out) + 2} if k + 1 < len(c) else {}),
                )
            add(f"{DKPRO}coref.type.CoreferenceChain", **{"@first": first})
        else:
            entity = add(f"{ANNOTATOR}{tool}.Entity", Label=d.names[i] if d.names else "")
            for a, b in c:
                if tool == "v1":
                    annotation(f"{ANNOTATOR}v1.Mention", a, b, **{"@Entity": entity})
                else:
                    m = add(
                        f"{ANNOTATOR}v2.Mention", **{"@Entity": entity, "@Surface": len(out) + 2}
                    )
                    annotation(f"{ANNOTATOR}v2.MentionSurface", a, b, **{"@Mention": m})
    return out


def json_cas(found: list[dict]) -> bytes:
    return json.dumps(
        {
            "%TYPES": {},
            "%FEATURE_STRUCTURES": found,
            "%VIEWS": {"_InitialView": {"%SOFA": 1, "%MEMBERS": []}},
        }
    ).encode()


def xmi(found: list[dict]) -> bytes:
    spaces = sorted({s["%TYPE"].rpartition(".")[0] for s in found})
    prefix = {s: f"p{i}" for i, s in enumerate(spaces)}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" '
        + " ".join(f'xmlns:{p}="http:///{s.replace(".", "/")}.ecore"' for s, p in prefix.items())
        + ' xmi:version="2.0">',
    ]
    escaped = lambda v: html.escape(str(v)).replace("\n", "&#10;")
    for s in found:
        space, _, local = s["%TYPE"].rpartition(".")
        features = " ".join(f'{k.lstrip("@")}="{escaped(v)}"' for k, v in s.items() if k[0] != "%")
        lines.append(f'<{prefix[space]}:{local} xmi:id="{s["%ID"]}" {features}/>')
    return "\n".join([*lines, "</xmi:XMI>"]).encode()


def studio(by: dict[str, list[Document]]) -> bytes:
    "Label Studio's JSON of what several people annotated."
    tasks = {}
    for who, docs in by.items():
        for d in docs:
            text, result = text_of(d)[0], []
            for i, c in enumerate(marks(d, True)):
                for k, (a, b) in enumerate(c):
                    said = (
                        text.encode("utf-16-le")[2 * a : 2 * b]
                        .decode("utf-16-le")
                        .replace("\n", "\\n")
                    )
                    result.append(
                        {
                            "id": f"r{i}-{k}",
                            "type": "labels",
                            "from_name": "l",
                            "to_name": "t",
                            "value": {"start": a, "end": b, "text": said, "labels": ["M"]},
                        }
                    )
                    if k:
                        result.append(
                            {
                                "type": "relation",
                                "from_id": f"r{i}-{k}",
                                "to_id": f"r{i}-{k - 1}",
                                "direction": "right",
                            }
                        )
            task = tasks.setdefault(
                d.doc_key,
                {
                    "id": len(tasks) + 1,
                    "data": {"text": text, "doc_key": d.doc_key},
                    "annotations": [],
                    "predictions": [],
                },
            )
            task["annotations"].append(
                {
                    "id": len(task["annotations"]),
                    "completed_by": {"id": 1, "email": who},
                    "result": result,
                }
            )
    return json.dumps(list(tasks.values())).encode()


def project(by: dict[str, Document], nested: bool = False) -> bytes:
    "An archive of INCEpTION's, with a file for each person; or with an archive for each, as it exports projects."

    def packed(members: dict[str, bytes]) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
            for name, data in members.items():
                z.writestr(name, data)
        return out.getvalue()

    files = {who: xmi(structures(d)) for who, d in by.items()} | {
        "INITIAL_CAS": xmi(structures(next(iter(by.values()))))
    }
    inside = {
        f"annotation/story.txt/{who}.zip": packed({f"{who}.xmi": f, "TypeSystem.xml": b"<x/>"})
        for who, f in files.items()
    }
    plain = {f"annotation/story.txt/{who}.xmi": f for who, f in files.items()}
    return packed(
        {
            "exportedproject.json": b"{}",
            "source/story.txt.json": b"{}",
            **(inside if nested else plain),
        }
    )
