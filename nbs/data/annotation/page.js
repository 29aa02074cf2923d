const data = carried("data")
const all = (what, on) => document.querySelectorAll(what).forEach(on)
function tell(text) { at("notice").textContent = text; at("notice").hidden = !text }
const letters = "abcdefghijkmnopqrstuvwxyz2345678"
const code = () => Array.from(crypto.getRandomValues(new Uint8Array(10)), b => letters[b % 32]).join("")
function ask(text, yes, then) {
  const dialog = document.querySelector("dialog")
  at("ask").textContent = text
  at("yes").textContent = yes
  dialog.querySelector("form").onsubmit = e => {  // at once: a dialog tells of its closing later, when another may be open
    e.preventDefault()
    dialog.close()
    if (e.submitter.value == "yes") then()
  }
  dialog.showModal()
}
function download(record, name) {
  const link = made("a", {href: URL.createObjectURL(new Blob([JSON.stringify(record, null, 1) + "\n"], {type: "application/json"})), download: name})
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60000)
}


// Answers are kept in this browser until they are downloaded. A page has: OF, what it is, and the name of its hash among the data; KEY, under which its answers are kept; FILE, the beginning of a file's name; DONE, what is counted;
// items by id; fresh(), a state in which nothing is answered; answers() of a state, as they are handed in, and sound(), whether one is; more(), what is kept beside them; taken(), a state from what was kept or handed in,
// which fails where that is damaged; current(), the item that is asked; SCREENS, the functions that show it, by screen, the first one first; end(), the last screen.

let state = null, since = null, kept = true
const record = () => ({[OF]: data[OF], version: data.version, participant: state.participant, order: state.order, answers: answers()})
const answered = () => answers().length

function fault(r) {
  if (typeof r != "object" || r == null || Object.keys(r).sort().join(" ") != Object.keys(record()).sort().join(" ")) return "it holds something else"
  if (r[OF] != data[OF]) return `it belongs to another ${OF}`
  if (r.version != data.version) return "it belongs to another version of this page"
  if (typeof r.participant != "string" || !/^[a-km-z2-8]{10}$/.test(r.participant)) return "its code is damaged"
  if (!Array.isArray(r.order) || r.order.length != items.size || new Set(r.order).size != items.size || !r.order.every(id => items.has(id))) return "its questions are others"
  if (!Array.isArray(r.answers) || new Set(r.answers.map(a => a?.id)).size != r.answers.length || !r.answers.every(a => items.has(a?.id) && Number.isFinite(a.seconds) && a.seconds >= 0 && sound(a))) return "an answer in it is damaged"
  return ""
}
function keep() {
  try { localStorage.setItem(KEY, JSON.stringify({record: record(), ...more(), saved: state.saved})); kept = true }
  catch { kept = false; tell("This browser does not keep your answers. Leave the page open until you have downloaded them.") }
}
function recall() {
  let text = null
  try { text = localStorage.getItem(KEY) } catch { return }
  if (text == null) return
  try {
    const {record: r, saved, ...more} = JSON.parse(text)
    if (fault(r)) throw new Error(fault(r))
    state = taken(r, {...more, saved: saved === true})
  } catch {
    try { localStorage.setItem(`${KEY}-damaged`, text) } catch {}
    tell("What this browser had kept of your answers is damaged. Please begin again, or load a copy.")
  }
}
function turn(to, text) { state = to; since = null; tell(text); show(state.screen) }

function spend() {  // the seconds that an item was in sight
  const now = performance.now()
  if (since != null && state.screen in SCREENS) state.seconds += (now - since)/1000
  since = document.hidden ? null : now
}
function show(screen, own = true) {  // own: not what another tab did, which has kept it
  spend()
  const q = current()
  state.screen = !q ? "end" : screen == "end" ? Object.keys(SCREENS)[0] : screen
  since = document.hidden ? null : performance.now()
  all("main > section, main > form", e => e.hidden = e.id != state.screen)
  if (state.screen == "end") end()
  else SCREENS[state.screen]?.(q)
  at("progress").hidden = state.screen == "start"
  progress()
  if (!own) return
  keep()
  scrollTo(0, 0)
  at(state.screen).querySelector("h2").focus()
}
function progress() {
  const bar = document.querySelector("progress")
  bar.max = items.size
  bar.value = answered()
  at("count").textContent = `${answered()} of ${items.size} ${DONE}`
}
function remind() {
  at("send").textContent = data.send
  at("send").hidden = !data.send
  at("code").textContent = state.participant
  at("reminder").textContent = state.saved && answered() ? "Your answers are downloaded. Look for the file among your downloads."
    : `Nobody has your answers yet: they are in this browser only. Please download them, and hand in the file${data.send ? ":" : "."}`
}
function save() {
  spend()
  download(record(), `${FILE}-${state.participant}.json`)
  state.saved = true
  keep()
  remind()
}
async function load(file) {
  let r = null
  try { r = JSON.parse(await file.text()) } catch { return tell(`${file.name} cannot be used: it is no JSON file.`) }
  if (fault(r)) return tell(`${file.name} cannot be used: ${fault(r)}.`)
  const take = () => turn(taken(r, {saved: true}), `${r.answers.length} answers were loaded.`)
  answered() && !state.saved ? ask("The answers that you have given here are lost if you load others, unless you save a copy first.", "Load these", take) : take()
}
function clear() {
  ask("All your answers in this browser are removed, and your code with them. A file that you have downloaded stays.", "Clear everything", () => {
    try { localStorage.removeItem(`${KEY}-damaged`) } catch {}
    turn(fresh(), "")
  })
}
function begin() {  // called when all of the page is there
  all(".next[type=button]", e => e.onclick = next)
  all(".save", e => e.onclick = save)
  document.querySelector("form[id]").onsubmit = e => { e.preventDefault(); next() }
  at("load").onclick = () => at("file").click()
  at("file").onchange = e => { const file = e.target.files[0]; e.target.value = ""; if (file) load(file) }
  at("clear").onclick = clear
  document.onvisibilitychange = onpagehide = () => { spend(); keep() }
  onbeforeunload = e => { if (!kept && answered() && !state.saved) e.preventDefault() }
  onstorage = e => { if (e.key == KEY && e.newValue != null) { since = null; recall(); show(state.screen, false) } }  // the same page in another tab
  state = fresh()
  onload = () => { recall(); show(state.screen) }  // not before: Chromium can give a page that is still loading an empty memory, and loses what is then kept
}

const OF = "page", KEY = `refnb-annotation-${data.page}`, FILE = "annotations", DONE = "done"
const SCREENS = {read, write}
const items = new Map(data.items.map(q => [q.id, q]))
const position = new RegExp(data.position, "iu")


// What is known: who (a code drawn by chance), in which order, what was answered, and what is being written

const fresh = () => ({participant: code(), order: [...items.keys()], done: new Map(), screen: "start", writing: [], seconds: 0, saved: true})

const answers = () => state.order.filter(id => state.done.has(id)).map(id => ({id, ...state.done.get(id)}))
const current = () => items.get(state.order.find(id => !state.done.has(id)))
const texts = t => Array.isArray(t) && t.every(x => typeof x == "string")
const sound = a => texts(a.expressions) && a.expressions.length <= data.most
const more = () => ({screen: state.screen, writing: state.writing, seconds: state.seconds})
function taken(r, {screen = "read", writing = [], seconds = 0, saved} = {}) {
  if (!["start", "read", "write", "end"].includes(screen) || !texts(writing)) throw new Error("damaged")
  return {participant: r.participant, order: r.order, done: new Map(r.answers.map(({id, expressions, seconds}) => [id, {expressions, seconds}])), screen, writing, seconds: Number.isFinite(seconds) ? seconds : 0, saved}
}


// What an answer must not be; refnb looks again when answers are collected

const plain = text => text.normalize("NFKC").replace(/[\u2018\u2019\u201b\u02bc]/g, "'").replace(/[\u201c-\u201f]/g, '"').replace(/[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g, "")  // in_one_form
const folded = text => (plain(text).toLowerCase().match(/[\p{L}\p{N}\p{M}_]+/gu) ?? []).join(" ")
function why(q, text, before) {
  if (text.length > data.longest) return `This is too long: ${text.length} of at most ${data.longest} characters.`
  if (!plain(text).trim()) return "This is empty."
  if (q.name && new RegExp(q.name, "iu").test(plain(text))) return "This says the name. Please describe it instead."
  if (position.test(plain(text))) return "This says where it stands in the question. Please describe it instead."
  const said = folded(text)
  if (before.some(b => folded(b) == said)) return "You have written this already."
  if (said.split(" ").length >= data.copied && q.choices.some(c => ` ${folded(c.text)} `.includes(` ${said} `))) return "This is copied from the text. Please use words of your own."
  return ""
}
const written = () => [...document.querySelectorAll("#answers input")]
function check() {
  const q = current(), before = []
  for (const input of written()) {
    const text = input.value.trim(), said = text ? why(q, text, before) : ""
    if (text) before.push(text)
    input.setAttribute("aria-invalid", said != "")
    if (input.nextSibling.textContent != said) input.nextSibling.textContent = said
  }
}


// What is seen

const cell = (who, text, waiting) => made("li", {className: `cell of-${who}`},
  made("p", {className: waiting ? "bubble waiting" : "bubble"}, made("span", {className: "unseen"}, who == "bob" ? "Bob: " : "Alice: "), text),
  cast(who))
function cast(who) {
  const drawn = name => { const s = document.createElementNS("http://www.w3.org/2000/svg", "svg"), u = document.createElementNS("http://www.w3.org/2000/svg", "use")
    u.setAttribute("href", `#${name}`); s.setAttribute("class", name == who ? "speaks" : "silent"); s.append(u); return s }
  const both = made("div", {className: "cast"}, drawn("bob"), drawn("alice"))
  both.setAttribute("aria-hidden", "true")
  return both
}
const cartoon = (q, answer) => made("ol", {className: "cells"}, cell("bob", q.opening), cell("alice", q.question), cell("bob", answer || "…", !answer))
const link = c => c.link ? [made("a", {href: c.link, target: "_blank", rel: "noopener noreferrer"}, c.linked)] : []

const number = () => `Question ${state.done.size + 1} of ${items.size}`
function read(q) {
  at("read").querySelector("h2").textContent = number()
  at("read").querySelector(".cartoon").replaceChildren(cartoon(q))
  at("task").textContent = q.choices.some(c => c.text) ? "You are about to answer for Bob. Read about both; you cannot come back to this screen."
    : "You are about to answer for Bob. Listen to some of each, and read about them; the links stay on the next screen."
  at("things").replaceChildren(...q.choices.map(c => made("article", {className: "thing"}, made("h3", {}, c.name), ...(c.text ? [made("p", {}, c.text)] : []), ...link(c).map(a => made("p", {}, a)))))
}
function write(q) {
  at("write").querySelector("h2").textContent = number()
  at("meant").textContent = q.choices[q.target].name
  at("link").replaceChildren(...(q.stays ? q.choices.flatMap(link).flatMap((a, i) => [i ? ", " : "", a]) : []))
  at("problem").textContent = ""
  const field = i => {
    const input = made("input", {type: "text", value: state.writing[i] ?? "", autocomplete: "off", spellcheck: true, id: `answer${i}`, oninput: () => { check(); store(q) }})
    input.setAttribute("aria-label", `Answer ${i + 1}${i < data.least ? "" : ", if you like"}`)
    input.setAttribute("aria-describedby", `said${i}`)
    if (i >= data.least) input.placeholder = "if you like"
    return made("li", {}, input, made("p", {className: "said", id: `said${i}`}))
  }
  at("answers").replaceChildren(...Array.from({length: data.most}, (_, i) => field(i)))
  check()
  bubble(q)
}
function bubble(q) {
  const last = written().map(e => e.value.trim()).filter((t, i) => t && !written()[i].nextSibling.textContent)
  at("write").querySelector(".cartoon").replaceChildren(cartoon(q, (document.activeElement?.id ?? "").startsWith("answer") && document.activeElement.value.trim() || last.at(-1)))
}
function end() {
  const skipped = [...state.done.values()].filter(a => !a.expressions.length).length
  at("thanks").textContent = `Thank you: you have answered ${items.size - skipped} of ${items.size} questions.`
  remind()
}


// What is done

function store(q) {
  state.writing = written().map(e => e.value)
  at("problem").textContent = ""
  bubble(q)
  keep()
}
function finish(expressions) {
  spend()
  state.done.set(current().id, {expressions, seconds: Math.round(10*state.seconds)/10})
  state.writing = []
  state.seconds = 0
  state.saved = false
  if (kept) tell("")
  show("read")
}
function next() {
  if (state.screen == "start") return show("read")
  if (state.screen == "read") return show("write")
  if (state.screen != "write") return
  check()
  const wrong = written().find(e => e.getAttribute("aria-invalid") == "true"), given = written().map(e => e.value.trim()).filter(Boolean)
  const missing = given.length < data.least && written().find(e => !e.value.trim())
  at("problem").textContent = wrong ? "One of the answers cannot stay as it is." : missing ? `Please write at least ${data.least} answers.` : ""
  if (wrong || missing) (wrong || missing).focus()
  else finish(given)
}
function skip() { ask("This question stays without an answer of yours. You cannot come back to it.", "Leave it out", () => finish([])) }

at("skip").onclick = skip
document.querySelector("main").onkeydown = e => {
  if (e.key != "Enter" || e.altKey || e.isComposing || !e.target.matches("h2, #answers input")) return
  e.preventDefault()
  if (e.target.matches("h2")) return state.screen == "write" ? written()[0].focus() : next()
  const i = written().indexOf(e.target), later = written().slice(i + 1)
  if (e.ctrlKey || e.metaKey || !later.length || (!e.target.value.trim() && i >= data.least)) next()
  else later[0].focus()
}
at("answers").addEventListener("focusin", () => bubble(current()))

const example = x => made("section", {className: "example"}, made("h3", {}, `An example: “${x.first}” or “${x.second}”`), made("p", {}, `Bob means ${x.first}: ${x.about}.`),
  made("ul", {className: "yes"}, ...x.good.map(t => made("li", {}, `“${t}”`))),
  made("ul", {className: "no"}, ...x.bad.map(b => made("li", {}, `“${b.said}” `, made("span", {className: "reason"}, `(${b.why})`)))))
at("size").textContent = items.size == 1 ? "once" : `${items.size} times`
at("least").textContent = data.least
at("most").textContent = data.most
at("examples").replaceChildren(...data.examples.map(example))
document.querySelector("footer p").append(" What you are writing at the moment is not in it.")
begin()
