// The page: where calls come from, what is shown of them, and what buttons and keys do.
import { $, choices, count, group, h, iconButton, isOpen, label, pairs, set, size, time, toast } from './dom.js';
import { bytesOf, callsOf, exportHAR } from './har.js';
import { bodies, chips, parse, words } from './filter.js';
import { compareView } from './compare.js';
import { copies, makeDetail, tabs } from './detail.js';
import { legend } from './timing.js';
import { makeList } from './list.js';
import { outboxView } from './outbox.js';
import { resendForm } from './resend.js';
import { Store, limit } from './store.js';
import { groups, summary, totalsTable } from './totals.js';

const store = new Store();
// Browsers make no text of more than 512 MiB.
const largestFile = 400 * 2 ** 20;
let filter = parse(''), chip = 0, domain = '', marked = null, shown = [], opened = false, state = 'connecting', hello = {}, by = 0;

const list = makeList($('list'), { select, open, sorted: update, clicked: call => { if (opened) open(call); } });
const detail = makeDetail($('side'), { pin, compare, close, copy, resend, details, body, marked: () => marked });
const detailParts = [...$('side').children];
const totals = h('div', { class: 'totals', tabindex: 0, 'aria-label': 'Totals by domain', hidden: true });
const outboxes = h('div', { id: 'boxes', class: 'totals', tabindex: 0, 'aria-label': 'Outboxes', hidden: true });
$('list').append(totals, outboxes);

// MARK: What is shown

let due = 0, seen = -1, drawnAt = 0;
function update() { seen = -1; soon(); }
function soon() {
  due ||= setTimeout(() => requestAnimationFrame(() => { due = 0; render(); }), Math.max(0, 120 - (performance.now() - drawnAt)));
}

function render() {
  drawnAt = performance.now();
  const { calls } = store;
  if (seen !== store.version) {
    seen = store.version;
    const candidates = calls.filter(call => (!domain || call.site === domain) && filter.test(call));
    shown = candidates.filter(chips[chip][1]);
    const names = chips.map(([name, test], index) => [name, index > 0 && h('b', '', count(candidates.filter(test).length))]);
    set($('chips'), {}, choices(names, chip, index => { chip = index; update(); }));
    domains();
    sums();
  }
  if (!totals.hidden) showTotals();
  else if (outboxes.hidden) {
    const [title, advice] = calls.length ? ['No call matches', 'Change the filter, or press Escape in it to see all.']
      : [hello.file ? 'Reading the file' : 'No calls yet', 'Calls appear here as the program makes them. A HAR file can be dropped here.'];
    list.rescale();
    list.show(shown, [h('b', '', title), h('span', '', advice)]);
  }
  if (opened && list.selected) detail.show(list.selected);
  status();
}

function showTotals() {
  const names = Object.keys(groups), name = names[by];
  const choose = value => {
    if (by === 0) domain = value;
    else if (!value.startsWith('(')) $('filter').value = `${name.toLowerCase()}:"${value}"`;
    toggleTotals();
    setFilter();
  };
  set(totals, {}, group('Totals by', choices(names, by, index => { by = index; update(); })), totalsTable(shown, name, choose));
}

function domains() {
  const select = $('domain'), names = [...new Set(store.calls.map(call => call.site))].sort().slice(0, 500);
  if (domain && !names.includes(domain)) names.push(domain);
  // A list that is open stays as it is while nothing changes.
  const key = names.join('\n');
  if (select.dataset.names !== key) {
    set(select, { 'data-names': key }, h('option', { value: '' }, 'All domains'), names.map(name => h('option', { value: name }, name)));
  }
  select.value = domain;
}

function sums() {
  const { calls, failed, refused, bytes, half, most } = summary(shown), all = store.calls.length;
  const bold = text => h('b', '', text);
  set($('sums'), {}, [
    [bold(count(calls)), calls === all ? ' calls' : ` of ${count(all)} calls`],
    [bold(count(failed)), ' failed, ', bold(count(refused)), ' with status 4xx or 5xx'],
    [bold(size(bytes)), ' received'], ['median ', bold(time(half)), ', 95 % ', bold(time(most))],
  ].map(words => h('span', '', words)));
}

function status() {
  const { paused } = store, words = { lost: 'no connection', refused: 'locked' };
  const text = paused ? `paused, ${count(store.held.size)} changed since` : words[state] ?? state;
  set($('live'), { 'data-state': paused ? 'paused' : state });
  // Setting the same text again would make a screen reader repeat it.
  if ($('live').lastChild.textContent !== text) $('live').lastChild.textContent = text;
}

function showSide(isShown) {
  set($('side'), { hidden: !isShown });
  $('main').className = isShown ? 'split' : '';
}

// The times and bars of running calls grow.
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
  if (!opened) set($('side'), {}, detailParts);
  opened = true;
  showSide(true);
  detail.show(call);
  list.draw();
  requestAnimationFrame(() => list.reveal());
}
function close() {
  opened = false;
  showSide(false);
  list.grid.focus();
  list.draw();
}
function pin() {
  const call = list.selected;
  if (!call) return;
  call.pinned = !call.pinned;
  toast(call.pinned ? `Pinned number ${call.number}: it stays when the list is cleared` : `Number ${call.number} is no longer pinned`);
  store.version += 1;
  detail.title();
  soon();
}
async function compare() {
  const call = list.selected;
  if (!call) return;
  if (!marked || marked === call) {
    marked = marked ? null : call;
    toast(marked ? `Number ${call.number} is marked; choose another call and press c` : 'No call is marked');
    detail.title();
    return;
  }
  const pair = await Promise.all([marked, call].map(async one => {
    const { entries = [] } = one.entries ? one : await details(one), at = entries.length - 1;
    const [request, response] = await Promise.all(['request', 'response'].map(side => body(one, side, at, entries[at])));
    return { call: one, entries, request, response };
  }));
  marked = null;
  opened = false;
  detail.title();
  set($('side'), {}, compareView(pair, close));
  showSide(true);
  $('comparison').focus();
}
function pause() {
  store.pause(!store.paused);
  if (store.paused) label($('pause'), 'play', 'Resume (Space)', true);
  else label($('pause'), 'pause', 'Pause (Space)', false);
  update();
}
function clear() {
  store.clear();
  if (!store.byKey.has(list.selected?.key)) {
    if (opened) close();
    list.selected = null;
  }
  update();
}
// Shows one of these in place of the list, or the list again.
function toggle(view) {
  const hides = !view.hidden;
  for (const [part, button] of [[totals, 'totals'], [outboxes, 'outbox']]) {
    part.hidden = hides || part !== view;
    set($(button), { 'aria-pressed': !part.hidden });
  }
  for (const part of [list.head, list.grid]) part.hidden = !hides;
  update();
}
function toggleTotals() { toggle(totals); }
function toggleOutbox() {
  toggle(outboxes);
  showOutboxes();
}
async function showOutboxes(change) {
  if (outboxes.hidden) return;
  if (change) {
    const answer = await post('outbox', JSON.stringify(change)).catch(() => null);
    if (!answer?.ok) toast(await reason(answer));
  }
  const response = await ask('outbox'), boxes = response?.ok ? await response.json() : [], focused = document.activeElement.id;
  // A button that is being pressed would lose its click.
  if (outboxes.querySelector('button:active')) return;
  set(outboxes, {}, outboxView(boxes, showOutboxes));
  if (focused) $(focused)?.focus({ preventScroll: true });
}
setInterval(() => { if (!document.hidden && !store.paused) showOutboxes(); }, 1000);
function theme() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  dataset.theme = isDark ? 'light' : 'dark';
  try { localStorage.setItem('theme', dataset.theme); } catch {
    // Storage is off.
  }
}
async function copy(as) {
  const call = list.selected;
  if (!call) return;
  try {
    const entry = call.entries?.at(-1);
    const response = await (entry ? post('copy?as=' + as, JSON.stringify(entry.request)) : fetch(`calls/${call.id}/copy?as=${as}`));
    const text = await response.text();
    if (!response.ok) return toast(text);
    await navigator.clipboard.writeText(text);
    toast(`Copied number ${call.number} as ${copies.find(([, form]) => form === as)[3]}`);
  } catch (error) { toast(`Nothing was copied: ${error.message}`); }
}
async function save() {
  if (!shown.length) return toast('There is no call to save.');
  try {
    const calls = store.calls.length === shown.length ? store.calls : shown;
    const href = URL.createObjectURL(await exportHAR(calls, async ids => {
      const response = await post('har', JSON.stringify(ids));
      if (!response.ok) throw new Error(await response.text());
      return response.json();
    }));
    h('a', { href, download: `calls-${new Date().toTimeString().slice(0, 8).replaceAll(':', '')}.har` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
    toast(`Saved ${count(calls.length)} calls as a HAR file`);
  } catch (error) { toast(`Nothing was saved: ${error.message}`); }
}
async function resend() {
  const call = list.selected;
  if (!call || hello.file) return toast('A file has no program that could send the request again.');
  const { entries = [] } = call.entries ? call : await details(call), at = entries.length - 1;
  if (at < 0) return toast('This call has sent no request.');
  resendForm(entries[at].request, await body(call, 'request', at, entries[at]), { call: call.id, entry: at }, body => post('resend', body));
}
function help() { $('help').showModal(); }
function choose() { $('file').click(); }

// MARK: Where calls come from

const post = (path, body) => fetch(path, { method: 'POST', body });
const ask = path => fetch(path).catch(() => null);

async function details(call) {
  const response = await ask('calls/' + call.id);
  return response?.ok ? response.json() : {};
}
async function body(call, side, at, entry) {
  if (call.entries) return bytesOf(entry ?? {}, side);
  const response = await ask(`calls/${call.id}/body?side=${side}&entry=${at}`);
  if (!response?.ok) return { bytes: new Uint8Array(), note: await reason(response) };
  const header = name => response.headers.get(name) ?? undefined;
  return { bytes: new Uint8Array(await response.arrayBuffer()), type: header('X-Body-Type'), size: Number(header('X-Body-Size')),
    note: header('X-Note') && decodeURIComponent(header('X-Note')) };
}
const reason = response => response?.text() ?? 'The program does not answer.';

// Shows the calls of a HAR file: a File, or a response.
async function read(body, name) {
  try {
    const bytes = body.size ?? Number(body.headers.get('Content-Length'));
    if (bytes > largestFile) throw new Error(`The file is larger than ${size(largestFile)}; save fewer calls in a file.`);
    const { calls, count: all, note } = callsOf(await body.text(), limit);
    store.take(calls, 'file:' + name);
    toast(`${name}: ${count(all)} calls`);
    hint(note);
    if (calls.length) list.follow = false;
    update();
  } catch (error) {
    toast(`${name}: ${error.message}`);
    hint(error.message);
  }
}

async function readAll(files) { for (const file of files) await read(file, file.name); }
function hint(text) { $('hint').textContent = text; }

async function connect() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, '', location.pathname);
    const opened = await post('session', token).catch(() => null);
    // The browser sends the cookie only below this path.
    if (opened?.ok) return location.replace(await opened.text());
  }
  const response = await ask('hello');
  if (!response?.ok) {
    state = response ? 'refused' : 'lost';
    hint(await reason(response));
    return update();
  }
  hello = await response.json();
  $('program').textContent = document.title = hello.program ?? 'Inspector';
  if (hello.file) {
    state = 'file';
    update();
    return read(await fetch('file'), hello.file);
  }
  let from = 'live:' + hello.run;
  const turn = (now, text) => { state = now; hint(text); soon(); };
  function listen() {
    const stream = new EventSource('stream');
    stream.addEventListener('hello', ({ data }) => { from = 'live:' + JSON.parse(data).run; turn('live', ''); });
    stream.onmessage = ({ data }) => { store.take(JSON.parse(data), from); soon(); };
    stream.onerror = async () => {
      turn('lost', 'The program does not answer; the page tries again.');
      // After an answer that is an error, the browser does not try again: another program may have the port now.
      if (stream.readyState !== EventSource.CLOSED) return;
      const answer = await ask('hello');
      if (answer?.status === 401) turn('refused', await reason(answer));
      else setTimeout(listen, 1000);
    };
  }
  listen();
}

// MARK: Buttons and keys

// Key, its text in the help, the action, and its button: name, title, and whether it is pressed.
const commands = [
  ['/', 'filter', () => $('filter').select()], [' ', 'pause, resume', pause, 'pause', 'Pause', false], ['x', 'clear', clear, 'clear', 'Clear'],
  ['p', 'pin', pin], ['r', 'change and send again', resend], ['c', 'mark, then compare', compare], ['t', 'totals', toggleTotals, 'totals', 'Totals by domain, row or program', false],
  ['b', 'outbox', toggleOutbox, 'outbox', 'Entries of outboxes', false],
  ...copies.map(([key, as, , what]) => [key, 'copy as ' + what, () => copy(as)]),
  ['o', 'open a HAR', choose, 'open', 'Open a HAR file'], ['e', 'save as HAR', save, 'save', 'Save what is shown as HAR'],
  ['d', 'dark or light', theme, 'theme', 'Dark or light'], ['?', '', help, 'keys', 'Keys and filter words'],
];
const move = step => () => list.move(step);
const keys = {
  ArrowDown: move(1), ArrowUp: move(-1), j: move(1), k: move(-1), PageDown: move('page-down'), PageUp: move('page-up'),
  Home: move('first'), End: move('last'), Enter: () => open(), Escape: close,
};
tabs.forEach((_, index) => {
  keys[index + 1] = () => {
    if (list.selected) detail.choose(index, list.selected);
    open();
  };
});
const shownKeys = [['↑ ↓ or k j', 'move'], ['Enter', 'open'], ['Esc', 'close'], [`1 … ${tabs.length}`, tabs.join(', ')]];
for (const [key, what, action, name, title, pressed] of commands) {
  const keyName = key === ' ' ? 'Space' : key;
  keys[key] = action;
  if (what) shownKeys.push([keyName, what]);
  if (name) $('tools').append(iconButton(name, `${title} (${keyName})`, action, pressed));
}

set($('help'), { onclick: ({ target }) => { if (target === $('help')) target.close(); } },
  h('h2', { id: 'help-title' }, 'Keys and filter words'), h('div', 'two',
    h('div', '', h('h3', '', 'Keys'), pairs('keys', shownKeys.map(([key, what]) => [h('kbd', '', key), what]))),
    h('div', '', h('h3', '', 'Filter: all words must match; a minus before a word negates it'),
      pairs('keys', Object.entries(words).map(([word, [values]]) => [h('code', '', word + ':'), h('span', 'soft', values)])))));

document.onkeydown = event => {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || target.tagName === 'SELECT') return;
  const action = actionOf(key, target);
  if (!action) return;
  event.preventDefault();
  // What was typed into the filter counts at once.
  if (seen < 0) render();
  action();
};
function actionOf(key, target) {
  if ($('resend').open) return null;
  if ($('help').open) return key === '?' && (() => $('help').close());
  if (target === $('filter')) return { Escape: leaveFilter, Enter: goToList, ArrowDown: goToList }[key];
  // A button that has the focus, and text that scrolls, keep the keys that belong to them.
  if ((key === ' ' || key === 'Enter') && target.closest('button, summary')) return null;
  if (/^(Arrow|Page|Home|End)/.test(key) && target.closest('.pane, .totals, [role=tablist]')) return null;
  return keys[key];
}
function goToList() {
  list.grid.focus();
  if (!shown.includes(list.selected)) list.move('first');
}
function leaveFilter() {
  $('filter').value = '';
  setFilter();
  list.grid.focus();
}
function setFilter() {
  filter = parse($('filter').value);
  hint(filter.problem);
  searchBodies();
  update();
}

// Asks the program for the calls whose bodies contain the words of the filter, and again while calls change.
let searched = 0, searching = 0;
function searchBodies() {
  if (!filter.inBodies.length || hello.file) return;
  clearTimeout(searching);
  searching = setTimeout(async () => {
    searched = store.version;
    for (const text of filter.inBodies) {
      const response = await ask('search?text=' + encodeURIComponent(text));
      if (response?.ok) bodies.set(text, new Set(await response.json()));
    }
    update();
  }, 250);
}
setInterval(() => { if (filter.inBodies.length && searched !== store.version && !document.hidden) searchBodies(); }, 1000);
$('filter').oninput = setFilter;
$('domain').onchange = ({ target }) => { domain = target.value; update(); };
$('file').onchange = async ({ target }) => { await readAll(target.files); target.value = ''; };
Object.assign(window, {
  ondragover: event => { event.preventDefault(); $('drop').hidden = false; },
  ondragleave: event => { $('drop').hidden = !event.relatedTarget; },
  ondrop: event => { event.preventDefault(); $('drop').hidden = true; readAll(event.dataTransfer.files); },
});
$('legend').append(...legend());
list.grid.focus();
connect();
