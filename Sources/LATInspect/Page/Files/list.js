// The list of calls. Only visible rows have elements, which are used again while scrolling.
import { $, durationOf, h, icon, size, statusOf, time } from './dom.js';
import { bars, nice, ticks } from './timing.js';

const rowHeight = 28;
const columns = [
  ['no', '#', 'number'], ['', 'Status', 'status'], ['', 'Method', 'method'], ['', 'Name', 'path'], ['dom', 'Domain', 'host'],
  ['src', 'From', 'source'], ['type', 'Type', 'mediaType'], ['num size', 'Size', 'responseSize'], ['num', 'Time', 'duration'], ['wfc', ''],
];

export class List {
  items = [];
  pool = [];
  selected = null;
  follow = true;
  sort = { by: 'number', down: false };
  scale = 100;

  constructor(root, actions) {
    this.actions = actions;
    this.ticks = h('div', { class: 'wfc' });
    this.head = h('div', { class: 'cols head', role: 'row' }, columns.map(([name, title, by]) => by
      ? h('div', { class: name, role: 'columnheader', 'data-by': by }, h('button', { tabindex: -1, onclick: () => this.sortBy(by) }, title))
      : this.ticks));
    this.space = h('div', { role: 'presentation' });
    this.empty = h('div', { class: 'empty', hidden: true });
    this.grid = h('div', { class: 'grid', role: 'grid', tabindex: 0, 'aria-label': 'Calls', onscroll: () => this.scrolled() }, this.space, this.empty);
    root.append(this.head, this.grid);
    this.root = root;
    new ResizeObserver(() => { if (this.follow) this.toEnd(); this.draw(); }).observe(this.grid);
  }

  sortBy(by) {
    this.sort = { by, down: this.sort.by === by ? !this.sort.down : by !== 'number' && by !== 'path' && by !== 'method' && by !== 'host' };
    this.follow = by === 'number' && !this.sort.down && this.follow;
    this.actions.sorted();
  }

  order(calls) {
    const { by, down } = this.sort;
    if (by === 'number' && !down) return calls;
    const value = by === 'duration' ? durationOf : by === 'status' ? call => call.state === 'done' ? call.status : 1000 : call => call[by] ?? '';
    const sign = down ? -1 : 1;
    return calls.slice().sort((a, b) => {
      const x = value(a), y = value(b);
      return sign * (x < y ? -1 : x > y ? 1 : 0) || a.number - b.number;
    });
  }

  show(calls, empty) {
    const top = this.follow ? null : this.items[Math.floor(this.grid.scrollTop / rowHeight)];
    const index = top ? this.items.indexOf(top) : -1;
    this.items = this.order(calls);
    this.space.style.height = this.items.length * rowHeight + 'px';
    this.grid.setAttribute('aria-rowcount', this.items.length);
    this.empty.hidden = this.items.length > 0;
    if (!this.items.length) this.empty.replaceChildren(...empty);
    if (this.follow) this.toEnd();
    else if (top) {
      const now = this.items.indexOf(top);
      if (now >= 0 && now !== index) this.grid.scrollTop += (now - index) * rowHeight;
    }
    for (const cell of this.head.children) {
      if (cell.dataset.by === this.sort.by) cell.setAttribute('aria-sort', this.sort.down ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    }
    this.draw();
  }

  // One scale for all rows: what nearly all of the calls need.
  rescale() {
    const some = [];
    for (let at = 0, step = Math.max(1, Math.floor(this.items.length / 1000)); at < this.items.length; at += step) some.push(durationOf(this.items[at]) ?? 0);
    some.sort((a, b) => a - b);
    const scale = nice(some[Math.min(some.length - 1, Math.floor(some.length * .96))] ?? 100);
    if (scale === this.scale && this.ticks.firstChild) return;
    this.scale = scale;
    this.ticks.replaceChildren(ticks(scale, 2));
  }

  toEnd() { this.grid.scrollTop = this.grid.scrollHeight; }

  scrolled() {
    this.follow = this.sort.by === 'number' && !this.sort.down && this.grid.scrollTop + this.grid.clientHeight >= this.grid.scrollHeight - 4;
    this.draw();
  }

  draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.paint(); });
  }

  paint() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / rowHeight) - 4);
    const last = Math.min(this.items.length, Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / rowHeight) + 4);
    while (this.pool.length < last - first) this.pool.push(this.make(this.pool.length));
    // A visible row keeps its element: the one at its number modulo the size of the pool.
    const used = new Set();
    for (let index = first; index < last; index++) {
      const row = this.pool[index % this.pool.length];
      used.add(row);
      this.fill(row, this.items[index], index);
    }
    for (const row of this.pool) if (!used.has(row)) row.element.hidden = true;
    const active = this.pool.find(row => used.has(row) && row.call === this.selected);
    if (active) this.grid.setAttribute('aria-activedescendant', active.element.id);
    else this.grid.removeAttribute('aria-activedescendant');
  }

  make(number) {
    const cell = name => h('div', { class: name, role: 'gridcell' });
    const cells = { no: cell('no'), status: cell(''), method: cell(''), name: cell('name'), dom: cell('dom'), src: cell('src'), type: cell('type'), size: cell('num size'), time: cell('num') };
    const wf = h('div', { class: 'wf', 'aria-hidden': 'true' });
    const row = { ...cells, wf };
    row.element = h('div', { class: 'row cols', role: 'row', id: 'row-' + number,
      onmousedown: () => this.actions.select(row.call), ondblclick: () => this.actions.open(row.call), onclick: () => this.actions.clicked(row.call) },
    Object.values(cells), h('div', { class: 'wfc', role: 'gridcell' }, wf));
    this.grid.append(row.element);
    return row;
  }

  fill(row, call, index) {
    const { element } = row;
    element.hidden = false;
    if (row.index !== index) { element.style.top = index * rowHeight + 'px'; element.setAttribute('aria-rowindex', index + 1); row.index = index; }
    const chosen = call === this.selected;
    if (row.chosen !== chosen) { element.setAttribute('aria-selected', chosen); row.chosen = chosen; }
    const state = `${call.version} ${call.pinned} ${this.scale} ${call.duration === null && Math.floor(Date.now() / 100)}`;
    if (row.call === call && row.state === state) return;
    row.call = call;
    row.state = state;
    const status = statusOf(call);
    element.classList.toggle('bad', call.state === 'failed' || call.status >= 500);
    row.no.replaceChildren(...(call.pinned ? [icon('pin')] : []), String(call.number));
    row.status.className = 'st ' + status.class;
    row.status.textContent = status.text;
    row.status.title = call.error ?? '';
    row.method.className = 'method m-' + String(call.method).replace(/\W/g, '');
    row.method.textContent = call.method;
    row.name.replaceChildren(call.path, h('span', {}, call.query));
    row.name.title = call.url;
    row.dom.replaceChildren(call.domain || call.host, h('span', {}, [call.row, call.tag].filter(Boolean).join(' · ')));
    row.dom.title = call.host;
    row.src.replaceChildren(source(call));
    row.src.title = call.cache?.reason ?? '';
    row.type.textContent = (call.mediaType ?? '').split(';')[0].replace(/^application\/(x-)?|^(text|image)\//, '');
    row.size.textContent = size(call.responseSize);
    row.time.textContent = time(durationOf(call));
    bars(row.wf, call, this.scale);
  }

  reveal() {
    const index = this.items.indexOf(this.selected);
    if (index < 0) return;
    const top = index * rowHeight, { scrollTop, clientHeight } = this.grid;
    if (top < scrollTop) this.grid.scrollTop = top;
    else if (top + rowHeight > scrollTop + clientHeight) this.grid.scrollTop = top + rowHeight - clientHeight;
  }

  // Moves the selection by rows, or to an end.
  move(step) {
    if (!this.items.length) return;
    const now = this.items.indexOf(this.selected);
    const from = now < 0 ? (step > 0 ? -1 : this.items.length) : now;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / rowHeight) - 1);
    const to = { first: 0, last: this.items.length - 1, 'page-up': from - page, 'page-down': from + page }[step] ?? from + step;
    this.actions.select(this.items[Math.max(0, Math.min(this.items.length - 1, to))]);
    this.reveal();
    if (step === 'last' && this.sort.by === 'number') { this.follow = true; this.toEnd(); }
  }
}

export function source(call) {
  if (call.cache?.outcome && call.cache.outcome !== 'none') {
    const hit = call.source && call.source !== 'network';
    return h('span', { class: 'tag' + (hit ? ' hit' : '') }, hit ? call.source : call.cache.outcome);
  }
  return h('span', { class: call.source && call.source !== 'network' ? 'tag hit' : '' }, call.source ?? '');
}
