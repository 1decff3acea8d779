// HAR files as calls, and calls as a HAR file.

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

const text = value => typeof value === 'string' ? value : undefined;

function callOf({ own, entries }, id, number) {
  const first = entries[0], last = entries.at(-1), { startedDateTime, request } = first, start = Date.parse(startedDateTime);
  const { status, content, _error } = last.response ?? {}, state = status ? 'done' : 'failed';
  const offset = entry => Date.parse(entry.startedDateTime) - start;
  const end = Math.max(...entries.map(entry => offset(entry) + (Number(entry.time) || 0)));
  return {
    number, startedDateTime, method: String(request?.method ?? '?'), url: String(request?.url ?? ''), state,
    status: status ? Number(status) : null, error: text(last._error) ?? text(_error), errorKind: status ? undefined : state,
    source: text(last._fromCache) ?? 'network', duration: Number.isFinite(end) ? end : Number(first.time) || 0,
    requestSize: Number(request?.bodySize ?? -1), responseSize: Number(content?.size ?? -1), mediaType: String(content?.mimeType ?? ''),
    spans: entries.flatMap((entry, index) => spansOf(entry.timings, Math.max(0, offset(entry)) || 0, { attempt: entry._attempt ?? 1,
      hop: entry._hop ?? (entry._attempt ? 0 : index), status: entry.response?.status, url: entry.request?.url })),
    ...own, id, entries,
  };
}

// Throws an Error with a sentence for the reader. Entries of our own that belong to one call become one call.
export function callsOf(file) {
  let har;
  try { har = JSON.parse(file); } catch (error) { throw new Error(`This is not JSON: ${error.message}`); }
  if (!Array.isArray(har?.log?.entries)) throw new Error('This JSON is not a HAR file: it has no list log.entries.');
  const groups = new Map();
  har.log.entries.forEach((entry, index) => {
    if (!entry || typeof entry !== 'object') return;
    const own = entry._call && typeof entry._call === 'object' ? entry._call : { id: entry._call };
    const id = own.id ?? `entry-${index + 1}`;
    if (groups.has(id)) groups.get(id).entries.push(entry);
    else groups.set(id, { own, entries: [entry] });
  });
  return [...groups].map(([id, group], index) => callOf(group, id, index + 1));
}

export const fieldsOf = entry => ({
  Query: entry?.request?.queryString ?? [], 'Request headers': entry?.request?.headers ?? [], 'Response headers': entry?.response?.headers ?? [],
});

export function bytesOf(entry, side) {
  const { mimeType: type, text, size, encoding, _encoding } = (side === 'request' ? entry.request?.postData : entry.response?.content) ?? {};
  if (typeof text !== 'string') return { bytes: new Uint8Array(), type, note: size > 0 ? 'The file does not hold this body.' : undefined };
  let note;
  try {
    if ((_encoding ?? encoding) === 'base64') return { bytes: Uint8Array.from(atob(text), letter => letter.charCodeAt(0)), type };
  } catch { note = 'The file declares base64, but this text is not base64.'; }
  return { bytes: new TextEncoder().encode(text), type, note };
}

// One file of all these calls; `fetchLive` gets a HAR for calls that the program holds.
export async function exportHAR(calls, fetchLive) {
  const live = calls.filter(call => !call.entries);
  const har = live.length ? await fetchLive(live.map(call => call.id))
    : { log: { version: '1.2', creator: { name: 'LATInspect', version: '1' }, entries: [] } };
  const { entries } = har.log;
  for (const call of calls) entries.push(...call.entries ?? []);
  entries.sort((a, b) => Date.parse(a.startedDateTime) - Date.parse(b.startedDateTime));
  return new Blob([JSON.stringify(har)], { type: 'application/json' });
}
