import { expect, it } from 'vitest';
import { describeToken } from './token.ts';

const describe = (names: readonly string[]) =>
  describeToken('ada@example.com', '/data', 'http://127.0.0.1:8080', {
    answer: 'taken',
    workspaces: names.map((name, at) => ({ id: String(at), name, role: 'admin' })),
  });

it.each([
  [['Shop'], 'at http://127.0.0.1:8080: admin of Shop.'],
  [['A', 'B', 'C', 'D', 'E'], 'at http://127.0.0.1:8080: admin of A, admin of B, admin of C and more (2).'],
])('states the permissions of the token’s bearer: %j', (names, text) => {
  expect(describe(names)).toBe(`The token of ada@example.com, for an hour, ${text}`);
});

it('states that the bearer has no role yet, and which workspace is printed', () => {
  expect(describe([])).toMatch(
    /no workspace yet, .* belongs to dev@tributary.localhost \(npm run token\)\.$/,
  );
});

it('states its server where none answers', () => {
  expect(describeToken('ada@example.com', '/data', 'http://127.0.0.1:8080', { answer: 'none' })).toBe(
    'The token of ada@example.com, for an hour, for the server of /data; none answers now.',
  );
});
