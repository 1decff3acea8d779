// The events of a stream, or the messages of a WebSocket, the newest at the end.
import { count, h, size, soft, time } from './dom.js';
import { readable } from './body.js';

const encoder = new TextEncoder();

// The fields of an event (WHATWG HTML §9.2.6).
function eventOf(text) {
  const fields = { event: [], data: [], id: [], retry: [], '': [] };
  for (const line of text.split('\n')) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    fields[name]?.push(value);
  }
  return { name: fields.event.at(-1) || (fields.data.length ? 'message' : 'comment'), id: fields.id.at(-1),
    text: (fields.data.length ? fields.data : fields['']).join('\n') };
}

function partsOf({ kind, isSent, text }) {
  if (kind === 'event') return eventOf(text);
  return { name: kind === 'line' ? 'line' : kind === 'text' || kind === 'binary' ? isSent ? 'sent' : 'received' : kind, text };
}

function row(message) {
  const { name, id, text } = partsOf(message), { pretty } = readable({ bytes: encoder.encode(text), type: '' });
  const line = h('summary', '', h('span', 'num soft', time(message.time)), h('span', message.isSent ? 's3' : 's2', message.isSent ? '↑' : '↓'),
    h('b', '', name), h('span', 'num soft', size(message.size)), h('code', '', text.replace(/\s+/g, ' ').slice(0, 300)));
  return h('details', 'message', line, id && soft('id ' + id), h('pre', '', pretty ?? text));
}

// The elements of the call that is shown, by the number of the message, so that an opened one stays open.
let key, rows = new Map();

export function messagesView(call, messages = call.messages ?? []) {
  if (key !== call.key) [key, rows] = [call.key, new Map()];
  if (!messages.length) return soft('No messages.');
  const first = (call.messageCount ?? messages.length) - messages.length;
  const known = rows;
  rows = new Map(messages.map((message, index) => [first + index, known.get(first + index) ?? row(message)]));
  return [h('h2', '', 'Messages', h('span', 'soft', count(first + messages.length))),
    first > 0 && soft(`Only the newest ${count(messages.length)} are kept.`), ...rows.values()];
}
