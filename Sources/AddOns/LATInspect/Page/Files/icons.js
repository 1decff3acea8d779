// The pictures of buttons: lines in a square of 16.
const shapes = {
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M5 3.2v9.6L12.6 8z',
  clear: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4.2 4.2l7.6 7.6',
  save: 'M8 2.5v7.2M5 7l3 3 3-3M3 13h10',
  open: 'M2.5 12.5v-9h4l1.5 2h5.5v7z',
  totals: 'M3.5 13V8.5M8 13V3M12.5 13V6',
  outbox: 'M2.5 9.5v3.5h11V9.5M2.5 9.5h3l1 1.5h3l1-1.5h3M8 8V2.5M5.5 5L8 2.5 10.5 5',
  theme: 'M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11',
  keys: 'M6 6.2C6 4.9 6.9 4 8.1 4s2 .8 2 1.9c0 1.6-2 1.8-2 3.4M8.1 11.7v.3',
  pin: 'M6 2.5h4l-.5 4.5 2 2.5h-7l2-2.5zM8 9.5v4',
  compare: 'M2.5 3.5h4v9h-4zM9.5 3.5h4v9h-4z',
  close: 'M4 4l8 8M12 4l-8 8',
};

export function icon(name) {
  const [svg, path] = ['svg', 'path'].map(tag => document.createElementNS('http://www.w3.org/2000/svg', tag));
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', true);
  path.setAttribute('d', shapes[name]);
  svg.append(path);
  return svg;
}
