// Two calls side by side; what differs is marked.
import { durationOf, h, icon, size, statusOf, time } from './dom.js';
import { readable } from './body.js';

const most = 1500;

// The lines of both texts: [line of a or null, line of b or null], by their longest common subsequence.
export function difference(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) pairs.push([a[i++], b[j++]]);
    else if (j >= b.length || i < a.length && lengths[i + 1][j] >= lengths[i][j + 1]) pairs.push([a[i++], null]);
    else pairs.push([null, b[j++]]);
  }
  return pairs;
}

const joined = list => {
  const fields = new Map();
  for (const { name, value } of list ?? []) fields.set(name.toLowerCase(), [...fields.get(name.toLowerCase()) ?? [], value]);
  return fields;
};

function bodies([a, b]) {
  const texts = [a, b].map(body => { const read = readable(body); return read.pretty ?? read.text; });
  if (!a.bytes.length && !b.bytes.length) return null;
  const isEqual = a.bytes.length === b.bytes.length && a.bytes.every((byte, index) => byte === b.bytes[index]);
  if (isEqual) return h('p', { class: 'soft' }, `Equal, ${size(a.bytes.length)}.`);
  if (texts.includes(null)) return h('p', {}, `Different bytes: ${size(a.bytes.length)} and ${size(b.bytes.length)}.`);
  const lines = texts.map(text => text.split('\n'));
  if (lines.some(list => list.length > most)) return h('p', {}, `Different, and longer than the ${most} lines that can be compared here.`);
  return h('table', { class: 'cmp' }, h('tbody', {}, difference(...lines).map(([left, right]) => h('tr', {},
    h('td', {}, h('pre', { class: right === null ? 'del' : '' }, left ?? '')), h('td', {}, h('pre', { class: left === null ? 'add' : '' }, right ?? ''))))));
}

export function compareView(pair, close) {
  const rows = [];
  const table = (title, lines) => {
    if (lines.length) rows.push(h('h2', {}, title), h('table', { class: 'cmp' }, h('thead', {}, h('tr', {}, h('th', {}), pair.map(({ call }) => h('th', { scope: 'col' }, `Number ${call.number}`)))),
      h('tbody', {}, lines.map(([name, a, b]) => h('tr', { class: a === b ? '' : 'dif' }, h('th', { scope: 'row' }, name), h('td', {}, a ?? '–'), h('td', {}, b ?? '–'))))));
  };
  const [a, b] = pair;
  const both = (name, value) => [name, value(a), value(b)];
  table('Call', [both('Status', ({ call }) => statusOf(call).text), both('Method', ({ call }) => call.method), both('URL', ({ call }) => call.url), both('From', ({ call }) => call.source),
    both('Cache', ({ call }) => call.cache?.outcome), both('Duration', ({ call }) => time(durationOf(call))), both('Size', ({ call }) => size(call.responseSize)), both('Attempts and hops', ({ entries }) => String(entries.length))]);
  for (const [title, list] of [['Query', entry => entry?.request?.queryString], ['Request headers', entry => entry?.request?.headers], ['Response headers', entry => entry?.response?.headers]]) {
    const [left, right] = pair.map(({ entries }) => joined(list(entries.at(-1))));
    table(title, [...new Set([...left.keys(), ...right.keys()])].sort().map(name => [name, left.get(name)?.join('\n'), right.get(name)?.join('\n')]));
  }
  for (const side of ['request', 'response']) {
    const view = bodies(pair.map(one => one[side]));
    if (view) rows.push(h('h2', {}, side === 'request' ? 'Request body' : 'Response body'), view);
  }
  return [h('div', { class: 'top' }, h('div', { class: 'title' }, h('b', { class: 'url' }, `Number ${a.call.number} and number ${b.call.number}`),
    h('div', { class: 'acts' }, h('button', { class: 'act', title: 'Close (Escape)', 'aria-label': 'Close', onclick: close }, icon('close'))))),
  h('div', { class: 'pane', id: 'comparison', tabindex: 0 }, rows)];
}
