// HAR files as calls, and calls as a HAR file.

const spread = (timings, start, about) => {
  const spans = [];
  let at = start;
  for (const [kind, name] of [['queue', 'blocked'], ['dns', 'dns'], ['connect', 'connect'], ['send', 'send'], ['wait', 'wait'], ['receive', 'receive']]) {
    const duration = Number(timings?.[name]);
    if (!(duration > 0)) continue;
    const tls = name === 'connect' && Number(timings.ssl) > 0 ? Math.min(duration, Number(timings.ssl)) : 0;
    spans.push({ kind, start: at, duration: duration - tls, ...about });
    if (tls) spans.push({ kind: 'tls', start: at + duration - tls, duration: tls, ...about });
    at += duration;
  }
  return spans;
};

// Throws an Error with a sentence for the reader. Entries of our own that belong to one call become one call.
export function callsOf(text) {
  let har;
  try { har = JSON.parse(text); } catch (error) { throw new Error(`This is not JSON: ${error.message}`); }
  if (!Array.isArray(har?.log?.entries)) throw new Error('This JSON is not a HAR file: it has no list log.entries.');
  const groups = new Map();
  har.log.entries.forEach((entry, index) => {
    if (!entry || typeof entry !== 'object') return;
    const own = entry._call && typeof entry._call === 'object' ? entry._call : { id: entry._call };
    const id = own.id ?? `entry-${index + 1}`;
    if (groups.has(id)) groups.get(id).entries.push(entry);
    else groups.set(id, { id, own, entries: [entry] });
  });
  return [...groups.values()].map(({ id, own, entries }, index) => {
    const first = entries[0], last = entries.at(-1), start = Date.parse(first.startedDateTime);
    const { status, content, _error } = last.response ?? {};
    const end = Math.max(...entries.map(entry => Date.parse(entry.startedDateTime) - start + (Number(entry.time) || 0)));
    const failed = !status;
    const text = value => typeof value === 'string' ? value : undefined;
    return {
      id, number: index + 1, startedDateTime: first.startedDateTime, method: String(first.request?.method ?? '?'), url: String(first.request?.url ?? ''),
      state: failed ? 'failed' : 'done', status: failed ? null : Number(status), error: text(last._error) ?? text(_error), errorKind: failed ? 'failed' : undefined,
      source: text(last._fromCache) ?? 'network', duration: Number.isFinite(end) ? end : Number(first.time) || 0,
      requestSize: Number(first.request?.bodySize ?? -1), responseSize: Number(content?.size ?? -1), mediaType: String(content?.mimeType ?? ''),
      spans: entries.flatMap((entry, at) => spread(entry.timings, Math.max(0, Date.parse(entry.startedDateTime) - start) || 0,
        { attempt: entry._attempt ?? 1, hop: entry._hop ?? (entry._attempt ? 0 : at), status: entry.response?.status, url: entry.request?.url })),
      ...own, id, entries, headerSources: own.headerSources ?? [],
    };
  });
}

export function bytesOf(entry, side) {
  const content = side === 'request' ? entry.request?.postData : entry.response?.content;
  const type = content?.mimeType, text = content?.text;
  if (typeof text !== 'string') return { bytes: new Uint8Array(), type, note: content?.size > 0 ? 'The file does not hold this body.' : undefined };
  if (content.encoding !== 'base64') return { bytes: new TextEncoder().encode(text), type };
  try { return { bytes: Uint8Array.from(atob(text), letter => letter.charCodeAt(0)), type }; } catch { return { bytes: new TextEncoder().encode(text), type, note: 'The file declares base64, but this text is not base64.' }; }
}

// One file of all these calls; `fetchLive` gets the text of a HAR for calls that the program holds.
export async function exportHAR(calls, fetchLive) {
  const live = calls.filter(call => call.origin.startsWith('live:'));
  const har = live.length ? await fetchLive(live.map(call => call.id))
    : { log: { version: '1.2', creator: { name: 'LATInspect', version: '1' }, entries: [] } };
  for (const { entries } of calls.filter(call => call.entries && !live.includes(call))) har.log.entries.push(...entries);
  har.log.entries.sort((a, b) => Date.parse(a.startedDateTime) - Date.parse(b.startedDateTime));
  return new Blob([JSON.stringify(har)], { type: 'application/json' });
}
