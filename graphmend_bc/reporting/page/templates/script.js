const form = document.getElementById("choose");
if (form) {
  const rows = [...document.querySelectorAll("#rows > details")];
  const [text, kind, order] = ["text", "kind", "order"].map((name) => document.getElementById(name));
  const compare = {
    place: (a, b) => a.dataset.place - b.dataset.place,
    site: (a, b) => a.dataset.site.localeCompare(b.dataset.site),
    failed: (a, b) => b.dataset.failed - a.dataset.failed,
    lost: (a, b) => b.dataset.lost - a.dataset.lost,
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const wanted = text.value.toLowerCase();
    for (const row of [...rows].sort(compare[order.value])) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted) || !["", row.dataset.kind].includes(kind.value);
      row.parentElement.append(row);
    }
  });
}
// A link to a part that is closed opens it.
const open = () => {
  const part = document.getElementById(location.hash.slice(1));
  if (part && part.tagName === "DETAILS") {
    part.open = true;
    part.scrollIntoView();
  }
};
addEventListener("hashchange", open);
open();
