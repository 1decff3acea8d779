// Elements and texts. Nothing here, or anywhere in the page, makes markup from a text.
import { icon } from './icons.js';

export const $ = id => document.getElementById(id);

// Sets attributes, listeners and styles of an element, and replaces its children if any are given.
export function set(element, attributes, ...children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element[name] = value;
    else if (name === 'style') Object.assign(element.style, value);
    else if (value == null || typeof value === 'boolean' && !name.startsWith('aria-')) element.toggleAttribute(name, !!value);
    else element.setAttribute(name, value);
  }
  if (children.length) element.replaceChildren(...children.flat(Infinity).filter(child => child != null && child !== false));
  return element;
}

// A new element with a class, or with attributes.
export const h = (tag, about, ...children) =>
  set(document.createElement(tag), typeof about === 'string' ? { class: about } : about, ...children);

// A button with a picture. The title ends with the key that does the same.
export const label = (button, name, title, pressed) =>
  set(button, { title, 'aria-label': title.split(' (')[0], 'aria-pressed': pressed }, icon(name));
export const iconButton = (name, title, onclick, pressed) =>
  label(h('button', { id: name, class: 'act', onclick }), name, title, pressed);

// The top of the side: what it shows, and buttons.
export const heading = (close, what, buttons, ...more) => h('div', 'top',
  h('div', 'title', what, h('div', 'acts', buttons, iconButton('close', 'Close (Escape)', close))), more);

// Buttons of which one is pressed.
export const choices = (names, chosen, choose) =>
  names.map((name, index) => h('button', { 'aria-pressed': index === chosen, onclick: () => choose(index) }, name));
export const group = (title, buttons) => h('span', { class: 'seg', role: 'group', 'aria-label': title }, buttons);

export const pairs = (kind, list) => h('dl', kind, list.map(([name, value]) => [h('dt', '', name), h('dd', '', value)]));
export const soft = text => h('p', 'soft', text);
export const dotted = (...texts) => texts.filter(Boolean).join(' · ');

export const count = number => number.toLocaleString('en');

export function size(bytes) {
  if (bytes == null || bytes < 0) return '–';
  if (bytes < 1000) return bytes + ' B';
  for (const unit of ['kB', 'MB', 'GB']) {
    bytes /= 1000;
    if (bytes < 999.5 || unit === 'GB') return `${bytes.toFixed(bytes < 10 ? 1 : 0)} ${unit}`;
  }
}

export function time(ms) {
  if (ms == null || ms < 0) return '–';
  if (ms < 9.95) return ms.toFixed(1) + ' ms';
  if (ms < 999.5) return Math.round(ms) + ' ms';
  if (ms < 59_995) return (ms / 1000).toFixed(2) + ' s';
  return `${Math.floor(ms / 60_000)} min ${Math.floor(ms / 1000) % 60} s`;
}

export function clock(text) {
  const date = new Date(text);
  if (isNaN(date)) return text;
  return `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

// The host and the rest of a URL, which may be broken.
export function parts(url) {
  const [match, scheme = '', host = '', path, query = ''] =
    /^([a-z][\w+.-]*):\/\/(?:[^@/?#]*@)?([^/?#]*)([^?#]*)(\?[^#]*)?/i.exec(url ?? '') ?? [];
  return { scheme, host, path: match ? path || '/' : url ?? '', query };
}

let hiding;
export function toast(text) {
  set($('toast'), { class: 'on' }, text);
  clearTimeout(hiding);
  hiding = setTimeout(() => set($('toast'), { class: '' }), 2600);
}

// MARK: Texts about a call

// The class and the text of a status, or of a call without one.
export function statusOf({ state, status, errorKind }) {
  if (state === 'failed') return ['sx', errorKind ?? state];
  if (state === 'cancelled') return ['off', state];
  return state === 'done' ? ['s' + Math.floor(status / 100), status ?? '–'] : ['run', state];
}
export function showStatus(element, call) {
  const [kind, text] = statusOf(call);
  set(element, { class: 'st ' + kind, title: call.error }, text);
}
export const showMethod = (element, { method }) =>
  set(element, { class: 'method m-' + String(method).replace(/\W/g, '') }, method);

export const isOpen = call => ['waiting', 'sending', 'receiving'].includes(call.state);
export const isFailed = call => call.state === 'failed' || call.status >= 400;
export const isCached = call => call.source != null && call.source !== 'network';
export const decisionOf = call => call.cache?.outcome !== 'none' && call.cache;
export const durationOf = call => call.duration ?? (isOpen(call) ? Math.max(0, Date.now() - call.at) : null);

export const sorted = numbers => numbers.filter(number => number != null).sort((a, b) => a - b);
// The quantile of sorted numbers; `part` is from 0 to 1.
export const quantile = (numbers, part) => numbers[Math.min(numbers.length - 1, Math.floor(numbers.length * part))];
