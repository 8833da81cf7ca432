"use strict";
// The page of a question: shows one answer at a time, sends marks, and shows what other people mark meanwhile.
const form = document.getElementById("form");
if (form) {
  const POLL = 5000, LETTERS = "abcdef";
  const part = (name) => document.getElementById(name);
  const cards = [...document.querySelectorAll("article[data-key]")];
  const [score, comment, told] = ["score", "comment", "told"].map(part);
  const points = Number(form.dataset.points), base = location.pathname;
  let state = JSON.parse(form.dataset.state), at = 0, busy = false, typed = false;
  let seen = "";  // the version of the shown answers' marks that a person has looked at

  const waits = (card) => state.cards[card.dataset.key].done < Number(card.dataset.number);
  const plural = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

  function fill() {
    const now = state.cards[cards[at].dataset.key];
    score.value = now.score ?? "";
    comment.value = now.comment;
    seen = now.version;
    typed = false;
  }

  function draw() {
    part("progress").value = state.done;
    part("progress").max = state.all;
    const open = cards.filter(waits).length;
    part("counts").textContent = `${state.done} of ${plural(state.all, "answer")} marked, ${open} of ${cards.length} different ones wait`
      + (state.new ? `; ${state.new} more were handed in: load this page again` : "");
    part("templates").replaceChildren(...state.comments.map((text, place) => {
      const button = document.createElement("button");
      button.type = "button";
      if (place < LETTERS.length) {
        const key = document.createElement("kbd");
        key.textContent = LETTERS[place];
        button.append(key, " ");
      }
      button.append(text.length > 80 ? `${text.slice(0, 79)}…` : text);
      button.title = text;
      button.addEventListener("click", () => take(text));
      return button;
    }));
    if (!cards.length) return;
    cards.forEach((card, place) => { card.hidden = place !== at; });
    const card = cards[at], now = state.cards[card.dataset.key];
    const group = Number(card.dataset.group) ? `, group ${card.dataset.group}` : "";
    const mark = now.mixed ? "marked differently" : now.score === null ? "not marked" : `marked: ${now.score}`;
    part("heading").textContent = `Answer ${at + 1} of ${cards.length}: ${plural(Number(card.dataset.number), "student")}${group}, ${mark}`;
    part("whose").textContent = card.dataset.students;
    part("again").hidden = !now.again;
    part("again").textContent = `${now.again} of these were handed in again since a person marked them.`;
  }

  function go(place) {
    if (!cards.length) return;
    at = (place + cards.length) % cards.length;
    fill();
    draw();
    cards[at].scrollIntoView({block: "nearest"});
  }

  function next() {
    const order = cards.map((_, place) => (at + 1 + place) % cards.length);
    const found = order.find((place) => waits(cards[place]));
    if (found === undefined) told.textContent = "All answers are marked.";
    else go(found);
  }

  function take(text) {
    comment.value = comment.value.trim() ? `${comment.value.trim()}\n${text}` : text;
    typed = true;
  }

  async function send(what, body) {
    if (busy || !cards.length) return false;
    busy = true;
    try {
      const reply = await fetch(`${base}/${what}`, {
        method: "POST",
        headers: {"Content-Type": "application/json", "X-XSRFToken": form.dataset.xsrf},
        body: JSON.stringify(body),
      });
      const said = await reply.json();
      state = said;
      told.textContent = said.why ?? said.told;
      told.className = reply.ok ? "" : "warn";
      draw();
      return reply.ok;
    } catch (error) {
      told.textContent = "Not saved: the server does not answer. Start `autograder mark` again.";
      told.className = "warn";
      return false;
    } finally {
      busy = false;
    }
  }

  async function save() {
    const value = Number(score.value);
    if (score.value === "" || !(value >= 0 && value <= points)) {
      told.textContent = `Give 0 to ${points} points.`;
      told.className = "warn";
      score.focus();
      return;
    }
    const key = cards[at].dataset.key, number = Number(cards[at].dataset.number);
    if (await send("mark", {key, version: seen, score: value, comment: comment.value})) {
      told.textContent = `Saved: ${value} points for ${plural(number, "student")}.`;
      score.blur();
      comment.blur();
      typed = false;
      const done = told.textContent;
      next();
      if (told.textContent !== done) told.textContent = `${done} ${told.textContent}`;
    } else {
      seen = state.cards[key].version;
      if (!typed) fill();
    }
  }

  async function undo() {
    if (await send("undo", {})) fill();
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); save(); });
  for (const box of [score, comment]) box.addEventListener("input", () => { typed = true; });
  part("undo").addEventListener("click", undo);
  part("previous").addEventListener("click", () => go(at - 1));
  part("next").addEventListener("click", () => go(at + 1));
  part("waiting").addEventListener("click", next);
  document.addEventListener("keydown", (event) => {
    const inText = event.target === comment, inScore = event.target === score;
    if (event.key === "Escape") { event.target.blur(); return; }
    if (event.key === "Enter" && (inText ? event.ctrlKey || event.metaKey : !event.target.closest("button, a, summary"))) {
      event.preventDefault();
      save();
      return;
    }
    if (inText || event.ctrlKey || event.metaKey || event.altKey) return;
    if (inScore && /^[0-9.,]$/.test(event.key)) return;
    const letter = LETTERS.indexOf(event.key);
    const keys = {n: () => go(at + 1), p: () => go(at - 1), w: next, u: undo, t: () => comment.focus(),
      h: () => { score.value = Math.min(points, Number(score.value) + 0.5); typed = true; }};
    if (/^[0-9]$/.test(event.key)) {
      if (Number(event.key) <= points) { score.value = event.key; typed = true; }
      else {
        told.textContent = `${event.key} is more than the ${points} points of this question.`;
        told.className = "warn";
      }
    } else if (letter >= 0 && letter < state.comments.length) take(state.comments[letter]);
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  });
  setInterval(async () => {
    if (busy) return;
    try {
      const before = state.cards[cards[at]?.dataset.key]?.version;
      const reply = await fetch(`${base}/state`);
      if (!reply.ok || busy) return;
      state = await reply.json();
      const now = state.cards[cards[at]?.dataset.key];
      draw();
      if (now && now.version !== before) {
        told.textContent = `Somebody marked this answer meanwhile${now.score === null ? "" : `: ${now.score} points`}.`;
        if (!typed) fill();
      }
    } catch (error) { /* the next click says that the server is gone */ }
  }, POLL);
  if (cards.length) {
    draw();
    const first = cards.findIndex(waits);
    go(first < 0 ? 0 : first);
  } else draw();
}
