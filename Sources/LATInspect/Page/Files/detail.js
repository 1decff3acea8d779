// One call in full.
import { clock, durationOf, h, icon, parts, size, statusOf, time } from './dom.js';
import { bodyView } from './body.js';
import { lanes } from './timing.js';

export const tabs = ['Overview', 'Headers', 'Request', 'Response', 'Timing'];
export const copies = [['curl', 'curl'], ['swift', 'Swift'], ['entity', 'Entity'], ['httpie', 'HTTPie']];

const facts = list => h('dl', { class: 'facts' }, list.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
  .map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

function fields(title, list, sources) {
  const from = new Map((sources ?? []).map(({ name, source }) => [name.toLowerCase(), source]));
  return [h('h2', {}, title, h('span', { class: 'soft' }, String(list?.length ?? 0))), list?.length ? h('table', { class: 'kv' }, h('tbody', {}, list.map(({ name, value }) =>
    h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, value), sources?.length && h('td', { class: 'from' }, from.get(String(name).toLowerCase()) ?? '')))))
    : h('p', { class: 'soft' }, 'None.')];
}

// What the cache decided, in words.
export function cacheNote({ cache, source }) {
  if (!cache?.outcome || cache.outcome === 'none') return null;
  return h('div', { class: 'note' + (source && source !== 'network' ? ' hit' : '') }, h('b', {}, `Cache: ${cache.outcome}${cache.tier ? `, ${cache.tier}` : ''}`),
    cache.reason ?? '');
}

const panes = {
  Overview: ({ call, entry }) => [
    call.error && h('div', { class: 'note' + (call.state === 'cancelled' ? '' : ' err') }, h('b', {}, call.errorKind ?? 'Failed'), call.error),
    cacheNote(call),
    h('h2', {}, 'Call'),
    facts([['Status', call.status && `${call.status} ${entry?.response?.statusText ?? ''}`], ['State', call.state !== 'done' && call.state], ['From', call.source],
      ['Started', `${clock(call.startedDateTime)}`], ['Duration', time(durationOf(call))], ['Domain', call.domain], ['Row', call.row], ['Tag', call.tag],
      ['Request body', call.requestSize > 0 && size(call.requestSize)], ['Response body', call.responseSize >= 0 && size(call.responseSize)], ['Type', call.mediaType],
      ['Protocol', entry?.response?.httpVersion], ['Server', entry?.serverIPAddress], ['Connection', entry?.connection]]),
    h('h2', {}, 'Timing'), lanes(call),
  ],
  Headers: ({ call, entry }) => [
    entry?.request?.queryString?.length > 0 && fields('Query', entry.request.queryString),
    fields('Request headers', entry?.request?.headers, call.headerSources), fields('Response headers', entry?.response?.headers),
  ],
  Request: ({ body }) => bodyView(body), Response: ({ body }) => bodyView(body),
  Timing: ({ call }) => lanes(call),
};

export class Detail {
  tab = 'Overview';
  at = -1;

  constructor(root, actions) {
    Object.assign(this, { root, actions });
    this.url = h('div', { class: 'url' });
    this.status = h('span', {});
    this.method = h('span', {});
    this.pin = h('button', { class: 'act', title: 'Pin (p)', 'aria-label': 'Pin', onclick: () => actions.pin() }, icon('pin'));
    this.compare = h('button', { class: 'act', onclick: () => actions.compare() }, icon('compare'));
    this.tabs = h('div', { role: 'tablist', 'aria-label': 'Parts of the call' }, tabs.map((name, index) => h('button', {
      role: 'tab', id: 'tab-' + index, 'aria-controls': 'pane', onclick: () => this.choose(name),
      onkeydown: ({ key }) => { const step = { ArrowRight: 1, ArrowLeft: -1 }[key]; if (step) this.choose(tabs[(index + step + 5) % 5], true); },
    }, name)));
    this.hops = h('div', { class: 'hops', hidden: true });
    this.pane = h('div', { class: 'pane', id: 'pane', role: 'tabpanel', tabindex: 0 });
    root.append(h('div', { class: 'top' }, h('div', { class: 'title' }, this.status, this.method, this.url, h('div', { class: 'acts' }, this.pin, this.compare,
      h('button', { class: 'act', title: 'Close (Escape)', 'aria-label': 'Close', onclick: () => actions.close() }, icon('close')))), this.hops,
    h('div', { class: 'under' }, this.tabs, h('div', { class: 'copy' }, 'Copy as', copies.map(([as, name]) =>
      h('button', { 'data-as': as, onclick: () => actions.copy(as) }, name))))), this.pane);
  }

  choose(tab, focus) {
    this.tab = tab;
    this.show(this.call, true);
    if (focus) this.tabs.children[tabs.indexOf(tab)].focus();
  }

  // Shows a call, or again when it changed. Its details and bodies are fetched here.
  async show(call, again) {
    if (this.call !== call) { this.at = -1; this.full = null; }
    const state = `${call.key} ${call.version} ${call.duration === null && this.tab !== 'Request' && this.tab !== 'Response' && Math.floor(Date.now() / 250)}`;
    if (!again && this.state === state) return;
    this.state = state;
    this.call = call;
    this.title();
    if (this.full?.version !== call.version) {
      const full = call.entries ? call : await this.actions.details(call);
      if (this.state !== state) return;
      this.full = { ...full, version: call.version };
    }
    const entries = this.full.entries ?? [], at = this.at < 0 ? entries.length - 1 : Math.min(this.at, entries.length - 1), entry = entries[at];
    this.hops.hidden = entries.length < 2;
    this.hops.replaceChildren(h('div', { class: 'seg', role: 'group', 'aria-label': 'Attempts and hops' }, entries.map((one, index) =>
      h('button', { 'aria-pressed': String(index === at), onclick: () => { this.at = index; this.show(call, true); } }, `${index + 1} · ${one.response?.status || 'failed'} · ${parts(one.request?.url).host}`))));
    const data = { call: { ...call, headerSources: this.full.headerSources }, entry };
    if (this.tab === 'Request' || this.tab === 'Response') {
      const wanted = `${call.key} ${this.tab} ${at} ${call.version}`;
      if (this.bodyOf === wanted && !again) return;
      data.body = await this.actions.body(call, this.tab.toLowerCase(), at, entry);
      if (this.state !== state) return;
      this.bodyOf = wanted;
    } else this.bodyOf = null;
    const { scrollTop } = this.pane, pane = panes[this.tab](data);
    this.pane.replaceChildren(...[pane].flat(Infinity).filter(Boolean));
    this.pane.scrollTop = this.shown === call.key + this.tab ? scrollTop : 0;
    this.shown = call.key + this.tab;
    this.pane.dataset.shown = `${call.key} ${this.tab}`;
  }

  title() {
    const { call } = this, status = statusOf(call), { scheme, host, path, query } = parts(call.url);
    this.status.className = 'st ' + status.class;
    this.status.textContent = status.text;
    this.method.className = 'method m-' + String(call.method).replace(/\W/g, '');
    this.method.textContent = call.method;
    this.url.replaceChildren(...(scheme ? [h('span', {}, `${scheme}://${host}`)] : []), path, query);
    this.pin.setAttribute('aria-pressed', String(call.pinned));
    const marked = this.actions.marked();
    const label = !marked ? 'Compare with another call (c)' : marked === call ? 'Marked for comparing; choose another call and press c' : `Compare with number ${marked.number} (c)`;
    this.compare.title = label;
    this.compare.setAttribute('aria-label', label);
    this.compare.setAttribute('aria-pressed', String(marked === call));
    [...this.tabs.children].forEach((tab, index) => {
      tab.setAttribute('aria-selected', String(tabs[index] === this.tab));
      tab.tabIndex = tabs[index] === this.tab ? 0 : -1;
    });
    this.pane.setAttribute('aria-labelledby', 'tab-' + tabs.indexOf(this.tab));
  }
}
