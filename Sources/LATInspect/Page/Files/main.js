// The page: where calls come from, what is shown of them, and what buttons and keys do.
import { $, clock, count, download, durationOf, h, icon, isFailed, isOpen, size, time, toast } from './dom.js';
import { bytesOf, callsOf, exportHAR } from './har.js';
import { chips, parse, words } from './filter.js';
import { compareView } from './compare.js';
import { Detail, tabs } from './detail.js';
import { legend } from './timing.js';
import { List } from './list.js';
import { Store } from './store.js';
import { totalsView } from './totals.js';

const store = new Store();
let filter = parse(''), chip = chips[0], domain = '', marked = null, shown = [], view = 'list', opened = false, state = 'connecting', hello = {};

const list = new List($('list'), { select, open, sorted: update, clicked: call => { if (opened) open(call); } });
const detail = new Detail($('side'), { pin, compare, close, copy, details, body, marked: () => marked });
const detailParts = [...$('side').children];

// MARK: What is shown

let due = 0, seen = -1, drawnAt = 0;
function update() { seen = -1; soon(); }
function soon() {
  if (due) return;
  due = setTimeout(() => requestAnimationFrame(() => { due = 0; render(); }), Math.max(0, 120 - (performance.now() - drawnAt)));
}

function render() {
  drawnAt = performance.now();
  const all = store.calls, inDomain = call => !domain || (call.domain || call.host) === domain;
  if (seen !== store.version) {
    seen = store.version;
    const candidates = all.filter(call => inDomain(call) && filter.test(call));
    shown = candidates.filter(chip[1]);
    $('chips').replaceChildren(...chips.map(one => h('button', { 'aria-pressed': String(one === chip), onclick: () => { chip = one; update(); } }, one[0],
      one !== chips[0] && h('b', {}, count(candidates.filter(one[1]).length)))));
    domains(all);
    sums();
  }
  if (view === 'totals') {
    $('list').querySelector('.totals')?.remove();
    $('list').append(totalsView(shown, name => { domain = name; toggleTotals(); update(); }));
  } else {
    list.rescale();
    list.show(shown, all.length ? [h('b', {}, 'No call matches'), h('span', {}, 'Change the filter, or press Escape in it to see all.')]
      : [h('b', {}, hello.file ? 'Reading the file' : 'No calls yet'), h('span', {}, 'Calls appear here as the program makes them. A HAR file can be dropped here.')]);
  }
  if (opened && list.selected) detail.show(list.selected);
  status();
}

function domains(all) {
  const names = [...new Set(all.map(call => call.domain || call.host))].sort().slice(0, 500), select = $('domain');
  if (domain && !names.includes(domain)) names.push(domain);
  if (select.dataset.names === names.join('\n') && select.value === domain) return;
  select.dataset.names = names.join('\n');
  select.replaceChildren(h('option', { value: '' }, 'All domains'), ...names.map(name => h('option', { value: name }, name || '(none)')));
  select.value = domain;
}

function sums() {
  const ended = shown.map(call => isOpen(call) ? null : call.duration).filter(value => value !== null && value !== undefined).sort((a, b) => a - b);
  const at = part => time(ended[Math.min(ended.length - 1, Math.floor(ended.length * part))]);
  const failed = shown.filter(call => call.state === 'failed').length, refused = shown.filter(isFailed).length - failed;
  $('sums').replaceChildren(h('span', {}, h('b', {}, count(shown.length)), shown.length === store.calls.length ? ' calls' : ` of ${count(store.calls.length)} calls`),
    h('span', {}, h('b', {}, count(failed)), ' failed, ', h('b', {}, count(refused)), ' with status 4xx or 5xx'), h('span', {}, h('b', {}, size(shown.reduce((sum, call) => sum + Math.max(0, call.responseSize ?? 0), 0))), ' received'),
    h('span', {}, 'median ', h('b', {}, at(.5)), ', 95 % ', h('b', {}, at(.95))));
}

function status() {
  const live = store.paused ? 'paused' : state;
  $('live').dataset.state = live;
  const text = live === 'paused' ? `paused, ${count(store.held.size)} changed since` : { live: 'live', lost: 'no connection', refused: 'locked', file: 'file', connecting: 'connecting' }[live];
  if ($('live').lastChild.textContent !== text) $('live').lastChild.textContent = text;
}

// Running calls grow.
setInterval(() => { if (!document.hidden && !store.paused && shown.some(isOpen)) soon(); }, 250);

// MARK: What the reader does

function select(call) {
  list.selected = call;
  list.follow = false;
  list.draw();
  if (opened && call) open(call);
}
function open(call = list.selected) {
  if (!call) return;
  list.selected = call;
  if (!$('side').contains(detailParts[0])) $('side').replaceChildren(...detailParts);
  opened = true;
  $('side').hidden = false;
  $('main').className = 'split';
  detail.show(call, detail.call !== call);
  list.draw();
  requestAnimationFrame(() => list.reveal());
}
function close() {
  opened = false;
  $('side').hidden = true;
  $('main').className = '';
  list.grid.focus();
  list.draw();
}
function pin() {
  const call = list.selected;
  if (!call) return;
  call.pinned = !call.pinned;
  toast(call.pinned ? `Pinned number ${call.number}: it stays when the list is cleared` : `Number ${call.number} is no longer pinned`);
  store.version += 1;
  if (opened && detail.call === call) detail.title();
  soon();
}
async function compare() {
  const call = list.selected;
  if (!call) return;
  if (!marked || marked === call) {
    marked = marked ? null : call;
    toast(marked ? `Number ${call.number} is marked; choose another call and press c` : 'No call is marked');
    if (opened) detail.title();
    return;
  }
  const pair = await Promise.all([marked, call].map(async one => {
    const entries = (one.entries ? one : await details(one)).entries ?? [], at = entries.length - 1;
    const [request, response] = await Promise.all(['request', 'response'].map(side => body(one, side, at, entries[at])));
    return { call: one, entries, request, response };
  }));
  marked = null;
  opened = false;
  $('side').replaceChildren(...compareView(pair, close));
  $('side').hidden = false;
  $('main').className = 'split';
  $('comparison').focus();
}
function pause() {
  store.pause(!store.paused);
  label('pause', store.paused ? 'play' : 'pause', store.paused ? 'Resume (Space)' : 'Pause (Space)', store.paused);
  update();
}
function clear() {
  store.clear();
  if (!store.byKey.has(list.selected?.key)) { if (opened) close(); list.selected = null; }
  update();
}
function toggleTotals() {
  view = view === 'totals' ? 'list' : 'totals';
  for (const part of [list.head, list.grid]) part.hidden = view === 'totals';
  $('list').querySelector('.totals')?.remove();
  $('totals').setAttribute('aria-pressed', String(view === 'totals'));
  update();
}
function theme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  try { localStorage.setItem('theme', root.dataset.theme); } catch { /* storage is off */ }
}
async function copy(as) {
  const call = list.selected;
  if (!call) return;
  try {
    const entry = call.entries?.at(-1);
    const response = entry ? await fetch(`copy?as=${as}`, { method: 'POST', body: JSON.stringify(entry.request) }) : await fetch(`calls/${call.id}/copy?as=${as}`);
    const text = await response.text();
    if (!response.ok) return toast(text);
    await navigator.clipboard.writeText(text);
    toast(`Copied number ${call.number} as ${{ curl: 'a curl command', swift: 'Swift', entity: 'a Swift entity', httpie: 'an HTTPie command' }[as]}`);
  } catch (error) { toast(`Nothing was copied: ${error.message}`); }
}
async function save() {
  if (!shown.length) return toast('There is no call to save.');
  try {
    const calls = store.calls.length === shown.length ? store.calls : shown;
    download(`calls-${clock(new Date()).slice(0, 8).replaceAll(':', '')}.har`, await exportHAR(calls, async ids => {
      const response = await fetch('har', { method: 'POST', body: JSON.stringify(ids) });
      if (!response.ok) throw new Error(await response.text());
      return response.json();
    }));
    toast(`Saved ${count(calls.length)} calls as a HAR file`);
  } catch (error) { toast(`Nothing was saved: ${error.message}`); }
}

// MARK: Where calls come from

async function details(call) {
  const response = await fetch(`calls/${call.id}`).catch(() => null);
  if (response?.ok) return response.json();
  return { entries: [], headerSources: [] };
}
async function body(call, side, at, entry) {
  if (call.entries) return bytesOf(entry ?? {}, side);
  const response = await fetch(`calls/${call.id}/body?side=${side}&entry=${at}`).catch(() => null);
  if (!response?.ok) return { bytes: new Uint8Array(), note: response ? await response.text() : 'The program does not answer.' };
  const note = response.headers.get('X-Note');
  return { bytes: new Uint8Array(await response.arrayBuffer()), type: response.headers.get('X-Body-Type'), size: Number(response.headers.get('X-Body-Size')), note: note ? decodeURIComponent(note) : undefined };
}
function read(text, name) {
  try {
    const calls = callsOf(text);
    store.take(calls, 'file:' + name);
    toast(`${name}: ${count(calls.length)} calls`);
    if (calls.length) list.follow = false;
    update();
  } catch (error) { toast(`${name}: ${error.message}`); hint(error.message); }
}
function hint(text) { $('hint').textContent = text; }

async function connect() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, '', location.pathname);
    await fetch('session', { method: 'POST', body: token }).catch(() => null);
  }
  const response = await fetch('hello').catch(() => null);
  if (!response?.ok) {
    state = response ? 'refused' : 'lost';
    hint(response ? await response.text() : 'The program does not answer.');
    return update();
  }
  hello = await response.json();
  $('program').textContent = document.title = hello.program ?? 'Inspector';
  if (hello.file) {
    state = 'file';
    update();
    return read(await (await fetch('file')).text(), hello.file);
  }
  const stream = new EventSource('stream');
  let from = 'live:' + hello.run;
  stream.addEventListener('hello', event => { from = 'live:' + JSON.parse(event.data).run; state = 'live'; hint(''); soon(); });
  stream.onmessage = event => { store.take(JSON.parse(event.data), from); soon(); };
  stream.onerror = () => { state = 'lost'; hint('The program does not answer; the page tries again.'); soon(); };
}

// MARK: Buttons and keys

function label(id, name, title, pressed) {
  const button = $(id);
  button.replaceChildren(icon(name));
  button.title = title;
  button.setAttribute('aria-label', title.replace(/ \(.*/, ''));
  if (pressed !== undefined) button.setAttribute('aria-pressed', String(pressed));
}
const buttons = [['pause', 'pause', 'Pause (Space)', pause], ['clear', 'clear', 'Clear (x)', clear], ['totals', 'totals', 'Totals by domain (t)', toggleTotals],
  ['open', 'open', 'Open a HAR file (o)', () => $('file').click()], ['save', 'save', 'Save what is shown as HAR (e)', save],
  ['theme', 'theme', 'Dark or light (d)', theme], ['keys', 'keys', 'Keys and filter words (?)', help]];
for (const [id, name, title, action] of buttons) { label(id, name, title); $(id).onclick = action; }

const keys = {
  ArrowDown: () => list.move(1), ArrowUp: () => list.move(-1), j: () => list.move(1), k: () => list.move(-1), PageDown: () => list.move('page-down'), PageUp: () => list.move('page-up'),
  Home: () => list.move('first'), End: () => list.move('last'), Enter: () => open(), Escape: close, '/': () => $('filter').select(), ' ': pause, x: clear, t: toggleTotals, o: () => $('file').click(),
  e: save, d: theme, '?': help, p: pin, c: compare, y: () => copy('curl'), s: () => copy('swift'), n: () => copy('entity'), h: () => copy('httpie'),
};
tabs.forEach((name, index) => { keys[index + 1] = () => { if (list.selected) { detail.tab = name; open(); detail.show(list.selected, true); } }; });
const shownKeys = [['↑ ↓ or k j', 'move'], ['Enter', 'open'], ['Esc', 'close'], ['1 … 5', tabs.join(', ')], ['/', 'filter'], ['Space', 'pause, resume'], ['x', 'clear'], ['p', 'pin'],
  ['c', 'mark, then compare'], ['t', 'totals'], ['y', 'copy as curl'], ['s', 'copy as Swift'], ['n', 'copy as Swift entity'], ['h', 'copy as HTTPie'], ['e', 'save as HAR'], ['o', 'open a HAR'], ['d', 'dark or light']];
const shownWords = { domain: 'api, *.example.com', method: 'POST', 'status-code': '404, 5xx', 'mime-type': 'json', kind: 'timeout', row: 'users', tag: 'sync', 'larger-than': '10k', 'slower-than': '200ms', is: 'from-cache, running, failed, cancelled, retried, redirected, pinned' };

function help() {
  $('help').replaceChildren(h('h2', { id: 'help-title' }, 'Keys and filter words'), h('div', { class: 'two' },
    h('div', {}, h('h3', {}, 'Keys'), h('dl', { class: 'keys' }, shownKeys.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)]))),
    h('div', {}, h('h3', {}, 'Filter: all words must match; a minus before a word negates it'), h('dl', { class: 'keys' }, Object.keys(words).map(word => [h('dt', {}, h('code', {}, word + ':')), h('dd', { class: 'soft' }, shownWords[word])])))));
  if (!$('help').open) $('help').showModal();
}
$('help').onclick = event => { if (event.target === $('help')) $('help').close(); };

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target, key } = event;
  if ($('help').open) { if (key === '?') { event.preventDefault(); $('help').close(); } return; }
  if (target === $('filter')) {
    if (key === 'Escape') { target.value = ''; target.dispatchEvent(new Event('input')); list.grid.focus(); }
    if (key === 'Enter' || key === 'ArrowDown') { event.preventDefault(); render(); list.grid.focus(); if (!shown.includes(list.selected)) list.move('first'); }
    return;
  }
  if (target.tagName === 'SELECT') return;
  // A button that has the focus, and text that scrolls, keep the keys that belong to them.
  if ((key === ' ' || key === 'Enter') && target.closest('button, summary')) return;
  if (/^(Arrow|Page|Home|End)/.test(key) && target.closest('.pane, .totals, [role=tablist]')) return;
  const action = Object.hasOwn(keys, key) && keys[key];
  if (!action) return;
  event.preventDefault();
  // What was typed into the filter counts at once.
  if (seen < 0) render();
  action();
});
$('filter').addEventListener('input', event => { filter = parse(event.target.value); hint(filter.problem); update(); });
$('domain').addEventListener('change', event => { domain = event.target.value; update(); });
$('file').addEventListener('change', async event => { for (const file of event.target.files) read(await file.text(), file.name); event.target.value = ''; });
addEventListener('dragover', event => { event.preventDefault(); $('drop').hidden = false; });
addEventListener('dragleave', event => { if (!event.relatedTarget) $('drop').hidden = true; });
addEventListener('drop', async event => {
  event.preventDefault();
  $('drop').hidden = true;
  for (const file of event.dataTransfer.files) read(await file.text(), file.name);
});
$('legend').append(...legend.map(([kind, name]) => { const box = h('i', {}); box.style.background = `var(--s-${kind})`; return h('span', {}, box, name); }));
list.grid.focus();
connect();
