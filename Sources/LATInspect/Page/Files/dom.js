// Elements and texts. Nothing here, or anywhere in the page, makes markup from a text.

export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

export function icon(name) {
  const make = tag => document.createElementNS('http://www.w3.org/2000/svg', tag);
  const svg = make('svg'), use = make('use');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', '#i-' + name);
  svg.append(use);
  return svg;
}

export const $ = id => document.getElementById(id);

const whole = new Intl.NumberFormat('en');
export const count = number => whole.format(number);

export function size(bytes) {
  if (bytes === null || bytes === undefined || bytes < 0) return '–';
  if (bytes < 1000) return bytes + ' B';
  for (const unit of ['kB', 'MB', 'GB']) {
    bytes /= 1000;
    if (bytes < 999.5 || unit === 'GB') return bytes.toFixed(bytes < 10 ? 1 : 0) + ' ' + unit;
  }
}

export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return '–';
  if (ms < 9.95) return ms.toFixed(1) + ' ms';
  if (ms < 999.5) return Math.round(ms) + ' ms';
  if (ms < 59_995) return (ms / 1000).toFixed(2) + ' s';
  return Math.floor(ms / 60_000) + ' min ' + Math.floor(ms / 1000) % 60 + ' s';
}

export function clock(text) {
  const date = new Date(text);
  if (isNaN(date)) return text ?? '';
  const two = number => String(number).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

// The host and the rest of a URL, which may be broken.
export function parts(url) {
  const match = /^([a-z][\w+.-]*):\/\/(?:[^@/?#]*@)?([^/?#]*)([^?#]*)(\?[^#]*)?/i.exec(url ?? '');
  return match ? { scheme: match[1], host: match[2], path: match[3] || '/', query: match[4] ?? '' }
    : { scheme: '', host: '', path: url ?? '', query: '' };
}

let hiding;
export function toast(text) {
  const element = $('toast');
  element.textContent = text;
  element.classList.add('on');
  clearTimeout(hiding);
  hiding = setTimeout(() => element.classList.remove('on'), 2600);
}

export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

// What a status, or a call without one, is shown as.
export function statusOf(call) {
  if (call.state === 'failed') return { text: call.errorKind ?? 'failed', class: 'sx' };
  if (call.state === 'cancelled') return { text: 'cancelled', class: 'off' };
  if (call.state !== 'done') return { text: call.state, class: 'run' };
  return { text: String(call.status ?? '–'), class: 's' + Math.floor((call.status ?? 0) / 100) };
}

export const isOpen = call => call.state === 'waiting' || call.state === 'sending' || call.state === 'receiving';
export const isFailed = call => call.state === 'failed' || (call.status ?? 0) >= 400;
export const isCached = call => call.source !== undefined && call.source !== null && call.source !== 'network';
export const durationOf = call => call.duration ?? (isOpen(call) ? Math.max(0, Date.now() - call.at) : null);
