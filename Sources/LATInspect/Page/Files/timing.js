// The waterfall: bars of a row in the list, and one lane for each span in the details.
import { durationOf, h, time, parts } from './dom.js';

export const kinds = {
  queue: 'Queue', limits: 'Limits', barrier: 'Barrier', token: 'Token', shared: 'Shared request', connectivity: 'Connectivity',
  cache: 'Cache look-up', dns: 'DNS', connect: 'Connect', tls: 'TLS', send: 'Send', wait: 'First byte', receive: 'Body', retry: 'Pause before retry',
};
export const legend = [['hold', 'Waits'], ['cache', 'Cache'], ['dns', 'DNS'], ['connect', 'Connect'], ['tls', 'TLS'], ['send', 'Send'], ['wait', 'First byte'], ['receive', 'Body']];

const known = span => Object.hasOwn(kinds, span.kind) ? span.kind : 'queue';
const lengthOf = (span, call) => span.duration ?? Math.max(0, (durationOf(call) ?? span.start) - span.start);

// A round number of milliseconds that is not less than this one.
export function nice(ms) {
  const step = 10 ** Math.floor(Math.log10(Math.max(ms, 1)));
  return [1, 2, 4, 5, 8, 10].map(factor => factor * step).find(value => value >= ms);
}

export function ticks(scale, count = 4) {
  return h('div', { class: 'ticks', 'aria-hidden': 'true' }, Array.from({ length: count + 1 }, (_, index) => {
    const tick = h('span', {}, index ? time(scale * index / count).replace('.0 ', ' ').replace('.00 ', ' ').replace(/(\.\d)0 /, '$1 ') : '0');
    tick.style.left = 100 * index / count + '%';
    return tick;
  }));
}

// Puts the bars of a call into an element, whose children it uses again.
export function bars(element, call, scale) {
  let used = 0;
  for (const span of call.spans) {
    const left = 100 * span.start / scale;
    if (left >= 100 || span.kind === 'tls' && span.duration === 0) continue;
    const bar = element.children[used] ?? element.appendChild(document.createElement('i'));
    used += 1;
    bar.className = 'k-' + known(span);
    bar.style.left = left + '%';
    bar.style.width = Math.min(100 - left, 100 * lengthOf(span, call) / scale) + '%';
  }
  while (element.children.length > used) element.lastChild.remove();
  element.classList.toggle('more', (durationOf(call) ?? 0) > scale);
}

// All spans of a call, each attempt and hop under a heading when there are several.
export function lanes(call) {
  const scale = Math.max(durationOf(call) ?? 0, ...call.spans.map(span => span.start + lengthOf(span, call)), 0.1);
  const groups = new Set(call.spans.map(span => `${span.attempt ?? 1}/${span.hop ?? 0}`)).size;
  const lines = [];
  let group;
  for (const span of call.spans) {
    const mine = `${span.attempt ?? 1}/${span.hop ?? 0}`;
    if (groups > 1 && mine !== group && span.kind !== 'retry') {
      group = mine;
      const about = call.spans.find(other => `${other.attempt ?? 1}/${other.hop ?? 0}` === mine && (other.status || other.url)) ?? span;
      lines.push(h('div', { class: 'lane group' }, h('div', {}, `Attempt ${span.attempt ?? 1}`, span.hop > 0 && `, hop ${span.hop}`,
        h('em', {}, [about.status, about.url && parts(about.url).host + parts(about.url).path].filter(Boolean).join(' · ')))));
    }
    const wf = h('div', { class: 'wf' });
    bars(wf, { ...call, spans: [span] }, scale);
    wf.classList.remove('more');
    lines.push(h('div', { class: 'lane', title: span.note }, h('span', {}, kinds[known(span)], span.note && h('em', {}, span.note)), wf,
      h('span', { class: 'num' }, span.duration === null || span.duration === undefined ? '…' : time(span.duration))));
  }
  return h('div', {}, h('div', { class: 'axis' }, h('span', {}, 'Since the start'), ticks(scale), h('span', { class: 'num' }, 'Duration')), lines,
    !lines.length && h('p', { class: 'soft' }, 'No times of this call are known.'));
}
