
// A person corrects the clusters of one window. What was done is a list of edits, from which the clusters follow: undoing drops the last.
const data = carried("data")
function tell(text) { at("notice").textContent = text; at("notice").hidden = !text }
const words = data.sentences.flat(), KEY = `refnb-correction-${data.window.document}-${data.window.number}-${data.window.text}-${data.window.given}`
const key = s => s.join("-"), span = k => k.split("-").map(Number)
const order = (a, b) => a[0] - b[0] || b[1] - a[1]     // as one reads: what holds others comes before them
const earlier = (a, b) => a[0] - b[0] || a[1] - b[1]   // as in the file
let edits, names, owner, cursor, mode = "", saved = true, kept = true


// Edits, and what follows from them

function sound(e) {
  const inside = s => Array.isArray(s) && s.length == 2 && s.every(Number.isInteger) && 0 <= s[0] && s[0] <= s[1] && s[1] < words.length
  const known = k => Number.isInteger(k) && 0 <= k && k < names.length
  const named = n => typeof n == "string" && n.trim() == n && n && n.length <= data.longest && !names.some((m, k) => m == n && k != e.who)
  const mention = () => inside(e.at) && owner.has(key(e.at))
  return {__proto__: null, add: () => inside(e.at) && !mention() && known(e.who), move: () => mention() && known(e.who), remove: mention, new: () => inside(e.at) && named(e.name),
    split: () => mention() && named(e.name), merge: () => known(e.who) && known(e.into) && e.who != e.into, rename: () => known(e.who) && named(e.name)}[e.do]?.()
}
function apply(e) {
  if (!sound(e)) throw new Error("damaged")
  const s = e.at && key(e.at), from = e.do == "merge" ? e.who : owner.get(s)
  if (e.do == "rename") names[e.who] = e.name
  else if (e.do == "remove") owner.delete(s)
  else if (e.do == "merge") owner.forEach((k, t) => { if (k == from) owner.set(t, e.into) })
  else if (e.do == "new" || e.do == "split") {
    names.push(e.name)
    if (e.do == "new") owner.set(s, names.length - 1)
    else owner.forEach((k, t) => { if (k == from && earlier(span(t), e.at) >= 0) owner.set(t, names.length - 1) })
  } else owner.set(s, e.who)
}
function replay(list) {
  edits = list
  names = [...data.names]
  owner = new Map(data.clusters.flatMap((c, k) => c.map(s => [key(s), k])))
  edits.forEach(apply)
}
function did(e) {
  if (!sound(e)) return tell("A name is too long, or another character has it.")
  edits.push(e)
  apply(e)
  changed()
}
function changed() {
  saved = false
  keep()
  draw()
}
function keep() {
  try { localStorage.setItem(KEY, JSON.stringify({annotator: at("annotator").value, edits, saved})); kept = true }
  catch { kept = false; tell("This browser does not keep what you do. Leave the page open until you have downloaded it.") }
}
function recall() {
  replay([])
  try {
    const was = JSON.parse(localStorage.getItem(KEY) ?? "null")
    if (!was) return
    replay(was.edits)
    at("annotator").value = String(was.annotator)
    saved = was.saved === true
    if (edits.length) tell(`${edits.length} ${edits.length == 1 ? "edit" : "edits"} by ${was.annotator || "somebody"} from before. Begin again if that is not you.`)
  } catch { replay([]); tell("What this browser had kept is damaged and left out.") }
}


// What is seen

const color = k => k < 8 ? `var(--k${k})` : `hsl(${Math.round(k*137.5) % 360} 45% var(--tone))`
const mentions = () => [...owner.keys()].map(span).sort(order)
const said = ([a, b]) => words.slice(a, b + 1).map(w => w.trim() || "¶").join(" ")
const here = () => owner.get(key(cursor))
const close = /^([.,;:!?%…’”)\]]+|n['’]t|['’](s|re|ve|ll|d|m)?)$/i, open = /^[“‘([]+$/
const gap = i => close.test(words[i + 1] ?? "") || open.test(words[i]) ? "" : " "

function lines(over, level) {  // a line under the words for each mention that they are in
  const sorted = over.map(s => [level.get(key(s)), color(owner.get(key(s)))]).sort((a, b) => a[0] - b[0])
  return sorted.flatMap(([l, c]) => [`inset 0 -${4*l + 3}px ${c}`, `inset 0 -${4*l + 4}px var(--card)`]).join(", ")
}
function piece(text, over, level) {
  const e = made("span", {}, text)
  if (over.length) e.style.background = `color-mix(in srgb, ${color(owner.get(key(over.at(-1))))} 14%, transparent)`
  e.style.boxShadow = lines(over, level)
  return e
}
function draw() {
  const cover = words.map(() => []), level = new Map(), all = mentions()
  for (const s of all) {
    const used = cover[s[0]].map(t => level.get(key(t)))
    level.set(key(s), [0, 1, 2, 3, 4, 5].find(l => !used.includes(l)) ?? 5)
    for (let i = s[0]; i <= s[1]; i++) cover[i].push(s)
  }
  at("text").style.setProperty("--deep", `${4*Math.max(0, ...level.values()) + 4}px`)
  at("text").replaceChildren(...words.flatMap((w, i) => {
    const word = piece(w.trim() || "¶", cover[i], level)
    word.dataset.i = i
    for (const s of cover[i].toReversed()) if (s[1] == i) word.append(made("sub", {}, owner.get(key(s)) + 1))
    for (const e of word.querySelectorAll("sub")) e.style.color = color(e.textContent - 1)
    if (!w.trim()) word.classList.add("end")
    return [word, w.includes("\n") ? made("br") : piece(gap(i), cover[i].filter(s => s[1] > i), level)]
  }))
  at("counts").textContent = `Window ${data.window.number} of ${data.of}, ${all.length} mentions, ${edits.length} ${edits.length == 1 ? "edit" : "edits"}${saved ? "" : ", not downloaded"}`
  point()
}
function point() {  // at the words that the next key is about; each word is followed by one more element
  const k = here(), spots = at("text").children
  for (const e of at("text").querySelectorAll(".on")) e.classList.remove("on", "free")
  for (let j = 2*cursor[0]; j <= 2*cursor[1]; j++) spots[j].classList.add("on", ...k == null ? ["free"] : [])
  spots[2*cursor[0]].scrollIntoView({block: "nearest"})
  at("now").replaceChildren(made("strong", {}, `“${said(cursor)}”`), k == null ? ": no mention. Choose a character to add it." : ` is ${k + 1}, ${names[k]}.`)
  list()
}
function list() {
  const count = names.map(() => 0), asked = mode == "rename" ? "" : at("field").value.trim().toLowerCase()
  for (const k of owner.values()) count[k]++
  at("characters").replaceChildren(...names.flatMap((name, k) => {
    if (asked && asked != k + 1 && !name.toLowerCase().includes(asked)) return []
    const dot = made("span", {className: "dot"}), fields = [made("span", {className: "number"}, k + 1), made("span", {className: "name"}, name), made("span", {className: "count"}, count[k])]
    dot.style.background = color(k)
    return [made("li", {}, made("button", {type: "button", className: [count[k] ? "" : "none", k == here() ? "is" : ""].join(" "), onclick: () => chosen(k)}, dot, ...fields))]
  }))
}


// What is done

function go(s) { cursor = s; tell(""); point() }
function step(by) {
  const all = mentions(), i = all.findIndex(s => order(s, cursor) >= 0), exact = i >= 0 && key(all[i]) == key(cursor)
  const to = by < 0 ? (i < 0 ? all.length : i) - 1 : exact ? i + 1 : i
  if (all[to]) go(all[to])
}
const bound = i => Math.max(0, Math.min(words.length - 1, i))
const word = by => go(Array(2).fill(bound((by < 0 ? cursor[0] : cursor[1]) + by)))
const reach = by => go([cursor[0], Math.max(cursor[0], bound(cursor[1] + by))])
const first = test => { const s = mentions().at(test); if (s) go(s) }
function needs() { if (here() == null) tell("There is no mention here. ← and → go to one."); return here() != null }
function unused(name) {  // a name that nobody has yet
  const short = name.slice(0, data.longest - 5).trim() || "somebody"
  for (let n = 1; ; n++) if (!names.includes(n > 1 ? `${short} ${n}` : short)) return n > 1 ? `${short} ${n}` : short
}
function ask(what, label, value = "") {
  mode = what
  at("ask").hidden = false
  at("asked").textContent = label
  at("field").value = value
  list()
  at("field").focus()
  at("field").select()
}
function leave() { mode = at("field").value = ""; at("ask").hidden = true; list(); at("text").focus({preventScroll: true}) }
function chosen(k) {
  const was = mode, from = here()
  leave()
  if (was == "merge") { if (k != from) did({do: "merge", who: from, into: k}) }
  else if (k != from) did({do: from == null ? "add" : "move", at: [...cursor], who: k})
}
function answer() {
  const text = at("field").value.trim(), low = text.toLowerCase(), k = here()
  if (mode == "rename") { leave(); if (text && text != names[k]) did({do: "rename", who: k, name: text}); return }
  const by = [n => n == text, n => n.toLowerCase().startsWith(low), n => n.toLowerCase().includes(low)].map(f => names.findIndex(f)).find(i => i >= 0)
  const to = /^\d+$/.test(text) && names[text - 1] != null ? text - 1 : by
  if (text && to != null) chosen(to)
}
function crossing() {  // two mentions of one character of which neither holds the other
  const all = mentions()
  for (const [i, a] of all.entries()) for (const b of all.slice(i + 1)) {
    if (b[0] > a[1]) break
    if (b[0] > a[0] && b[1] > a[1] && owner.get(key(a)) == owner.get(key(b))) return b
  }
}
function save() {
  const annotator = at("annotator").value.trim(), bad = crossing()
  if (!annotator) { at("annotator").focus(); return tell("Please write your name first.") }
  if (bad) { go(bad); return tell("This mention crosses another of the same character. Remove one, or make it longer or shorter.") }
  const clusters = names.map((_, k) => mentions().filter(s => owner.get(key(s)) == k).sort(earlier))
  const link = made("a", {href: URL.createObjectURL(new Blob([JSON.stringify({version: data.version, window: data.window, annotator, names, clusters, edits}, null, 1) + "\n"], {type: "application/json"}))})
  link.download = `${data.file}-${annotator.replace(/[^\p{L}\p{N}]+/gu, "-")}.json`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60000)
  saved = true
  keep()
  draw()
  tell(`${link.download} is among your downloads. Please hand it in.`)
}

const ACTS = [["←", "mention before", "ArrowLeft", () => step(-1)], ["→", "next mention", "ArrowRight", () => step(1)], [",", "word before", ",", () => word(-1)], [".", "next word", ".", () => word(1)],
  ["⇧←", "a word less", "ShiftArrowLeft", () => reach(-1)], ["⇧→", "a word more", "ShiftArrowRight", () => reach(1)],
  ["m", "move to, or add", "m", () => ask("give", "Whose mention is it? A name or number, then Enter")], ["n", "new character", "n", () => did({do: "new", at: [...cursor], name: unused(said(cursor))})],
  ["s", "split off from here", "s", () => needs() && did({do: "split", at: [...cursor], name: unused(names[here()])})],
  ["g", "merge all into", "g", () => needs() && ask("merge", `Into whom is ${names[here()]} merged? A name or number, then Enter`)],
  ["x", "remove mention", "x", () => needs() && did({do: "remove", at: [...cursor]})], ["e", "rename character", "e", () => needs() && ask("rename", "The character's name, then Enter", names[here()])],
  ["u", "undo", "u", () => { if (!edits.length) return; replay(edits.slice(0, -1)); changed() }]]
const KEYS = Object.fromEntries([...ACTS.map(a => [a[2], a[3]]), ["Delete", () => KEYS.x()], ["Backspace", () => KEYS.x()], ["Home", () => first(0)], ["End", () => first(-1)], ["d", save]])
document.onkeydown = e => {
  if (document.querySelector("dialog").open) return
  if (e.key == "Escape") return leave()
  if (e.target.matches("input") || e.altKey || e.isComposing) return
  if (e.ctrlKey || e.metaKey) { if (e.key == "z") { e.preventDefault(); KEYS.u() } return }
  const act = KEYS[(e.shiftKey && e.key.startsWith("Arrow") ? "Shift" : "") + e.key] ?? (/^[1-9]$/.test(e.key) && names[e.key - 1] != null ? () => chosen(e.key - 1) : null)
  if (act) { e.preventDefault(); tell(""); act() }
}
let began = null
const place = e => e.target.closest?.("[data-i]")?.dataset.i
at("text").onpointerdown = e => { began = e.button ? null : place(e) ?? null }
at("text").onpointermove = e => { const i = place(e); if (began != null && i != null && i != began && e.buttons) go([Math.min(began, i), Math.max(began, i)]) }
at("text").onpointerup = e => {
  const i = place(e), over = mentions().filter(s => s[0] <= i && i <= s[1]).reverse()  // the smallest first; once more: the one around it
  if (began != null && i == began) go(over[(over.findIndex(s => key(s) == key(cursor)) + 1) % over.length] ?? [+i, +i])
  began = null
}
at("field").oninput = list
at("ask").onsubmit = e => { e.preventDefault(); answer() }
at("save").onsubmit = e => { e.preventDefault(); save() }
at("annotator").oninput = keep
at("again").onclick = () => document.querySelector("dialog").showModal()
document.querySelector("dialog form").onsubmit = e => { if (e.submitter.value == "yes") { at("annotator").value = ""; replay([]); saved = true; keep(); tell(""); draw() } }
onbeforeunload = e => { if (!kept && !saved) e.preventDefault() }

for (const [shown, what, name, act] of ACTS) at("acts").append(made("button", {type: "button", id: `do-${name}`, onclick: () => { tell(""); act() }}, made("kbd", {}, shown), what))
at("title").textContent = data.title
at("before").textContent = data.before
at("after").textContent = data.after
if (data.notes) tell(data.notes)
onload = () => {  // not before: Chromium can give a page that is still loading an empty memory, and loses what is then kept
  recall()
  cursor = mentions()[0] ?? [0, 0]
  draw()
  at("text").focus({preventScroll: true})
}
