// Totals by domain, each with a histogram of how long its calls took.
import { count, durationOf, h, isCached, isFailed, isOpen, size, time } from './dom.js';

const bounds = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, Infinity];

function summary(name, calls) {
  const ended = calls.filter(call => !isOpen(call));
  const times = ended.map(durationOf).filter(value => value !== null).sort((a, b) => a - b);
  const at = part => times.length ? times[Math.min(times.length - 1, Math.floor(times.length * part))] : null;
  const histogram = bounds.map(() => 0);
  for (const value of times) histogram[bounds.findIndex(bound => value <= bound)] += 1;
  return {
    name, calls: calls.length, failed: ended.filter(isFailed).length, cached: calls.filter(isCached).length, histogram,
    bytes: calls.reduce((sum, call) => sum + Math.max(0, call.responseSize ?? 0), 0), half: at(.5), most: at(.95), longest: times.at(-1) ?? null,
  };
}

function histogramOf(total) {
  const most = Math.max(...total.histogram, 1);
  const words = total.histogram.map((number, index) => number && `${number} ${bounds[index] === Infinity ? 'over 10 s' : 'up to ' + time(bounds[index])}`).filter(Boolean).join(', ');
  return h('div', { class: 'bars', role: 'img', 'aria-label': `Durations: ${words || 'none'}`, title: words }, total.histogram.map((number, index) => {
    const bar = h('i', { class: number ? (bounds[index] > 1000 ? 'slow' : '') : 'none' });
    bar.style.height = number ? Math.max(8, 100 * number / most) + '%' : '1px';
    return bar;
  }));
}

export function totalsView(calls, choose) {
  const groups = Map.groupBy(calls, call => call.domain || call.host || '(none)');
  const totals = [...groups].map(([name, list]) => summary(name, list)).sort((a, b) => b.calls - a.calls).slice(0, 200);
  const row = (total, name, kind) => h('tr', { class: kind }, h('td', {}, name), h('td', {}, count(total.calls)),
    h('td', { class: total.failed ? 's5' : 'soft' }, total.failed ? `${count(total.failed)} · ${(100 * total.failed / total.calls).toFixed(1)} %` : '0'),
    h('td', { class: 'soft' }, total.cached ? `${(100 * total.cached / total.calls).toFixed(0)} %` : '–'), h('td', {}, size(total.bytes)),
    h('td', {}, time(total.half)), h('td', {}, time(total.most)), h('td', {}, time(total.longest)), h('td', { class: 'histo' }, histogramOf(total)));
  return h('div', { class: 'totals', tabindex: 0, 'aria-label': 'Totals by domain' }, h('table', {},
    h('thead', {}, h('tr', {}, ['Domain', 'Calls', 'Failed, 4xx, 5xx', 'From cache', 'Received', 'Median', '95 %', 'Longest'].map(title => h('th', { scope: 'col' }, title)),
      h('th', { class: 'histo', scope: 'col' }, h('div', { class: 'scale' }, ['≤ 5 ms', '50 ms', '500 ms', '> 10 s'].map(text => h('span', {}, text)))))),
    h('tbody', {}, row(summary('all', calls), 'All that is shown', 'all'),
      totals.map(total => row(total, h('button', { title: 'Show only these calls', onclick: () => choose(total.name) }, total.name))))));
}
