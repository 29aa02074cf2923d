const rankings = carried("data")
const STEP = 100
let most = STEP

const WHICH = {
  differ: ["where they differ", (x, y) => x != y], first: ["first is better", (x, y) => x > y], second: ["second is better", (x, y) => y > x],
  right: ["both are right", (x, y) => x >= 1 && y >= 1], wrong: ["both are wrong", (x, y) => x <= 0 && y <= 0], all: ["all", () => true]}

function verdict(b, k, i) {
  const c = b.credit[k][i], reason = b.reasons[k][i], chosen = b.chosen[k][i]
  const earned = c >= 1 ? "✓ right" : c > 0 ? `≈ tie, ${c.toFixed(2)}` : "✗ wrong"
  const word = !b.accuracy ? `${(100*c).toFixed(1)} %` : reason == "missing" ? "no answer" : reason ?? earned
  const letter = chosen < 0 ? "" : `, chose ${chosen < 26 ? String.fromCharCode(65 + chosen) : "+"}`
  return made("td", {className: c >= 1 ? "right" : c <= 0 ? "wrong" : ""}, word + letter)
}
function text(b, id) {
  const t = b.texts[id]
  if (!t) return made("td", {className: "text"})
  const options = t[3].map((name, k) => `${String.fromCharCode(65 + k)} ${name}${t[4].includes(k) ? " ✓" : ""}`).join(" · ")
  return made("td", {className: "text"}, made("bdi", {}, `…${t[0]} `, made("mark", {}, t[1]), ` ${t[2]}…`), made("br", {}), made("bdi", {className: "soft"}, options))
}

function show() {
  const b = rankings[at("board").value], [x, y] = [Number(at("first").value), Number(at("second").value)]
  const n = b.ids.length, tally = {first: 0, second: 0, right: 0, wrong: 0}, part = at("id").value.trim().toLowerCase(), rows = []
  const wanted = WHICH[at("which").value][1]
  for (let i = 0; i < n; i++) {
    const [p, q] = [b.credit[x][i], b.credit[y][i]]
    for (const k in tally) if (WHICH[k][1](p, q)) tally[k] += 1
    if (wanted(p, q) && (!part || b.ids[i].toLowerCase().includes(part))) rows.push(i)
  }
  at("counts").textContent = `${count(rows.length)} shown of ${count(n)}: first better on ${count(tally.first)}, second on ${count(tally.second)}; both right on ${count(tally.right)}, both wrong on ${count(tally.wrong)}.`
  const texts = Object.keys(b.texts).length > 0
  at("heads").replaceChildren(made("tr", {}, ...["id", b.systems[x], b.systems[y], ...(texts ? ["text and options"] : [])].map(t => made("th", {}, t))))
  at("rows").replaceChildren(...rows.slice(0, most).map(i =>
    made("tr", {}, made("td", {}, b.ids[i]), verdict(b, x, i), verdict(b, y, i), ...(texts ? [text(b, b.ids[i])] : []))))
  at("more").hidden = rows.length <= most
}
function fill(select, names, value) { select.replaceChildren(...names.map((t, k) => made("option", {value: k}, t))); select.value = value }
function turn() {
  const names = rankings[at("board").value].systems
  fill(at("first"), names, 0)
  fill(at("second"), names, Math.min(1, names.length - 1))
  again()
}
function again() { most = STEP; show() }

if (rankings.length) {
  at("side").hidden = false
  fill(at("board"), rankings.map(b => b.task), 0)
  at("which").replaceChildren(...Object.entries(WHICH).map(([k, [t]]) => made("option", {value: k}, t)))
  at("board").addEventListener("change", turn)
  for (const id of ["first", "second", "which"]) at(id).addEventListener("change", again)
  at("id").addEventListener("input", again)
  at("more").addEventListener("click", () => { most += STEP; show() })
  document.addEventListener("click", e => {
    const link = e.target.closest("button[data-item]")
    if (!link) return
    at("board").value = link.dataset.board
    turn()
    at("which").value = "all"
    at("id").value = rankings[link.dataset.board].ids[link.dataset.item]
    again()
    at("side").scrollIntoView()
  })
  turn()
}
