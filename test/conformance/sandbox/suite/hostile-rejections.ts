import type { HostileSnippet } from './hostile-snippets.ts';

/** Rejected promises that are never awaited. The returned event is the answer; the rejection is ignored. */
export const FLOATING_REJECTIONS: readonly HostileSnippet[] = [
  {
    name: 'an async call that throws and that nobody awaits',
    does: '(async () => { event.nothing.there; })();',
    ends: ['ok'],
  },
  { name: 'a rejection with nothing', does: 'Promise.reject();', ends: ['ok'] },
  {
    name: 'a rejection that says what a call says whose time is up',
    does: 'Promise.reject(new Error("Script execution timed out."));',
    ends: ['ok'],
  },
  {
    name: 'a rejection whose getters throw',
    does: 'Promise.reject({ get message() { throw this; }, get stack() { throw this; }, get name() { throw this; } });',
    ends: ['ok'],
  },
  {
    name: 'a thousand rejections',
    does: 'const all = []; for (let i = 0; i < 1e3; i++) all.push(Promise.reject(new Error("x" + i)));',
    ends: ['ok'],
  },
  {
    name: 'a rejection that comes late',
    does: '(async () => { for (let i = 0; i < 100; i++) await 0; throw new Error("late"); })();',
    ends: ['ok'],
  },
  {
    name: 'a rejection beside a promise that nothing will settle',
    does: 'Promise.reject(1); return new Promise(() => {});',
    ends: ['threw'],
  },
  {
    name: 'a random number, then a rejection that is returned',
    does: 'Math.random(); return Promise.reject(new Error("x"));',
    ends: ['threw'],
  },
];

/** Rejections that run code when they are inspected. */
export const HOSTILE_REJECTIONS: readonly HostileSnippet[] = [
  {
    name: 'a rejection whose message never ends',
    does: 'Promise.reject({ get message() { for (;;); } });',
    ends: ['timeout'],
  },
  {
    name: 'a rejection that makes another when it is read',
    does: 'const all = []; const again = () => all.push(Promise.reject({ get message() { again(); } })); again();',
    ends: ['ok', 'timeout'],
  },
  {
    name: 'a rejection that floods with microtasks when it is read',
    does: 'Promise.reject({ get message() { const again = () => Promise.resolve().then(again); again(); } });',
    ends: ['timeout'],
  },
  {
    name: 'a rejection before an endless loop',
    does: 'Promise.reject(new Error("x")); for (;;);',
    ends: ['timeout'],
  },
];
