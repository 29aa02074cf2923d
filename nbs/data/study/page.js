
const OF = "page", KEY = `refnb-study-${data.page}`, FILE = "study", DONE = "answered"
const SCREENS = {one}, end = remind
const items = new Map(data.items.map(q => [q.id, q]))

function shuffled(list) {  // each person reads the texts in an order of their own
  const out = [...list]
  for (let i = out.length - 1; i > 0; i--) { const j = crypto.getRandomValues(new Uint32Array(1))[0] % (i + 1); [out[i], out[j]] = [out[j], out[i]] }
  return out
}
const fresh = () => ({participant: code(), order: shuffled(items.keys()), done: new Map(), screen: "start", seconds: 0, saved: true})
const answers = () => state.order.filter(id => state.done.has(id)).map(id => ({id, ...state.done.get(id)}))
const current = () => items.get(state.order.find(id => !state.done.has(id)))
const sound = a => Number.isInteger(a.chosen) && 0 <= a.chosen && a.chosen < items.get(a.id).options.length
const more = () => ({screen: state.screen, seconds: state.seconds})
function taken(r, {screen = "one", seconds = 0, saved} = {}) {
  if (!["start", "one", "end"].includes(screen)) throw new Error("damaged")
  return {participant: r.participant, order: r.order, done: new Map(r.answers.map(({id, chosen, seconds}) => [id, {chosen, seconds}])), screen, seconds: Number.isFinite(seconds) ? seconds : 0, saved}
}

function one(q) {
  at("one").querySelector("h2").textContent = `Text ${state.done.size + 1} of ${items.size}`
  at("text").replaceChildren(...q.parts.map(([text, kind]) => kind ? made("b", {className: kind}, text) : text))
  at("pronoun").textContent = `“${q.parts.find(p => p[1] == "pronoun")[0]}”`
  at("options").replaceChildren(...q.options.map((name, k) => made("label", {}, made("input", {type: "radio", name: "chosen", value: k}), made("span", {}, name))))
  at("problem").textContent = ""
}
function next() {
  if (state.screen == "start") return show("one")
  const chosen = document.querySelector("input[name=chosen]:checked")
  if (!chosen) { at("problem").textContent = "Please choose one."; return }
  spend()
  state.done.set(current().id, {chosen: Number(chosen.value), seconds: Math.round(10*state.seconds)/10})
  state.seconds = 0
  state.saved = false
  if (kept) tell("")
  show("one")
}
at("size").textContent = items.size
begin()
