// Bodies as they can be read: JSON folded, images, text, bytes. All of it is text or an image of a blob; nothing is run.
import { h, size } from './dom.js';

class Numeral { constructor(text) { this.text = text; } }
const decoder = new TextDecoder('utf-8', { fatal: true });

function textOf(bytes) {
  for (let less = 0; less < 4; less++) {
    // A body that was cut may end within a character.
    try {
      const text = decoder.decode(less ? bytes.subarray(0, bytes.length - less) : bytes);
      return text.includes('\0') ? null : text;
    } catch { if (bytes.length <= less) return null; }
  }
  return null;
}

export function parseJSON(text) {
  // Numbers keep their digits: 12345678901234567890 is not rounded.
  return JSON.parse(text, (key, value, context) => typeof value === 'number' ? new Numeral(context?.source ?? String(value)) : value);
}

function node(key, value, depth) {
  const name = key === null ? [] : [h('span', { class: 't-key' }, key), ': '];
  if (value === null || typeof value !== 'object' || value instanceof Numeral) {
    const kind = value instanceof Numeral ? 'number' : typeof value === 'string' ? 'string' : 'word';
    return h('div', { class: 'leaf' }, name, h('span', { class: 't-' + kind }, value instanceof Numeral ? value.text : JSON.stringify(value)));
  }
  const isList = Array.isArray(value), entries = isList ? value.map((item, index) => [String(index), item]) : Object.entries(value);
  const about = isList ? `[ ${entries.length} ]` : `{ ${entries.slice(0, 4).map(entry => entry[0]).join(', ').slice(0, 60)}${entries.length > 4 ? ', …' : ''} }`;
  return branch([...name, h('span', { class: 'soft' }, about)], () => list(entries, depth + 1), depth < 2 && entries.length <= 100);
}

function list(entries, depth) {
  if (entries.length <= 100) return entries.map(([key, value]) => node(key, value, depth));
  return Array.from({ length: Math.ceil(entries.length / 100) }, (_, index) => {
    const some = entries.slice(100 * index, 100 * index + 100);
    return branch([h('span', { class: 'soft' }, `${some[0][0]} … ${some.at(-1)[0]}`)], () => list(some, depth), index === 0 && depth < 3);
  });
}

function branch(summary, children, open) {
  const details = h('details', {}, h('summary', {}, summary));
  const fill = () => { if (details.open && details.children.length === 1) details.append(...children()); };
  details.addEventListener('toggle', fill);
  details.open = open;
  fill();
  return details;
}

function hex(bytes, from, to) {
  const lines = [];
  for (let at = from; at < Math.min(to, bytes.length); at += 16) {
    const line = [...bytes.subarray(at, at + 16)];
    const pairs = line.map(byte => byte.toString(16).padStart(2, '0'));
    lines.push(at.toString(16).padStart(8, '0') + '  ' + pairs.slice(0, 8).join(' ').padEnd(23) + '  ' + pairs.slice(8).join(' ').padEnd(23) + '  '
      + line.map(byte => byte > 31 && byte < 127 ? String.fromCharCode(byte) : '·').join(''));
  }
  return lines.join('\n');
}

// A part of something long, with a button for the next part.
function inParts(length, step, render, name) {
  const box = h('div', {});
  const next = from => {
    box.append(render(from, from + step));
    if (from + step < length) box.append(h('button', { class: 'more', onclick: event => { event.target.remove(); next(from + step); } }, `Show more of ${name}`));
  };
  next(0);
  return box;
}

const views = {
  Tree: body => h('div', { class: 'tree' }, node(null, body.json, 0)),
  Pretty: body => inParts(body.pretty.length, 200_000, (from, to) => h('pre', {}, body.pretty.slice(from, to)), 'the text'),
  Text: body => inParts(body.text.length, 200_000, (from, to) => h('pre', {}, body.text.slice(from, to)), 'the text'),
  Image: body => {
    const url = URL.createObjectURL(new Blob([body.bytes], { type: body.type }));
    const image = h('img', { class: 'image', alt: 'The body as an image', onload: () => { URL.revokeObjectURL(url); about.textContent = `${image.naturalWidth} × ${image.naturalHeight}`; }, onerror: () => { about.textContent = 'This is not an image that the browser can show.'; } });
    const about = h('p', { class: 'soft' });
    image.src = url;
    return h('div', {}, image, about);
  },
  Hex: body => inParts(body.bytes.length, 8192, (from, to) => h('pre', { class: 'hex' }, hex(body.bytes, from, to)), 'the bytes'),
};

// Indents JSON without changing its numbers or the order of its members.
export function pretty(value, indent = '') {
  if (value instanceof Numeral) return value.text;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const inner = indent + '  ', isList = Array.isArray(value);
  const lines = isList ? value.map(item => inner + pretty(item, inner)) : Object.entries(value).map(([key, item]) => `${inner}${JSON.stringify(key)}: ${pretty(item, inner)}`);
  return lines.length ? `${isList ? '[' : '{'}\n${lines.join(',\n')}\n${indent}${isList ? ']' : '}'}` : isList ? '[]' : '{}';
}

export function readable({ bytes, type }) {
  const body = { bytes, type: (type ?? '').split(';')[0].trim().toLowerCase(), text: textOf(bytes) };
  const first = body.text?.trimStart()[0];
  if (body.text !== null && (body.type.includes('json') || first === '{' || first === '[')) {
    try {
      body.json = parseJSON(body.text);
      body.pretty = pretty(body.json);
    } catch { delete body.json; /* It stays text. */ }
  }
  return body;
}

// The body with a choice of views.
export function bodyView(fetched) {
  if (!fetched.bytes.length) return h('p', { class: 'soft' }, fetched.note ?? 'No body.');
  const body = readable(fetched);
  const names = Object.keys(views).filter(name => ({ Tree: 'json' in body, Pretty: 'json' in body, Text: body.text !== null, Image: body.type.startsWith('image/'), Hex: true })[name]);
  if (body.type.startsWith('image/')) names.unshift(names.splice(names.indexOf('Image'), 1)[0]);
  const box = h('div', {}), buttons = names.map(name => h('button', { 'aria-pressed': 'false', onclick: () => show(name) }, name));
  function show(name) {
    buttons.forEach(button => button.setAttribute('aria-pressed', button.textContent === name));
    box.replaceChildren(views[name](body));
  }
  show(names[0]);
  return h('div', {}, h('h2', {}, 'Body', h('span', { class: 'soft' }, [body.type, size(fetched.size ?? fetched.bytes.length)].filter(Boolean).join(' · ')),
    h('span', { class: 'seg right', role: 'group', 'aria-label': 'View of the body' }, buttons)),
  fetched.note && h('div', { class: 'note' }, fetched.note), box);
}
