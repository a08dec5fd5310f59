"use strict";
(() => {
  const body = document.body;
  const line = document.getElementById("line");
  const data = document.getElementById("content");
  if (data) charts.start(JSON.parse(data.textContent));
  document.documentElement.classList.add("js");

  function listen(address) {
    const stream = new EventSource(address);
    stream.addEventListener("open", () => { line.hidden = true; });
    stream.addEventListener("error", () => {
      line.textContent = "No connection to the dashboard; trying again…";
      line.hidden = false;
    });
    stream.addEventListener("rows", (event) => showRows(JSON.parse(event.data)));
    stream.addEventListener("page", (event) => showPage(JSON.parse(event.data)));
    stream.addEventListener("gone", () => location.reload());
    addEventListener("pagehide", () => stream.close());
  }

  function showRows({ known, rows }) {
    document.getElementById("news").hidden = known === body.dataset.known;
    for (const [id, cells] of Object.entries(rows)) {
      const row = document.querySelector(`[data-line="${CSS.escape(id)}"]`);
      if (!row) continue;
      for (const [name, html] of Object.entries(cells)) {
        const cell = row.querySelector(`[data-cell="${name}"]`);
        if (cell.innerHTML !== html) cell.innerHTML = html;
      }
    }
  }

  function showPage({ parts, content }) {
    for (const [id, html] of Object.entries(parts)) {
      const part = document.getElementById(id);
      if (part && !part.contains(document.activeElement)) part.innerHTML = html;
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

  if (body.dataset.stream) listen(body.dataset.stream);
  document.querySelectorAll("form.choice").forEach(watchChoice);
})();
