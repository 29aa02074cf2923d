// Only the blocks of text in sight exist in the page, so that a book of any length scrolls alike.
const drawn = (tag, set, ...inside) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag)
  for (const [k, v] of Object.entries(set)) e.setAttribute(k, v)
  e.append(...inside)
  return e
}
const COLORS = 8, FEW = 12, MANY = 40, LISTED = 300, DEEPEST = 6, MOST = 400
const SHORT = 60, LONG = 300  // tokens of a block: at least, if no paragraph ends; at most
const FAULTS = ["", "in a piece apart", "another character", "missed", "spurious"]
const color = row => `k${row < COLORS ? row : "x"}`
const box = at("text"), flow = at("flow"), about = carried("about")

let book = null           // the open document
let mode = "both"         // which side is shown: 0, 1 or both
let wished = null         // the same, as the reader chose it
let picked = -1           // the selected character
let now = null            // the mention that was stepped to, or the hit
let hits = [], query = ""
let lanes = FEW


// A document as it is in the page

function spans(flat) {  // of one side: starts, ends, clusters and states, in the order of the text
  const n = flat.length/4, all = {n, start: new Int32Array(n), end: new Int32Array(n), cluster: new Int32Array(n), state: new Uint8Array(n)}
  for (let i = 0, last = 0; i < n; i++) {
    last = all.start[i] = last + flat[4*i]
    all.end[i] = last + flat[4*i + 1]
    all.cluster[i] = flat[4*i + 2]
    all.state[i] = flat[4*i + 3]
  }
  return all
}
const key = (start, end) => start*4194304 + (end - start)
const after = (sorted, x) => { let a = 0, b = sorted.length; while (a < b) { const c = (a + b) >> 1; sorted[c] < x ? a = c + 1 : b = c } return a }  // how many are smaller

function blocksOf(text) {  // where blocks begin: at paragraphs, else at ends of sentences; and how many letters each has
  const starts = [0], letters = []
  let t = 0, n = 0, chars = 0
  const cut = () => { if (n) { starts.push(t); letters.push(chars); n = chars = 0 } }
  for (const sentence of text) {
    for (const token of sentence.split(" ")) {
      t++; n++; chars += token.length + 1
      if (!token || n >= LONG) cut()
    }
    if (n >= SHORT) cut()
  }
  cut()
  return {starts, letters}
}
function opened(i) {
  const d = carried(`d${i}`)
  d.tokens = d.text.join(" ").split(" ")
  if (!d.text.length) d.tokens = []
  Object.assign(d, blocksOf(d.text))
  d.sides = d.mentions.map(spans)
  d.row = (s, k) => d.rows[s][d.sides[s].cluster[k]]
  d.within = d.sides.map(m => {  // mentions that begin in an earlier block
    const found = new Map()
    for (let k = 0; k < m.n; k++) {
      const last = blockOf(d, m.end[k])
      for (let b = blockOf(d, m.start[k]) + 1; b <= last; b++) {
        if (!found.has(b)) found.set(b, [])
        if (found.get(b).length < DEEPEST) found.get(b).push(k)
      }
    }
    return found
  })
  d.at = d.sides.map(m => { const all = new Map(); for (let k = 0; k < m.n; k++) all.set(key(m.start[k], m.end[k]), k); return all })
  return d
}
const blockOf = (d, token) => Math.max(0, Math.min(d.letters.length - 1, after(d.starts, token + 1) - 1))
const compared = () => book.sides.length > 1
const shownSides = () => !compared() ? [0] : mode == "both" ? [0, 1] : [mode]
const remembered = new Map()  // lists that take a while, of the open document
function once(name, make) { if (!remembered.has(name)) remembered.set(name, make()); return remembered.get(name) }
const total = row => book.sizes[mode == 1 ? 1 : 0][row]


// Words, and boxes around mentions

const CLOSING = /^(?:[,.;:!?)\]}’”%…]+|''|n['’]t|['’](?:s|re|ve|ll|d|m))$/i, OPENING = /^(?:[([{“‘£$]+|``)$/, APOSTROPHE = /^['’]$/, ENDING = /^(?:s|t|re|ve|ll|d|m)$/i
const word = t => t !== undefined && /[\p{L}\p{N}]/u.test(t)
function spacer() {  // the blank before a token, as print has it; tokens themselves are as in the file
  let quoted = false, glue = false
  return (before, token, next) => {
    const tight = glue || CLOSING.test(token)
    glue = OPENING.test(token)
    if ((token == "-" || (APOSTROPHE.test(token) && ENDING.test(next ?? ""))) && word(before) && word(next)) { glue = true; return "" }
    if (token == '"') {
      const closes = quoted || (/^[,.!?—]$/.test(before ?? "") && /^\p{Ll}/u.test(next ?? ""))
      quoted = !closes
      glue = quoted
      return closes ? "" : " "
    }
    return tight ? "" : " "
  }
}
function boxes(s, b) {  // of a side in a block, those around others first
  const m = book.sides[s], from = book.starts[b], to = book.starts[b + 1], out = []
  const add = k => out.push({start: m.start[k], end: m.end[k], row: book.row(s, k), state: m.state[k]})
  for (const k of book.within[s].get(b) ?? []) add(k)
  for (let k = after(m.start, from); k < m.n && m.start[k] < to && out.length < MOST; k++) add(k)
  for (let k = after(hits, from - 20); query && k < hits.length && hits[k] < to; k++) {
    const end = hits[k] + hits.widths[k]
    if (end >= from) out.push({start: hits[k], end, row: -2, state: 0})
  }
  return out.sort((x, y) => x.start - y.start || y.end - x.end)
}
function begin(x, from) {
  const here = now && x.start == now.start && x.end == now.end
  const name = x.row == -2 ? "m hit" : `m ${color(x.row)}${x.row == picked ? " on" : ""}${x.state ? ` s${x.state}` : ""}`
  const e = made("span", {className: name + (here ? " now" : "")})
  if (x.row >= 0) { e.dataset.row = x.row; e.dataset.span = `${x.start} ${x.end}` }
  return {e, x, height: 0}
}
function fill(p, s, b) {  // boxes nest; one that crosses another is cut where that ends
  const from = book.starts[b], to = book.starts[b + 1], todo = boxes(s, b), stack = [], blank = spacer()
  const inner = () => stack.length ? stack[stack.length - 1].e : p
  const open = (x, t) => { if (stack.length < DEEPEST) { const made = begin(x, t); inner().append(made.e); stack.push(made) } }
  let text = "", k = 0
  const flush = () => { if (text) inner().append(text); text = "" }
  for (let t = from; t < to; t++) {
    const token = book.tokens[t]
    const gap = blank(t > from ? book.tokens[t - 1] : undefined, token, t + 1 < to ? book.tokens[t + 1] : undefined)
    if (t > from && token) text += gap
    if (k < todo.length && todo[k].start <= t) {
      flush()
      while (k < todo.length && todo[k].start <= t) open(todo[k++], t)
    }
    text += token || (t + 1 < to ? "\n" : "")
    const lowest = stack.findIndex(o => o.x.end <= t)
    if (lowest < 0) continue
    flush()
    const again = []
    while (stack.length > lowest) {
      const o = stack.pop()
      if (o.height) o.e.classList.add(`h${o.height}`)
      if (stack.length) stack[stack.length - 1].height = Math.max(stack[stack.length - 1].height, o.height + 1)
      if (o.x.end > t) { o.e.classList.add("torn"); again.unshift(o.x) }
    }
    if (t + 1 < to) for (const x of again) open(x, t + 1)
  }
  flush()
  for (const o of stack) if (o.x.end >= to) o.e.classList.add("torn")
}
function block(b) {
  const sides = shownSides(), e = made("div", {className: sides.length > 1 ? "block two" : "block"})
  e.dataset.at = count(book.starts[b])
  for (const s of sides) {
    const p = made("p", {})
    if (compared()) p.setAttribute("aria-label", book.labels[s])
    fill(p, s, b)
    e.append(p)
  }
  return e
}


// Scrolling

let heights = null, tops = null, seen = new Map(), measured = null
function estimate() {  // the height of each block, by its letters; corrected when it is in sight
  const sides = shownSides().length, probe = block(0)
  probe.style.visibility = "hidden"
  flow.append(probe)
  const p = probe.firstElementChild, style = getComputedStyle(p), pen = document.createElement("canvas").getContext("2d")
  pen.font = `${style.fontSize} ${style.fontFamily}`
  const sample = book.tokens.slice(0, 400).join(" "), letter = pen.measureText(sample).width/Math.max(1, sample.length)
  const line = parseFloat(style.lineHeight), room = Math.max(100, p.clientWidth), stacked = sides > 1 && probe.lastElementChild.offsetTop > p.offsetTop + 5
  const around = parseFloat(getComputedStyle(probe).paddingTop) + parseFloat(getComputedStyle(probe).paddingBottom)
  probe.remove()
  heights = Float64Array.from(book.letters, n => around + (stacked ? sides : 1)*line*Math.max(1, Math.ceil(1.04*n*letter/room)))
  measured = new Uint8Array(heights.length)
  tops = new Float64Array(heights.length + 1)
  place()
}
function place() {
  for (let b = 0; b < heights.length; b++) tops[b + 1] = tops[b] + heights[b]
  flow.style.height = `${tops[heights.length]}px`
}
const blockAt = y => Math.max(0, Math.min(heights.length - 1, after(tops, y + .5) - 1))
function tokenAt(y) {
  const b = blockAt(y), inside = Math.max(0, Math.min(1, (y - tops[b])/heights[b]))
  return book.starts[b] + inside*(book.starts[b + 1] - book.starts[b])
}
function show(b) {
  const e = block(b)
  e.style.top = `${tops[b]}px`
  flow.append(e)
  seen.set(b, e)
}
function measure() {  // correct heights; what is at the top of the window stays there
  let changed = false
  const y = box.scrollTop, anchor = blockAt(y), inside = y - tops[anchor]
  for (const [b, e] of seen) {
    if (measured[b]) continue
    measured[b] = 1
    const h = e.offsetHeight
    if (Math.abs(h - heights[b]) > .5) { heights[b] = h; changed = true }
  }
  if (!changed) return false
  place()
  for (const [b, e] of seen) e.style.top = `${tops[b]}px`
  const to = tops[anchor] + inside
  if (Math.abs(to - y) > .5) box.scrollTop = to
  return true
}
function draw() {
  if (!heights || !box.clientWidth) return
  for (let k = 0; k < 5; k++) {
    const y = box.scrollTop, spare = .6*box.clientHeight, first = blockAt(y - spare), last = blockAt(y + box.clientHeight + spare)
    for (const [b, e] of seen) if (b < first || b > last) { e.remove(); seen.delete(b) }
    for (let b = first; b <= last; b++) if (!seen.has(b)) show(b)
    if (!measure()) break
  }
  here()
}
function end() {  // to the last word; what comes into sight there may be higher than estimated
  for (let k = 0; k < 5; k++) { box.scrollTop = tops[heights.length]; draw() }
}
function redraw() {  // the same blocks, drawn anew
  for (const e of seen.values()) e.remove()
  seen.clear()
  draw()
}
function relaid() {  // blocks have other heights: begin again, at the same place
  if (!book.letters.length || !box.clientWidth) return
  const token = heights ? tokenAt(box.scrollTop) : 0
  for (const e of seen.values()) e.remove()
  seen.clear()
  estimate()
  const b = blockOf(book, Math.floor(token))
  box.scrollTop = tops[b] + heights[b]*(token - book.starts[b])/(book.starts[b + 1] - book.starts[b])
  draw()
}
function go(token) {  // bring a place into the upper third of the window
  pane("text")
  const third = () => .3*box.clientHeight, b = blockOf(book, token)
  box.scrollTop = tops[b] + heights[b]*(token - book.starts[b])/(book.starts[b + 1] - book.starts[b]) - third()
  redraw()
  for (let k = 0; k < 3; k++) {
    const e = flow.querySelector(".now")
    if (!e) break
    const off = e.getBoundingClientRect().top - box.getBoundingClientRect().top - third()
    if (Math.abs(off) < third()/2) break
    box.scrollTop += off
    draw()
  }
}


// Where in the book the window is, and who is there

let waiting = 0, stageWidth = 0, marked = 0
function here() {  // moved as a layer, and rarely of another width: nothing of the timeline is drawn anew while the text scrolls
  const size = Math.max(1, book.tokens.length), from = tokenAt(box.scrollTop)/size, to = tokenAt(box.scrollTop + box.clientHeight)/size
  const wide = Math.max(3, Math.round((to - from)*stageWidth))
  at("here").style.transform = `translateX(${from*stageWidth}px)`
  if (Math.abs(wide - marked) > .2*wide) at("here").style.width = `${marked = wide}px`
  if (!waiting) waiting = setTimeout(present, 120)
}
function present() {
  waiting = 0
  if (!heights) return
  const from = tokenAt(box.scrollTop), to = tokenAt(box.scrollTop + box.clientHeight), n = new Map()
  for (const s of shownSides()) {
    const m = book.sides[s]
    for (let k = after(m.start, from); k < m.n && m.start[k] < to; k++) n.set(book.row(s, k), (n.get(book.row(s, k)) ?? 0) + 1)
  }
  const most = [...n].sort((x, y) => y[1] - x[1] || x[0] - y[0]).slice(0, 9)
  const chip = row => made("button", {type: "button", className: color(row), onclick: () => pick(row)}, made("bdi", {}, book.names[row]))
  at("present").replaceChildren(...(most.length ? most.map(([row]) => chip(row)) : ["nobody"]))
}


// The timeline

const laneHeight = () => parseFloat(getComputedStyle(at("rows")).getPropertyValue("--lane"))
const laneRows = () => {
  const rows = book.order.slice(0, lanes)
  if (picked >= 0 && !rows.includes(picked)) rows.unshift(picked)
  return rows
}
function unpacked(flat) { const out = []; for (let i = 0, bin = 0; i < flat.length; i += 2) { bin += flat[i]; out.push([bin, flat[i + 1]]) } return out }
function stage() {
  const rows = laneRows(), faults = compared()
  const name = row => {
    const e = made("button", {type: "button", className: row == picked ? "on" : "", title: book.names[row], onclick: () => pick(row)}, made("bdi", {}, book.names[row]))
    e.setAttribute("aria-label", `${book.names[row]}, ${counted(row)}`)
    return e
  }
  at("row-names").replaceChildren(...rows.map(name), ...(faults ? [made("div", {className: "faults"}, "differences")] : []))
  const canvas = at("canvas"), width = at("lanes").clientWidth, LANE = laneHeight(), height = LANE*(rows.length + faults), scale = devicePixelRatio || 1
  canvas.width = width*scale
  canvas.height = height*scale
  canvas.style.height = `${height}px`
  if (!width) return
  if (width != stageWidth) { stageWidth = width; if (heights) here() }
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), bin = width/book.bins
  const tint = name => style.getPropertyValue(`--${name}`).trim()
  pen.scale(scale, scale)
  const lane = (flat, y, h, tone, most) => {
    pen.fillStyle = tone
    for (const [k, n] of flat) { pen.globalAlpha = .35 + .65*Math.min(1, n/most); pen.fillRect(k*bin, y, Math.max(1.5, bin - .25), h) }
    pen.globalAlpha = 1
  }
  rows.forEach((row, i) => {
    if (row == picked) { pen.fillStyle = tint("chosen"); pen.fillRect(0, i*LANE, width, LANE) }
    pen.fillStyle = tint("faint")
    pen.fillRect(0, i*LANE + LANE - 1, width, .5)
    const parts = book.lanes.map(l => unpacked(l[row])), most = Math.max(3, ...parts.flat().map(x => x[1]))
    parts.forEach((part, s) => lane(part, i*LANE + LANE*(parts.length > 1 ? .13 + .4*s : .2), LANE*(parts.length > 1 ? .33 : .56), tint(color(row)), most))
  })
  if (faults) {
    const flat = unpacked(book.faults), most = Math.max(1, ...flat.map(x => x[1]))
    pen.fillStyle = tint("bad")
    for (const [k, n] of flat) pen.fillRect(k*bin, height - (LANE - 3)*n/most, Math.max(1.5, bin - .25), (LANE - 3)*n/most)
  }
  at("stage-note").textContent = faults ? `each row: ${book.labels[0]} above, ${book.labels[1]} below; click to go there` : "from the first word to the last; click to go there"
  at("more").hidden = book.order.length <= FEW
  at("more").textContent = lanes == FEW ? "More rows" : "Fewer rows"
  at("more").setAttribute("aria-expanded", String(lanes != FEW))
}
at("more").onclick = () => { lanes = lanes == FEW ? MANY : FEW; stage() }
at("lanes").onclick = e => {
  const area = at("lanes").getBoundingClientRect(), row = laneRows()[Math.floor((e.clientY - area.top)/laneHeight())]
  const token = Math.floor((e.clientX - area.left)/area.width*book.tokens.length)
  if (row !== undefined && row != picked) pick(row, false)
  now = nearest(row, token)
  go(now && Math.abs(now.start - token) < book.tokens.length/50 ? now.start : token)
  tell()
}
function nearest(row, token) {
  const all = mentionsOf(row ?? -1), k = after(all.map(x => x.start), token)
  return [all[k - 1], all[k]].filter(Boolean).sort((x, y) => Math.abs(x.start - token) - Math.abs(y.start - token))[0] ?? null
}


// Characters

const counted = row => compared() ? `${count(book.sizes[0][row])} ${book.labels[0]}, ${count(book.sizes[1][row])} ${book.labels[1]}` : `${count(book.sizes[0][row])} mention${book.sizes[0][row] == 1 ? "" : "s"}`
function list() {
  const wanted = at("filter").value.trim().toLowerCase(), found = book.order.filter(row => book.names[row].toLowerCase().includes(wanted))
  const who = row => {
    const e = made("button", {type: "button", className: `who ${color(row)}${row == picked ? " on" : ""}`, title: counted(row), ariaPressed: String(row == picked), onclick: () => pick(row == picked ? -1 : row)},
      made("span", {className: "dot"}), made("bdi", {}, book.names[row]), made("span", {className: "n"}, book.sizes.map(s => count(s[row])).join(" · ")))
    e.dataset.row = row
    return e
  }
  const more = found.length - LISTED
  at("list").replaceChildren(...found.slice(0, LISTED).map(who), ...(found.length ? [] : [made("p", {}, "no such character")]), ...(more > 0 ? [made("p", {}, `and ${count(more)} more: filter to find them`)] : []))
}
at("filter").oninput = list
function phrase(x, most = 8) {
  const blank = spacer()
  let out = ""
  for (let t = x.start; t <= Math.min(x.end, x.start + most - 1); t++) out += (t > x.start ? blank(book.tokens[t - 1], book.tokens[t], book.tokens[t + 1]) : (blank(undefined, book.tokens[t], book.tokens[t + 1]), "")) + book.tokens[t]
  return out + (x.end >= x.start + most ? " …" : "")
}
const mentionsOf = row => once(`mentions ${row} ${mode}`, () => spansOf(row))
function spansOf(row) {  // mentions of a character, each once, in the order of the text; -1: of all
  const out = new Map()
  for (const s of shownSides()) {
    const m = book.sides[s]
    for (let k = 0; k < m.n; k++) if (row < 0 || book.row(s, k) == row) out.set(key(m.start[k], m.end[k]), {start: m.start[k], end: m.end[k]})
  }
  return [...out].sort((x, y) => x[0] - y[0]).map(x => x[1])
}
function detail() {
  const e = at("chosen")
  e.hidden = picked < 0
  if (picked < 0) return
  e.className = color(picked)
  const forms = new Map(), states = [0, 0, 0, 0, 0]
  book.sides.forEach((m, s) => {
    for (let k = 0; k < m.n; k++) {
      if (book.row(s, k) != picked) continue
      if (s == 0 || m.state[k] == 4) states[m.state[k]]++
      if (s == 0 || !book.sizes[0][picked]) { const text = phrase({start: m.start[k], end: m.end[k]}, 5); forms.set(text, (forms.get(text) ?? 0) + 1) }
    }
  })
  const most = [...forms].sort((x, y) => y[1] - x[1]).slice(0, 8).map(([text, n]) => `${text} ${count(n)}`).join(" · ")
  const verdicts = ["right", ...FAULTS.slice(1)].map((name, k) => states[k] ? `${count(states[k])} ${name}` : "").filter(Boolean).join(" · ")
  const rows = [["mentions", counted(picked)], ["as", most], ...(compared() && verdicts ? [["found", verdicts]] : [])]
  e.replaceChildren(made("h2", {}, made("bdi", {}, book.names[picked])), made("dl", {}, ...rows.flatMap(([k, v]) => [made("dt", {}, k), made("dd", {}, v)])))
}
function pick(row, redrawn = true) {
  picked = row
  now = null
  flow.classList.toggle("picked", picked >= 0)
  list(); detail(); stage(); graph(); tell()
  if (redrawn) redraw()
}


// The network

const R = 400, TALL = 340
function graph() {
  const edges = book.edges[mode == 1 ? 1 : 0], most = Math.max(1, ...edges.map(e => e[2])), largest = Math.max(1, ...book.nodes.map(total))
  const radius = row => 4 + 13*Math.sqrt(total(row)/largest), short = name => name.length > 18 ? name.slice(0, 17) + "…" : name
  const near = new Set([picked])
  for (const [a, b] of edges) { if (a == picked) near.add(b); if (b == picked) near.add(a) }
  const place = new Map(book.nodes.map((row, i) => [row, [50 + (R - 100)*book.places[i][0], 20 + (TALL - 52)*book.places[i][1]]]))
  const inside = place.has(picked), labels = new Map(), taken = []
  for (const row of book.nodes) {  // a name is below its circle, or above, wherever it lies on no other name
    const [x, y] = place.get(row), r = radius(row), half = 3*short(book.names[row]).length
    const free = at => taken.every(([u, v, h]) => Math.abs(at - v) > 11 || Math.abs(x - u) > half + h)
    const spots = [y + r + 10, y - r - 4, y + r + 21, y - r - 15]
    const spot = spots.find(free) ?? spots[0]
    taken.push([x, spot, half])
    labels.set(row, spot)
  }
  const line = ([a, b, n]) => {
    const [[x1, y1], [x2, y2]] = [place.get(a), place.get(b)], on = a == picked || b == picked
    return drawn("line", {x1, y1, x2, y2, "stroke-width": .5 + 5*n/most, "stroke-opacity": .15 + .6*n/most, class: on ? "on" : ""}, drawn("title", {}, `${book.names[a]} and ${book.names[b]}: ${count(n)}`))
  }
  const node = row => {
    const [x, y] = place.get(row), r = radius(row), name = book.names[row]
    const g = drawn("g", {class: `${color(row)} ${row == picked ? "on" : inside && !near.has(row) ? "off" : ""}`, role: "button", tabindex: 0, "aria-label": `${name}, ${counted(row)}`},
      drawn("title", {}, `${name}: ${counted(row)}`), drawn("circle", {cx: x, cy: y, r}), drawn("text", {x, y: labels.get(row)}, short(name)))
    g.onclick = () => pick(row == picked ? -1 : row)
    g.onkeydown = e => { if (e.key == "Enter" || e.key == " ") { e.preventDefault(); g.onclick(); at("graph").querySelector("g.on")?.focus() } }
    return g
  }
  const svg = drawn("svg", {viewBox: `0 0 ${R} ${TALL}`, class: inside ? "picked" : "", role: "group", "aria-label": "Network of characters"}, ...edges.map(line), ...[...book.nodes].reverse().map(node))
  at("graph").replaceChildren(svg)
  at("network").hidden = book.nodes.length < 2
  at("network-note").textContent = `The ${book.nodes.length} most mentioned${compared() ? `, by ${book.labels[mode == 1 ? 1 : 0]}` : ""}. A line: sentences with one of the two where the other is mentioned in the same sentence or the ${about.before} before it; its width says how many.`
}


// Stepping, searching, telling

const side = (s, x) => { const k = book.at[s].get(key(x.start, x.end)); return k === undefined ? null : {row: book.row(s, k), state: book.sides[s].state[k]} }
function tell(text) {
  if (text === undefined && now) {
    const sides = book.labels.map((label, s) => [label, side(s, now)]), row = sides.map(x => x[1]?.row).find(r => r === picked) ?? sides.find(x => x[1])?.[1].row
    if (row !== undefined) {
      const all = mentionsOf(row), k = all.findIndex(x => x.start == now.start && x.end == now.end)
      const who = compared() ? sides.map(([label, x]) => `${label}: ${x ? book.names[x.row] : "nothing"}`).join(", ") : book.names[row]
      const fault = Math.max(...sides.map(x => x[1]?.state ?? 0))
      text = `“${phrase(now)}” ${who}${fault ? ` (${FAULTS[fault]})` : ""}${k >= 0 ? `, ${count(k + 1)} of ${count(all.length)}` : ""}`
    }
  }
  at("status").textContent = at("status").title = text ?? (picked >= 0 ? `${book.names[picked]}: ${counted(picked)}` : "")
}
function step(all, way) {  // to the next in the order of the text, from the one before or from the top of the window
  if (!all.length) return tell("there is none")
  pane("text")
  const place = x => key(x.start, x.end), reading = tokenAt(box.scrollTop + (way > 0 ? 0 : box.clientHeight))
  const from = now ? place(now) : key(Math.floor(reading), Math.floor(reading)) - (way > 0 ? 1 : 0)
  const places = all.map(place), k = way > 0 ? after(places, from + 1) : after(places, from) - 1
  now = all[(k + all.length) % all.length]
  go(now.start)
  tell()
}
const faults = () => once(`faults ${picked} ${mode}`, faultsOf)
function faultsOf() {  // differences that can be seen, of the selected character if there is one
  const out = new Map()
  shownSides().forEach(s => {
    const m = book.sides[s]
    for (let k = 0; k < m.n; k++) if (m.state[k]) out.set(key(m.start[k], m.end[k]), {start: m.start[k], end: m.end[k]})
  })
  const mine = x => picked < 0 || book.labels.some((_, s) => side(s, x)?.row == picked)
  return [...out].sort((x, y) => x[0] - y[0]).map(x => x[1]).filter(mine)
}
function find() {  // words, whatever the tokens are; a hit begins with a token
  query = at("search").value.toLowerCase().replace(/\s+/g, "")
  hits = []
  hits.widths = []
  if (query) {
    if (!book.joined) {
      book.ends = new Int32Array(book.tokens.length)
      let n = 0
      book.joined = book.tokens.map((t, i) => { const low = t.toLowerCase(); n += low.length; book.ends[i] = n; return low }).join("")
    }
    for (let i = book.joined.indexOf(query); i >= 0 && hits.length < 20000; i = book.joined.indexOf(query, i + 1)) {
      const first = after(book.ends, i + 1), begins = first ? book.ends[first - 1] : 0
      if (begins != i) continue
      hits.push(first)
      hits.widths.push(after(book.ends, i + query.length) - first)
    }
  }
  now = null
  redraw()
  tell(query ? `${count(hits.length)} place${hits.length == 1 ? "" : "s"}${hits.length ? ": Enter goes to the next" : ""}` : undefined)
}
let later = 0
at("search").oninput = () => { clearTimeout(later); later = setTimeout(find, 120) }
function nextHit(way) {
  clearTimeout(later)
  if (query != at("search").value.toLowerCase().replace(/\s+/g, "")) find()
  if (!hits.length) return
  step(hits.map((start, k) => ({start, end: start + hits.widths[k]})), way)
  tell(`place ${count(1 + hits.indexOf(now.start))} of ${count(hits.length)}`)
}
at("next").onclick = () => step(mentionsOf(picked), 1)
at("previous").onclick = () => step(mentionsOf(picked), -1)
at("fault").onclick = () => step(faults(), 1)
flow.onclick = e => {
  const m = e.target.closest(".m[data-row]")
  if (!m || String(getSelection())) return
  const [start, end] = m.dataset.span.split(" ").map(Number)
  pick(Number(m.dataset.row), false)
  now = {start, end}
  redraw()
  tell()
}
document.onkeydown = e => {
  if (e.ctrlKey || e.altKey || e.metaKey || e.isComposing) return
  const field = e.target.matches("input[type=search]"), act = f => { e.preventDefault(); f() }
  if (e.key == "Escape") return act(() => { if (field) { e.target.value = ""; e.target == at("search") ? find() : list(); box.focus() } else pick(-1) })
  if (field) { if (e.key == "Enter") act(() => e.target == at("search") ? nextHit(e.shiftKey ? -1 : 1) : at("list").querySelector("button")?.click()); return }
  if (e.target.matches("select")) return
  const keys = {n: () => step(mentionsOf(picked), 1), p: () => step(mentionsOf(picked), -1), "/": () => { at("search").focus(); at("search").select() }, f: () => { pane("characters"); at("filter").focus() }}
  if (!e.target.closest("#list, #rows")) Object.assign(keys, {End: end, Home: () => { box.scrollTop = 0; draw() }})
  if (compared()) Object.assign(keys, {d: () => step(faults(), 1), D: () => step(faults(), -1)})
  if (e.key in keys) act(keys[e.key])
}


// The page as a whole

const PANES = {text: "Text", characters: "Characters", stage: "Timeline", network: "Network"}
function pane(name) {
  if (document.body.dataset.pane != name) {
    document.body.dataset.pane = name
    if (name == "text") relaid()
    if (name == "stage") stage()
  }
  for (const b of at("panes").children) b.setAttribute("aria-pressed", String(b.dataset.pane == name))
}
function columns() {
  at("columns").hidden = at("fault").hidden = at("fault-keys").hidden = !compared()
  at("heads").hidden = !compared() || mode != "both"
  if (!compared()) return
  at("heads").replaceChildren(...book.labels.map(x => made("span", {}, made("bdi", {}, x))))
  const choice = (value, name) => made("label", {}, made("input", {type: "radio", name: "columns", checked: value === mode, onchange: () => { wished = value; turned() }}), made("bdi", {}, name))
  at("columns").replaceChildren(at("columns").firstElementChild, choice(0, book.labels[0]), choice(1, book.labels[1]), choice("both", "both"))
}
function turned() {  // to other columns
  mode = !compared() ? 0 : wished ?? (innerWidth < 768 ? 0 : "both")
  columns()
  relaid()
  graph()
}
function legend() {
  const example = (name, text) => made("span", {className: `m ${name}`}, text)
  const faults = compared() ? [example("k0 s3", "missed"), example("k0 s4", "spurious"), example("k0 s2", "another character"), example("k0 s1", "in a piece apart")] : []
  at("legend").replaceChildren(...(faults.length ? faults : [example("k0", "a mention of one of the eight most mentioned"), example("kx", "of another")]))
}
function open(i) {
  book = opened(i)
  remembered.clear()
  book.order = book.names.map((_, row) => row)
  picked = -1
  now = null
  hits = []
  query = at("search").value = at("filter").value = ""
  lanes = FEW
  heights = null
  flow.replaceChildren()
  flow.classList.remove("picked")
  seen.clear()
  box.scrollTop = 0
  at("title").textContent = book.title
  at("title").className = about.books.length > 1 ? "unseen" : ""  // the choice of documents says it
  at("counts").textContent = `${count(book.tokens.filter(Boolean).length)} words · ${count(book.names.length)} clusters · ${book.sides.map((m, s) => `${count(m.n)} mentions${compared() ? ` (${book.labels[s]})` : ""}`).join(", ")}`
  legend()
  turned()
  list(); detail(); stage(); tell(); present()
  if (i == 0) performance.mark("shown")
}
box.onscroll = () => requestAnimationFrame(draw)
let width = innerWidth
onresize = () => {
  if (innerWidth != width) turned()
  else draw()
  width = innerWidth
  stage()
}
matchMedia("(prefers-color-scheme: dark)").onchange = stage
at("panes").replaceChildren(...Object.entries(PANES).map(([name, text]) => { const b = made("button", {type: "button", onclick: () => pane(name)}, text); b.dataset.pane = name; return b }))
at("books").hidden = about.books.length < 2
at("books").replaceChildren(...about.books.map((name, i) => made("option", {value: i}, name)))
at("books").onchange = e => open(Number(e.target.value))
document.body.dataset.pane = "text"
pane("text")
open(0)
function settle() {  // a frame that began without a size, out of sight, may hear of no new one: look until there is one
  if (seen.size || !book.letters.length) return
  if (box.clientWidth) { turned(); stage() }
  setTimeout(settle, 150)
}
settle()
