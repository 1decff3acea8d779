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
      const key = origin + '/' + call.id;
      if (this.paused) {
        this.held.set(key, [call, origin]);
        if (this.held.size > limit) this.held.delete(this.held.keys().next().value);
      } else this.put(call, origin, key);
    }
    if (!this.paused) this.trim();
  }

  put(fresh, origin, key) {
    let call = this.byKey.get(key);
    if (!call) {
      // Cleared calls come again when the page connects anew, unless something happens to them.
      if (this.cleared?.origin === origin && fresh.number <= this.cleared.number) return;
      call = { key, origin, pinned: false, isNew: true };
      this.byKey.set(key, call);
      this.calls.push(call);
    }
    Object.assign(call, fresh);
    call.spans ??= [];
    call.at = Date.parse(call.startedDateTime);
    Object.assign(call, parts(call.url));
    call.search = [call.method, call.url, call.status, call.errorKind, call.error, call.domain, call.row, call.tag]
      .filter(Boolean).join(' ').toLowerCase();
    call.version = ++this.version;
  }

  trim() {
    if (this.calls.length <= limit) return;
    let surplus = this.calls.length - limit;
    this.calls = this.calls.filter(call => {
      if (surplus <= 0 || call.pinned) return true;
      surplus -= 1;
      this.byKey.delete(call.key);
      return false;
    });
  }

  pause(paused) {
    this.paused = paused;
    if (paused) return;
    for (const [key, [call, origin]] of this.held) this.put(call, origin, key);
    this.held.clear();
    this.trim();
  }

  clear() {
    const live = this.calls.filter(call => call.origin.startsWith('live:')).at(-1);
    if (live) this.cleared = { origin: live.origin, number: this.calls.reduce((most, call) => call.origin === live.origin ? Math.max(most, call.number) : most, 0) };
    this.held.clear();
    this.calls = this.calls.filter(call => call.pinned);
    this.byKey = new Map(this.calls.map(call => [call.key, call]));
    this.version += 1;
  }
}
