"use strict";
(() => {
  const body = document.body;
  const line = document.getElementById("line");
  const data = document.getElementById("content");
  if (data) charts.start(JSON.parse(data.textContent));
  document.documentElement.classList.add("js");

  // A browser opens few connections to a host, so only a page that can be seen has one. Every event
  // is complete: a page that comes into view again needs only the next one.
  function listen(address) {
    let stream = null;
    const close = () => {
      stream?.close();
      stream = null;
    };
    const open = () => {
      if (document.hidden) {
        close();
        return;
      }
      if (stream) return;
      stream = new EventSource(address);
      stream.addEventListener("open", () => { line.hidden = true; });
      stream.addEventListener("error", () => {
        line.textContent = "No connection to the dashboard; trying again…";
        line.hidden = false;
      });
      stream.addEventListener("rows", (event) => showRows(JSON.parse(event.data)));
      stream.addEventListener("page", (event) => showPage(JSON.parse(event.data)));
      stream.addEventListener("gone", () => location.reload());
    };
    document.addEventListener("visibilitychange", open);
    addEventListener("pageshow", open);
    addEventListener("pagehide", close);
    open();
  }

  function showRows({ known, rows }) {
    if (known) document.getElementById("news").hidden = known === body.dataset.known;
    for (const [id, cells] of Object.entries(rows)) {
      const row = document.querySelector(`[data-line="${CSS.escape(id)}"]`);
      if (!row) continue;
      for (const [name, html] of Object.entries(cells)) {
        const cell = row.querySelector(`[data-cell="${name}"]`);
        if (cell.innerHTML !== html) cell.innerHTML = html;
      }
    }
  }

  function showPage({ parts, content, acts }) {
    for (const form of document.querySelectorAll("form[data-for]")) form.hidden = !acts[form.dataset.for];
    for (const [id, html] of Object.entries(parts)) {
      const part = document.getElementById(id);
      if (!part) continue;
      const focus = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      part.innerHTML = html;
      if (focus) part.querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus();
    }
    if (content) charts.update(content);
  }

  function watchChoice(form) {
    const button = document.getElementById("compare");
    const words = document.getElementById("chosen");
    const count = () => {
      const number = form.querySelectorAll('input[name="id"]:checked').length;
      button.disabled = number === 0;
      words.textContent = number === 0 ? "Choose two or more lines to compare them."
        : number === 1 ? "1 line is chosen." : `${number} lines are chosen.`;
    };
    form.addEventListener("change", count);
    addEventListener("pageshow", count);
    count();
  }

  function follow(slider) {
    const field = document.getElementById(slider.dataset.with);
    slider.addEventListener("input", () => {
      field.value = slider.value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
    field.addEventListener("input", () => { slider.value = field.value; });
  }

  function showAllocation(form) {
    const field = document.getElementById("alpha");
    const bars = document.querySelector("[data-rows]");
    let latest = 0;
    form.addEventListener("submit", (event) => event.preventDefault());
    field.addEventListener("input", async () => {
      document.querySelectorAll('[data-copy="alpha"]').forEach((one) => { one.value = field.value; });
      const mine = ++latest;
      if (!field.checkValidity()) return;
      const answer = await fetch(`${form.dataset.allocation}?alpha=${encodeURIComponent(field.value)}`);
      if (!answer.ok || mine !== latest) return;
      const { rows } = await answer.json();
      bars.querySelectorAll("[data-bar]").forEach((bar, place) => bar.setAttribute("width", rows[place].share));
      bars.querySelectorAll("[data-percent]").forEach((one, place) => { one.textContent = rows[place].percent; });
    });
  }

  function ask(form) {
    const result = document.getElementById(form.dataset.result);
    const button = form.querySelector("button");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      result.setAttribute("aria-busy", "true");
      if (form.dataset.busy) result.textContent = form.dataset.busy;
      try {
        const answer = await fetch(form.action, {
          method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Part": "1" },
        });
        const text = await answer.text();
        if (answer.ok) result.innerHTML = text;
        else fail(result, answer.headers.get("content-type").startsWith("text/plain") ? text : "That did not work.");
      } catch {
        fail(result, "No connection to the dashboard. Try again.");
      }
      button.disabled = false;
      result.removeAttribute("aria-busy");
    });
  }

  function fail(place, text) {
    const said = document.createElement("p");
    said.className = "notice bad";
    said.textContent = text;
    place.replaceChildren(said);
  }

  function openFile(field) {
    field.addEventListener("change", async () => {
      if (field.files.length) document.getElementById(field.dataset.into).value = await field.files[0].text();
    });
  }

  document.querySelectorAll("input[data-into]").forEach(openFile);
  document.querySelectorAll("input[data-with]").forEach(follow);
  document.querySelectorAll("form[data-allocation]").forEach(showAllocation);
  document.querySelectorAll("form.ask").forEach(ask);
  if (body.dataset.stream) listen(body.dataset.stream);
  document.querySelectorAll("form.choice").forEach(watchChoice);
})();
