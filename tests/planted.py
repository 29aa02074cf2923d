"""Guards that can be taken out, one at a time, and the tests that must notice: `test_planted.py` goes through them.

A guard is a function, a method or a name that a module uses; in its place stands an expression, in which `real` is what
it replaces. No line of the package is quoted here, so that a rewrite of it leaves this list alone."""

from typing import NamedTuple


class Guard(NamedTuple):
    "A guard, and who misses it."

    about: str  # what it keeps
    place: str  # module:name, below refnb
    instead: str  # what stands in its place
    tests: str  # a file below tests/
    named: str  # pytest -k


GUARDS = [
    # nothing paid or computed is lost or bought twice
    Guard(
        "a new name is on the disk when its folder is synced",
        "core.files:sync_folder",
        "lambda *a, **k: None",
        "core/test_runs.py",
        "power_failure",
    ),
    Guard(
        "answers are synced before they count",
        "core.runs:Writer.flush",
        "lambda self: (self.path.open('ab').write(b''.join(self.waiting)), self.waiting.clear())",
        "core/test_runs.py",
        "power_failure",
    ),
    Guard(
        "a file is replaced as a whole",
        "core.files:write_atomic",
        "lambda path, data, gz=False: (lambda p: (make_folder(p.parent), p.write_bytes(data.encode() if isinstance(data, str) else data), p)[2])(Path(path))",
        "core/test_files.py",
        "killed_write",
    ),
    Guard(
        "a torn end of a journal is put aside",
        "core.runs:read_journal",
        "lambda *paths: (real(*paths)[0], [])",
        "core/test_runs.py",
        "torn_journal",
    ),
    Guard(
        "a complete run is checked against its seal",
        "core.runs:Run.records",
        "lambda self: read_journal(self.journal)[0]",
        "core/test_runs.py",
        "damaged_journal",
    ),
    Guard(
        "one writer at a time",
        "core.runs:alone",
        "lambda *a, **k: __import__('contextlib').nullcontext()",
        "core/test_runs.py",
        "second_writer",
    ),
    Guard(
        "a reply is found again",
        "models.language.servers:Buyer.find",
        "lambda self, ask: None",
        "language/test_paid_replies.py",
        "bought_once",
    ),
    Guard(
        "the bytes that came are kept",
        "models.language.store:Replies.put_many",
        "lambda self, kept: real(self, [k._replace(raw=b'') for k in kept])",
        "language/test_servers.py",
        "odd_body",
    ),
    Guard(
        "two processes look at each other",
        "models.language.store:Store.claim",
        "lambda *a: real(*a) or True",
        "language/test_kills.py",
        "two_processes",
    ),
    Guard(
        "what is under way counts in a budget",
        "models.language.servers:Budget.fits",
        "lambda self, usd=0.0: self.spent + usd <= self.usd",
        "language/test_paid_replies.py",
        "hold_their_part",
    ),
    Guard(
        "a budget holds over calls",
        "models.language.systems:LanguageModelSystem.replies",
        "lambda self, m, asks, store, usd_so_far: real(self, m, asks, store, 0.0)",
        "language/test_paid_replies.py",
        "over_calls",
    ),
    Guard(
        "a batch is found by its label",
        "models.language.batches:create_batch",
        "lambda server, folder, job: real(server, folder, job.changed(state='written'))",
        "language/test_batches.py",
        "by_its_label",
    ),
    Guard(
        "two batches of tables do not mix",
        "results.reproduce:only_batch",
        "contextmanager(lambda place: ((place / '.batch').mkdir(parents=True, exist_ok=True), (yield)))",
        "results/test_batch.py",
        "two_batches",
    ),
    Guard(
        "a killed training goes on",
        "models.coreference.learning:save_tensors",
        "lambda path, *a: '' if 'state' in str(path) else real(path, *a)",
        "coreference/test_coreference_training.py",
        "killed_training",
    ),
    Guard(
        "stages of an annotation are kept",
        "models.annotation.stages:write_stages",
        "lambda folder, stages: None",
        "models/test_annotation.py",
        "killed_annotation",
    ),
    # a failure is never a score
    Guard(
        "failures are not sealed",
        "core.runs:Run.seal",
        "lambda self, ids, missing=False, failures=0, *a: real(self, ids, missing, 10**9, *a)",
        "core/test_runs.py",
        "failure_is_not_sealed",
    ),
    Guard(
        "a failed request is no answer",
        "models.language.answering:answer_of",
        "lambda t, m, r: real(t, m, r.changed(finish='stop') if r.finish == 'failed' else r)",
        "language/test_servers.py",
        "counted_by_kind",
    ),
    Guard(
        "a run ends where its questions would all fail",
        "models.language.servers:Judge.see",
        "lambda self, reply: None",
        "language/test_servers.py",
        "another_sentence",
    ),
    Guard(
        "replies that were not read are told",
        "commands.running:unread_counts",
        "lambda *a: {}",
        "commands/test_run_command.py",
        "not_read",
    ),
    Guard(
        "no system sees gold",
        "models.running:without_gold",
        "lambda item: item",
        "benchmarks/test_files_of_yours.py",
        "nothing_right",
    ),
    Guard(
        "an id twice is refused",
        "metrics.choice:repeated",
        "lambda values: []",
        "core/test_identities.py",
        "cannot_be_matched",
    ),
    Guard(
        "other words than gold's are refused",
        "core.documents:other_words",
        "lambda *a, **k: ''",
        "metrics/test_coref_metrics.py",
        "other_words",
    ),
    Guard(
        "a mention twice is told",
        "metrics.coref_scores:CorefScores.__init__",
        "lambda self, *a, **k: real(self, *a[:6], (), *a[7:], **k)",
        "metrics/test_coref_metrics.py",
        "in_two_is_told",
    ),
    # a key is nowhere
    Guard(
        "a key is taken out of replies",
        "models.language.servers:covered",
        "lambda data, m: data",
        "language/test_keys.py",
        "back_in_a_reply",
    ),
    Guard(
        "a key is known in other spellings",
        "models.language.servers:hider",
        "lambda key: lambda text: text.replace(key, '[key]')",
        "language/test_keys.py",
        "back_in_a_reply",
    ),
    Guard(
        "a key is taken out of errors",
        "models.language.servers:hidden",
        "lambda text, m: ' '.join(text.split())[:300]",
        "language/test_keys.py",
        "no_http",
    ),
    Guard(
        "a page with a key is refused",
        "core.pages:rendered",
        "lambda template, **shown: _templates().get_template(template).render(CANARY, **shown)",
        "pages/test_pages.py",
        "key_is_refused",
    ),
    # others' text is inert
    Guard(
        "in the terminal",
        "core.pages:inert",
        "lambda text, keep='': text",
        "pages/test_escaping.py",
        "is_one_line_of_text",
    ),
    Guard(
        "in Markdown",
        "core.pages:to_md",
        "lambda text: inert(' '.join(text.split()))",
        "pages/test_escaping.py",
        "reports_and_the_board",
    ),
    Guard(
        "in LaTeX",
        "core.pages:to_tex",
        "lambda text: inert(' '.join(text.split()))",
        "pages/test_escaping.py",
        "in_latex",
    ),
    Guard(
        "in CSV", "core.pages:FORMULA", "re.compile('(?!)')", "pages/test_escaping.py", "come_back"
    ),
    Guard(
        "in pages",
        "core.pages:_templates",
        "lambda: (setattr(real(), 'autoescape', False), real())[1]",
        "pages/test_pages.py",
        "no_markup_in_any_page",
    ),
    Guard(
        "no code comes with weights",
        "models.language.local:load_local",
        "(lambda tf: lambda *a: (setattr(tf.AutoConfig, 'from_pretrained', (lambda r: classmethod(lambda c, *x, **k: r.__func__(c, *x, **k | {'trust_remote_code': True})))(tf.AutoConfig.__dict__['from_pretrained'])), real(*a))[1])(need('transformers', 'models'))",
        "language/test_local_models.py",
        "lies_with_a_checkpoint",
    ),
    Guard(
        "a package's worker sees no key",
        "models.live:_PRIVATE",
        "re.compile('^PYTHON')",
        "models/test_packages.py",
        "sees_no_key",
    ),
    # data is known by its content
    Guard(
        "an upstream file that differs is refused",
        "core.upstream:get",
        "lambda file, s=None, progress=None: (local_path(file, s) or download(file, s, progress)).read_bytes()",
        "core/test_upstream.py",
        "changed_file",
    ),
    Guard(
        "settings make another run",
        "core.runs:RunInfo.hash",
        "property(lambda self: real.fget(self.changed(settings={})))",
        "core/test_identities.py",
        "whatever_can_change",
    ),
    Guard(
        "a summary of another task is not scored",
        "core.summaries:read_summary",
        "lambda path, card=None: real(path)",
        "core/test_identities.py",
        "does_not_belong",
    ),
    Guard(
        "a summary that was changed is refused",
        "core.runs:is_as_written",
        "lambda record: True",
        "core/test_identities.py",
        "does_not_belong",
    ),
    Guard(
        "a raw file is known by its bytes",
        "core.upstream:verify_pin",
        "lambda f, s: True",
        "results/test_board.py",
        "other_bytes",
    ),
    Guard(
        "a report names the code that it used",
        "results.tables:module_id",
        "lambda module: '0'",
        "results/test_attacks.py",
        "statistics",
    ),
    Guard(
        "a changed input makes a report stale",
        "results.stale:stale",
        "lambda *a, **k: None",
        "results/test_board.py",
        "change_of_anything",
    ),
    Guard(
        "what has come since is noticed",
        "results.reproduce:surroundings",
        "lambda *a: {}",
        "results/test_batch.py",
        "only_what_changed",
    ),
    Guard(
        "a forged report is refused",
        "results.execution:notebook_failure",
        "lambda *a, **k: ''",
        "results/test_batch.py",
        "leaves_the_old",
    ),
    Guard(
        "a system is not asked about what it was taught",
        "models.coreference.systems:documents_seen",
        "lambda *a: 0",
        "coreference/test_coreference_training.py",
        "learnt_from_is_refused",
    ),
    # bad input is one line
    Guard(
        "errors are cut to 300 characters",
        "core.types:shortened",
        "lambda text, limit: text",
        "commands/test_cli.py",
        "long_one",
    ),
    Guard(
        "a key twice is refused",
        "core.files:refuse_repeated_keys",
        "lambda pairs: None",
        "core/test_files.py",
        "bad_line",
    ),
    Guard(
        "a key twice in YAML is refused",
        "core.files:yaml_loader",
        "lambda: real().__base__",
        "core/test_files.py",
        "stands_twice",
    ),
    Guard(
        "downloads have a cap",
        "core.upstream:download",
        "lambda f, s, progress=None: real(f._replace(size=10**12), s, progress)",
        "core/test_upstream.py",
        "too_large",
    ),
    Guard(
        "unpacked files have a cap",
        "core.files:unpacked",
        "lambda path, size=None: gzip.open(path).read()",
        "core/test_files.py",
        "too_much",
    ),
    Guard(
        "replies have a cap",
        "models.language.servers:capped",
        "lambda most: real(10**12)",
        "language/test_servers.py",
        "broken_reply",
    ),
    # size is no surprise
    Guard(
        "not every pair is compared",
        "models.coreference.clusters:local",
        "lambda scores, words, *a, **k: real(scores, words, len(words))",
        "coreference/test_comparing_mentions.py",
        "hundred_thousand",
    ),
    Guard(
        "too many mentions are counted instead of drawn",
        "core.looks:MOST_BOXES",
        "10**9",
        "pages/test_looking.py",
        "too_many_mentions",
    ),
]
