// The entries of outboxes: dead letters first, then those that wait, in their order.
import { count, dotted, h, size, time } from './dom.js';

// The entry whose second click drops it, for five seconds.
let armed, disarm;

const titles = ['Entry', 'State', 'Request', 'Group, tag', 'Attempts', 'Size', 'Added', 'Next, expires', 'Reason', ''];
const dead = ['refused', 'expired', 'givenUp'];
const ago = date => time(Math.max(0, Date.now() - date)) + ' ago';
const ahead = date => date > Date.now() ? 'in ' + time(date - Date.now()) : 'now';

// Buttons that keep their focus when the entries are read again, because they have the same names then.
function buttons({ id, state }, folder, act) {
  const key = `${folder}/${id}`, isArmed = armed === key;
  const button = (action, title, onclick) => h('button', { id: `${action} ${key}`, 'aria-label': `${title} entry ${id}`, onclick }, title);
  function drop() {
    armed = isArmed ? undefined : key;
    clearTimeout(disarm);
    disarm = setTimeout(() => { armed = undefined; }, 5000);
    act(isArmed && { folder, id, action: 'drop' });
  }
  return h('div', 'acts', state !== 'answered' && button('retry', state === 'waiting' ? 'Send now' : 'Retry', () => act({ folder, id, action: 'retry' })),
    button('drop', isArmed ? 'Drop for good' : 'Drop', drop));
}

function row(entry, folder, act) {
  return h('tr', '', [
    entry.id, h('span', dead.includes(entry.state) ? 's5' : entry.state === 'answered' ? 's2' : 'soft', dotted(entry.state, entry.status)),
    [entry.method && h('span', 'method m-' + entry.method.replace(/\W/g, ''), entry.method), ' ', entry.address],
    dotted(entry.group, entry.tag), count(entry.attempts), size(entry.size), ago(entry.added),
    dotted(entry.next && ahead(entry.next), entry.expires && 'expires ' + ahead(entry.expires)), entry.reason ?? '', buttons(entry, folder, act),
  ].map(cell => h('td', '', cell)));
}

function box(outbox, act) {
  if (outbox.problem) return h('p', 's5', outbox.problem);
  const shown = outbox.entries.length, all = outbox.waiting + outbox.answered + outbox.dead;
  const { folder, sender, isSender } = outbox;
  return [
    h('p', { title: folder }, dotted(`${count(outbox.waiting)} waiting`, `${count(outbox.sending)} being sent`, `${count(outbox.answered)} answered`,
      `${count(outbox.dead)} dead`, size(outbox.size), outbox.oldest != null && 'oldest ' + time(outbox.oldest), `${count(outbox.sent)} sent`,
      `${count(outbox.failed)} attempts failed`, isSender ? 'this process sends' : sender ? `process ${sender} sends` : 'no process sends')),
    h('table', '', h('thead', '', h('tr', '', titles.map(title => h('th', { scope: 'col' }, title)))),
      h('tbody', '', outbox.entries.map(entry => row(entry, folder, act)))),
    shown < all && h('p', 'soft', `${count(shown)} of ${count(all)} entries are shown`),
  ];
}

// `act` sends a change, if there is one, and shows the entries again.
export const outboxView = (boxes, act) => boxes.length ? boxes.map(each => box(each, act))
  : h('p', 'soft', 'No outbox is observed here: a program shows one with inspector.observe(outbox).');
