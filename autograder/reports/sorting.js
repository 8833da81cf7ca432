// Clicking a heading sorts its table; a second click turns the order. Empty cells stay at the end.
const letters = new Intl.Collator(undefined, { numeric: true });

function compare(one, other) {
  if (one === "" || other === "") return 0;
  const difference = Number(one) - Number(other);
  return Number.isNaN(difference) ? letters.compare(one, other) : difference;
}

function sort(table, column, turned) {
  const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => (value(a) === "") - (value(b) === "") || compare(value(a), value(b)) * (turned ? -1 : 1));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turned = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", turned ? "descending" : "ascending");
      sort(table, column, turned);
    });
  });
}
