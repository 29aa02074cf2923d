const data = carried("data")
const {runs, fields, texts} = data, everything = data.questions, pair = runs.length > 1
const told = (tag, name, text) => made(tag, {className: name}, String(text))
const ROW = 52, NEAR = 350, FAR = 200000, MOST = 200  // pixels of a row; characters around a mention; rows of a table

const wide = texts.map(t => [...t.matchAll(/[\u{10000}-\u{10ffff}]/gu)].map((m, k) => m.index - k))  // letters that are two units in a browser, and one in Python
const unit = (text, k) => k + wide[text].filter(w => w < k).length
everything.forEach((q, i) => {  // what the page leaves out is what it usually is
  q.i = i
  q.chars &&= q.chars.map(k => unit(q.text, k))
  q.said.forEach(a => { a.credit ??= null; a.picked ??= []; a.scores ??= []; a.raw ??= "" })
  q.found = true
})
const few = (f, i) => !f.own && (n => n > 1 && n < 13)(new Set(everything.map(q => q.values[i])).size)  // values that a glance takes in
const byId = new Map(everything.map(q => [q.id, q]))
const state = {verdicts: runs.map(() => new Set()), pair: "all", fields: new Map(), by: 0, sort: [0, 1], whole: false, at: null}
let shown = everything


// Words for what is seen

const SIGNS = {right: "✓", wrong: "✗", tie: "≈", open: "…", absent: "·"}
const WORDS = {missing: "no answer", open: "not answered yet", absent: "not asked", tie: "a share of a tie"}
const REASON = "refused filtered cut unparsable outside failed".split(" ")
const ORDER = ["right", "tie", "wrong", ...REASON, "missing", "open", "absent"]
const WHICH = pair ? ["first", "second"] : [""]
const word = v => WORDS[v] ?? v
const verdict = a => a.verdict == "tie" ? `a share of a tie: ${number(a.credit)}` : REASON.includes(a.verdict) ? `no choice: ${a.verdict}` : word(a.verdict)
const sign = a => made("span", {className: `sign ${a.verdict == "right" ? "right" : a.credit === 0 ? "wrong" : ""}`, title: verdict(a)}, SIGNS[a.verdict] ?? "–")
const counted = (n, thing) => `${count(n)} ${thing}${n == 1 ? "" : "s"}`
const number = x => typeof x == "number" ? String(Math.abs(x) < 1e6 && Number.isInteger(x) ? x : Number(x.toPrecision(4))) : String(x)
const percent = x => x == null ? "–" : `${(100*x).toFixed(1)}\u00a0%`
const points = x => (100*x).toFixed(1).replace("-", "−")
const value = v => v === null ? "no value" : v === true ? "yes" : v === false ? "no" : typeof v == "number" ? number(v) : v.trim() ? v : "(empty)"
const dollars = x => typeof x == "number" ? `$${x >= 0.01 || x == 0 ? x.toFixed(2) : x.toPrecision(2)}` : `$${x}`
const meter = share => { const inner = made("span"); inner.style.width = `${100*Math.min(1, Math.max(0, share))}%`; return made("span", {className: "meter", ariaHidden: "true"}, inner) }
const mention = q => q.text < 0 || !q.chars ? "" : texts[q.text].slice(...q.chars)
const names = (q, which) => which.map(i => q.options[i].name).join(", ")
const mean = (questions, k) => {
  let sum = 0, n = 0
  for (const q of questions) if (q.said[k].credit !== null) { sum += q.said[k].credit; n += 1 }
  return n ? sum/n : null
}


// What the runs are

function cost(r) {
  const known = r.usd == null ? "" : `cost ${r.unpriced ? "at least " : ""}${dollars(r.usd)}`
  const unknown = r.unpriced ? `${counted(r.unpriced, "answer")} of unknown price` : ""
  return [known, unknown, r.tokens[0] + r.tokens[1] ? `${count(r.tokens[0])} tokens read, ${count(r.tokens[1])} written` : ""].filter(Boolean).join(", ") || "no cost recorded"
}
function scored(r) {
  const [x, low, high, n, documents] = r.accuracy
  if (x == null) return "nothing to score yet"
  return `accuracy ${percent(x)}${low == null ? "" : ` [${percent(low)}, ${percent(high)}]`} of ${counted(n, "question")} on ${counted(documents, "document")}`
}
function present(r, k) {
  const missing = r.questions - r.answers
  const left = !missing ? "" : r.sealed ? `, ${count(missing)} without an answer count as wrong` : `, ${count(missing)} of ${counted(r.questions, "question")} not answered yet`
  return made("p", {}, told("span", "soft", pair ? `${WHICH[k]}: ` : ""), told("b", "", r.system + (pair && runs[0].task != runs[1].task ? ` on ${r.task}` : "")), " ", told("code", "soft", r.hash), ` · ${r.sealed ? "sealed" : "open"}${left} · ${scored(r)} · ${cost(r)}`)
}
function compared() {
  if (!pair) return []
  const d = data.difference, [a, b] = data.only, out = []
  if (d?.[0] != null) out.push(`first minus second: ${points(d[0])} points${d[1] == null ? "" : ` [${points(d[1])}, ${points(d[2])}]`}${d[3] == null ? "" : `, p = ${d[3].toFixed(3)}`}, on ${counted(d[4], "question")} that both answered`)
  if (a) out.push(`${counted(a, "question")} only of the first`)
  if (b) out.push(`${counted(b, "question")} only of the second, not shown here`)
  if (data.unlike) out.push(`${counted(data.unlike, "id")} with other options or another text in the second, not compared`)
  return [told("p", "", out.join(" · "))]
}
function about(r, k) {
  const rows = r.about.flatMap(([name, text]) => [told("dt", "", name), told("dd", "", text)])
  return made("section", {}, told("h3", "", pair ? `${WHICH[k]} run` : "run"), made("dl", {}, ...rows))
}


// Which questions are shown

const PAIRS = {all: ["all", () => true],
  first: ["only the first is right", ([a, b]) => a.credit === 1 && b.credit < 1], second: ["only the second is right", ([a, b]) => b.credit === 1 && a.credit < 1],
  right: ["both are right", ([a, b]) => a.credit === 1 && b.credit === 1], wrong: ["both are wrong", ([a, b]) => a.credit === 0 && b.credit === 0],
  differ: ["they chose differently", ([a, b]) => a.verdict != b.verdict || String(a.picked) != String(b.picked)]}
const comparable = ([a, b]) => a.credit !== null && b.credit !== null
const key = v => JSON.stringify(v)
const within = (f, v) => f.keys ? f.keys.has(key(v)) : f.none ? v === null : v !== null && f.low <= v && v <= f.high

function matching(but) {  // but: what is not looked at, a verdict's run ("run 0") or a field's index
  const verdicts = state.verdicts.map((v, k) => v.size && but != `run ${k}` ? v : null)
  const open = [...state.fields].filter(([f]) => f != but), both = PAIRS[state.pair][1]
  return everything.filter(q => q.found && verdicts.every((v, k) => !v || v.has(q.said[k].verdict))
    && (state.pair == "all" || comparable(q.said) && both(q.said)) && open.every(([f, rule]) => within(rule, q.values[f])))
}

// Search: every word must occur, "quoted words" as they stand; in any case. What is searched is lowered once.
const lower = text => text.normalize("NFC").toLowerCase()
const hay = q => q.hay ??= lower([q.id, q.doc, mention(q), ...q.options.map(o => `${o.name}\n${o.description ?? ""}`), ...q.said.flatMap(a => [a.raw, a.reasoning ?? ""])].join("\n"))
const lowered = []
const story = q => q.text < 0 ? "" : lowered[q.text] ??= lower(texts[q.text])
const terms = () => (at("search").value.match(/"[^"]+"|[^\s"]+/g) ?? []).map(t => t.replaceAll('"', ""))

function seek() {
  const words = terms().map(lower), whole = at("whole-texts").checked
  const hits = words.map(w => whole ? texts.map((_, i) => story({text: i}).includes(w)) : null)  // each text once, not once for each question
  for (const q of everything) q.found = words.every((w, k) => hay(q).includes(w) || Boolean(hits[k]?.[q.text]))
  refresh()
}

function refresh() {
  shown = matching()
  list()
  facets()
  if (!shown.includes(state.at)) state.at = shown[0] ?? null
  open(state.at, true)
}


// The list: only the rows in sight exist

function list() {
  const right = runs.map((_, k) => percent(mean(shown, k))), counting = shown.filter(q => q.said.every(a => a.credit !== null)).length
  at("count").textContent = `${count(shown.length)} of ${counted(everything.length, "question")}, ${right.join(" and ")} right${counting < shown.length ? ` (of ${count(counting)} answered)` : ""}`
  chips()
  at("rows").style.height = `${ROW*shown.length}px`
  draw()
}
function draw() {
  const box = at("list"), from = Math.max(0, Math.floor(box.scrollTop/ROW) - 6), to = Math.min(shown.length, Math.ceil((box.scrollTop + box.clientHeight)/ROW) + 6)
  at("rows").replaceChildren(...shown.slice(from, to).map((q, k) => row(q, from + k)))
  const here = at(`row${state.at?.i}`)
  here ? box.setAttribute("aria-activedescendant", here.id) : box.removeAttribute("aria-activedescendant")
}
function row(q, k) {
  const e = made("div", {className: "row", id: `row${q.i}`, role: "option", ariaSelected: String(q == state.at), ariaSetSize: String(shown.length), ariaPosInSet: String(k + 1), onclick: () => choose(q, true)},
    made("div", {}, ...q.said.map(sign), told("span", "unseen", q.said.map(verdict).join(", ") + " "), " ", told("bdi", "", mention(q) || "question"), ...(chosen(q) ? [told("small", "", " → "), told("small", "", chosen(q))] : [])),
    made("div", {}, told("small", "", q.id)))
  e.style.top = `${ROW*k}px`
  return e
}
const chosen = q => [...new Set(q.said.filter(a => a.picked.length && a.picked.length < 4).map(a => names(q, a.picked)))].join(" / ")
function chips() {
  const chip = (text, clear) => made("button", {type: "button", className: "chip", onclick: () => { clear(); controls(); refresh() }}, told("bdi", "", text), told("span", "", " ✕"), told("span", "unseen", " remove"))
  const range = f => f.none ? "no value" : f.low == f.high ? number(f.low) : f.low == -Infinity ? `up to ${number(f.high)}` : f.high == Infinity ? `from ${number(f.low)}` : `${number(f.low)} to ${number(f.high)}`
  const out = state.verdicts.flatMap((v, k) => v.size ? [chip(`${WHICH[k]} ${[...v].map(word).join(" or ")}`.trim(), () => v.clear())] : [])
  if (state.pair != "all") out.push(chip(PAIRS[state.pair][0], () => state.pair = "all"))
  for (const [i, f] of state.fields) out.push(chip(`${fields[i].name}: ${f.keys ? [...f.keys].map(k => value(JSON.parse(k))).join(" or ") : range(f)}`, () => state.fields.delete(i)))
  if (terms().length) out.push(chip(`search: ${at("search").value}`, () => { at("search").value = ""; seek() }))
  at("set").replaceChildren(...out)
  at("set").hidden = !out.length
}


// Filters: what can be ticked, with counts of what the other filters leave

function facets() {
  state.verdicts.forEach((v, k) => {
    const counts = new Map()
    for (const q of matching(`run ${k}`)) counts.set(q.said[k].verdict, 1 + (counts.get(q.said[k].verdict) ?? 0))
    for (const label of at("verdicts").children[k].querySelectorAll("label")) label.querySelector(".n").textContent = count(counts.get(label.dataset.verdict) ?? 0)
  })
  values()
}
function verdicts(v, k) {
  const kinds = ORDER.filter(x => everything.some(q => q.said[k].verdict == x))
  const box = kind => {
    const label = made("label", {className: "tick"}, made("input", {type: "checkbox", checked: v.has(kind), onchange: e => { e.target.checked ? v.add(kind) : v.delete(kind); refresh() }}),
      sign({verdict: kind, credit: ["right", "tie", "open", "absent"].includes(kind) ? null : 0}), word(kind), told("span", "n", ""))
    label.dataset.verdict = kind
    return label
  }
  return made("fieldset", {}, told("legend", "", pair ? `${WHICH[k]} run` : "Verdict"), ...kinds.map(box))
}
function controls() {  // set what can be set to what is set
  at("pair").value = state.pair
  at("by").value = state.by
  const f = state.fields.get(state.by), end = x => Number.isFinite(x) ? x : ""
  at("low").value = end(f?.low)
  at("high").value = end(f?.high)
  at("range").hidden = fields[state.by].kind != "number"
  at("verdicts").replaceChildren(...state.verdicts.map(verdicts))
}

const order = (a, b) => a === null ? 1 : b === null ? -1 : typeof a == "number" && typeof b == "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true})
const bins = fields.map((f, i) => {  // of a number with many values: five ranges that hold about as many questions each
  const all = [...new Set(everything.map(q => q.values[i]).filter(v => v !== null))].sort((a, b) => a - b)
  if (f.kind != "number" || all.length < 13) return null
  const each = everything.map(q => q.values[i]).filter(v => v !== null).sort((a, b) => a - b)
  const ends = [...new Set([1, 2, 3, 4, 5].map(k => each[Math.ceil(k*each.length/5) - 1]))]
  return ends.map((high, k) => ({low: k ? all.find(v => v > ends[k - 1]) : each[0], high}))
})
function groups(i, questions) {  // rule, label, questions of each row of the table
  const rules = bins[i]?.map(b => ({rule: b, value: b.low, label: b.low == b.high ? number(b.low) : `${number(b.low)} to ${number(b.high)}`, questions: []}))
  const by = new Map()
  for (const q of questions) {
    const v = q.values[i], bin = v === null ? null : rules?.find(r => within(r.rule, v))
    if (bin) bin.questions.push(q)
    else by.has(key(v)) ? by.get(key(v)).questions.push(q) : by.set(key(v), {rule: fields[i].kind == "number" ? v === null ? {none: true} : {low: v, high: v} : null, value: v, label: value(v), questions: [q]})
  }
  return [...(rules ?? []), ...by.values()]
}
function values() {
  const i = state.by, f = state.fields.get(i), [column, way] = state.sort
  const rows = groups(i, matching(i)).map(g => ({...g, n: g.questions.length, right: runs.map((_, k) => mean(g.questions, k))}))
  for (const k of f?.keys ?? []) if (!rows.some(r => key(r.value) == k)) rows.push({value: JSON.parse(k), label: value(JSON.parse(k)), n: 0, right: runs.map(() => null)})  // what is ticked stays
  const of = r => column == 0 ? r.value : column == 1 ? r.n : r.right[column - 2]
  rows.sort((a, b) => of(a) === null || of(b) === null ? order(of(a), of(b)) : way*order(of(a), of(b)))
  const heads = ["value", "count", ...(pair ? WHICH : ["right"])]
  const head = (name, c) => made("th", {scope: "col", ariaSort: c == column ? way > 0 ? "ascending" : "descending" : "none"},
    made("button", {type: "button", onclick: () => { state.sort = [c, c == column ? -way : c ? -1 : 1]; values() }}, name + (c == column ? way > 0 ? " ▴" : " ▾" : "")))
  const line = r => made("tr", {}, made("th", {scope: "row"}, made("label", {className: "tick"}, made("input", {type: "checkbox", checked: ticked(f, r), onchange: e => tick(i, r, e.target.checked)}), told("bdi", "", r.label))),
    told("td", "", count(r.n)), ...r.right.map(x => made("td", {}, percent(x), meter(x ?? 0))))
  const rest = rows.length > MOST ? [told("p", "soft", `${count(rows.length - MOST)} more values: search for them`)] : []
  const focus = at("values").contains(document.activeElement) ? [...at("values").querySelectorAll("input, button")].indexOf(document.activeElement) : -1
  at("values").replaceChildren(made("table", {}, made("thead", {}, made("tr", {}, ...heads.map(head))), made("tbody", {}, ...rows.slice(0, MOST).map(line))), ...rest)
  if (focus >= 0) at("values").querySelectorAll("input, button")[focus]?.focus({preventScroll: true})  // the keyboard stays where it was
}
const ticked = (f, r) => Boolean(f && (f.keys ? f.keys.has(key(r.value)) : f.none ? r.rule.none : r.rule.low === f.low && r.rule.high === f.high))
function tick(i, r, on) {
  if (r.rule) on ? state.fields.set(i, r.rule) : state.fields.delete(i)
  else {
    const keys = state.fields.get(i)?.keys ?? new Set()
    on ? keys.add(key(r.value)) : keys.delete(key(r.value))
    keys.size ? state.fields.set(i, {keys}) : state.fields.delete(i)
  }
  controls()
  refresh()
}
function range() {
  const [low, high] = ["low", "high"].map(id => at(id).value === "" ? null : Number(at(id).value))
  low === null && high === null ? state.fields.delete(state.by) : state.fields.set(state.by, {low: low ?? -Infinity, high: high ?? Infinity})
  refresh()
}


// One question

function passage(q) {
  if (q.text < 0) return [told("p", "soft", "The release has no text for this question.")]
  const text = texts[q.text], [s, e] = q.chars ?? [0, 0], width = state.whole ? FAR : NEAR
  let from = Math.max(0, s - width), to = Math.min(text.length, e + width)
  for (const end = Math.min(s, from + 40); from > 0 && from < end && !/\s/.test(text[from]);) from++  // not in the middle of a word
  if (from && from < s && /\s/.test(text[from])) from++
  for (const end = Math.max(e, to - 40); to < text.length && to > end && !/\s/.test(text[to]);) to--
  const marked = q.chars ? [made("mark", {id: "mark"}, told("span", "unseen", "marked mention: "), text.slice(s, e))] : []
  const box = made("div", {className: "passage"}, from ? "… " : "", text.slice(from, s), ...marked, text.slice(e, to), to < text.length ? " …" : "")
  const hidden = text.length - (to - from), all = from == 0 && to == text.length
  const button = made("button", {type: "button", id: "whole", ariaPressed: String(state.whole), onclick: whole}, state.whole ? "Show less" : `Show all (${count(text.length)} characters)`)
  return [box, ...(all && !state.whole ? [] : [button]), ...(state.whole && !all ? [told("p", "soft", `The text is too long for one look: ${count(hidden)} characters are not shown.`)] : [])]
}
function whole() {
  state.whole = !state.whole
  open(state.at)
  at("mark")?.scrollIntoView({block: "center"})
}
function score(a, i) {
  const x = a.scores[i], finite = a.scores.filter(Number.isFinite), low = Math.min(0, ...finite), span = Math.max(...finite) - low
  return [number(x), meter(!Number.isFinite(x) ? x == "inf" ? 1 : 0 : span ? (x - low)/span : 1)]
}
function options(q) {
  const scores = q.said.some(a => a.scores.length)
  const line = (o, i) => {
    const tags = q.said.map((a, k) => made("td", {}, a.picked.includes(i) ? made("span", {className: "verdict"}, "● ", a.scores.length && a.picked.length > 1 ? "best, tied" : "chosen") : "", ...(a.scores.length ? [" ", ...score(a, i)] : [])))
    const e = made("tr", {className: q.right.includes(i) ? "is-right" : ""}, told("td", "soft", i), made("th", {scope: "row"}, told("bdi", "", o.name), ...(q.right.includes(i) ? [" ", told("span", "verdict right", "✓\u00a0right")] : []), ...(o.description ? [told("small", "soft", o.description)] : [])),
      ...tags)
    return e
  }
  const heads = ["", "option", ...(pair ? WHICH : [scores ? "chosen, score" : "chosen"])]
  return [made("table", {className: "options"}, made("thead", {}, made("tr", {}, ...heads.map(h => made("th", {scope: "col"}, h)))), made("tbody", {}, ...q.options.map(line)))]
}
function used(u) {
  if (!u) return "no cost recorded"
  const seconds = u.seconds ? [`${number(u.seconds)} s`] : []
  return [u.usd == null ? "price unknown" : dollars(u.usd), `${count(u.tokens_in ?? 0)} tokens read`, `${count(u.tokens_out ?? 0)} written`, ...(u.tokens_reasoning ? [`${count(u.tokens_reasoning)} of them reasoning`] : []), ...seconds].join(", ")
}
function answer(q, k) {
  const a = q.said[k], r = runs[k], asked = a.verdict != "absent" && a.verdict != "open"
  const picked = a.picked.length ? [" · ", told("bdi", "", names(q, a.picked.slice(0, 4)) + (a.picked.length > 4 ? " …" : ""))] : []
  const thoughts = a.reasoning ? [made("details", {className: "reasoning"}, made("summary", {}, "Reasoning"), made("pre", {tabIndex: 0, ariaLabel: "reasoning"}, a.reasoning))] : []
  const rest = asked ? [...thoughts, a.raw ? made("pre", {tabIndex: 0, ariaLabel: "reply"}, a.raw) : told("p", "soft", "no reply was recorded"), told("p", "soft", used(a.usage))] : []
  return made("section", {}, pair ? made("h3", {}, `${WHICH[k]}: `, told("bdi", "", r.system)) : told("h3", "", "Answer"), made("p", {}, sign(a), " ", told("span", "verdict", verdict(a)), ...picked), ...rest)
}
function meta(q) {
  const line = (f, i) => f.own ? [] : [made("div", {}, told("dt", "", f.name), told("dd", "", value(q.values[i])))]
  const rows = fields.flatMap(line)
  return rows.length ? [told("h3", "", "Fields"), made("dl", {}, ...rows)] : []
}
function open(q, keep) {  // keep: what is open stays where it is scrolled to
  const box = at("question"), again = keep && box.dataset.id == String(q?.i)
  box.dataset.id = String(q?.i)
  if (!again) {
    const place = shown.indexOf(q), name = q && (linked ? made("a", {href: hash(q)}, q.id) : told("span", "", q.id))
    const step = (text, d) => made("button", {type: "button", id: text, disabled: !shown[place + d], onclick: () => move(d)}, text)
    const focus = box.contains(document.activeElement) ? document.activeElement.id : ""
    box.replaceChildren(...(!q ? [told("p", "", "No question matches all filters.")] : [
      made("div", {className: "top"}, made("h2", {}, name), made("div", {}, step("Previous", -1), " ", step("Next", 1))), made("p", {className: "soft"}, "document ", told("bdi", "", q.doc)),
      ...passage(q), made("p", {className: "key"}, told("span", "sign right", "✓"), " ", told("span", "verdict", "right is"), " · ", told("bdi", "", names(q, q.right) || "none of the options")),
      made("div", {className: "sides"}, ...runs.map((_, k) => answer(q, k))), told("h3", "", "Options"), ...options(q), ...meta(q)]))
    if (focus && box != document.activeElement) (at(focus) && !at(focus).disabled ? at(focus) : box).focus({preventScroll: true})  // the keyboard stays where it was
  }
  highlight(box)
  address(q)
}
function highlight(box) {  // what was searched for, where the browser can
  if (!globalThis.Highlight) return
  CSS.highlights.delete("found")
  if (!terms().length) return
  const rule = new RegExp(terms().map(t => t.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi"), ranges = []
  const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT)
  for (let node; ranges.length < 500 && (node = walk.nextNode());)
    for (const m of node.data.matchAll(rule)) { const r = new Range(); r.setStart(node, m.index); r.setEnd(node, m.index + m[0].length); ranges.push(r) }
  CSS.highlights.set("found", new Highlight(...ranges))
}


// Going about

const linked = location.protocol != "about:"  // in a notebook's frame an address leads nowhere
const hash = q => { try { return `#id=${encodeURIComponent(q.id)}` } catch { return "#" } }
let later = null
function address(q) {  // a little later: browsers allow few changes in a row
  clearTimeout(later)
  if (linked) later = setTimeout(() => { try { history.replaceState(null, "", q ? hash(q) : " ") } catch {} }, 150)
}
function reveal(q) {
  const box = at("list"), top = ROW*shown.indexOf(q)
  if (top < box.scrollTop) box.scrollTop = top
  if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight
}
function choose(q, look) {
  state.at = q
  reveal(q)
  draw()
  at("question").scrollTop = 0
  open(q)
  if (look && matchMedia("(max-width: 44rem)").matches) at("question").scrollIntoView()
}
function move(d) {
  const k = Math.min(shown.length - 1, Math.max(0, shown.indexOf(state.at) + d))
  if (shown[k] && shown[k] != state.at) choose(shown[k])
}
function go() {  // to the question that the address names
  const named = /^#id=(.+)$/.exec(location.hash)
  if (!named) return false
  let id = null
  try { id = decodeURIComponent(named[1]) } catch {}
  const q = byId.get(id)
  at("notice").textContent = q ? "" : `There is no question ${id ?? named[1]} here.`
  at("notice").hidden = Boolean(q)
  if (!q) return false
  if (!shown.includes(q)) clear()
  choose(q)
  return true
}
function clear() {
  state.verdicts.forEach(v => v.clear())
  state.fields.clear()
  state.pair = "all"
  at("search").value = ""
  controls()
  seek()
}

const STEPS = {j: 1, k: -1, ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity}
document.onkeydown = e => {
  if (e.ctrlKey || e.altKey || e.metaKey || e.isComposing) return
  if (e.target == at("search") && ["Escape", "Enter", "ArrowDown"].includes(e.key)) {
    if (e.key == "Escape") { at("search").value = ""; seek() }
    e.preventDefault()
    return at("list").focus()
  }
  if (e.target.matches("select, input:not([type=checkbox])")) return
  const letter = e.key.length == 1
  if (e.key == "/") { e.preventDefault(); at("filters").open = true; at("search").focus(); at("search").select() }
  else if (e.key == "a") whole()
  else if (e.key in STEPS && (letter || [at("list"), document.body].includes(e.target))) { e.preventDefault(); move(STEPS[e.key]) }
}
at("list").onscroll = () => requestAnimationFrame(draw)
at("search").oninput = at("whole-texts").onchange = seek
at("pair").onchange = e => { state.pair = e.target.value; refresh() }
at("by").onchange = e => { state.by = Number(e.target.value); state.sort = [0, 1]; controls(); values() }
at("low").oninput = at("high").oninput = range
onhashchange = go
onresize = draw

at("runs").replaceChildren(...runs.map(present), ...compared())
at("about").lastElementChild.replaceChildren(...runs.map(about))
at("pairs").hidden = !pair
at("pair").replaceChildren(...Object.entries(PAIRS).map(([k, [name]]) => made("option", {value: k}, name)))
at("by").replaceChildren(...fields.map((f, i) => made("option", {value: i}, f.name)))
state.by = Math.max(0, fields.findIndex(few))
if (matchMedia("(max-width: 68rem)").matches) at("filters").open = false
controls()
if (!go()) refresh()
else { list(); facets() }
