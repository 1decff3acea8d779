// The calls that the page holds: at most `limit`. The oldest are removed first, and pinned ones stay.
import { parts } from './dom.js';

export const limit = 20_000;

export class Store {
  calls = [];
  byKey = new Map();
  paused = false;
  // While the page is paused: the newest state of each call that changed.
  held = new Map();
  version = 0;

  // Takes calls of an origin ("live:RUN" or "file:NAME"), new or changed.
  take(batch, origin) {
    for (const call of batch) {
      const key = `${origin}/${call.id}`;
      if (!this.paused) this.put(call, origin, key);
      else {
        this.held.set(key, [call, origin, key]);
        if (this.held.size > limit) this.held.delete(this.held.keys().next().value);
      }
    }
    this.trim();
  }

  put(fresh, origin, key) {
    let call = this.byKey.get(key);
    if (!call) {
      // When the page reconnects, the server sends cleared calls again: they are skipped.
      if (this.cleared?.origin === origin && fresh.number <= this.cleared.number) return;
      call = { key, origin, pinned: false, spans: [] };
      this.byKey.set(key, call);
      this.calls.push(call);
    }
    Object.assign(call, fresh, parts(fresh.url), { at: Date.parse(fresh.startedDateTime), version: ++this.version });
    call.site = call.domain || call.host || '(none)';
    call.search = [call.method, call.url, call.status, call.errorKind, call.error, call.domain, call.row, call.tag, call.program]
      .filter(Boolean).join(' ').toLowerCase();
  }

  trim() {
    let surplus = this.calls.length - limit;
    if (surplus > 0) this.keep(call => call.pinned || surplus-- <= 0);
  }

  keep(isKept) {
    this.calls = this.calls.filter(isKept);
    this.byKey = new Map(this.calls.map(call => [call.key, call]));
  }

  pause(paused) {
    this.paused = paused;
    if (paused) return;
    for (const change of this.held.values()) this.put(...change);
    this.held.clear();
    this.trim();
  }

  clear() {
    const origin = this.calls.findLast(call => call.origin.startsWith('live:'))?.origin;
    const numbers = this.calls.map(call => call.origin === origin ? call.number : 0);
    // Calls that were cleared before are not among the numbers.
    if (origin && this.cleared?.origin === origin) numbers.push(this.cleared.number);
    if (origin) this.cleared = { origin, number: Math.max(...numbers) };
    this.held.clear();
    this.keep(call => call.pinned);
    this.version += 1;
  }
}
