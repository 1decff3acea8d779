// Search over `symbols`, an array of [name, kind, where, address, first sentence], without a server.
const input = document.getElementById("search");
const list = document.getElementById("results");
let chosen = 0;

// Smaller is better; Infinity is no match. All words must occur; names count more than owners, owners more than sentences.
function rank(entry, words) {
    const name = entry[0].split("(")[0].split(".").pop();
    const full = (entry[2] + "." + entry[0]).toLowerCase();
    const humps = name.replace(/[^A-Z]/g, "").toLowerCase();
    let sum = 0;
    for (const word of words) {
        const lower = name.toLowerCase();
        if (lower === word) sum += 0;
        else if (lower.startsWith(word)) sum += 1;
        else if (humps.length > 1 && humps.startsWith(word)) sum += 2;
        else if (lower.includes(word)) sum += 3;
        else if (full.includes(word)) sum += 5;
        else if (entry[4].toLowerCase().includes(word)) sum += 9;
        else return Infinity;
    }
    return sum;
}

function search() {
    const words = input.value.toLowerCase().split(/[\s./]+/).filter(word => word);
    const found = words.length === 0 ? [] : symbols
        .map((entry, index) => [rank(entry, words), index, entry])
        .filter(item => item[0] < Infinity)
        .sort((a, b) => a[0] - b[0] || a[1] - b[1])
        .slice(0, 30);
    chosen = 0;
    list.replaceChildren(...found.map(([, , [name, kind, where, address, sentence]]) => {
        const row = document.createElement("li");
        const link = row.appendChild(document.createElement("a"));
        link.href = siteRoot + address;
        const place = [where, kind].filter(part => part).join(" · ");
        for (const [style, text] of [["name", name], ["where", place], ["sentence", sentence]]) {
            const part = link.appendChild(document.createElement("span"));
            part.className = style;
            part.textContent = text.replace(/[:.(](?=.)/g, "$&\u200b");  // A browser may break a long name here.
        }
        return row;
    }));
    if (words.length > 0 && found.length === 0) {
        const row = list.appendChild(document.createElement("li"));
        row.className = "none";
        row.textContent = "Nothing has this name. Try a part of it.";
    }
    list.hidden = words.length === 0;
    mark();
}

function mark() {
    [...list.children].forEach((row, index) => row.classList.toggle("chosen", index === chosen));
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
}

input.addEventListener("input", search);
input.addEventListener("focus", search);
input.addEventListener("keydown", event => {
    if (event.key === "Enter") list.children[chosen]?.querySelector("a")?.click();
    else if (event.key === "Escape") { list.hidden = true; input.blur(); }
    else if (event.key === "ArrowDown") chosen = Math.min(chosen + 1, list.children.length - 1);
    else if (event.key === "ArrowUp") chosen = Math.max(chosen - 1, 0);
    else return;
    event.preventDefault();
    mark();
});
document.addEventListener("keydown", event => {
    if (event.key === "/" && event.target !== input) { event.preventDefault(); input.focus(); }
});
document.addEventListener("click", event => {
    if (!event.target.closest(".search") || event.target.closest("#results a")) list.hidden = true;
});
// The current page is in view in the list at the side.
document.querySelector("nav.site [aria-current]")?.scrollIntoView({ block: "nearest" });
