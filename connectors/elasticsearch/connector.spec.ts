import { expect, test } from 'vitest';
import { classifyItem, itemsIn, testResultOfItem } from './connector.ts';

const answer = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
const item = (status: number, type?: string, reason?: string) => ({ status, type, reason });

test('each item of an answer has its own verdict, in order', () => {
  const items = itemsIn(
    answer({
      items: [
        { create: { status: 201 } },
        { create: { status: 400, error: { type: 'document_parsing_exception', reason: 'no long' } } },
      ],
    }),
    2,
  );
  expect(items?.map((one) => classifyItem(one, []))).toEqual([
    { outcome: 'delivered', status: 201 },
    {
      outcome: 'dead',
      status: 400,
      reason: 'answered 400 document_parsing_exception',
      response: 'no long',
    },
  ]);
});

test.each(['', '{"items":[{"create":{"sta', '[]', '{}', { items: [] }, { items: [{}, {}, {}] }])(
  'an incomplete response states nothing: %j',
  (broken) => {
    expect(itemsIn(answer(broken), 2)).toBeUndefined();
  },
);

test('an existing document is delivered; a transient error is retried', () => {
  expect(classifyItem(item(409, 'version_conflict_engine_exception'), [])).toMatchObject({
    outcome: 'delivered',
  });
  expect(classifyItem(item(429, 'es_rejected_execution_exception'), [])).toMatchObject({
    outcome: 'retry',
    throttled: true,
  });
  for (const status of [0, 408, 500, 503]) {
    expect(classifyItem(item(status), [])).not.toHaveProperty('throttled');
    expect(classifyItem(item(status), [])).toMatchObject({ outcome: 'retry' });
  }
  for (const status of [400, 403, 404]) {
    expect(classifyItem(item(status), [])).toMatchObject({ outcome: 'dead' });
  }
});

test('secrets in a reason are masked', () => {
  expect(classifyItem(item(400, 'x', 'you sent hunter2-hunter2'), ['hunter2-hunter2'])).toMatchObject({
    response: 'you sent ***',
  });
});

test('a missing document, or a data stream that accepts no changes, means that the index is reached', () => {
  expect(testResultOfItem(item(404, 'document_missing_exception'), [])).toEqual({ ok: true });
  expect(testResultOfItem(item(400, 'illegal_argument_exception'), [])).toEqual({ ok: true });
  expect(testResultOfItem(item(404, 'index_not_found_exception'), [])).toMatchObject({
    ok: false,
    status: 404,
  });
  expect(testResultOfItem(item(403, 'security_exception'), [])).toMatchObject({ ok: false });
});
