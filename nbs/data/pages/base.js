
"use strict"
// What all pages for people share. Nothing of the data becomes markup: texts are set as text. Nothing leaves the page: its policy forbids every request.
const data = JSON.parse(document.getElementById("data").textContent)
const at = id => document.getElementById(id)
const all = (what, on) => document.querySelectorAll(what).forEach(on)
const made = (tag, fields, ...inside) => { const e = Object.assign(document.createElement(tag), fields); e.append(...inside); return e }
const letters = "abcdefghijkmnopqrstuvwxyz2345678"
const code = () => Array.from(crypto.getRandomValues(new Uint8Array(10)), b => letters[b % 32]).join("")
function tell(text) { at("notice").textContent = text; at("notice").hidden = !text }
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
  count()
  if (!own) return
  keep()
  scrollTo(0, 0)
  at(state.screen).querySelector("h2").focus()
}
function count() {
  const progress = document.querySelector("progress")
  progress.max = items.size
  progress.value = answered()
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
