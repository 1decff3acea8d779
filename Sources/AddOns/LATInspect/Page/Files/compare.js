// Two calls side by side; what differs is marked.
import { durationOf, h, heading, size, soft, statusOf, time } from './dom.js';
import { readable } from './body.js';
import { fieldsOf } from './har.js';

const most = 1500;

// The lines of both texts: [line of one or null, line of the other or null], by their longest common subsequence.
function difference(left, right) {
  const lengths = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i][j] = left[i] === right[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < left.length || j < right.length;) {
    if (i < left.length && left[i] === right[j]) pairs.push([left[i++], right[j++]]);
    else if (j >= right.length || i < left.length && lengths[i + 1][j] >= lengths[i][j + 1]) pairs.push([left[i++], null]);
    else pairs.push([null, right[j++]]);
  }
  return pairs;
}

function bodies(pair) {
  const [a, b] = pair.map(({ bytes }) => bytes);
  if (!a.length && !b.length) return null;
  if (a.length === b.length && a.every((byte, index) => byte === b[index])) return soft(`Equal, ${size(a.length)}.`);
  const texts = pair.map(body => { const { pretty, text } = readable(body); return pretty ?? text; });
  if (texts.includes(null)) return h('p', '', `Different bytes: ${size(a.length)} and ${size(b.length)}.`);
  const lines = texts.map(text => text.split('\n'));
  if (lines.some(list => list.length > most)) return h('p', '', `Different, and longer than the ${most} lines that can be compared here.`);
  return h('table', 'cmp', difference(...lines).map(([left, right]) => h('tr', '',
    h('td', '', h('pre', right === null ? 'del' : '', left)), h('td', '', h('pre', left === null ? 'add' : '', right)))));
}

const facts = {
  Status: ({ call }) => statusOf(call)[1], Method: ({ call }) => call.method, URL: ({ call }) => call.url, From: ({ call }) => call.source,
  Cache: ({ call }) => call.cache?.outcome, Duration: ({ call }) => time(durationOf(call)), Size: ({ call }) => size(call.responseSize),
  'Attempts and hops': ({ entries }) => entries.length,
};

export function compareView(pair, close) {
  const [one, other] = pair.map(({ call }) => call.number);
  const table = (title, lines) => lines.length > 0 && [h('h2', '', title), h('table', 'cmp',
    h('thead', '', h('tr', '', h('th', ''), [one, other].map(number => h('th', { scope: 'col' }, `Number ${number}`)))),
    lines.map(([name, a, b]) => h('tr', a === b ? '' : 'dif', h('th', { scope: 'row' }, name), h('td', '', a ?? '–'), h('td', '', b ?? '–'))))];
  return [heading(close, h('b', 'url', `Number ${one} and number ${other}`)),
    h('div', { class: 'pane', id: 'comparison', tabindex: 0 },
      table('Call', Object.entries(facts).map(([name, value]) => [name, ...pair.map(value)])),
      Object.keys(fieldsOf()).map(title => {
        const [left, right] = pair.map(({ entries }) => Map.groupBy(fieldsOf(entries.at(-1))[title], ({ name }) => String(name).toLowerCase()));
        const values = (fields, name) => fields.get(name)?.map(({ value }) => value).join('\n');
        return table(title, [...new Set([...left.keys(), ...right.keys()])].sort().map(name => [name, values(left, name), values(right, name)]));
      }),
      ['request', 'response'].map(side => {
        const view = bodies(pair.map(one => one[side]));
        return view && [h('h2', '', side === 'request' ? 'Request body' : 'Response body'), view];
      }))];
}
