import { expect, it } from 'vitest';
import { usedByText } from './used-by.ts';

const [on, off] = [{ enabled: true }, { enabled: false }];

it.each([
  [[], false, /^No rule uses it/],
  [[on, off], false, /^1 enabled rule uses it, so this will be refused/],
  [[on, on], true, /^At least 2 enabled rules use it/],
  [[off], false, /^1 disabled rule names it, and cannot be enabled afterwards/],
  [[off], true, /^Many rules use it/],
  [undefined, false, /^While an enabled rule uses it, this is refused/],
])(
  'a deletion is said to be refused where it is, and to change nothing where no rule is known to use it: %j',
  (rules, hasMore, text) => {
    expect(usedByText(rules, hasMore)).toMatch(text);
  },
);
