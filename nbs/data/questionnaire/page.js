
const OF = "questionnaire", KEY = `refnb-questionnaire-${data.questionnaire}`, FILE = "answers", DONE = "answered", CANT_SAY = -1
const items = new Map(data.items.map(q => [q.id, q]))
const first = 1 + data.examples.length, last = first + data.items.length  // screens: start, examples, questions, end


// What is known: who (a code drawn by chance), in which order, and what was said

const fresh = () => ({participant: code(), order: [...items.keys()], said: new Map(), screen: 0, saved: true})
let shown = null

const answers = () => state.order.filter(id => state.said.get(id)?.choice != null).map(id => ({id, choice: state.said.get(id).choice, seconds: Math.round(10*state.said.get(id).seconds)/10}))
const sound = a => Number.isInteger(a.choice) && CANT_SAY <= a.choice && a.choice < items.get(a.id).options.length
const more = () => ({screen: state.screen})
function taken(r, {screen, saved} = {}) {
  const open = r.order.findIndex(id => !r.answers.some(a => a.id == id))
  return {participant: r.participant, order: r.order, said: new Map(r.answers.map(({id, choice, seconds}) => [id, {choice, seconds}])),
    screen: Number.isInteger(screen) && 0 <= screen && screen <= last ? screen : open < 0 ? last : first + open, saved}
}


// What is seen

const pronoun = q => q.parts.find(p => p[1] == "pronoun")[0]
const person = (name, i) => { const e = made("span", {className: `person p${i % data.colors + 1}`}, name); e.dataset.n = i + 1; return e }
const part = ([text, what]) => what == null ? text : what == "pronoun" ? made("strong", {className: "pronoun"}, made("span", {className: "unseen"}, "marked pronoun: "), text) : person(text, what)
const choices = q => [...q.options.map((name, i) => [i, person(name, i), String(i + 1)]), [CANT_SAY, made("span", {}, "Can't say"), "0"]]

function show(screen, own = true) {  // own: not what another tab did, which has kept it
  spend()  // what was shown until now
  state.screen = screen
  const i = screen - first, box = screen == 0 ? "start" : i < 0 ? "example" : screen < last ? "question" : "end"
  shown = box == "question" ? state.order[i] : null
  all("main > section, main > form", e => e.hidden = e.id != box)
  if (box == "example") example(data.examples[screen - 1], screen)
  if (box == "question") question(items.get(shown), i + 1)
  if (box == "end") end()
  at("progress").hidden = box == "start" || box == "example"
  count()
  if (!own) return
  keep()
  scrollTo(0, 0)
  at(box).querySelector("h2").focus()
}
function fill(box, q, title, options) {
  box.querySelector("h2").textContent = title
  box.querySelector(".passage").replaceChildren(...q.parts.map(part))
  box.querySelector(".asked").textContent = `Who is meant by “${pronoun(q)}”?`
  box.querySelector(".options").replaceChildren(...options)
}
function example(q, n) {
  const mark = choice => choice == q.choice ? [made("span", {className: "answer"}, "✓ the answer")] : []
  fill(at("example"), q, `Example ${n} of ${data.examples.length}`, choices(q).map(([c, name]) => made("li", {className: c == q.choice ? "option chosen" : "option"}, name, ...mark(c))))
  at("example").querySelector(".why").textContent = q.why
  at("example").querySelector(".next").textContent = n < data.examples.length ? "Next" : "To the questions"
}
function question(q, n) {
  const choice = state.said.get(q.id)?.choice
  const option = ([c, name, key]) => made("label", {className: "option"},
    made("input", {type: "radio", name: "choice", value: c, checked: c === choice, onchange: () => choose(c)}), name, made("kbd", {}, key))
  fill(at("question"), q, `Question ${n} of ${items.size}`, choices(q).map(option))
  at("problem").textContent = ""
  at("question").querySelector(".next").textContent = n < items.size ? "Next" : "To the end"
}
function end() {
  const open = items.size - answered()
  at("end").querySelector("h2").textContent = open ? "Not quite the end" : "That was the last question"
  at("open").replaceChildren(...(open ? [`${open} of ${items.size} questions ${open == 1 ? "has" : "have"} no answer yet. `, made("button", {type: "button", onclick: () => show(taken(record()).screen)}, "Go there")]
    : [`Thank you: you have answered all ${items.size} questions. You may still go back and change answers.`]))
  remind()
}


// What is done

function spend() {  // the seconds that a question was in sight
  const now = performance.now()
  if (shown != null && since != null) {
    const a = state.said.get(shown) ?? {choice: null, seconds: 0}
    state.said.set(shown, {...a, seconds: a.seconds + (now - since)/1000})
  }
  since = document.hidden ? null : now
}
function choose(choice) {
  spend()
  state.said.set(shown, {seconds: 0, ...state.said.get(shown), choice})
  state.saved = false
  at("problem").textContent = ""
  count()
  keep()
}
function next() {
  if (kept) tell("")
  if (shown != null && state.said.get(shown)?.choice == null) {
    at("problem").textContent = "Please choose an answer. If the text does not let you tell, that is “Can't say”."
    at("question").querySelector("input").focus()
  } else if (state.screen < last) show(state.screen + 1)
}
const back = () => { if (kept) tell(""); if (state.screen > 0) show(state.screen - 1) }

all(".back", e => e.onclick = back)
document.querySelector("main").onkeydown = e => {
  if (e.ctrlKey || e.altKey || e.metaKey || e.isComposing || !e.target.matches("h2, input[type=radio]")) return
  if (e.key == "Enter") { e.preventDefault(); return next() }
  if (shown == null || !/^[0-9]$/.test(e.key)) return
  const radio = at("question").querySelector(`input[value="${e.key == "0" ? CANT_SAY : e.key - 1}"]`)
  if (radio) { e.preventDefault(); radio.checked = true; radio.focus(); choose(Number(radio.value)) }
}

at("size").textContent = items.size
at("first").textContent = data.examples.length ? `${data.examples.length} examples come first.` : ""
begin()
