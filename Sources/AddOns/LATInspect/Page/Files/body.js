// Bodies as they can be read: JSON folded, images, text, bytes. All of it is text or an image of a blob; nothing is run.
import { choices, dotted, group, h, set, size, soft } from './dom.js';

class Numeral { constructor(text) { this.text = text; } }
const decoder = new TextDecoder('utf-8', { fatal: true });

function textOf(bytes) {
  // A body that was cut may end within a character, which has up to four bytes.
  for (let end = bytes.length; end >= 0 && end > bytes.length - 4; end--) {
    try {
      const text = decoder.decode(bytes.subarray(0, end));
      return text.includes('\0') ? null : text;
    } catch {
      // One byte less.
    }
  }
  return null;
}

// Numbers keep their digits: 12345678901234567890 is not rounded.
const parseJSON = text => JSON.parse(text, (key, value, context) =>
  typeof value === 'number' ? new Numeral(context?.source ?? String(value)) : value);

const isLeaf = value => value === null || typeof value !== 'object' || value instanceof Numeral;
const written = value => value instanceof Numeral ? value.text : JSON.stringify(value);

function node(key, value, depth) {
  const name = key === null ? [] : [h('span', 't-key', key), ': '];
  if (isLeaf(value)) {
    const kind = value instanceof Numeral ? 'number' : typeof value === 'string' ? 'string' : 'word';
    return h('div', 'leaf', name, h('span', 't-' + kind, written(value)));
  }
  const entries = Object.entries(value), names = entries.slice(0, 4).map(([name]) => name).join(', ').slice(0, 60);
  const about = Array.isArray(value) ? `[ ${entries.length} ]` : `{ ${names}${entries.length > 4 ? ', …' : ''} }`;
  return branch([name, h('span', 'soft', about)], () => nodes(entries, depth + 1), depth < 2 && entries.length <= 100);
}

function nodes(entries, depth) {
  if (entries.length <= 100) return entries.map(([key, value]) => node(key, value, depth));
  return Array.from({ length: Math.ceil(entries.length / 100) }, (_, index) => {
    const some = entries.slice(100 * index, 100 * index + 100);
    return branch(h('span', 'soft', `${some[0][0]} … ${some.at(-1)[0]}`), () => nodes(some, depth), index === 0 && depth < 3);
  });
}

function branch(summary, children, open) {
  const fill = () => { if (details.open && details.children.length === 1) details.append(...children()); };
  const details = h('details', { ontoggle: fill, open }, h('summary', '', summary));
  fill();
  return details;
}

function hex(bytes, from) {
  const line = [...bytes.subarray(from, from + 16)], pairs = line.map(byte => byte.toString(16).padStart(2, '0'));
  const [left, right] = [pairs.slice(0, 8), pairs.slice(8)].map(half => half.join(' ').padEnd(23));
  const letters = line.map(byte => byte > 31 && byte < 127 ? String.fromCharCode(byte) : '·').join('');
  return `${from.toString(16).padStart(8, '0')}  ${left}  ${right}  ${letters}`;
}

// A part of something long, with a button for the next part.
function inParts(name, length, step, textFrom, kind = '') {
  const box = h('div', '');
  const next = from => {
    box.append(h('pre', kind, textFrom(from, Math.min(from + step, length))));
    if (from + step >= length) return;
    box.append(h('button', { class: 'more', onclick: ({ target }) => { target.remove(); next(from + step); } }, `Show more of ${name}`));
  };
  next(0);
  return box;
}

const textView = text => inParts('the text', text.length, 200_000, (from, to) => text.slice(from, to));
const views = {
  Tree: ({ json }) => h('div', 'tree', node(null, json, 0)),
  Pretty: body => textView(body.pretty),
  Text: body => textView(body.text),
  Image({ bytes, type }) {
    const src = URL.createObjectURL(new Blob([bytes], { type })), about = soft('');
    return h('div', '', h('img', { class: 'image', alt: 'The body as an image', src,
      onload: ({ target }) => { URL.revokeObjectURL(src); set(about, {}, `${target.naturalWidth} × ${target.naturalHeight}`); },
      onerror: () => set(about, {}, 'This is not an image that the browser can show.') }), about);
  },
  Hex: ({ bytes }) => inParts('the bytes', bytes.length, 8192, (from, to) =>
    Array.from({ length: Math.ceil((to - from) / 16) }, (_, line) => hex(bytes, from + 16 * line)).join('\n'), 'hex'),
};

// Indents JSON without changing its numbers. JSON.parse puts members whose names are whole numbers first.
function pretty(value, indent) {
  if (isLeaf(value)) return written(value);
  const inner = indent + '  ', isList = Array.isArray(value), [start, end] = isList ? '[]' : '{}';
  const lines = Object.entries(value).map(([key, item]) => `${inner}${isList ? '' : `${JSON.stringify(key)}: `}${pretty(item, inner)}`);
  return lines.length ? `${start}\n${lines.join(',\n')}\n${indent}${end}` : start + end;
}

export function readable({ bytes, type }) {
  const body = { bytes, type: (type ?? '').split(';')[0].trim().toLowerCase(), text: textOf(bytes) };
  if (body.text !== null && (body.type.includes('json') || /^\s*[{[]/.test(body.text))) {
    try {
      const json = parseJSON(body.text);
      Object.assign(body, { json, pretty: pretty(json, '') });
    } catch {
      // It stays text.
    }
  }
  return body;
}

// The body with a choice of views.
export function bodyView({ bytes, type, size: whole = bytes.length, note }) {
  if (!bytes.length) return soft(note ?? 'No body.');
  const body = readable({ bytes, type }), isImage = body.type.startsWith('image/'), isJSON = 'json' in body;
  const names = [isImage && 'Image', isJSON && 'Tree', isJSON && 'Pretty', body.text !== null && 'Text', 'Hex'].filter(Boolean);
  const box = h('div', ''), buttons = choices(names, 0, show);
  function show(chosen) {
    buttons.forEach((button, index) => set(button, { 'aria-pressed': index === chosen }));
    set(box, {}, views[names[chosen]](body));
  }
  show(0);
  return [h('h2', '', 'Body', h('span', 'soft', dotted(body.type, size(whole))), group('View of the body', buttons)), note && h('div', 'note', note), box];
}
