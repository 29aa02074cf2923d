"use strict"
// What all pages share. Nothing of the data becomes markup: texts are set as text. Nothing leaves the page: its policy forbids every request.
const at = id => document.getElementById(id)
const made = (tag, set, ...inside) => { const e = Object.assign(document.createElement(tag), set); e.append(...inside); return e }
const carried = id => JSON.parse(at(id).textContent)
const count = n => n.toLocaleString("en-GB")

