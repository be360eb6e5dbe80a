"use strict";
// Hides the rows that the form does not ask for. What is chosen stands in the address, behind #, and is read from there.
const form = document.getElementById("filter");
const rows = Array.from(document.querySelectorAll("article"));
const served = form.querySelector("button[type=reset]") === null;

function chosen() {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) fields.set(name, value);
  return fields;
}

function takes(row, fields) {
  for (const [name, value] of fields) {
    if ((name === "task" || name === "category") && row.dataset[name] !== value) return false;
    if (name === "differ" && value === "1" && row.dataset.differ !== "1") return false;
    if (/^m\d+$/.test(name) && (value === "right" || value === "wrong")) {
      if (!row.dataset[value].split(" ").includes(name.slice(1))) return false;
    }
  }
  return true;
}

function show(fields) {
  let shown = 0;
  for (const row of rows) {
    row.hidden = !takes(row, fields);
    if (!row.hidden) shown += 1;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length} rows on this page`;
}

function fromAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  for (const control of form.elements) {
    if (control.type === "checkbox") control.checked = fields.get(control.name) === control.value;
    else if (control.name) control.value = fields.get(control.name) ?? "";
  }
  show(chosen());
}

if (served) {
  form.addEventListener("change", () => form.submit());
} else {
  form.addEventListener("change", () => {
    history.replaceState(null, "", `#${chosen()}`);
    show(chosen());
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    history.replaceState(null, "", "#");
    fromAddress();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", fromAddress);
  fromAddress();
}
