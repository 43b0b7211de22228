// The filter of the claims page: by publication, verdict, and Holm's correction.
// A link such as claims.html?paper=lem&verdict=differ opens the page filtered.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.filter");
  if (!form) return;
  const table = document.getElementById(`${form.dataset.filter}-table`);
  const rows = [...table.querySelectorAll("tbody tr:not(.group)")];
  const asked = new URLSearchParams(location.search);
  for (const field of form.elements) {
    if (!field.name || !asked.has(field.name)) continue;
    if (field.type === "checkbox") field.checked = asked.get(field.name) === field.value;
    else field.value = asked.get(field.name);
  }

  function apply() {
    const wanted = [...new FormData(form)].filter(([, value]) => value);
    let shown = 0;
    for (const row of rows) {
      row.hidden = wanted.some(([name, value]) => row.dataset[name] !== value);
      if (!row.hidden) shown += 1;
    }
    for (const body of table.tBodies) {
      body.hidden = ![...body.rows].some((row) => !row.hidden && !row.classList.contains("group"));
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length} claims`;
  }

  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
});
