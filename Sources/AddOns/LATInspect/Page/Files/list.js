// The list of calls. Only visible rows have elements, which are used again while scrolling.
import { decisionOf, dotted, durationOf, h, isCached, quantile, set, showMethod, showStatus, size, sorted, time } from './dom.js';
import { icon } from './icons.js';
import { bars, nice, ticks } from './timing.js';

const rowHeight = 28;
// Class, title, what the calls are sorted by, and what puts a call into a cell.
const columns = [
  ['no', '#', 'number', (cell, { pinned, number }) => set(cell, {}, pinned && icon('pin'), number)],
  ['', 'Status', 'status', showStatus],
  ['', 'Method', 'method', showMethod],
  ['', 'Name', 'path', (cell, { url, path, query }) => set(cell, { class: 'name', title: url }, path, h('span', '', query))],
  ['dom', 'Domain', 'host', (cell, { host, site, row, tag, program }) => set(cell, { title: dotted(host, program) }, site, h('span', '', dotted(row, tag)))],
  ['src', 'From', 'source', (cell, call) => set(cell, { title: call.cache?.reason }, source(call))],
  ['type', 'Type', 'mediaType', (cell, { mediaType }) =>
    set(cell, {}, mediaType?.split(';')[0].replace(/^application\/(x-)?|^(text|image)\//, ''))],
  ['num size', 'Size', 'responseSize', (cell, call) => set(cell, {}, size(call.responseSize))],
  ['num', 'Time', 'duration', (cell, call) => set(cell, {}, time(durationOf(call)))],
  ['wf', '', '', bars],
];

function source(call) {
  if (isCached(call)) return h('span', 'tag hit', call.source);
  const decision = decisionOf(call);
  return h('span', decision ? 'tag' : '', decision?.outcome ?? call.source);
}

// Gives what the page needs of the list: `selected`, the call that is chosen, and `follow`, whether new calls are scrolled to.
export function makeList(root, actions) {
  let items = [], scale = 100, drawing = 0, sort = { by: 'number', down: false };
  const pool = [], space = h('div', { role: 'presentation' }), empty = h('div', 'empty');
  const head = h('div', { class: 'cols head', role: 'row' }, columns.map(([name, title, by]) => title
    ? h('div', { class: name, role: 'columnheader' }, h('button', { tabindex: -1, onclick: () => sortBy(by) }, title))
    : h('div', name)));
  const grid = h('div', { class: 'grid', role: 'grid', tabindex: 0, 'aria-label': 'Calls', onscroll }, space, empty);
  const list = { selected: null, follow: true, head, grid, show, rescale, draw, reveal, move };
  root.append(head, grid);
  new ResizeObserver(() => { toEnd(); draw(); }).observe(grid);
  return list;

  function isInOrder() { return sort.by === 'number' && !sort.down; }

  function sortBy(by) {
    const ascends = ['number', 'path', 'method', 'host'].includes(by);
    sort = { by, down: sort.by === by ? !sort.down : !ascends };
    list.follow &&= isInOrder();
    actions.sorted();
  }

  function order(calls) {
    if (isInOrder()) return calls;
    const { by, down } = sort, sign = down ? -1 : 1;
    const value = by === 'duration' ? durationOf : by === 'status' ? call => call.state === 'done' ? call.status : 1000 : call => call[by] ?? '';
    return calls.toSorted((one, other) => {
      const a = value(one), b = value(other);
      return sign * (a < b ? -1 : a > b ? 1 : 0) || one.number - other.number;
    });
  }

  function show(calls, advice) {
    // The first row that is seen stays where it is.
    const first = items[Math.floor(grid.scrollTop / rowHeight)], before = items.indexOf(first);
    items = order(calls);
    set(space, { style: { height: items.length * rowHeight + 'px' } });
    set(grid, { 'aria-rowcount': items.length });
    set(empty, { hidden: items.length > 0 }, advice);
    const now = items.indexOf(first);
    if (!list.follow && now >= 0 && now !== before) grid.scrollTop += (now - before) * rowHeight;
    toEnd();
    const direction = sort.down ? 'descending' : 'ascending';
    columns.forEach(([, , by], index) => set(head.children[index], { 'aria-sort': by === sort.by ? direction : null }));
    draw();
  }

  // One scale for all rows: what nearly all of the calls need.
  function rescale() {
    const step = Math.ceil(items.length / 1000), axis = head.lastChild;
    const some = items.filter((_, index) => index % step === 0).map(call => durationOf(call) ?? 0);
    const fit = nice(quantile(sorted(some), .96) ?? 100);
    if (fit === scale && axis.firstChild) return;
    scale = fit;
    set(axis, {}, ticks(scale, 2));
  }

  function toEnd() { if (list.follow) grid.scrollTop = grid.scrollHeight; }

  function onscroll() {
    list.follow = isInOrder() && grid.scrollTop + grid.clientHeight >= grid.scrollHeight - 4;
    draw();
  }

  function draw() { drawing ||= requestAnimationFrame(() => { drawing = 0; paint(); }); }

  function paint() {
    const first = Math.max(0, Math.floor(grid.scrollTop / rowHeight) - 4);
    const last = Math.min(items.length, Math.ceil((grid.scrollTop + grid.clientHeight) / rowHeight) + 4);
    while (pool.length < last - first) pool.push(makeRow());
    // A visible row keeps its element: the one at its number modulo the size of the pool.
    const unused = new Set(pool);
    let active = null;
    for (let index = first; index < last; index++) {
      const row = pool[index % pool.length];
      unused.delete(row);
      fill(row, items[index], index);
      if (row.call === list.selected) active = row.element.id;
    }
    for (const row of unused) row.element.hidden = true;
    set(grid, { 'aria-activedescendant': active });
  }

  function makeRow() {
    const row = { cells: columns.map(([name]) => h('div', { class: name, role: 'gridcell' })) };
    row.element = h('div', { class: 'row cols', role: 'row', id: 'row-' + pool.length, onmousedown: () => actions.select(row.call),
      ondblclick: () => actions.open(row.call), onclick: () => actions.clicked(row.call) }, row.cells);
    grid.append(row.element);
    return row;
  }

  function fill(row, call, index) {
    const { element, cells } = row, isSelected = call === list.selected;
    set(element, { hidden: false, 'aria-rowindex': index + 1, style: { top: index * rowHeight + 'px' } });
    // A running call is drawn again at most ten times a second.
    const state = `${call.key} ${call.version} ${call.pinned} ${isSelected} ${scale} ${call.duration ?? Math.floor(Date.now() / 100)}`;
    if (row.state === state) return;
    Object.assign(row, { call, state });
    set(element, { 'aria-selected': isSelected });
    element.classList.toggle('bad', call.state === 'failed' || call.status >= 500);
    columns.forEach(([, , , show], index) => show(cells[index], call, scale));
  }

  function reveal() {
    const index = items.indexOf(list.selected), top = index * rowHeight;
    if (index >= 0) grid.scrollTop = Math.min(top, Math.max(grid.scrollTop, top + rowHeight - grid.clientHeight));
  }

  // Moves the selection by rows, or to an end.
  function move(step) {
    if (!items.length) return;
    const end = items.length - 1, now = items.indexOf(list.selected), from = now < 0 && !(step > 0) ? end + 1 : now;
    const page = Math.max(1, Math.floor(grid.clientHeight / rowHeight) - 1);
    const to = { first: 0, last: end, 'page-up': from - page, 'page-down': from + page }[step] ?? from + step;
    actions.select(items[Math.max(0, Math.min(end, to))]);
    reveal();
    list.follow = step === 'last' && sort.by === 'number';
    toEnd();
  }
}
