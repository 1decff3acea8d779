// Totals by domain, each with a histogram of how long its calls took.
import { count, durationOf, h, isCached, isFailed, isOpen, quantile, size, sorted, time } from './dom.js';

const bounds = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, Infinity];

export function summary(calls) {
  const times = sorted(calls.map(call => isOpen(call) ? null : call.duration));
  const failed = calls.filter(call => call.state === 'failed').length;
  const histogram = bounds.map(() => 0);
  for (const value of times) histogram[bounds.findIndex(bound => value <= bound)] += 1;
  return {
    calls: calls.length, failed, refused: calls.filter(isFailed).length - failed, cached: calls.filter(isCached).length, histogram,
    bytes: calls.reduce((sum, call) => sum + Math.max(0, call.responseSize ?? 0), 0),
    half: quantile(times, .5), most: quantile(times, .95), longest: times.at(-1),
  };
}

function histogramOf({ histogram }) {
  const most = Math.max(...histogram, 1);
  const words = histogram.map((number, index) =>
    number && `${number} ${index === bounds.length - 1 ? 'over 10 s' : 'up to ' + time(bounds[index])}`).filter(Boolean).join(', ');
  return h('div', { class: 'bars', role: 'img', 'aria-label': `Durations: ${words || 'none'}`, title: words }, histogram.map((number, index) =>
    h('i', { class: !number ? 'none' : bounds[index] > 1000 ? 'slow' : '', style: { height: number ? Math.max(8, 100 * number / most) + '%' : '1px' } })));
}

function row(name, total, kind) {
  const bad = total.failed + total.refused;
  const share = (part, digits) => (100 * part / total.calls).toFixed(digits) + ' %';
  return h('tr', kind, h('td', '', name), h('td', '', count(total.calls)),
    h('td', bad ? 's5' : 'soft', bad ? `${count(bad)} · ${share(bad, 1)}` : '0'),
    h('td', 'soft', total.cached ? share(total.cached, 0) : '–'), h('td', '', size(total.bytes)),
    [total.half, total.most, total.longest].map(value => h('td', '', time(value))), h('td', 'histo', histogramOf(total)));
}

// What calls can be put into groups by.
export const groups = {
  Domain: call => call.site, Row: call => call.row ?? call.template ?? '(no row)', Program: call => call.program ?? '(this one)',
};

export function totalsTable(calls, by, choose) {
  const totals = [...Map.groupBy(calls, groups[by])].map(([name, some]) => [name, summary(some)])
    .sort(([, a], [, b]) => b.calls - a.calls).slice(0, 200);
  const titles = [by, 'Calls', 'Failed, 4xx, 5xx', 'From cache', 'Received', 'Median', '95 %', 'Longest'];
  return h('table', '',
    h('thead', '', h('tr', '', titles.map(title => h('th', { scope: 'col' }, title)), h('th', { class: 'histo', scope: 'col' },
      h('div', 'scale', ['≤ 5 ms', '50 ms', '500 ms', '> 10 s'].map(text => h('span', '', text)))))),
    h('tbody', '', row('All that is shown', summary(calls), 'all'), totals.map(([name, total]) =>
      row(h('button', { title: 'Show only these calls', onclick: () => choose(name) }, name), total, ''))));
}
