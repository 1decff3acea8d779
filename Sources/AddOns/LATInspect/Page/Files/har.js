// HAR files as calls, and calls as a HAR file.
import { count } from './dom.js';

// The times of an entry as spans. The page does not know the kind `blocked`, so it is shown like `queue`.
function spansOf(timings, start, about) {
  const spans = [];
  for (const kind of ['blocked', 'dns', 'connect', 'send', 'wait', 'receive']) {
    const whole = Number(timings?.[kind]);
    if (!(whole > 0)) continue;
    const tls = kind === 'connect' && timings.ssl > 0 ? Math.min(whole, timings.ssl) : 0, duration = whole - tls;
    spans.push({ kind, start, duration, ...about });
    if (tls) spans.push({ kind: 'tls', start: start + duration, duration: tls, ...about });
    start += whole;
  }
  return spans;
}

// How many entries one call has at most, because the page makes elements for each. Further ones become calls of their own.
const entryLimit = 500;

// Readers of members of any type. Each gives `undefined` for a type that it does not take, and counts it.
let wrong = 0;
const reader = take => value => {
  const taken = value == null ? undefined : take(value);
  if (value != null && taken === undefined) wrong += 1;
  return taken;
};
const isObject = value => typeof value === 'object' && !Array.isArray(value);
const text = reader(value => typeof value === 'string' ? value : undefined);
const word = reader(value => ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined);
const number = reader(value => {
  const given = typeof value === 'string' && value.trim() ? Number(value) : value;
  return Number.isFinite(given) ? given : undefined;
});
const object = reader(value => isObject(value) ? value : undefined);
const array = reader(value => Array.isArray(value) ? value : undefined);
const objects = value => (array(value) ?? []).map(object).filter(Boolean);

// The members of an object that have a reader.
const read = (value, readers) => Object.fromEntries(
  Object.entries(readers).map(([name, take]) => [name, take(value?.[name])]).filter(([, taken]) => taken != null));
const all = (take, ...names) => Object.fromEntries(names.map(name => [name, take]));
const fields = value => objects(value).map(field => ({ name: word(field.name) ?? '', value: word(field.value) ?? '' }));
const params = value => objects(value).map(one => read(one, all(word, 'name', 'value', 'fileName', 'contentType')));
const content = value => object(value) && read(value, { ...all(text, 'mimeType', 'text', 'encoding', '_encoding', 'comment'), size: number, params });

const message = { ...all(word, 'httpVersion', 'statusText', 'method', 'url', '_error'), ...all(number, 'status', 'bodySize') };
const known = {
  ...all(word, 'connection', 'serverIPAddress', '_error', '_fromCache'),
  ...all(number, 'time', '_attempt', '_hop'), startedDateTime: text,
  timings: value => object(value) && read(value, all(number, 'blocked', 'dns', 'connect', 'send', 'wait', 'receive', 'ssl')),
  request: value => object(value) && read(value, { ...message, headers: fields, queryString: fields, postData: content }),
  response: value => object(value) && read(value, { ...message, headers: fields, content }),
};
// What the page itself writes into `_call`.
const ownMembers = {
  ...all(text, 'startedDateTime', 'method', 'url', 'domain', 'row', 'template', 'tag', 'state', 'errorKind', 'error', 'source', 'mediaType', 'program'),
  ...all(number, 'number', 'status', 'duration', 'requestSize', 'responseSize', 'messageCount'),
  messages: value => value && objects(value).map(one => read(one, { ...all(text, 'kind', 'text'), ...all(number, 'time', 'size'), isSent: value => value === true })),
  cache: value => object(value) && read(value, all(text, 'outcome', 'reason', 'tier')),
  headerSources: value => value && objects(value).map(one => read(one, all(text, 'name', 'source'))),
  spans: value => value && objects(value).slice(0, entryLimit)
    .map(one => ({ start: 0, kind: 'wait', ...read(one, { ...all(text, 'kind', 'url', 'note'), ...all(number, 'attempt', 'hop', 'start', 'duration', 'status') }) })),
};

// The messages of a WebSocket as Chrome writes them.
function socket(raw, start) {
  const list = raw.flatMap(({ _webSocketMessages }) => Array.isArray(_webSocketMessages) ? _webSocketMessages : []).filter(Boolean);
  return list.length > 0 && { messageCount: list.length, messages: list.map(({ type, time, opcode, data }) => ({
    kind: opcode === 2 ? 'binary' : 'text', isSent: type === 'send', time: 1000 * Number(time) - start || 0, size: String(data).length, text: String(data) })) };
}

function callOf(own, entries, raw, id, place) {
  const first = entries[0], last = entries.at(-1), { startedDateTime, request } = first, start = Date.parse(startedDateTime);
  const { status, content, _error } = last.response ?? {}, error = last._error ?? _error, state = status && !error ? 'done' : 'failed';
  const offset = entry => Date.parse(entry.startedDateTime) - start;
  const end = Math.max(...entries.map(entry => offset(entry) + (entry.time ?? 0)));
  return {
    number: place, startedDateTime, method: request?.method ?? '?', url: request?.url ?? '', state,
    status: status || null, error, errorKind: state === 'done' ? undefined : state,
    source: last._fromCache ?? 'network', duration: Number.isFinite(end) ? end : first.time ?? 0,
    requestSize: request?.bodySize ?? -1, responseSize: content?.size ?? -1, mediaType: content?.mimeType ?? '',
    spans: entries.flatMap((entry, index) => spansOf(entry.timings, Math.max(0, offset(entry)) || 0, { attempt: entry._attempt ?? 1,
      hop: entry._hop ?? (entry._attempt ? 0 : index), status: entry.response?.status, url: entry.request?.url })).slice(0, entryLimit),
    ...socket(raw, start), ...own, id, entries, raw,
  };
}

// The last `limit` calls of a file; how many it has; and a sentence about what of it is not shown.
// Throws an Error with a sentence for the reader. Entries of our own that belong to one call become one call.
export function callsOf(file, limit = Infinity) {
  let har;
  try { har = JSON.parse(file); } catch (error) { throw new Error(`This is not JSON: ${error.message}`); }
  if (!Array.isArray(har?.log?.entries)) throw new Error('This JSON is not a HAR file: it has no list log.entries.');
  const groups = [], open = new Map();
  let strange = 0;
  har.log.entries.forEach((entry, index) => {
    if (!entry || !isObject(entry)) {
      strange += 1;
      return;
    }
    const about = entry._call, own = about && isObject(about) ? about : { id: about }, other = `entry-${index + 1}`;
    const key = ['string', 'number'].includes(typeof own.id) ? own.id : other, group = open.get(key);
    if (group && group.entries.length < entryLimit) group.entries.push(entry);
    else {
      const made = { id: group ? other : key, own, entries: [entry], place: groups.length + 1 };
      groups.push(made);
      open.set(key, made);
    }
  });
  const calls = groups.slice(-limit).map(({ id, own, entries, place }) => callOf(read(own, ownMembers), entries.map(entry => {
    const before = wrong, taken = read(entry, known);
    if (wrong > before) strange += 1;
    return taken;
  }), entries, id, place));
  return { calls, count: groups.length, note: noteOf(groups.length, calls.length, strange, har.log.comment) };
}

function noteOf(all, shown, strange, comment) {
  const words = all ? [] : ['The file has no calls.'];
  if (all > shown) words.push(`The file has ${count(all)} calls; only the last ${count(shown)} are shown.`);
  if (typeof comment === 'string' && comment) words.push(`The file says: ${comment}.`);
  if (strange) words.push(`Entries that are not as HAR 1.2 says: ${count(strange)}. They are shown as far as they can be read.`);
  return words.join(' ');
}

export const fieldsOf = entry => ({
  Query: entry?.request?.queryString ?? [], 'Request headers': entry?.request?.headers ?? [], 'Response headers': entry?.response?.headers ?? [],
});

export function bytesOf(entry, side) {
  const { mimeType: type, text, size, encoding, _encoding, comment, params = [] } =
    (side === 'request' ? entry.request?.postData : entry.response?.content) ?? {};
  let note = comment && `The file says of this body: ${comment}.`;
  if (typeof text !== 'string') {
    // In HAR 1.2 a form has `params` in place of the text.
    const lines = params.map(({ name = '', value = '', fileName }) => `${name}=${fileName == null ? value : `@${fileName} ${value}`}`);
    if (lines.length) return { bytes: new TextEncoder().encode(lines.join('\n')), type, note: note ?? 'A form, part by part.' };
    return { bytes: new Uint8Array(), type, note: note ?? (size > 0 ? 'The file does not hold this body.' : undefined) };
  }
  try {
    if ((_encoding ?? encoding) === 'base64') return { bytes: Uint8Array.from(atob(text), letter => letter.charCodeAt(0)), type, note };
  } catch { note = 'The file declares base64, but this text is not base64.'; }
  return { bytes: new TextEncoder().encode(text), type, note };
}

// One file of all these calls; `fetchLive` gets a HAR for calls that the program holds.
export async function exportHAR(calls, fetchLive) {
  const live = calls.filter(call => !call.entries);
  const har = live.length ? await fetchLive(live.map(call => call.id))
    : { log: { version: '1.2', creator: { name: 'LATInspect', version: '1' }, entries: [] } };
  const { entries } = har.log;
  for (const call of calls) entries.push(...call.raw ?? []);
  entries.sort((a, b) => Date.parse(a.startedDateTime) - Date.parse(b.startedDateTime));
  return new Blob([JSON.stringify(har)], { type: 'application/json' });
}
