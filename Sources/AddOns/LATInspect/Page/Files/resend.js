// The form that sends a request again, as the reader has changed it.
import { $, h, set, toast } from './dom.js';
import { readable } from './body.js';

// The fields that the program sets itself.
const own = ['host', 'content-length', 'connection', 'accept-encoding', 'expect'];

export function resendForm({ method, url, headers }, { bytes, type }, place, send) {
  const dialog = $('resend'), { text } = readable({ bytes, type });
  const lines = headers.filter(({ name }) => !own.includes(name.toLowerCase())).map(({ name, value }) => `${name}: ${value}`);
  const area = (rows, label) => h('textarea', { rows, spellcheck: 'false', 'aria-label': label });
  const fields = area(Math.min(12, lines.length + 2), 'Header fields'), body = area(8, 'Body');
  const verb = h('input', { 'aria-label': 'Method', size: 8 }), address = h('input', { 'aria-label': 'URL', class: 'wide' });
  const note = h('div', { class: 'note err', hidden: true, role: 'alert' });
  Object.assign(verb, { value: method });
  Object.assign(address, { value: url });
  fields.value = lines.join('\n');
  body.value = text ?? '';
  body.hidden = text === null;
  const before = body.value;
  const complain = words => set(note, { hidden: false }, words);
  async function submit() {
    const written = fields.value.split('\n').filter(line => line.trim()), list = written.map(line => /^\s*([^:\s]+)\s*:\s?(.*)$/.exec(line)?.slice(1));
    if (list.includes(undefined)) return complain(`This is no field, as name: value: ${written[list.indexOf(undefined)]}`);
    // A text area has line feeds only, and no byte order mark: what was not changed is sent as its bytes.
    const base64 = body.value === before ? btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join('')) : undefined;
    const changed = text?.includes('\r\n') ? body.value.replaceAll('\n', '\r\n') : body.value;
    const response = await send(JSON.stringify({ ...place, method: verb.value.trim(), url: address.value.trim(), headers: list, body: changed, base64 }))
      .catch(() => null);
    if (!response?.ok) return complain(await response?.text() ?? 'The program does not answer.');
    dialog.close();
    toast('Sent; the call is at the end of the list');
  }
  set(dialog, { onkeydown: event => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(); } },
    h('h2', { id: 'resend-title' }, 'Change and send again'), h('div', 'line', verb, address),
    h('h3', '', 'Header fields'), fields, h('h3', '', text === null ? `Body: ${bytes.length} bytes that are not text, sent as they are` : 'Body'), body,
    h('p', 'soft', '*** stands for a secret, which is not kept: write its value, or delete the line.'), note,
    h('div', 'line end', h('button', { onclick: () => dialog.close() }, 'Cancel'), h('button', { class: 'main', onclick: submit }, 'Send')));
  dialog.showModal();
  address.focus();
}
