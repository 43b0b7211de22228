// Sorting and filtering for tables of class "explore" (`lib.report.tables` writes them).
// The table is read once from the page; rows are reordered and hidden, never rewritten.
"use strict";

(() => {
  const MOST_CHOICES = 40; // a column of text with more levels gets a search field instead of a list

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  const labelled = (text, control) => element("label", {}, element("span", {}, text), control);

  // One column: its heading, its kind, and the value of each row (a number, a text, or null where empty).
  const readColumn = (heading, place, rows) => {
    const number = heading.classList.contains("number");
    const values = rows.map((row) => {
      const cell = row.cells[place];
      if (!number) return cell.textContent.trim();
      return cell.dataset.value === "" ? null : pythonNumber(cell.dataset.value);
    });
    return { heading, name: heading.textContent.trim(), number, values };
  };

  const pythonNumber = (text) =>
    text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text);

  const compare = (a, b, direction) => {
    if (a === null || b === null) return (a === null) - (b === null); // empty cells last, either way
    if (typeof a === "number") return direction * (a < b ? -1 : a > b ? 1 : 0);
    return direction * a.localeCompare(b, "en");
  };

  const sortable = (table, columns, rows) => {
    const body = table.tBodies[0];
    const order = rows.map((_, index) => index);
    for (const column of columns) {
      const button = element("button", { type: "button", class: "sort" }, column.name);
      column.heading.replaceChildren(button);
      column.heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const upwards = column.heading.getAttribute("aria-sort") !== "ascending";
        for (const other of columns) other.heading.setAttribute("aria-sort", "none");
        column.heading.setAttribute("aria-sort", upwards ? "ascending" : "descending");
        order.sort((a, b) => compare(column.values[a], column.values[b], upwards ? 1 : -1));
        body.append(...order.map((index) => rows[index]));
      });
    }
    return order;
  };

  // A filter is a control and a test of a row's index; an empty control lets every row pass.
  const textFilter = (column) => {
    const levels = [...new Set(column.values)].filter((level) => level !== "");
    if (levels.length <= MOST_CHOICES) {
      const options = levels.map((level) => element("option", { value: level }, level));
      const select = element("select", {}, element("option", { value: "" }, "all"), ...options);
      const passes = (index) => select.value === "" || column.values[index] === select.value;
      return { controls: [labelled(column.name, select)], passes };
    }
    const input = element("input", { type: "search", autocomplete: "off" });
    const passes = (index) =>
      column.values[index].toLowerCase().includes(input.value.trim().toLowerCase());
    return { controls: [labelled(column.name, input)], passes };
  };

  const numberFilter = (columns) => {
    const options = columns.map((column, place) => element("option", { value: place }, column.name));
    const select = element("select", {}, ...options);
    const low = element("input", { type: "number", step: "any" });
    const high = element("input", { type: "number", step: "any" });
    const passes = (index) => {
      if (low.value === "" && high.value === "") return true;
      const value = columns[Number(select.value)].values[index];
      if (value === null) return false;
      return (low.value === "" || value >= Number(low.value)) && (high.value === "" || value <= Number(high.value));
    };
    const controls = [labelled("number", select), labelled("at least", low), labelled("at most", high)];
    return { controls, passes };
  };

  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  const asCsv = (columns, indices) => {
    const lines = [columns.map((column) => quoted(column.name)).join(",")];
    for (const index of indices) {
      lines.push(columns.map((column) => quoted(String(column.values[index] ?? ""))).join(","));
    }
    return `${lines.join("\n")}\n`;
  };

  const explore = (explorer) => {
    const table = explorer.querySelector("table.explore");
    const rows = [...table.tBodies[0].rows];
    const columns = [...table.tHead.rows[0].cells].map((heading, place) => readColumn(heading, place, rows));
    const order = sortable(table, columns, rows);
    const filters = columns.filter((column) => !column.number).map(textFilter);
    const numbers = columns.filter((column) => column.number);
    if (numbers.length) filters.push(numberFilter(numbers));

    const status = element("output", { role: "status", "aria-live": "polite" });
    const passing = () => order.filter((index) => filters.every((filter) => filter.passes(index)));
    const update = () => {
      const shown = new Set(passing());
      rows.forEach((row, index) => { row.hidden = !shown.has(index); });
      status.textContent = `${shown.size.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
    };
    const clear = element("button", { type: "reset" }, "Clear filters");
    const save = element("button", { type: "button" }, "Save these rows as CSV");
    save.addEventListener("click", () => {
      const address = URL.createObjectURL(new Blob([asCsv(columns, passing())], { type: "text/csv" }));
      element("a", { href: address, download: `${explorer.id}.csv` }).click();
      URL.revokeObjectURL(address);
    });
    const controls = filters.flatMap((filter) => filter.controls);
    const form = element("form", { class: "filters", "aria-label": "Filters" }, ...controls, clear, save, status);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", update);
    form.addEventListener("reset", () => setTimeout(update)); // after the controls are empty again
    explorer.prepend(form);
    update();
  };

  document.querySelectorAll(".explorer").forEach(explore);
})();
