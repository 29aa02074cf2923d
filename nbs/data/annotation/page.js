
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
