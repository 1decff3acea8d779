// One call in full.
import {
  choices, clock, decisionOf, durationOf, group, h, heading, iconButton, isCached, label, pairs, parts, set, showMethod, showStatus, size, soft, time,
} from './dom.js';
import { bodyView } from './body.js';
import { fieldsOf } from './har.js';
import { messagesView } from './messages.js';
import { lanes } from './timing.js';

// Key, name in addresses, name on the button, and what is copied.
export const copies = [
  ['y', 'curl', 'curl', 'curl'], ['s', 'swift', 'Swift', 'Swift'], ['n', 'entity', 'Entity', 'Swift entity'],
  ['h', 'httpie', 'HTTPie', 'HTTPie'],
];

const fieldLimit = 1000;

const facts = values => pairs('facts', Object.entries(values).filter(([, value]) => value != null && value !== '' && value !== false));

function fields(title, list, sources) {
  const from = new Map(sources?.map(({ name, source }) => [name.toLowerCase(), source]));
  return [h('h2', '', title, h('span', 'soft', list.length)), !list.length ? soft('None.')
    : h('table', 'kv', list.slice(0, fieldLimit).map(({ name, value }) => h('tr', '', h('th', { scope: 'row' }, name), h('td', '', value),
      from.size > 0 && h('td', 'from', from.get(String(name).toLowerCase()))))),
    list.length > fieldLimit && soft(`Only the first ${fieldLimit} are shown.`)];
}

// What the cache decided, in words.
function cacheNote(call) {
  const { outcome, tier, reason } = decisionOf(call) || {};
  return outcome && h('div', isCached(call) ? 'note hit' : 'note', h('b', '', `Cache: ${outcome}${tier ? `, ${tier}` : ''}`), reason);
}

const panes = {
  Overview: ({ call, entry }) => [
    call.error && h('div', call.state === 'cancelled' ? 'note' : 'note err', h('b', '', call.errorKind ?? 'Failed'), call.error),
    cacheNote(call),
    h('h2', '', 'Call'),
    facts({
      Status: call.status && `${call.status} ${entry?.response?.statusText ?? ''}`, State: call.state !== 'done' && call.state,
      From: call.source, Started: clock(call.startedDateTime), Duration: time(durationOf(call)),
      Domain: call.domain, Row: call.row, Tag: call.tag, 'Request body': call.requestSize > 0 && size(call.requestSize),
      'Response body': call.responseSize >= 0 && size(call.responseSize), Type: call.mediaType,
      Messages: call.messageCount, Program: call.program, Protocol: entry?.response?.httpVersion,
      Server: entry?.serverIPAddress, Connection: entry?.connection, TLS: entry?.tls, Certificate: entry?.certificate,
    }),
    h('h2', '', 'Timing'), lanes(call),
  ],
  Headers: ({ entry, sources }) => Object.entries(fieldsOf(entry)).map(([title, list]) =>
    (list.length || title !== 'Query') && fields(title, list, title === 'Request headers' ? sources : null)),
  Request: ({ body }) => bodyView(body),
  Response: ({ body }) => bodyView(body),
  Timing: ({ call }) => lanes(call),
  Messages: ({ call, messages }) => messagesView(call, messages),
};
export const tabs = Object.keys(panes);

// Fills the side, and gives what the page needs of it.
export function makeDetail(root, actions) {
  let shown = null, tab = tabs[0], chosen = -1, full = null, state = null;
  const url = h('div', 'url'), status = h('span', ''), method = h('span', ''), hops = h('div', { class: 'hops', hidden: true });
  const pin = iconButton('pin', 'Pin (p)', actions.pin), compare = iconButton('compare', '', actions.compare);
  const tabButtons = tabs.map((name, index) => h('button', {
    role: 'tab', id: 'tab-' + index, 'aria-controls': 'pane', onclick: () => choose(index),
    onkeydown: ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[key], next = (index + step) % tabs.length;
      if (!step) return;
      choose(next);
      tabButtons[next].focus();
    },
  }, name));
  const pane = h('div', { class: 'pane', id: 'pane', role: 'tabpanel', tabindex: 0 });
  root.append(heading(actions.close, [status, method, url], [pin, compare], hops, h('div', 'under',
    h('div', { role: 'tablist', 'aria-label': 'Parts of the call' }, tabButtons),
    h('div', 'copy', h('button', { onclick: actions.resend }, 'Send again'), ' · Copy as', copies.map(([, as, name]) => h('button', { onclick: () => actions.copy(as) }, name))))), pane);
  return { choose, show, title };

  function choose(index, call = shown) {
    tab = tabs[index];
    state = null;
    show(call);
  }

  // Shows a call, and shows it again if it or the choice has changed. Its details and bodies are fetched here.
  async function show(call) {
    if (shown !== call) [shown, chosen, full] = [call, -1, null];
    const side = { Request: 'request', Response: 'response' }[tab];
    const wanted = `${call.key} ${call.version} ${tab} ${chosen} ${call.duration ?? (side || Math.floor(Date.now() / 250))}`;
    if (state === wanted) return;
    state = wanted;
    title();
    if (full?.version !== call.version) {
      const fetched = call.entries ? call : await actions.details(call);
      if (state !== wanted) return;
      full = { ...fetched, version: call.version };
    }
    const { entries = [], headerSources: sources, messages } = full, last = entries.length - 1;
    const at = chosen < 0 ? last : Math.min(chosen, last), entry = entries[at];
    const names = entries.map(({ request, response }, index) => `${index + 1} · ${response?.status || 'failed'} · ${parts(request?.url).host}`);
    set(hops, { hidden: last < 1 }, group('Attempts and hops', choices(names, at, index => { chosen = index; show(call); })));
    const body = side && await actions.body(call, side, at, entry);
    if (state !== wanted) return;
    const { scrollTop } = pane, name = `${call.key} ${tab}`, isSame = pane.dataset.shown === name;
    const isAtEnd = scrollTop + pane.clientHeight >= pane.scrollHeight - 8;
    set(pane, { 'data-shown': name }, panes[tab]({ call, entry, sources, body, messages }));
    // Messages are followed as long as the newest is seen.
    pane.scrollTop = tab === 'Messages' && (isAtEnd || !isSame) ? pane.scrollHeight : isSame ? scrollTop : 0;
  }

  function title() {
    if (!shown) return;
    const { scheme, host, path, query } = parts(shown.url), marked = actions.marked();
    showStatus(status, shown);
    showMethod(method, shown);
    set(url, {}, scheme && h('span', '', `${scheme}://${host}`), path, query);
    set(pin, { 'aria-pressed': shown.pinned });
    label(compare, 'compare', !marked ? 'Compare with another call (c)'
      : marked === shown ? 'Marked for comparing; choose another call and press c' : `Compare with number ${marked.number} (c)`, marked === shown);
    tabButtons.forEach((button, index) => {
      const isChosen = tab === tabs[index];
      set(button, { hidden: tabs[index] === 'Messages' && !shown.messageCount && !isChosen, 'aria-selected': isChosen, tabindex: isChosen ? 0 : -1 });
      if (isChosen) set(pane, { 'aria-labelledby': button.id });
    });
  }
}
