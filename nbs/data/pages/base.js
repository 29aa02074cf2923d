
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
