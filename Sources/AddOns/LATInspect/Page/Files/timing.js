// The waterfall: bars of a row in the list, and one lane for each span in the details.
import { dotted, durationOf, h, parts, set, soft, time } from './dom.js';

// Without a prototype, so that no text of a file is a member by accident.
const kinds = {
  __proto__: null,
  queue: 'Queue', limits: 'Limits', barrier: 'Barrier', token: 'Token', shared: 'Shared request', connectivity: 'Connectivity',
  cache: 'Cache look-up', dns: 'DNS', connect: 'Connect', tls: 'TLS', send: 'Send', wait: 'First byte', receive: 'Body',
  retry: 'Pause before retry', chaos: 'Fault',
};
// The kinds that have a colour of their own. All others are waits.
const coloured = ['cache', 'dns', 'connect', 'tls', 'send', 'wait', 'receive', 'retry'];
const colourOf = kind => 'k-' + (coloured.includes(kind) ? kind : 'hold');
export const legend = () => ['hold', ...coloured.slice(0, -1)].map(kind =>
  h('span', '', h('i', colourOf(kind)), { hold: 'Waits', cache: 'Cache' }[kind] ?? kinds[kind]));

const lengthOf = (span, call) => span.duration ?? Math.max(0, (durationOf(call) ?? span.start) - span.start);

// A round number of milliseconds that is not less than this one.
export function nice(ms) {
  const step = 10 ** Math.floor(Math.log10(Math.max(ms, 1)));
  return [1, 2, 4, 5, 8, 10].map(factor => factor * step).find(value => value >= ms);
}

export function ticks(scale, count) {
  // 5 ms instead of 5.0 ms, and 1.5 s instead of 1.50 s.
  const round = ms => ms ? time(ms).replace(/\.0+ |(?<=\.\d)0 /, ' ') : '0';
  return h('div', { class: 'ticks', 'aria-hidden': true }, Array.from({ length: count + 1 }, (_, index) =>
    h('span', { style: { left: 100 * index / count + '%' } }, round(scale * index / count))));
}

// Puts the bars of a call into an element, whose children it uses again.
export function bars(element, call, scale) {
  let used = 0;
  for (const span of call.spans) {
    const left = 100 * span.start / scale;
    if (left >= 100 || span.kind === 'tls' && span.duration === 0) continue;
    const width = Math.min(100 - left, 100 * lengthOf(span, call) / scale);
    const bar = element.children[used++] ?? element.appendChild(h('i', ''));
    set(bar, { class: colourOf(span.kind), style: { left: left + '%', width: width + '%' } });
  }
  while (element.children.length > used) element.lastChild.remove();
  element.classList.toggle('more', durationOf(call) > scale);
}

// All spans of a call, each attempt and hop under a heading when there are several.
export function lanes(call) {
  const scale = Math.max(durationOf(call) ?? 0, ...call.spans.map(span => span.start + lengthOf(span, call)), 0.1);
  const groupOf = ({ attempt, hop }) => `Attempt ${attempt ?? 1}${hop > 0 ? `, hop ${hop}` : ''}`;
  const groups = Map.groupBy(call.spans, groupOf);
  let last;
  const lines = call.spans.map(span => {
    const group = groupOf(span), isFirst = groups.size > 1 && group !== last && span.kind !== 'retry';
    if (isFirst) last = group;
    const { status, url } = groups.get(group).find(other => other.status || other.url) ?? {};
    const lane = h('div', 'wf');
    bars(lane, { ...call, spans: [span] }, scale);
    return [
      isFirst && h('div', 'lane group', h('div', '', group, h('em', '', dotted(status, url && parts(url).host + parts(url).path)))),
      h('div', { class: 'lane', title: span.note }, h('span', '', kinds[span.kind] ?? kinds.queue, span.note && h('em', '', span.note)),
        lane, h('span', 'num', span.duration == null ? '…' : time(span.duration))),
    ];
  });
  return h('div', '', h('div', 'axis', h('span', '', 'Since the start'), ticks(scale, 4), h('span', 'num', 'Duration')), lines,
    !lines.length && soft('No times of this call are known.'));
}
