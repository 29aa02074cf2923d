// Light or dark, the navigation on a phone, the search. The first part runs before anything is drawn.
const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
root.dataset.theme = localStorage.getItem("theme") ?? "";

function changeTheme() {
  const now = root.dataset.theme || (system.matches ? "dark" : "light");
  const next = now == "dark" ? "light" : "dark";
  const follows = next == (system.matches ? "dark" : "light");
  root.dataset.theme = follows ? "" : next;
  if (follows) localStorage.removeItem("theme"); else localStorage.setItem("theme", next);
}

function toggleMenu(event) {
  const open = document.body.classList.toggle("open");
  event.currentTarget.setAttribute("aria-expanded", open);
}

// Search: every word must be found; a title weighs more than a heading, a heading more than text.

function beginnings(query) {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const stems = words.map(w => w.length > 4 ? w.replace(/(ing|ed|es|s)$/, "").replace(/(.)\1$/, "$1") : w);
  return stems.map(w => new RegExp(`(?<![\\p{L}\\p{N}])${w}`, "iu"));
}

function score([address, title, headings, text], words) {
  let sum = 0;
  for (const w of words) {
    const exact = w.test(title) ? 20 : 0;
    const under = Math.min(headings.filter(h => w.test(h[1])).length, 3) * 5;
    const within = Math.min(text.split(w).length - 1, 5);
    if (!(exact + under + within)) return 0;
    sum += exact + under + within;
  }
  return sum;
}

function make(tag, text, options = {}) {
  return Object.assign(document.createElement(tag), { textContent: text }, options);
}

function excerpt(text, words) {
  const at = Math.max(text.search(words[0]), 0);
  const from = at < 80 ? 0 : text.lastIndexOf(" ", at - 60) + 1;
  const p = make("p", "");
  const every = new RegExp(words.map(w => `${w.source}[\\p{L}\\p{N}]*`).join("|"), "giu");
  const shown = (from ? "… " : "") + text.slice(from, from + 220);
  let last = 0;
  for (const m of shown.matchAll(every)) {
    p.append(shown.slice(last, m.index), make("mark", m[0]));
    last = m.index + m[0].length;
  }
  p.append(shown.slice(last), text.length > from + 220 ? " …" : "");
  return p;
}

function result([address, title, headings, text], words) {
  const item = make("li", "");
  item.append(make("a", title, { href: address }), make("small", address.replace(".html", "")));
  const under = headings.filter(h => words.some(w => w.test(h[1]))).slice(0, 4);
  const links = make("p", "", { className: "under" });
  for (const [id, heading] of under) links.append(make("a", heading, { href: `${address}#${id}` }));
  item.append(links, excerpt(text, words));
  return item;
}

function search(query) {
  const words = beginnings(query);
  const hits = words.length ? PAGES.map(page => [score(page, words), page]).filter(hit => hit[0]) : [];
  hits.sort((a, b) => b[0] - a[0]);
  document.querySelector("#found").textContent = `${hits.length} pages for “${query}”`;
  document.querySelector("#results").replaceChildren(...hits.slice(0, 50).map(hit => result(hit[1], words)));
}

addEventListener("DOMContentLoaded", () => {
  const field = document.querySelector("#query");
  document.querySelector("#theme").addEventListener("click", changeTheme);
  document.querySelector("#menu").addEventListener("click", toggleMenu);
  const navigation = document.querySelector("#navigation");
  navigation.scrollTop = (navigation.querySelector("[aria-current]")?.offsetTop ?? 0) - navigation.clientHeight / 2;
  addEventListener("keydown", event => {
    if (event.key != "/" || event.target.matches("input, textarea")) return;
    event.preventDefault();
    field.focus();
  });
  if (typeof PAGES == "undefined") return;
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  if (field.value) search(field.value);
  field.addEventListener("input", () => search(field.value));
});
