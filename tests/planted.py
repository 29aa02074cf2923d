"""Faults to plant in guards, one line each, and the tests that must notice: what `test_planted.py` goes through.

A fault replaces a text that appears once in a file of the package; the tests are those of one file whose names match."""
from typing import NamedTuple

class Planted(NamedTuple):
    what: str
    file: str   # below refnb/
    old: str
    new: str
    tests: str  # file below tests/
    named: str  # pytest -k

RUNS, FILES, TYPES, UPSTREAM = "core/runs.py", "core/files.py", "core/types.py", "core/upstream.py"
SERVERS, KEYS, PROTOCOL, REPLIES, MODELS = (f"models/language/{x}.py" for x in ("servers", "keys", "protocol", "replies", "language_models"))
ASK, HOSTILE, RUN, SERVED = "test_language_models.py", "test_hostile_servers.py", "test_runs.py", "test_server_runs.py"
COREF, READERS, INERT, WRITTEN = "test_coref_metrics.py", "test_readers.py", "test_inert.py", "core/inert.py"
COREFERENCE, DIALECTS = "test_coreference.py", "test_dialects.py"

PLANTED = [
    # journals and runs
    Planted("no fsync of a journal", RUNS, "    os.fsync(f.fileno())\n", "    pass\n", RUN, "f76"),
    Planted("no sync of a new journal's name", RUNS, "        if not start:\n            sync_folder", "        if False:\n            sync_folder", RUN, "f76"),
    Planted("no sync of new folders", FILES, "        sync_folder(p.parent)", "        pass", RUN, "f76"),
    Planted("a write in place, not aside", FILES, "            os.replace(tmp, path)\n", "            path.write_bytes(data[:len(data)//2]); path.write_bytes(data); tmp.unlink()\n", RUN, "f76"),
    Planted("a line's checksum is not looked at", RUNS, "if tail == b',\"crc\":\"%08x\"}' % zlib.crc32(body) else None", "if tail.startswith(b',\"crc\":') else None", RUN, "f30"),
    Planted("a torn end is not dropped", RUNS, "    if damaged or torn:", "    if damaged:", RUN, "f29"),
    Planted("the seal's hash is not compared", RUNS, "if hashlib.sha256(data).hexdigest() != seal.sha256:", "if False:", RUN, "f30"),
    Planted("a failed append leaves a part", RUNS, "            f.truncate(start)\n", "", RUN, "f10"),
    Planted("no lock for two writers", FILES, "        except Timeout:\n            raise DataError(busy, where or str(lock), do) from None", "        except Timeout:\n            pass", RUN, "f32"),
    Planted("failures are sealed", RUNS, "    if len(failed) > failures:", "    if False:", RUN, "f58 or f59"),
    Planted("the settings are not hashed", RUNS, "hashed = info.changed(refnb=\"\", prompt", "hashed = info.changed(refnb=\"\", settings={}, prompt", RUN, "f34"),
    Planted("a summary of another task is read", RUNS, "    return s.info.task == card.task and s.info", "    return s.info", RUN, "f36"),
    Planted("long names are not hashed", TYPES, "    return safe if len(safe) <= limit else _cut_to(safe, limit)", "    return safe[:limit]", RUN, "f55"),
    Planted("a path upward is not escaped", TYPES, "    return safe if safe.strip(\".\") else safe.replace", "    return safe if safe else safe.replace", RUN, "f55"),
    Planted("errors are not cut", TYPES, "return text if len(text) <= room else text[: room - 1] + \"…\"", "return text", "test_cli.py", "f72"),
    # data
    Planted("a blob id is not compared", UPSTREAM, "    if _blob_id(data) != f.blob:", "    if False:", "test_upstream.py", "f45_a_changed"),
    Planted("YAML makes objects", FILES, "    return getattr(yaml, \"CSafeLoader\", yaml.SafeLoader)", "    return yaml.UnsafeLoader", "test_formats.py", "f54"),
    Planted("YAML aliases are followed", FILES, "    if isinstance(e, yaml.AliasEvent):", "    if False:", "test_formats.py", "f54"),
    Planted("remote code is allowed", "models/language/local.py", "\"trust_remote_code\": False}", "\"trust_remote_code\": True}", "test_local_models.py", "f80"),
    Planted("remote code is allowed to encoders", "models/pairs/encoders.py", "\"trust_remote_code\": False}", "\"trust_remote_code\": True}", "test_local_models.py", "f80"),
    # keys
    Planted("the key is not taken out of replies", SERVERS, "            return self.secret.clean(r.content)", "            return r.content", HOSTILE, "f60"),
    Planted("escapes are not undone", KEYS, "flat = self._value, _WRITTEN.sub(_letter, text)", "flat = self._value, text", HOSTILE, "f60"),
    Planted("no look for base64", KEYS, "        self._others = _disguised(value) if len(value) >= 8 else []", "        self._others = []", HOSTILE, "f60"),
    Planted("the parts of a reply are not looked at", MODELS, "(\"text\", \"reasoning\", \"model\", \"error\")", "(\"reasoning\", \"model\", \"error\")", HOSTILE, "f60"),
    Planted("the reasoning is not looked at", SERVERS, "        return r.hiding(self.secret.hidden)", "        return r.hiding(self.secret.hidden).changed(reasoning=r.reasoning)", HOSTILE, "f60"),
    Planted("another address gets the key", "models/language/systems.py", "new = {\"key\": \"\"} | new", "pass", DIALECTS, "another_address"),
    Planted("a refused field is sent again", SERVERS, "    if status in (400, 422) and (refused := _refused(m, what, param)):", "    if False and (refused := _refused(m, what, param)):", DIALECTS, "refused_field"),
    Planted("what a server does not take is sent", "models/language/systems.py", "        check_taken(self.model)\n", "", DIALECTS, "refused_before"),
    Planted("errors quote the key", SERVERS, "        return f._replace(what=self.secret.scrubbed(f.what))", "        return f", HOSTILE, "f60"),
    Planted("an address may hold a password", MODELS, "    if parts.username or parts.password or parts.query or \"@\" in parts.netloc:", "    if False:", HOSTILE, "f60"),
    Planted("a key in place of its variable's name", MODELS, "    if not name or name in os.environ:\n", "    if True:\n", HOSTILE, "f60"),
    # replies and money
    Planted("any number counts as tokens", PROTOCOL, " or not 0 <= x <= _MOST_TOKENS", "", HOSTILE, "f61"),
    Planted("any number is a log-probability", PROTOCOL, " and p < 1e-3", "", HOSTILE, "f61"),
    Planted("half a character is passed on", PROTOCOL, "    try:\n        text.encode()\n", "    return text\n    try:\n        text.encode()\n", HOSTILE, "f62"),
    Planted("invalid UTF-8 is refused", PROTOCOL, "json.detect_encoding(data), \"replace\")", "json.detect_encoding(data))", HOSTILE, "f62"),
    Planted("raw bytes are not kept", REPLIES, "zlib.compress(b.raw, 1) if b.raw else b\"\"", "b\"\"", HOSTILE, "f62"),
    Planted("kept bytes are not read again", SERVERS, "return await self.reread(ask, key) or await self.question(ask, key)", "return await self.question(ask, key)", HOSTILE, "f62"),
    Planted("no cap on a reply", SERVERS, "        if self.left < 0:\n            raise _TooLarge", "        if False:\n            raise _TooLarge", HOSTILE, "f63"),
    Planted("no cap on seconds without a byte", SERVERS, "asyncio.timeout(patience.quiet)", "asyncio.timeout(None)", HOSTILE, "f63_a_body_that_stalls"),
    Planted("two processes do not look at each other", SERVERS, "        while not claims.take(key):", "        while False:", HOSTILE, "f66"),
    Planted("an idempotency key of chance", SERVERS, "await self.attempt(ask, key)", "await self.attempt(ask, os.urandom(8).hex())", HOSTILE, "f66"),
    Planted("a budget for each call", "models/language/systems.py", "self.spent_before, self.had = sum(paid), frozenset(had)", "self.spent_before, self.had = 0., frozenset(had)", SERVED, "f67"),
    Planted("what is set aside does not count", SERVERS, "self.gone + self.aside + usd <=", "self.gone + usd <=", ASK, "f20"),
    Planted("a failed request is an answer", "models/language/answering.py", "    if r.finish == \"failed\":\n", "    if False:\n", SERVED, "f58 or f59"),
    Planted("a wrong address is asked for every question", SERVERS, "most = max(1, int(self.window.size)) if self.heard else 1", "most = max(1, int(self.window.size))", ASK, "f58"),
    Planted("a wrong key is tried again", SERVERS, "    if status == 401:\n        return Fault(\n            \"stop\"", "    if status == 401:\n        return Fault(\n            \"again\"", ASK, "f15 or f58"),
    Planted("Retry-After is not heard", SERVERS, "    return max(0.0, seconds) if", "    return 0 * max(0.0, seconds) if", ASK, "f14_retry"),
    Planted("an unknown price is nothing", MODELS, "return 0.0 if m.provider == \"local\" else None", "return 0.0", SERVED, "f21"),
    Planted("max_tokens may be anything", MODELS, "        if not 1 <= self.max_tokens <= 1_000_000:", "        if False:", "test_cli.py", "f75"),
    Planted("the provider's key forgets the system message", MODELS, "msgspec.to_builtins(ask.changed(id=\"\"))", "msgspec.to_builtins(ask.changed(id=\"\", system=\"\"))", ASK, "f34"),
    Planted("the provider's key forgets the dialect", MODELS, "        if data[name] == usual:\n", "        if True:\n", ASK, "f34"),
    # claims
    Planted("a note explains any number", "results/tables.py", "        return self.note if known else \"\"", "        return self.note", "test_tables.py", "for_one_number"),
    Planted("another reading explains what it does not give", "results/tables.py", "            if self.as_in_paper(x) == printed:\n", "            if True:\n", "test_tables.py", "another_reading"),
    Planted("chance counts as a match", "results/tables.py", "        if basis(self.run, self.place):\n", "        if False:\n", "test_tables.py", "no_results"),
    # what others write
    Planted("names are markup in a look", "core/documents.py", "    return html.escape(plain(text, limit))", "    return plain(text, limit)", "test_looking.py", "f53"),
    Planted("markup in Markdown", WRITTEN, "    return _MARKUP.sub(lambda m: _ENTITIES.get(m[0], f\"\\\\{m[0]}\"), line)", "    return line", INERT, "f68_a_text_in_markdown"),
    Planted("commands in LaTeX", WRITTEN, "_TEX.get(c, c) for c in inert(", "c for c in inert(", INERT, "f68_nothing_of_a_text"),
    Planted("formulas in CSV", WRITTEN, "    return f\"'{cell}\" if _FORMULA.match(cell) else cell", "    return cell", INERT, "f68_no_cell"),
    Planted("escapes in the terminal", WRITTEN, "    if text.isprintable():\n        return text\n", "    return text\n", INERT, "f68_nothing_steers"),
    Planted("an error is printed raw", "commands/terminal.py", "inert(line, keep=\"\\t\") for line in lines", "line for line in lines", INERT, "f68_an_error or f68_groups"),
    Planted("data end a page's script", "core/pages.py", ".replace(\n        \"<\", \"\\\\u003c\"\n    )", "", INERT, "f53_data_in_a_page"),
    Planted("names are markup in the view", "results/pages/viewer.py", "return html.escape(plain(\" \".join(text.split()), limit))", "return plain(\" \".join(text.split()), limit)", "test_viewer.py", "f53_the_table"),
    Planted("figures read formulas", "results/plots.py", "\"text.parse_math\": False", "\"text.parse_math\": True", INERT, "f68_a_figure"),
    Planted("a closed pipe is an error", "commands/terminal.py", "    except BrokenPipeError:\n        let_go", "    except ZeroDivisionError:\n        let_go", "test_cli.py", "f73_nobody"),
    # scores
    Planted("words are not compared", "core/documents.py", "    if a == b:\n        return \"\"\n", "    return \"\"\n", COREF, "f69"),
    Planted("a span has no bound", "metrics/coref.py", "    if len(ends) and not 0 <= ends.min() <= ends.max() < LONGEST:", "    if False:", COREF, "f69"),
    Planted("an index may be chosen twice", TYPES, "if len(set(self.chosen)) < len(self.chosen):", "if False:", READERS, "f69"),
    Planted("doubled mentions are not told", "metrics/coref_scores.py", "        dict.fromkeys(doubled),\n", "        {},\n", COREF, "f48"),
    Planted("ties of heads go another way", "metrics/matching.py", "_DENSE = 1 << 24", "_DENSE = 0", "test_matching.py", "every_digit"),
    Planted("zeros substitute on one side", "metrics/matching.py", "    instead[b[other]] = a[other]\n", "", "test_matching.py", "every_digit"),
    Planted("heads from the rule are not told", "metrics/matching.py", "        if by_rule\n", "        if False\n", "test_matching.py", "by_rule"),
    Planted("one of several runs is taken", RUNS, "    if len(found) > 1:\n        raise several_runs", "    if False:\n        raise several_runs", READERS, "f70"),
    # readers
    Planted("a download does not stop", UPSTREAM, "    if size <= most:\n        return\n", "    return\n", "test_upstream.py", "f64"),
    Planted("a .gz file of any ratio", FILES, "min(s.largest, max(_ALWAYS, s.ratio * path.stat().st_size))", "min(s.largest, s.largest)", "test_formats.py", "f65"),
    Planted("each key is compared with each", FILES, "[(key, _)] = Counter(map(itemgetter(0), pairs)).most_common(1)", "key = next(k for k, _ in pairs if sum(k == x for x, _ in pairs) > 1)", READERS, "f71_the_work"),
    Planted("a deep line stops the reader", FILES, "    except RecursionError:\n        raise FormatError(\"nested too deep\", at)", "    except ZeroDivisionError:\n        raise FormatError(\"nested too deep\", at)", "test_formats.py", "f72"),
    Planted("a damaged report hides the others", "results/board.py", "    except FormatError as e:\n        return [], e.what", "    except ZeroDivisionError as e:\n        return [], str(e)", READERS, "f72_a_damaged_report"),
    # coreference systems
    Planted("any score is a link", "models/coreference/antecedents.py", "    if not np.isfinite(scores).all():", "    if False:", COREFERENCE, "no_numbers"),
    Planted("any score is a mention", "models/coreference/mentions.py", "    if bool(torch.isfinite(scores).all()):\n", "    if True:\n", COREFERENCE, "no_numbers"),
    Planted("any encoder reads for any weights", "models/coreference/learning.py", "    if own != trained:\n", "    if False:\n", COREFERENCE, "another_encoder"),
    Planted("half a training is a system", "models/coreference/recipes.py", "    if not (Path(folder) / SEAL).exists():\n", "    if False:\n", COREFERENCE, "half_a_checkpoint"),
    Planted("any schema of a seal is read", "models/coreference/recipes.py", "    if schema != 1:\n", "    if False:\n", COREFERENCE, "half_a_checkpoint"),
    Planted("a system is asked what it has learnt from", "models/coreference/systems.py", "        if seen := _seen(task, folder):", "        if seen := 0*_seen(task, folder):", COREFERENCE, "learnt_from_is_refused"),
    # batches
    Planted("connection files stay", "results/kernels.py", "            self.connection_file = str(", "            self.elsewhere = str(", "test_batch.py", "f74"),
]
