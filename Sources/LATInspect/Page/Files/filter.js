// The filter: words that must all match. A leading minus negates one; quotes keep blanks together.
import { isCached, isFailed, isOpen, durationOf } from './dom.js';

const units = { '': 1, k: 1e3, kb: 1e3, m: 1e6, mb: 1e6 };
const amount = text => {
  const match = /^(\d+(?:\.\d+)?)(k|kb|m|mb)?$/i.exec(text);
  return match && match[1] * units[(match[2] ?? '').toLowerCase()];
};
const duration = text => {
  const match = /^(\d+(?:\.\d+)?)(ms|s)?$/i.exec(text);
  return match && match[1] * (match[2]?.toLowerCase() === 's' ? 1000 : 1);
};
const lower = text => (text ?? '').toLowerCase();
// A text with * for any characters: the whole value then, else a part of it.
const like = pattern => {
  if (!pattern.includes('*')) return text => lower(text).includes(pattern);
  const expression = new RegExp('^' + pattern.split('*').map(part => part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&')).join('.*') + '$');
  return text => expression.test(lower(text));
};
const states = {
  'from-cache': isCached, running: isOpen, failed: isFailed,
  cancelled: call => call.state === 'cancelled', pinned: call => call.pinned,
  retried: call => call.spans.some(span => span.attempt > 1), redirected: call => call.spans.some(span => span.hop > 0),
};
const number = (name, read, value) => text => {
  const limit = read(text);
  return limit === null ? `${name}: takes a number, as in ${name}:${name.startsWith('larger') ? '10k' : '200ms'}` : call => (value(call) ?? -1) > limit;
};

export const words = {
  domain: text => { const test = like(text); return call => test(call.host) || test(call.domain); },
  method: text => call => lower(call.method) === text,
  'status-code': text => /^[1-5]xx$/.test(text) ? call => call.status && Math.floor(call.status / 100) === +text[0]
    : /^\d+$/.test(text) ? call => call.status === +text : 'status-code: takes a number or a class, as in 404 or 5xx',
  'mime-type': text => { const test = like(text); return call => test(call.mediaType); },
  kind: text => call => lower(call.errorKind).includes(text),
  row: text => { const test = like(text); return call => test(call.row); },
  tag: text => { const test = like(text); return call => test(call.tag); },
  'larger-than': number('larger-than', amount, call => call.responseSize),
  'slower-than': number('slower-than', duration, durationOf),
  is: text => states[text] ?? 'is: takes ' + Object.keys(states).join(', '),
};

export function parse(text) {
  const tests = [];
  let problem = '';
  for (const [, minus, key, quoted, plain] of text.toLowerCase().matchAll(/(-?)(?:([a-z-]+):(?!\/))?(?:"([^"]*)"?|(\S+))/g)) {
    const known = key && Object.hasOwn(words, key);
    const value = quoted ?? plain;
    const test = known ? words[key](value) : (() => {
      const wanted = (key ? key + ':' : '') + value;
      return call => call.search.includes(wanted);
    })();
    if (typeof test === 'string') problem = test;
    else tests.push(minus ? call => !test(call) : test);
  }
  return { test: call => tests.every(test => test(call)), problem };
}

// The quick filters above the list.
export const chips = [
  ['All', () => true], ['Running', isOpen], ['Failed', call => call.state === 'failed'],
  ['2xx', call => call.status >= 200 && call.status < 300], ['3xx', call => call.status >= 300 && call.status < 400],
  ['4xx', call => call.status >= 400 && call.status < 500], ['5xx', call => call.status >= 500],
  ['Cached', isCached], ['Pinned', call => call.pinned],
];
