// The filter: words that must all match. A leading minus negates a word; quotes allow blanks in it.
import { durationOf, isCached, isFailed, isOpen } from './dom.js';

// The identifiers of the calls whose bodies contain a text.
export const bodies = new Map();
const textsOf = call => [...call.raw.flatMap(({ request, response }) => [request?.postData?.text, response?.content?.text]),
  ...call.messages?.map(({ text }) => text) ?? []].filter(text => typeof text === 'string');

const lower = text => (text ?? '').toLowerCase();
// A test for a pattern. With * for any characters it must match the whole value, else a part is enough.
const like = pattern => {
  if (!pattern.includes('*')) return text => lower(text).includes(pattern);
  const escaped = pattern.replace(/[\\^$.+?()[\]{}|]/g, '\\$&').replaceAll('*', '.*');
  const expression = new RegExp(`^${escaped}$`);
  return text => expression.test(lower(text));
};
const matches = (...names) => text => {
  const test = like(text);
  return call => names.some(name => test(call[name]));
};
const exceeds = (value, units) => text => {
  const [, number, unit] = /^(\d+(?:\.\d+)?)([a-z]*)$/.exec(text) ?? [];
  const limit = number * (unit ? units[unit] : 1);
  return !isNaN(limit) && (call => (value(call) ?? -1) > limit);
};
const hasState = state => call => call.state === state;
const hasClass = digit => call => Math.floor(call.status / 100) === digit;
const isPinned = call => call.pinned;
// Without a prototype, so that no text that is typed is a member by accident.
const states = {
  __proto__: null,
  'from-cache': isCached, running: isOpen, failed: isFailed, cancelled: hasState('cancelled'),
  retried: call => call.spans.some(span => span.attempt > 1), redirected: call => call.spans.some(span => span.hop > 0),
  pinned: isPinned,
};

// Each word with examples of its values, and a function that turns a value into a test. It returns
// nothing, or false, for an invalid value.
export const words = {
  __proto__: null,
  domain: ['api, *.example.com', matches('host', 'domain')],
  method: ['POST', text => call => lower(call.method) === text],
  'status-code': ['404, 5xx', text => /^[1-5]xx$/.test(text) ? hasClass(+text[0]) : /^\d+$/.test(text) && (call => call.status === +text)],
  'mime-type': ['json', matches('mediaType')],
  kind: ['timeout', text => call => lower(call.errorKind).includes(text)],
  row: ['users', matches('row', 'template')],
  program: ['worker', matches('program')],
  // The program that holds the bodies looks into them.
  body: ['"Ada", error', text => call => call.entries ? textsOf(call).some(part => lower(part).includes(text)) : bodies.get(text)?.has(call.id)],
  tag: ['sync', matches('tag')],
  'larger-than': ['10k', exceeds(call => call.responseSize, { k: 1e3, kb: 1e3, m: 1e6, mb: 1e6 })],
  'slower-than': ['200ms', exceeds(durationOf, { ms: 1, s: 1e3 })],
  is: [Object.keys(states).join(', '), text => states[text]],
};

export function parse(text) {
  const tests = [], inBodies = [];
  let problem = '';
  for (const [, minus, key, quoted, plain] of text.toLowerCase().matchAll(/(-?)(?:([a-z-]+):(?!\/))?(?:"([^"]*)"?|(\S+))/g)) {
    const value = quoted ?? plain, wanted = key ? `${key}:${value}` : value;
    const [examples, make] = words[key] ?? ['', () => call => call.search.includes(wanted)];
    const test = make(value);
    if (key === 'body') inBodies.push(value);
    if (!test) problem = `${key}: takes values such as ${examples}`;
    else tests.push(minus ? call => !test(call) : test);
  }
  return { test: call => tests.every(test => test(call)), problem, inBodies };
}

// The quick filters above the list.
export const chips = [
  ['All', () => true], ['Running', isOpen], ['Failed', hasState('failed')],
  ...[2, 3, 4, 5].map(digit => [digit + 'xx', hasClass(digit)]), ['Cached', isCached], ['Pinned', isPinned],
];
