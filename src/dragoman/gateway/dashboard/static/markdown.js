// Markdown as elements: never markup, and nothing is loaded from other servers.

import { el } from "./parts.js";

const INLINE = /(`+)(.+?)\1|!\[([^\]]*)\]\(([^)\s]+)\)|\[([^\]]+)\]\(([^)\s]+)\)|\*\*(.+?)\*\*|\*([^*\s][^*]*?)\*|~~(.+?)~~/;

function inline(text) {
  const nodes = [];
  for (let rest = text; rest; ) {
    const found = INLINE.exec(rest);
    if (!found) return [...nodes, rest];
    if (found.index) nodes.push(rest.slice(0, found.index));
    const [whole, , code, alt, image, label, address, bold, italic, gone] = found;
    if (code !== undefined) nodes.push(el("code", {}, code.trim()));
    else if (image !== undefined) nodes.push(image.startsWith("data:image/") ? el("img", { src: image, alt }) : link(image, alt || image));
    else if (address !== undefined) nodes.push(link(address, label));
    else if (bold !== undefined) nodes.push(el("strong", {}, inline(bold)));
    else if (italic !== undefined) nodes.push(el("em", {}, inline(italic)));
    else nodes.push(el("s", {}, inline(gone)));
    rest = rest.slice(found.index + whole.length);
  }
  return nodes;
}

const link = (address, label) => (/^(https?|mailto):/.test(address) ? el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, label) : `${label} (${address})`);

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

const BLOCK = /^(#{1,6}\s|\s*([-*+]|\d+[.)])\s|>|```|\s*\|.*\|\s*$|(-{3,}|\*{3,})\s*$)/;

function listOf(lines) {
  const isOrdered = /^\s*\d/.test(lines[0]), items = [];
  const indent = /^\s*/.exec(lines[0])[0].length;
  for (const line of lines) {
    const found = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/.exec(line);
    if (found && found[1].length <= indent) items.push({ text: found[3], inner: [] });
    else items.at(-1).inner.push(line);
  }
  const start = isOrdered ? Number(/\d+/.exec(lines[0])[0]) : 1;
  return el(isOrdered ? "ol" : "ul", isOrdered ? { start } : {}, items.map(({ text, inner }) => {
    const isList = inner.length && /^\s*([-*+]|\d+[.)])\s/.test(inner[0]);
    return el("li", {}, inline(isList ? text : [text, ...inner.map((line) => line.trim())].join(" ")), isList ? listOf(inner) : null);
  }));
}

/** The elements of a text. */
export function markdown(text) {
  const lines = text.split("\n"), blocks = [];
  const take = (fits) => {
    const start = i;
    while (i < lines.length && fits(lines[i])) i++;
    return lines.slice(start, i);
  };
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    if (!line.trim()) i++;
    else if (line.startsWith("```")) {
      i++;
      const code = take((each) => !each.startsWith("```"));
      i++;
      blocks.push(el("pre", { tabIndex: 0, ariaLabel: "Code" }, el("code", {}, code.join("\n"))));
    } else if (/^#{1,6}\s/.test(line)) {
      const [, marks, title] = /^(#+)\s+(.*)$/.exec(line) || [null, "#", line];
      blocks.push(el(`h${Math.min(6, marks.length + 2)}`, {}, inline(title)));
      i++;
    } else if (/^(-{3,}|\*{3,})\s*$/.test(line)) {
      blocks.push(el("hr"));
      i++;
    } else if (line.startsWith(">")) {
      blocks.push(el("blockquote", {}, markdown(take((each) => each.startsWith(">")).map((each) => each.replace(/^>\s?/, "")).join("\n"))));
    } else if (/^\s*([-*+]|\d+[.)])\s/.test(line)) {
      blocks.push(listOf(take((each) => /^\s*([-*+]|\d+[.)])\s/.test(each) || /^\s+\S/.test(each))));
    } else if (/^\s*\|.*\|\s*$/.test(line) && /^[\s|:-]+$/.test(lines[i + 1] || "")) {
      const [head, , ...rows] = take((each) => /^\s*\|.*\|\s*$/.test(each));
      blocks.push(el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, cells(head).map((cell) => el("th", {}, inline(cell))))),
        el("tbody", {}, rows.map((row) => el("tr", {}, cells(row).map((cell) => el("td", {}, inline(cell)))))))));
    } else {
      i++;
      blocks.push(el("p", {}, inline([line, ...take((each) => each.trim() && !BLOCK.test(each))].join("\n"))));
    }
  }
  return blocks;
}
